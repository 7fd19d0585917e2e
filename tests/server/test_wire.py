"""Wire formats: requests that can be read, requests that cannot, and answers."""

from __future__ import annotations

import json

import msgspec
import pytest

from engine.cluster.binding import Binding
from server.errors import RequestError
from server.verbs.bind import decode_binding, encode_binding
from server.verbs.filter import encode_filter_error
from server.verbs.prioritize import encode_priorities
from server.wire import (
    BIND,
    FILTER,
    PREEMPT,
    ExtenderArgs,
    Shape,
    decode_args,
    pod_key,
    respell,
)

KEYS = ["Nodes", "NodeNames", "FailedNodes", "FailedAndUnresolvableNodes", "Error"]
NODES = [b'{"metadata":{"name":"a"}}', b'{ "metadata" : {"name": "b"}, "n": 1.0 }']


# ---- the spelling of keys


def test_keys_of_any_case_become_canonical() -> None:
    """C5: clients have sent all of these."""
    for keys in (("pod", "nodes", "nodenames"), ("POD", "Nodes", "nodeNames")):
        body = msgspec.json.encode(dict(zip(keys, (1, {"ITEMS": []}, []), strict=True)))
        assert json.loads(respell(body, FILTER)) == {
            "Pod": 1,
            "Nodes": {"items": []},
            "NodeNames": [],
        }


def test_values_keep_their_bytes() -> None:
    pod = b'{ "Metadata" : {"NAME":"x"}, "n": 1.50, "e": "\\u00e9" }'
    assert respell(b'{"pod":' + pod + b"}", FILTER) == b'{"Pod":' + pod + b"}"


def test_the_canonical_spelling_wins() -> None:
    assert respell(b'{"Pod":1,"pod":2}', FILTER) == b'{"Pod":1}'
    assert respell(b'{"pod":2,"Pod":1}', FILTER) == b'{"Pod":1}'


def test_unknown_keys_are_left_out() -> None:
    assert respell(b'{"Pod":1,"Extra":{"a":[]}}', FILTER) == b'{"Pod":1}'


def test_keys_that_are_data_are_unchanged() -> None:
    """The map of victims has node names as keys."""
    body = b'{"nodenametometavictims":{"Node-A":{"pods":[{"uid":"u"}],"numpdbviolations":2}}}'
    assert json.loads(respell(body, PREEMPT)) == {
        "NodeNameToMetaVictims": {"Node-A": {"Pods": [{"UID": "u"}], "NumPDBViolations": 2}}
    }


def test_keys_of_a_bind_request() -> None:
    body = b'{"podname":"p","podNamespace":"n","PODUID":"u","node":"x"}'
    assert set(json.loads(respell(body, BIND))) == {"PodName", "PodNamespace", "PodUID", "Node"}


@pytest.mark.parametrize("body", [b"[]", b"null", b"1", b'"Pod"', b""])
def test_values_of_other_shapes_are_unchanged(body: bytes) -> None:
    assert respell(body, FILTER) == body


def test_members_of_other_shapes_are_unchanged() -> None:
    shape: Shape = [{"A": None}]
    assert respell(b'[{"a":1},null,[2]]', shape) == b'[{"A":1},null,[2]]'
    assert respell(b'{"x":{"a":1},"y":null}', shape) == b'{"x":{"A":1},"y":null}'


def test_text_that_is_not_json_is_an_error() -> None:
    with pytest.raises(msgspec.DecodeError):
        respell(b'{"Pod":', FILTER)


# ---- requests


def full(*nodes: bytes) -> bytes:
    return b'{"Pod":{},"Nodes":{"metadata":{},"items":[%b]},"NodeNames":null}' % b",".join(nodes)


def test_names_mode() -> None:
    """C6: `Nodes` is null."""
    args = decode_args(b'{"Pod":{"a": 1},"Nodes":null,"NodeNames":["n1","n2"]}')
    assert args == ExtenderArgs(b'{"a": 1}', ["n1", "n2"], None)


def test_full_node_mode() -> None:
    """C6, C7: whole nodes keep their bytes."""
    assert decode_args(full(*NODES)) == ExtenderArgs(b"{}", ["a", "b"], NODES)


def test_names_are_used_if_both_are_given() -> None:
    body = b'{"Pod":{},"Nodes":{"items":[{"metadata":{"name":"a"}}]},"NodeNames":["n1"]}'
    assert decode_args(body) == ExtenderArgs(b"{}", ["n1"], None)


@pytest.mark.parametrize(
    "body",
    [
        b'{"pod":{},"nodes":{"items":[{"metadata":{"name":"a"}}]}}',
        b'{"pod":{},"nodes":{"metadata":{},"Items":[{"metadata":{"name":"a"}}]},"nodeNames":null}',
        b'{"Pod":{},"nodes":{"items":[{"metadata":{"name":"a"}}]},"NodeNames":null}',
    ],
)
def test_full_nodes_of_older_clients(body: bytes) -> None:
    """C5: releases from 1.2 on sent `pod` and `nodes`."""
    assert decode_args(body) == ExtenderArgs(b"{}", ["a"], NODES[:1])


@pytest.mark.parametrize("key", [b"nodenames", b"nodeNames", b"NODENAMES"])
def test_names_of_older_clients(key: bytes) -> None:
    """C5."""
    body = b'{"pod":{},"nodes":null,"%b":["n1"]}' % key
    assert decode_args(body) == ExtenderArgs(b"{}", ["n1"], None)


def test_a_whole_node_given_twice_is_used_once() -> None:
    twice = decode_args(full(NODES[0], NODES[1], b'{"metadata":{"name":"a"},"second":1}'))
    assert (twice.names, twice.nodes) == (["a", "b"], NODES)


@pytest.mark.parametrize("body", [b'{"Pod":{},"NodeNames":[]}', full()], ids=["names", "nodes"])
def test_a_request_without_nodes(body: bytes) -> None:
    assert decode_args(body).names == []


NESTED = b"[" * 1_000_000
UNREADABLE = {
    "": "no body",
    "{": "not JSON",
    "hello": "not JSON",
    "[]": "does not follow the protocol",
    "null": "does not follow the protocol",
    "{}": "no `Pod`",
    '{"Pod":null,"NodeNames":["a"]}': "no `Pod`",
    '{"NodeNames":["a"]}': "no `Pod`",
    '{"Pod":"web","NodeNames":["a"]}': "not an object",
    '{"Pod":[],"NodeNames":["a"]}': "not an object",
    '{"Pod":{}}': "neither `NodeNames` nor `Nodes`",
    '{"Pod":{},"Nodes":null,"NodeNames":null}': "neither `NodeNames` nor `Nodes`",
    '{"Pod":{},"Nodes":{}}': "without `items`",
    '{"Pod":{},"Nodes":{"metadata":{},"items":null}}': "without `items`",
    '{"Pod":{},"Nodes":[]}': "does not follow the protocol",
    '{"Pod":{},"Nodes":{"items":[null]}}': "node without a name",
    '{"Pod":{},"Nodes":{"items":[{}]}}': "node without a name",
    '{"Pod":{},"Nodes":{"items":[{"metadata":{"name":""}}]}}': "node without a name",
    '{"Pod":{},"Nodes":{"items":[{"metadata":{"name":7}}]}}': "node without a name",
    '{"Pod":{},"NodeNames":[1]}': "does not follow the protocol",
    '{"Pod":{},"NodeNames":[null]}': "does not follow the protocol",
    '{"Pod":{},"NodeNames":"a"}': "does not follow the protocol",
    '{"Pod":{"n":NaN},"NodeNames":["a"]}': "not JSON",
    '{"Pod":{},"NodeNames":["a"]} x': "not JSON",
    '{"Pod":{},"NodeNames":["\\ud800"]}': "not JSON",
}


@pytest.mark.parametrize(("body", "why"), UNREADABLE.items(), ids=UNREADABLE)
def test_unreadable_requests(body: str, why: str) -> None:
    with pytest.raises(RequestError, match=why) as caught:
        decode_args(body.encode())
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    "body",
    [
        b'{"Pod":' + NESTED,
        b'{"pod":{},"nodes":' + NESTED,
        b'{"Pod":{},"Nodes":{"items":[{"metadata":{"name":"a"},"x":' + NESTED,
        b'{"x":' * 1_000_000,
    ],
    ids=["pod", "respelled", "node", "elsewhere"],
)
def test_deep_nesting_is_refused(body: bytes) -> None:
    with pytest.raises(RequestError, match="nested too deeply"):
        decode_args(body)


def test_bytes_that_are_not_utf_8_are_refused() -> None:
    with pytest.raises(RequestError, match="not JSON"):
        decode_args(b'{"Pod":{},"NodeNames":["\xff"]}')


# ---- answers


def test_filter_answer_with_an_error() -> None:
    """C18."""
    answer = json.loads(encode_filter_error("not synced"))
    assert list(answer) == KEYS
    assert answer["Error"] == "not synced"


def test_scores_must_match_the_names() -> None:
    with pytest.raises(ValueError, match="2 scores for 1 nodes"):
        encode_priorities(["a"], [1, 2])


def test_bind_requests() -> None:
    """C43: names, UID and node, not the pod."""
    binding = {"PodName": "p", "PodNamespace": "d", "PodUID": "u", "Node": "n"}
    asked = decode_binding(msgspec.json.encode(binding))
    assert asked == Binding("d", "p", "u", "n")
    lower = {key.lower(): value for key, value in binding.items()}
    assert decode_binding(msgspec.json.encode(lower)) == asked
    for key in binding:
        with pytest.raises(RequestError, match="does not name a pod"):
            decode_binding(msgspec.json.encode({**binding, key: ""}))


def test_bind_answer() -> None:
    assert encode_binding("no") == b'{"Error":"no"}'


@pytest.mark.parametrize(
    ("pod", "key"),
    [
        (b'{"metadata":{"name":"p","namespace":"d"}}', "d/p"),
        (b"{}", "/"),
        (b'{"metadata":7}', ""),
        (b"nonsense", ""),
    ],
)
def test_the_key_of_a_pod_is_namespace_and_name(pod: bytes, key: str) -> None:
    assert pod_key(pod) == key
