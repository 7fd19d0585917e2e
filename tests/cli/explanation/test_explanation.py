"""Explanations: they show what the engine answers, the same nodes and scores that add up."""

import argparse
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
import pytest

from cli.demo.demo_cluster import demo_cluster
from cli.explanation.explanation import explain
from cli.world import World, read_world
from engine.decision import scoring
from engine.decision.verdict import Feasible
from tests.cli import shop
from tests.support.builders import raw

ROOT = Path(__file__).parents[3]
NOW = datetime(2026, 11, 21, 10, tzinfo=UTC)


@pytest.fixture(params=["shop", "demo"])
def world(request: pytest.FixtureRequest, folder: Path) -> World:
    """The tests' cluster, and the demo's with all the policies that come with Placet."""
    shop.write(folder)
    policies = [folder / "shop.policy"]
    if request.param == "demo":
        (folder / "cluster.json").write_bytes(raw(demo_cluster(NOW)))
        policies += [ROOT / "policies" / "library", ROOT / "cli" / "demo"]
        policies = policies[1:]
    return read_world(argparse.Namespace(cluster=[folder / "cluster.json"], policies=policies))


def test_a_node_has_an_objection_if_and_only_if_the_engine_refuses_it(world: World) -> None:
    """The first objection is the one that the engine names; counts may offer fewer nodes."""
    for key in world.cluster.snapshot().pods():
        pod = world.cluster.pod(key)
        with world.cluster.asking(pod):
            found = explain(world, pod)
        assert not found.problem
        for name, verdict in found.verdicts.items():
            against = found.against(name)
            if isinstance(verdict, Feasible):
                assert not against
            elif against:
                assert (verdict.policy, verdict.clause) == (against[0].policy, against[0].name)
            else:
                assert any(p.counts for p in found.inspection.selection.enforced)


def test_contributions_are_the_terms_of_the_score(world: World) -> None:
    scored = 0
    for key in world.cluster.snapshot().pods():
        pod = world.cluster.pod(key)
        with world.cluster.asking(pod):
            found = explain(world, pod)
            if not found.scores:
                continue
            given = found.inspection.contributions(list(found.scores))
        scored += 1
        total = scoring.scores([(c.weight, c.points) for c in given])
        assert np.array_equal(total, list(found.scores.values()))
    assert scored


def test_asking_about_a_pod_leaves_the_cluster_as_it_was(world: World) -> None:
    before = dict(world.cluster.snapshot().pods())
    for key in before:
        pod = world.cluster.pod(key)
        with world.cluster.asking(pod):
            assert world.cluster.snapshot().pods()[key].nodeName == ""
    assert world.cluster.snapshot().pods() == before
