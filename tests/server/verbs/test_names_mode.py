"""Names in requests and answers: read and written without decoding them."""

from __future__ import annotations

import json
import math

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from engine.cache.cache import Cache
from engine.cache.node_table import KnownRows, ListedNames
from engine.clauses.programs import compile_policy
from engine.decision.registry import Registry
from engine.decision.verdict import FEASIBLE, Decision, Rejected, Scores
from engine.engine import Engine
from engine.objects.request_pod import ObjectCodec
from grammar.meaning.schema import load_schema
from grammar.tree.source import Source
from policies.validation import check_source
from server import wire
from server.errors import RequestError
from server.verbs.filter import AnsweredNames, NameFragments
from server.verbs.prioritize import encode_priorities
from server.wire import ExtenderArgs, decode_args
from tests.support import builders
from tests.support.engines import Known, Silent

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


# ---- nameFragments: its answers by rows equal those that are encoded name by name


NAMES = [f"n{number}" for number in range(8)] + ['quoted"', "ümlaut", "back\\slash", ""]
ROWS = {name: row for row, name in enumerate(NAMES, start=1)}
VERDICTS = (
    FEASIBLE,
    Rejected("no", "p", "a"),
    Rejected('not "that"', "p", "b", resolvable=True),
    Rejected("broken", "p", "c", error="why"),
)
_names = st.lists(st.sampled_from(NAMES), unique=True, min_size=1)


def where(names: list[str]) -> KnownRows:
    return KnownRows(np.array([ROWS[name] for name in names], np.intp), ROWS)


@given(_names, st.booleans(), st.data())
def test_filter(names: list[str], resolvable: bool, data: st.DataObject) -> None:
    codes = [data.draw(st.integers(0, len(VERDICTS) - 1)) for _ in names]
    slow = Decision(np.array(codes, np.int32), VERDICTS)
    known = Decision(slow.codes, VERDICTS, where(names))
    args = wire.ExtenderArgs(b"{}", names, None)
    by_name, none, number = NameFragments().filter(args, slow, resolvable_rejections=resolvable)
    by_row, accepted, same = NameFragments().filter(args, known, resolvable_rejections=resolvable)
    assert (by_row, same) == (by_name, number)
    found = json.loads(by_name)
    assert (none, list(accepted or ())) == (None, found["NodeNames"])
    assert found["NodeNames"] == [n for n, c in zip(names, codes, strict=True) if c == 0]
    failed = {n: VERDICTS[c].reason for n, c in zip(names, codes, strict=True) if c}  # type: ignore[union-attr]
    assert found["FailedNodes"] | found["FailedAndUnresolvableNodes"] == failed
    assert len(found["FailedNodes"]) == (codes.count(2) if resolvable else 0)


@given(_names, st.data())
def test_priorities(names: list[str], data: st.DataObject) -> None:
    scores = Scores(np.array([data.draw(st.integers(0, 10)) for _ in names], np.int64))
    fast = NameFragments().priorities(scores, where(names))
    assert fast is not None
    assert json.loads(fast) == json.loads(encode_priorities(names, list(scores)))


def test_names_are_encoded_again_when_the_nodes_change() -> None:
    fragments = NameFragments()
    scores = Scores(np.array([3], np.int64))
    one = KnownRows(np.array([1], np.intp), {"a": 1})
    other = KnownRows(np.array([1], np.intp), {"b": 1})
    assert fragments.priorities(scores, one) == b'[{"Host":"a","Score": 3}]'
    assert fragments.priorities(scores, other) == b'[{"Host":"b","Score": 3}]'


def test_nodes_that_change_between_filter_and_prioritize() -> None:
    """The row of a removed node belongs to another node now; the names stay those of the answer."""
    schema = load_schema()
    codec, cache = ObjectCodec(schema), Cache()
    for name, zone in (("a", "x"), ("b", "y")):
        cache.put_node(codec.node(builders.raw(builders.node(name, zone))))
    text = """cluster policy p {
      filter "any" { require pod.name != "x" }
      score "zone" weight 1 { value node.zone == "y" }
    }"""
    (checked,) = check_source(Source("p.policy", text), schema).policies
    engine = Engine(Registry([compile_policy(checked)]), Known(cache), codec, Silent())
    pod, fragments = builders.raw(builders.pod("p")), NameFragments()
    asked = ListedNames.of(b'["a","b"]')
    assert asked is not None
    decided = engine.filter(pod, asked, None, math.inf)
    assert decided.known_rows is not None
    args = wire.ExtenderArgs(pod, asked, None)
    _, answered, _ = fragments.filter(args, decided, resolvable_rejections=False)
    assert answered is not None

    cache.remove_node("a")
    cache.put_node(codec.node(builders.raw(builders.node("c", "y"))))
    cache.remove_node("b")
    cache.put_node(codec.node(builders.raw(builders.node("b", "z"))))
    for names in (asked, answered):
        scores = engine.prioritize(pod, names, None, math.inf)
        assert scores is not None
        assert list(scores) == [0, 0]
        assert scores.known_rows is None


def test_one_long_name_does_not_pad_every_answer() -> None:
    nodes = {"a": 1, "b": 2, "c": 3, "d" * 253: 4}
    scores = Scores(np.array([3], np.int64))
    assert NameFragments().priorities(scores, KnownRows(np.array([1], np.intp), nodes)) is None


def test_only_known_nodes_that_are_named_once_have_a_row() -> None:
    schema = load_schema()
    codec, cache = ObjectCodec(schema), Cache()
    for name in ("a", "b"):
        cache.put_node(codec.node(builders.raw(builders.node(name))))
    text = 'cluster policy p { filter "any" { require pod.name != "x" } }'
    (checked,) = check_source(Source("p.policy", text), schema).policies
    engine = Engine(Registry([compile_policy(checked)]), Known(cache), codec, Silent())
    pod = builders.raw(builders.pod("p"))

    def has_rows(*names: str) -> bool:
        return engine.filter(pod, names, None, math.inf).known_rows is not None

    assert has_rows("b", "a")
    assert not has_rows("a", "c")
    assert not has_rows("a", "b", "a")
