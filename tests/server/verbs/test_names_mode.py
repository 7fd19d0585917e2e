"""AnsweredNames: it reads the same as the JSON decoder, whatever the bytes."""

from __future__ import annotations

import json

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from engine.cache.node_table import ListedNames
from server.errors import RequestError
from server.verbs.filter import AnsweredNames
from server.wire import ExtenderArgs, decode_args

_POD = b'{"metadata":{"name":"web-1"}}'
# Parts of requests, and texts that look like them.
_PIECES = [
    b'{"Pod":',
    b"{}",
    _POD,
    b'{"a":"\\",\\"Nodes\\":null,\\"NodeNames\\":["}',
    b'{"a":1,"Nodes":null,"NodeNames":["x"]}',
    b',"Nodes":null,"NodeNames":',
    b',"nodes":null,"nodenames":',
    b'["a"]',
    b'["a","b"]',
    b'["a", "b"]',
    b'["a",",","b"]',
    b'["a",","b"c"]',
    b'["a""b"]',
    b'[","x"y"]',
    b'["x"y","]',
    b'["",""]',
    b'[",",","]',
    b'["a"1"b"]',
    b'[""]',
    b'["\\u0061"]',
    b'["\xc3\xa9"]',
    b'["a\nb"]',
    b"[]",
    b"[1]",
    b"null",
    b"}",
    b"}\n",
    b"}}\n",
    b" ",
    b"\n",
    b'"',
    b",",
]
pieces = st.lists(st.sampled_from(_PIECES), max_size=7).map(b"".join)
plain = st.text(
    st.characters(codec="ascii", exclude_characters='"\\,', min_codepoint=32, max_codepoint=126)
)


def read(names_mode: AnsweredNames, body: bytes) -> ExtenderArgs | None:
    found = names_mode.read(body)
    return None if found is None else ExtenderArgs(found.pod, list(found.names), found.nodes)


def body_of(pod: bytes, names: list[str], end: bytes = b"\n") -> bytes:
    listed = json.dumps(names, separators=(",", ":")).encode()
    return b"".join((b'{"Pod":', pod, b',"Nodes":null,"NodeNames":', listed, b"}", end))


@given(pieces)
@example(b'{"Pod":{} ,"Nodes":null,"NodeNames":["x"]}')
@example(b'{"Pod":{"a":1,"Nodes":null,"NodeNames":["x"]}')
@example(b'{"Pod":{"a":1,"Nodes":null,"NodeNames":["x"]}}\n')
@example(b'{"Pod":{},"NodeNames":["b"],"Nodes":null,"NodeNames":["a"]}\n')
def test_any_bytes(body: bytes) -> None:
    """A request that it reads equals the decoder's; it leaves all others to the decoder."""
    found = read(AnsweredNames(), body)
    if found is not None:
        assert decode_args(body) == found


@given(st.lists(plain, min_size=1, max_size=6), st.sampled_from([b"", b"\n"]))
def test_requests_of_kube_scheduler_are_read(names: list[str], end: bytes) -> None:
    found = read(AnsweredNames(), body_of(_POD, names, end))
    assert found == ExtenderArgs(_POD, names, None)


@given(pieces, st.lists(plain, min_size=1, max_size=3))
def test_names_of_the_last_answer_are_recognised(body: bytes, answered: list[str]) -> None:
    """They are the same names, and a text that is not a request is not read as one."""
    names_mode = AnsweredNames()
    names_mode.names = ListedNames.of(json.dumps(answered, separators=(",", ":")).encode())
    for text in (body, body_of(_POD, answered), body_of(body, answered)):
        found = names_mode.read(text)
        if found is None:
            continue
        try:
            wanted = decode_args(text)
        except RequestError:
            pytest.fail(f"{text!r} is not a request")
        assert (found.pod, list(found.names)) == (wanted.pod, list(wanted.names))
    known = names_mode.read(body_of(_POD, answered))
    assert known is not None
    assert known.names is names_mode.names


@pytest.mark.parametrize("names", ["[]", '["a\\u0062"]', '["é"]', "null", "[ ]", '["a" ,"b"]'])
def test_other_spellings_are_left_to_the_decoder(names: str) -> None:
    body = b'{"Pod":{},"Nodes":null,"NodeNames":' + names.encode() + b"}\n"
    assert AnsweredNames().read(body) is None
