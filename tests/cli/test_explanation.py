"""Explanations: they show what the engine answers, now and beside the last decision."""

from __future__ import annotations

import argparse
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec
import pytest

from cli.console import put
from cli.demo.demo_cluster import demo_cluster
from cli.explanation import parts_of
from cli.sources import AskedCluster
from cli.world import World, explained
from engine.decision.journal import CountedGroup
from engine.decision.verdict import Feasible, Verdict
from engine.explanation.document import (
    ClauseCounts,
    ConcernedPolicy,
    NodeGroup,
    PodDecision,
    PodExplanation,
    RejectingClause,
)
from engine.explanation.explanation import changes
from engine.facts import ExplainedPart, PartOf, Row
from engine.offline import offline_engine
from grammar.values.time import Timestamp
from tests.cli import shop
from tests.support.builders import raw

ROOT = Path(__file__).parents[2]
NOW = Timestamp.parse("2026-11-21T10:00:00Z")


@pytest.fixture(params=["shop", "demo"])
def world(request: pytest.FixtureRequest, folder: Path) -> World:
    """The tests' cluster, and the demo's with all the policies that come with Placet."""
    shop.write(folder)
    policies = [folder / "shop.policy"]
    if request.param == "demo":
        (folder / "cluster.json").write_bytes(raw(demo_cluster(NOW)))
        policies += [ROOT / "policies" / "library", ROOT / "cli" / "demo"]
        policies = policies[1:]
    return AskedCluster(
        argparse.Namespace(cluster=[folder / "cluster.json"], policies=policies)
    ).world()


def explanation_of(world: World, key: str) -> tuple[PodExplanation, Mapping[str, Verdict]]:
    """The explanation of a pod, and the answer of an engine about it."""
    pod = world.cluster.pod(key)
    names = sorted(world.cluster.snapshot().table.rows)
    engine = offline_engine(world.policies.registry, world.cluster, world.codec)
    with world.cluster.asking(pod):
        decided = engine.filter(pod.body, names, None, math.inf)
        return explained(world, pod), dict(zip(names, decided, strict=True))


@pytest.mark.process
def test_a_node_has_an_objection_if_and_only_if_the_engine_refuses_it(world: World) -> None:
    """The first objection is the one that the engine names; counts may offer fewer nodes."""
    for key in world.cluster.snapshot().pods():
        found, verdicts = explanation_of(world, key)
        assert not found.problem
        assert verdicts
        groups = {name: group for group in found.groups for name in group.names}
        for name, verdict in verdicts.items():
            against = groups[name].rejectedBy
            if isinstance(verdict, Feasible):
                assert not against
                assert not groups[name].heldBack
            elif against:
                assert (verdict.policy, verdict.clause) == (against[0].policy, against[0].clause)
            else:
                assert groups[name].heldBack


@pytest.mark.process
def test_scores_are_those_of_the_engine(world: World) -> None:
    scored = 0
    for key in world.cluster.snapshot().pods():
        (found, _), pod = explanation_of(world, key), world.cluster.pod(key)
        scores = {each.node: each.score for each in found.scores or ()}
        if not scores:
            continue
        scored += 1
        engine = offline_engine(world.policies.registry, world.cluster, world.codec)
        with world.cluster.asking(pod):
            given = engine.prioritize(pod.body, sorted(scores), None, math.inf)
        assert given is not None
        assert given.points.tolist() == [scores[name] for name in sorted(scores)]
    assert scored


def test_asking_about_a_pod_leaves_the_cluster_as_it_was(world: World) -> None:
    before = dict(world.cluster.snapshot().pods())
    for key in before:
        pod = world.cluster.pod(key)
        with world.cluster.asking(pod):
            assert world.cluster.snapshot().pods()[key].nodeName == ""
    assert world.cluster.snapshot().pods() == before


# ---- then and now: which of policies, nodes, counts and time changed since a decision


REJECTED = NodeGroup([RejectingClause("web", "fast", "web: fast")], 1, ["n3"])
THEN = PodDecision(
    number=1,
    pod="shop/web-1",
    at="2026-11-21T12:00:00Z",
    nodes=3,
    passing=2,
    heldBack=0,
    seconds=0.001,
    scoredSeconds=None,
    replica="placet-0",
    uid="u",
    generation=1,
    policiesChanged=False,
    policies=[ConcernedPolicy("web", "governs", "", "aaa")],
    groups=[NodeGroup([], 2, ["n1", "n2"]), REJECTED],
    counts=[ClauseCounts("web", "zones", [CountedGroup("a", 3), CountedGroup("b", 1)])],
)
DIGESTS = {"web": "aaa"}
OTHERS = [ClauseCounts("web", "zones", [CountedGroup("a", 4), CountedGroup("c", 2)])]


def now(
    at: str = THEN.at,
    nodes: Sequence[str] = ("n1", "n2", "n3"),
    digests: Mapping[str, str] = DIGESTS,
    counts: Sequence[ClauseCounts] = THEN.counts,
) -> PodExplanation:
    """An explanation of the same pod, which all nodes pass."""
    return PodExplanation(
        pod=THEN.pod,
        at=at,
        on=None,
        policies=[ConcernedPolicy(name, "governs", "", each) for name, each in digests.items()],
        nodes=len(nodes),
        passing=len(nodes),
        groups=[NodeGroup([], len(nodes), nodes)],
        counts=counts,
    )


@pytest.mark.parametrize(
    ("other", "found"),
    [
        ({}, []),
        (
            {"digests": {"web": "bbb", "guard": "ccc"}},
            [("policies", "guard concerns the pod now, and did not; web was aaa and is bbb")],
        ),
        ({"digests": {}}, [("policies", "web concerned the pod, and does not now")]),
        (
            {"nodes": ["n1", "n3", "n4", "n5"]},
            [("nodes", "not offered then: n4, n5; offered then and gone: n2")],
        ),
        (
            {"counts": OTHERS},
            [("counts", "web: zones: a 3 then and 4 now, b 1 then and 0 now, c 0 then and 2 now")],
        ),
        ({"counts": ()}, []),
        ({"at": "2026-11-21T12:01:05Z"}, [("time", "65 s later")]),
    ],
)
def test_each_of_the_four_is_named(other: dict[str, Any], found: list[tuple[str, str]]) -> None:
    assert [(change.what, change.text) for change in changes(THEN, now(**other))] == found


def test_where_no_policy_concerned_the_pod_only_the_number_of_nodes_is_known() -> None:
    then = msgspec.structs.replace(THEN, groups=())
    assert changes(then, now()) == []
    (found,) = changes(then, now(nodes=["n1", "n2", "n3", "n4"]))
    assert (found.what, found.text) == ("nodes", "3 were offered, and there are 4")


def test_a_policy_that_does_not_select_the_pod_is_no_change() -> None:
    """It can apply to pods of the namespace, so an explanation names it."""
    others = [*now().policies, ConcernedPolicy("other", "no", "its `for` is false", "ddd")]
    assert changes(THEN, msgspec.structs.replace(now(), policies=others)) == []


def test_a_part_of_a_capability_is_shown_by_its_shape(capsys: pytest.CaptureFixture[str]) -> None:
    """Layout knows no capability: texts, and a table of what its rows have."""
    rows: list[Row] = [
        {"pod": f"shop/{n}", "seats": PartOf(n, 30), "cost": 1.6 * n} for n in range(22)
    ]
    seats = ExplainedPart(title="seats", texts=["3 are taken", "one is left"], rows=rows, more=3)
    note = ExplainedPart(texts=["two would be enough"], afterNodes=True)
    found = PodExplanation(pod="shop/a", at="", on=None, parts=[note, seats])
    put(parts_of(found))
    shown = capsys.readouterr().out.splitlines()
    assert [line.rstrip() for line in shown[:6]] == [
        "",
        "seats: 3 are taken",
        "  one is left",
        "pod         seats  cost",
        "shop/0    0 of 30     0",
        "shop/1    1 of 30     2",
    ]
    assert len(shown) == 4 + 20 + 1
    assert shown[-1] == "and 5 more"
    put(parts_of(found, after=True))
    assert capsys.readouterr().out == "two would be enough\n"
