"""Policies that take longer than a request may: wherever the time goes, it ends at the deadline."""

from __future__ import annotations

import time
from collections.abc import Callable

import pytest

from engine.decision.preemption import Victims
from engine.engine import Engine
from engine.errors import DeadlineExceededError
from engine.program.policy_time import DecisionTime
from tests.support.builders import node, pod, raw
from tests.support.engines import CODEC, Known, Silent, cache_of, engine_of, registry_of
from tests.support.rows import rows

NODES, PODS = 40, 200
NAMES = [f"n{number}" for number in range(NODES)]
MAY_TAKE = 0.2
# Between two looks at the clock, on a machine with other things to do.
GRACE = 0.3
ASKED = raw(pod("asked"))
VICTIMS = {name: Victims([f"p{number}"], 0) for number, name in enumerate(NAMES)}

_TEN = "[0, 1, 2, 3, 4, 5, 6, 7, 8, 9]"


def long(text: str) -> str:
    """True, 10,000 times over, and nothing that could be worked out before `text` is known."""
    found = f"size({text}) + a + b + c + d >= 0"
    for variable in "abcd":
        found = f"{_TEN}.all({variable}, {found})"
    return found


def _filter(engine: Engine, deadline: float) -> None:
    engine.filter(ASKED, NAMES, None, deadline)


def _prioritize(engine: Engine, deadline: float) -> None:
    engine.prioritize(ASKED, NAMES, None, deadline)


def _preempt(engine: Engine, deadline: float) -> None:
    engine.preempt(ASKED, VICTIMS, deadline)


def _bind(engine: Engine, deadline: float) -> None:
    engine.admit(ASKED, "n0", deadline)


OF_NODE, OF_POD, OF_PEER = long("node.name"), long("pod.name"), long("peer.name")
# Different tests: one that several clauses have is evaluated once on a node.
MANY = "\n".join(
    f"""bind "b{number}" {{ require {long(f'node.name + "{number}"')} }}""" for number in range(80)
)
COUNT = f'limit "l" {{ pods where {OF_PEER} per cluster at most 9 strict }}'
CASES = {
    "filter": (_filter, f'filter "f" {{ require {OF_NODE} }}'),
    "filter, of counted pods": (_filter, COUNT),
    "filter, of domains": (
        _filter,
        f'spread "s" {{ over ({OF_NODE}) ? "x" : "y" skew at most 1 strict }}',
    ),
    "prioritize": (_prioritize, f'score "s" weight 1 {{ value ({OF_NODE}) ? 1 : 0 }}'),
    "prioritize, of counted pods": (
        _prioritize,
        f'limit "l" {{ pods where {OF_PEER} per node at most 9 weight 5 }}',
    ),
    "preempt": (_preempt, f'filter "f" {{ require {OF_NODE} }}'),
    "preempt, of victims": (
        _preempt,
        f'preempt "p" {{ protect pods where !({long("victim.name")}) }}',
    ),
    "preempt, of counted pods": (_preempt, COUNT),
    "preempt, of what is best": (
        _preempt,
        f'preempt "p" {{ pick 1 least ({OF_NODE}) ? 1 : 0 }}',
    ),
    "bind": (_bind, MANY),
    "bind, of counted pods": (_bind, COUNT),
}


@rows(("ask", "clauses"), CASES)
def test_it_ends_at_the_deadline(ask: Callable[[Engine, float], None], clauses: str) -> None:
    pods = [pod(f"p{number}", on=f"n{number % NODES}") for number in range(PODS)]
    for each, made in enumerate(pods):
        made["metadata"]["uid"] = f"p{each}"
    engine = engine_of(f"cluster policy a {{ {clauses} }}", [node(name) for name in NAMES], pods)
    began = time.monotonic()
    with pytest.raises(DeadlineExceededError, match="took longer"):
        ask(engine, began + MAY_TAKE)
    assert time.monotonic() - began < MAY_TAKE + GRACE


def test_a_count_that_was_not_finished_is_not_kept() -> None:
    """The next request counts anew, and events that come between them count nothing."""
    pods = [pod(f"p{number}", on="n0") for number in range(60)]
    engine = engine_of(f"cluster policy a {{ {COUNT} }}", [node("n0")], pods)
    with pytest.raises(DeadlineExceededError):
        engine.filter(ASKED, ["n0"], None, time.monotonic() + MAY_TAKE)
    verdicts = engine.filter(ASKED, ["n0"], None, time.monotonic() + 60)
    assert verdicts.codes.all(), "there are more than nine"


def test_a_count_outlives_the_time_of_the_request_that_began_it() -> None:
    pods = [pod(f"p{number}", on="n0") for number in range(9)]
    where = long("peer.name")
    text = f'cluster policy a {{ limit "l" {{ pods where {where} per cluster at most 9 strict }} }}'
    cache = cache_of([node("n0")], pods)
    now = [0.0]
    clock = DecisionTime(lambda: now[0])
    engine = Engine(registry_of(text), Known(cache), CODEC, Silent(), time=clock)
    assert engine.filter(ASKED, ["n0"], None, 1.0).codes.all()
    now[0] = 2.0
    cache.remove_pod("default/p0")
    assert not engine.filter(ASKED, ["n0"], None, 3.0).codes.any()
