"""The engine over arbitrary policies, pods and nodes: equal to the oracle."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.cache.node_table import ListedNames, Snapshot
from engine.decision.registry import Registry
from engine.decision.verdict import Failed, Feasible, HeldBack, Rejected, Verdict
from engine.engine import Engine
from engine.errors import EngineError
from engine.program.policy_compiler import compile_policy
from engine.program.policy_time import DecisionTime
from grammar.checker.policy_checker import Checked, check_policy
from grammar.syntax.parser import parse_file
from grammar.tree.source import Source
from grammar.values.time import Timestamp
from tests.properties import strategies
from tests.support.builders import raw
from tests.support.engines import CODEC, SCHEMA, Fixed, Silent, snapshot_of
from tests.support.examples import examples
from tests.support.oracle import Oracle

NOW = Timestamp.parse("2026-11-21T12:00:00Z")
Cluster = tuple[list[dict[str, Any]], list[dict[str, Any]]]

texts = st.lists(st.integers(0, 9), min_size=1, max_size=3, unique=True).flatmap(
    lambda numbers: st.tuples(*(strategies.policies(f"p{n}") for n in numbers))
)


def checked(policies: tuple[str, ...]) -> list[Checked]:
    """The policies of the texts that type-check: a `range` of a bool does not."""
    found: list[Checked] = []
    for text in policies:
        file, mistakes = parse_file(Source("t", text))
        assert not mistakes, (text, mistakes)
        found.extend(check_policy(p, SCHEMA) for p in file.policies)
    return [c for c in found if not c.broken]


def engine_for(policies: list[Checked], snapshot: Snapshot) -> Engine:
    registry = Registry([compile_policy(c) for c in policies])
    return Engine(registry, Fixed(snapshot), CODEC, Silent(), time=DecisionTime(now=lambda: NOW))


def filtered(engine: Engine, pod: bytes, names: Sequence[str]) -> list[Verdict] | str:
    try:
        return list(engine.filter(pod, names, None, math.inf))
    except EngineError as error:
        return str(error)


def scored(
    engine: Engine, pod: bytes, names: Sequence[str], nodes: list[bytes] | None = None
) -> list[int] | None:
    scores = engine.prioritize(pod, names, nodes, math.inf)
    return None if scores is None else list(scores)


@settings(max_examples=examples(200), deadline=None)
@given(
    texts,
    st.tuples(*(strategies.pods(f"p-{number}") for number in range(3))),
    strategies.clusters(),
)
def test_engine_equals_oracle(
    policies: tuple[str, ...], pods: tuple[dict[str, Any], ...], cluster: Cluster
) -> None:
    """Verdict by verdict and score by score; asked twice, so that what is kept is used too.

    Several pods, because those that are alike to a clause share what is kept.
    """
    known, snapshot = checked(policies), snapshot_of(*cluster)
    engine, oracle = engine_for(known, snapshot), Oracle(known)
    names, views = list(snapshot.nodes), list(snapshot.nodes.values())
    for pod in [*pods, *pods]:
        body = raw(pod)
        variables = {"pod": CODEC.pod(body), "now": NOW, "namespaceObject": None}
        verdicts = engine.filter(body, names, None, math.inf)
        assert len(verdicts) == len(names)
        for view, verdict in zip(views, verdicts, strict=True):
            wanted = oracle.verdict({**variables, "node": view})
            match verdict:
                case HeldBack():
                    pytest.fail("nothing is counted here")
                case Feasible():
                    assert wanted is None
                case Rejected():
                    assert wanted == ("rejected", verdict.policy, verdict.clause)
                case Failed():
                    assert wanted == ("failed", verdict.policy, verdict.clause)
        assert scored(engine, body, names) == oracle.scores(variables, views)


@settings(max_examples=examples(100), deadline=None)
@given(texts, strategies.pods(), strategies.clusters(), st.data())
def test_full_nodes_and_names_agree(
    policies: tuple[str, ...], pod: dict[str, Any], cluster: Cluster, data: st.DataObject
) -> None:
    """The same nodes by name and by body, in any order, get the same answers."""
    snapshot = snapshot_of(*cluster)
    engine = engine_for(checked(policies), snapshot)
    body = raw(pod)
    order = data.draw(st.permutations(cluster[0]))
    names = [n["metadata"]["name"] for n in order]
    bodies = [raw(n) for n in order]
    by_body = engine.filter(body, names, bodies, math.inf)
    assert list(by_body) == list(engine.filter(body, names, None, math.inf))
    by_name = scored(engine, body, names)
    assert scored(engine, body, names, bodies) == by_name
    assert by_name is None or all(type(s) is int and 0 <= s <= 10 for s in by_name)


@settings(max_examples=examples(100), deadline=None)
@given(texts, strategies.pods(), strategies.clusters(), st.data())
def test_names_in_json_are_names(
    policies: tuple[str, ...], pod: dict[str, Any], cluster: Cluster, data: st.DataObject
) -> None:
    """Known or not, once or twice: as the same strings have it."""
    snapshot = snapshot_of(*cluster)
    body, known = raw(pod), st.sampled_from([*snapshot.nodes, "gone"])
    names = data.draw(st.lists(known, min_size=1))
    listed = ListedNames.of(json.dumps(names, separators=(",", ":")).encode())
    assert listed is not None
    one, other = (engine_for(checked(policies), snapshot) for _ in range(2))
    for _ in range(2):
        assert filtered(one, body, listed) == filtered(other, body, names)
        assert scored(one, body, listed) == scored(other, body, names)


@settings(max_examples=examples(50), deadline=None)
@given(texts, strategies.pods(), strategies.clusters())
def test_reasons_do_not_change_between_calls(
    policies: tuple[str, ...], pod: dict[str, Any], cluster: Cluster
) -> None:
    """C47: the same texts, then one text for all nodes, and then the same error."""
    snapshot = snapshot_of(*cluster)
    engine = engine_for(checked(policies), snapshot)
    body, names = raw(pod), list(snapshot.nodes)
    answers = set()
    for _ in range(10):
        try:
            verdicts = engine.filter(body, names, None, math.inf)
            answers.add(tuple("" if isinstance(v, Feasible) else v.reason for v in verdicts))
        except EngineError as error:
            answers.add((str(error),))
    assert len({a for a in answers if len(a) == len(names)}) <= 2 or len(names) == 1
    assert len(answers) <= 3
