"""Victims on the wire: two kinds of request, one kind of answer, and never a null."""

from __future__ import annotations

import json

import msgspec
import pytest

from engine.decision.preemption import Victims
from server.errors import RequestError
from server.verbs.preempt import decode_preemption, encode_preemption

META = {"n2": {"Pods": [{"UID": "u2"}, {"UID": "u1"}], "NumPDBViolations": 1}}
WHOLE = {
    "n2": {
        "Pods": [{"metadata": {"uid": "u2"}, "spec": {}}, {"metadata": {"uid": "u1"}}],
        "NumPDBViolations": 1,
    }
}


def request(whole: object, meta: object) -> bytes:
    return msgspec.json.encode(
        {"Pod": {}, "NodeNameToVictims": whole, "NodeNameToMetaVictims": meta}
    )


@pytest.mark.parametrize("body", [request(None, META), request(WHOLE, None)], ids=["meta", "whole"])
def test_both_kinds_of_request(body: bytes) -> None:
    """C36."""
    assert decode_preemption(body).victims == {"n2": Victims(["u2", "u1"], 1)}


def test_meta_victims_are_used_if_both_are_given() -> None:
    other = {"n9": {"Pods": [{"metadata": {"uid": "x"}}], "NumPDBViolations": 0}}
    assert list(decode_preemption(request(other, META)).victims) == ["n2"]


def test_keys_of_any_case() -> None:
    """C5: `UID`, `Pods`, `NumPDBViolations` too."""
    body = b'{"pod":{},"nodeNameToMetaVictims":{"n":{"pods":[{"uid":"u"}],"numPdbViolations":3}}}'
    assert decode_preemption(body).victims == {"n": Victims(["u"], 3)}


def test_order_of_nodes_and_pods_is_kept() -> None:
    """C41: kube-scheduler takes the first victim for the one with the highest priority."""
    victims = {node: Victims(["z", "a", "m"], 0) for node in ("n9", "n1", "n5")}
    answer = json.loads(encode_preemption(victims))["NodeNameToMetaVictims"]
    assert list(answer) == ["n9", "n1", "n5"]
    assert [pod["UID"] for pod in answer["n1"]["Pods"]] == ["z", "a", "m"]


def test_answer() -> None:
    answer = encode_preemption({"n1": Victims(["v1"], 2)})
    assert answer == (
        b'{"NodeNameToMetaVictims":{"n1":{"Pods":[{"UID":"v1"}],"NumPDBViolations":2}}}'
    )
    assert encode_preemption({}) == b'{"NodeNameToMetaVictims":{}}'


@pytest.mark.parametrize("whole", [False, True], ids=["meta", "whole"])
def test_nulls_are_left_out(whole: bool) -> None:
    """C39: kube-scheduler crashes on a null node or a null pod."""
    nodes = {"n1": None, "n2": {"Pods": [None], "NumPDBViolations": None}, "n3": {"Pods": None}}
    body = request(nodes, None) if whole else request(None, nodes)
    answer = encode_preemption(decode_preemption(body).victims)
    assert b"null" not in answer
    assert list(json.loads(answer)["NodeNameToMetaVictims"]) == ["n2", "n3"]


def test_candidates_without_victims_are_kept() -> None:
    """C40: releases after 1.36 send them."""
    body = request(None, {"n1": {"Pods": [], "NumPDBViolations": 0}})
    assert decode_preemption(body).victims == {"n1": Victims([], 0)}


UNREADABLE = {
    b"": "no body",
    b"{": "not JSON",
    b"[]": "does not follow the protocol",
    b'{"NodeNameToMetaVictims":{}}': "no `Pod`",
    request(None, None): "neither",
    request(None, {"n1": {"Pods": [{}]}}): "victim without a UID",
    request({"n1": {"Pods": [{"metadata": {}}]}}, None): "victim without a UID",
    request(None, {"n1": {"Pods": [{"UID": 7}]}}): "does not follow the protocol",
    request(None, {"n1": {"Pods": [], "NumPDBViolations": 1.5}}): "does not follow the protocol",
    b'{"Pod":{},"NodeNameToVictims":' + b"[" * 1_000_000: "nested too deeply",
}


@pytest.mark.parametrize(("body", "why"), UNREADABLE.items(), ids=range(len(UNREADABLE)))
def test_unreadable_requests(body: bytes, why: str) -> None:
    with pytest.raises(RequestError, match=why):
        decode_preemption(body)
