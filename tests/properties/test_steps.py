"""Steps of random expressions of known size: compiled ones take no more than was worked out."""

from __future__ import annotations

import json
from functools import partial

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.program.frame import Frame
from grammar.checker.policy_checker import VARIABLES
from grammar.meaning.costs import USUAL, Estimator
from grammar.meaning.environment import FUNCTIONS, Environment
from grammar.meaning.evaluator import evaluate
from grammar.tree.types import Overload, Type
from grammar.values.errors import EvaluationError
from grammar.values.sizes import STEPS, Size, deep
from grammar.values.time import Timestamp
from tests.support.books import examples
from tests.support.engines import SCHEMA, compiled

ENVIRONMENT = Environment(variables=VARIABLES, schema=SCHEMA)

_literals = st.text("ab-,", max_size=12).map(json.dumps)
_numbers = st.integers(0, 40).map(str)


def _texts(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    """Texts made of texts."""
    two = st.tuples(inner, inner)
    return st.one_of(
        two.map(" + ".join).map("({})".format),
        two.map(lambda t: f"{t[0]}.split({t[1]}).join({t[0]})"),
        two.map(lambda t: f'{t[0]}.replace("a", {t[1]})'),
        two.map(lambda t: f'"%s %s".format([{t[0]}, [{t[1]}]])'),
        inner.map(lambda t: f"{t}.upperAscii().reverse().trim()"),
        inner.map(lambda t: f"strings.quote({t})"),
        inner.map(lambda t: f'{t}.findAll("a|b").join(",")'),
        two.map(lambda t: f"cel.bind(z, {t[0]}, z + z + {t[1]})"),
    )


texts = st.recursive(_literals, _texts, max_leaves=8)
_items = st.one_of(
    st.lists(texts, min_size=1, max_size=4).map(", ".join).map("[{}]".format),
    texts.map(lambda t: f"{t}.split('')"),
    _numbers.map(lambda n: f"lists.range({n}).map(i, string(i))"),
)


def _lists(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    """Lists of texts made of such lists."""
    two = st.tuples(inner, inner)
    return st.one_of(
        two.map(" + ".join).map("({})".format),
        two.map(lambda t: f"[{t[0]}, {t[1]}].flatten()"),
        two.map(lambda t: f"{t[0]}.filter(x, x in {t[1]})"),
        two.map(lambda t: f"{t[0]}.map(x, x + {t[1]}.join('-'))"),
        inner.map(lambda t: f"{t}.map(x, [x, x]).distinct().map(x, x[0])"),
        inner.map(lambda t: f"{t}.sortBy(x, x.reverse()).reverse().distinct()"),
        inner.map(lambda t: f"{t}.sort()"),
    )


lists = st.recursive(_items, _lists, max_leaves=5)
expressions = st.one_of(
    texts.map(lambda t: f"size({t})"),
    lists.map(lambda t: f"size({t})"),
    st.tuples(lists, lists).map(lambda t: f"{t[0]} == {t[1]}"),
    st.tuples(lists, texts).map(lambda t: f"{t[0]}.indexOf({t[1]})"),
    st.tuples(texts, texts).map(lambda t: f'{t[0]}.matches("^a+b") || {t[0]} < {t[1]}'),
    lists.map(lambda t: f"{t}.transformMap(i, x, i).size()"),
    lists.map(lambda t: f"{t}.exists(x, {t}.all(y, x != y))"),
    st.tuples(lists, lists).map(lambda t: f"sets.equivalent({t[0]}, {t[1]})"),
)


@settings(max_examples=examples(400), deadline=None)
@given(expressions)
def test_no_more_steps_than_estimated(text: str) -> None:
    checked, run, slots = compiled(text, ENVIRONMENT)
    frame = Frame(None, Timestamp.ZERO, slots=slots)
    made = _outcome(partial(run, frame))
    took = STEPS - frame.fuel - frame.reserve
    plain = _outcome(partial(evaluate, checked, {}, ENVIRONMENT))
    if "StepLimitError" not in (made[0], plain[0]):
        assert made == plain
        assert took <= Estimator(ENVIRONMENT, USUAL, by_call=True).of(checked).steps


def _outcome(run: partial[object]) -> tuple[str, object]:
    try:
        return "value", run()
    except EvaluationError as error:
        return type(error).__name__, None


# Calls that take the same short time for every text, list or map; those of `_MANY` are its size.
_SHORT = {
    "size": "the length is known",
    "[]": "a look-up",
    "charAt": "one character",
    "first": "one item",
    "last": "one item",
    "in": "a look-up of a key of a map, whose hash is kept",
    "string": "the text of one value, which has a bounded number of digits",
}


def _holds_parts(kind: Type) -> bool:
    return kind.name in ("string", "list", "map")


OVERLOADS = [o for overloads in FUNCTIONS.values() for o in overloads]


@pytest.mark.parametrize("overload", OVERLOADS, ids=lambda o: f"{o.name}{o.params}")
def test_what_works_on_texts_lists_and_maps_has_its_work(overload: Overload) -> None:
    if any(map(_holds_parts, (*overload.params, overload.result))):
        assert overload.work is not None or overload.name in _SHORT


@pytest.mark.parametrize("overload", [o for o in OVERLOADS if o.work], ids=lambda o: o.name)
def test_work_grows_with_sizes(overload: Overload) -> None:
    """The work of larger arguments is never less, so the greatest sizes give the most."""
    work = overload.work
    assert work is not None
    found = []
    for length in (0, 1, 10, 1000, 100_000):
        item = Size(length)
        found.append(work(*[Size(length, Size(length, item, item), item)] * len(overload.params)))
    assert found[0] >= 0
    assert found[-1] == max(found)


@given(st.recursive(st.text(max_size=300), lambda t: st.lists(t, max_size=4).map(tuple)))
def test_a_size_is_as_deep_as_its_value(value: object) -> None:
    assert deep(value) <= _sized(value).deep


def _sized(value: object) -> Size:
    if isinstance(value, str):
        return Size(len(value))
    assert isinstance(value, tuple)
    inner = [_sized(each) for each in value]
    return Size(len(value), max(inner, key=lambda size: size.deep, default=Size()))
