"""Keys in any case become canonical; values keep every byte."""

from __future__ import annotations

import json

import msgspec
import pytest

from server.wire import BIND, FILTER, PREEMPT, Each, Keys, respell


def test_keys_of_any_case_are_spelled_right() -> None:
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


def test_the_right_spelling_is_preferred() -> None:
    assert respell(b'{"Pod":1,"pod":2}', FILTER) == b'{"Pod":1}'
    assert respell(b'{"pod":2,"Pod":1}', FILTER) == b'{"Pod":1}'


def test_what_nobody_asked_for_is_left_out() -> None:
    assert respell(b'{"Pod":1,"Extra":{"a":[]}}', FILTER) == b'{"Pod":1}'


def test_keys_that_are_data_are_left_alone() -> None:
    """Node names are keys of the map of victims."""
    body = b'{"nodenametometavictims":{"Node-A":{"pods":[{"uid":"u"}],"numpdbviolations":2}}}'
    assert json.loads(respell(body, PREEMPT)) == {
        "NodeNameToMetaVictims": {"Node-A": {"Pods": [{"UID": "u"}], "NumPDBViolations": 2}}
    }


def test_bind_too() -> None:
    body = b'{"podname":"p","podNamespace":"n","PODUID":"u","node":"x"}'
    assert set(json.loads(respell(body, BIND))) == {"PodName", "PodNamespace", "PodUID", "Node"}


@pytest.mark.parametrize("body", [b"[]", b"null", b"1", b'"Pod"', b""])
def test_other_shapes_are_for_the_decoder_to_complain_about(body: bytes) -> None:
    assert respell(body, FILTER) == body


def test_a_map_or_a_list_whose_members_have_other_shapes() -> None:
    shape = Each(Keys({"A": None}))
    assert respell(b'[{"a":1},null,[2]]', shape) == b'[{"A":1},null,[2]]'
    assert respell(b'{"x":{"a":1},"y":null}', shape) == b'{"x":{"A":1},"y":null}'


def test_what_is_no_json_is_an_error() -> None:
    with pytest.raises(msgspec.DecodeError):
        respell(b'{"Pod":', FILTER)
