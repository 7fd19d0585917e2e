"""NameFragments: its answers by rows equal those that are encoded name by name."""

from __future__ import annotations

import json
import math

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from engine.cache.cache import Cache
from engine.cache.node_table import KnownRows, ListedNames
from engine.decision.registry import Registry
from engine.decision.verdict import FEASIBLE, Decision, Failed, Rejected, Scores
from engine.engine import Engine
from engine.objects.codec import ObjectCodec
from engine.program.policy_compiler import compile_policy
from grammar.meaning.schema import load_schema
from grammar.tree.source import Source
from policies.validation import check_source
from server import wire
from server.verbs.filter import NameFragments
from server.verbs.prioritize import encode_priorities
from tests.support import builders
from tests.support.engines import Known, Silent

NAMES = [f"n{number}" for number in range(8)] + ['quoted"', "ümlaut", "back\\slash", ""]
ROWS = {name: row for row, name in enumerate(NAMES, start=1)}
VERDICTS = (
    FEASIBLE,
    Rejected("no", "p", "a"),
    Rejected('not "that"', "p", "b", resolvable=True),
    Failed("broken", "p", "c", "why"),
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
    by_name, none = NameFragments().filter(args, slow, resolvable_rejections=resolvable)
    by_row, accepted = NameFragments().filter(args, known, resolvable_rejections=resolvable)
    assert by_row == by_name
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
    _, answered = fragments.filter(args, decided, resolvable_rejections=False)
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
