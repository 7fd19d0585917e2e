"""Explanations: they show what the engine answers, the same nodes and scores that add up."""

import argparse
import math
from collections.abc import Mapping
from pathlib import Path

import pytest

from cli.demo.demo_cluster import demo_cluster
from cli.sources import AskedCluster
from cli.world import World, explained
from engine.decision.verdict import Feasible, Verdict
from engine.explanation.document import PodExplanation
from engine.offline import offline_engine
from grammar.values.time import Timestamp
from tests.cli import shop
from tests.support.builders import raw

ROOT = Path(__file__).parents[3]
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
