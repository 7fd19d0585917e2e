"""Portable policies: kube-scheduler is told nothing that is stronger than the policy.

`make portable TRIPLES=1000000 WORLDS=100000 SEED=1` plays more: a triple is a policy, a pod and a
node. SEED says where to begin.
"""

from __future__ import annotations

import math
import os
import sys
from collections import Counter
from random import Random

import pytest

from engine.decision.registry import Registry
from engine.engine import Engine
from engine.explanation.inspection import Inspection
from engine.work import finished
from tests.differential.documented import Plugins, running
from tests.differential.portable_worlds import Policies, nodes_with_labels, told
from tests.differential.worlds import HOST, World, world
from tests.e2e.process import built_plugins
from tests.support.builders import Object, raw
from tests.support.engines import CODEC, Known, Silent, cache_of

pytestmark = pytest.mark.e2e

NODES = 250
FIRST = int(os.environ.get("SEED") or 1)
TRIPLES = int(os.environ.get("TRIPLES") or 20_000)
WORLDS = int(os.environ.get("WORLDS") or 300)


def test_node_affinity_is_never_stronger_than_the_filters(
    pytestconfig: pytest.Config, capsys: pytest.CaptureFixture[str]
) -> None:
    seen: Counter[str] = Counter()
    with running(built_plugins(pytestconfig)) as plugins:
        for seed in range(FIRST, FIRST + math.ceil(TRIPLES / NODES)):
            dice = Random(seed)
            nodes, pod = nodes_with_labels(dice, NODES), world(seed).pod
            registry = Policies(dice).about_nodes(pod)
            made = told(pod, registry)
            names = [each["metadata"]["name"] for each in nodes]
            engine = Engine(registry, Known(cache_of(nodes)), CODEC, Silent())
            codes = engine.filter(raw(pod), names, None, math.inf).codes
            before, after = (
                _judged(plugins, nodes, [], each, ["NodeAffinity"])
                for each in (made.before, made.after)
            )
            wanted = {
                name: before[name] and not code for name, code in zip(names, codes, strict=True)
            }
            _compare(seed, wanted, after, made.exact, seen)
    _report("triples", seen, capsys)


def test_what_clauses_say_of_pods_is_never_stronger(
    pytestconfig: pytest.Config, capsys: pytest.CaptureFixture[str]
) -> None:
    """All pods of the world have their forms, and so the verdicts are those of each about it."""
    seen: Counter[str] = Counter()
    program = built_plugins(pytestconfig)
    for first in range(FIRST, FIRST + WORLDS, _OF_A_PROCESS):
        with running(program) as plugins:
            for seed in range(first, min(first + _OF_A_PROCESS, FIRST + WORLDS)):
                _play(seed, plugins, seen)
    _report("verdicts", seen, capsys)


def _play(seed: int, plugins: Plugins, seen: Counter[str]) -> None:
    dice, made = Random(seed), _with_taints(world(seed))
    registry = Policies(dice).about_pods(made)
    pods = [told(each, registry) for each in made.pods]
    asked = told(made.pod, registry)
    wanted = dict(_judged(plugins, made.nodes, made.pods, made.pod, _OF_PODS, made).items())
    for name in _refused(registry, made):
        wanted[name] = False
    after = _judged(plugins, made.nodes, [p.after for p in pods], asked.after, _OF_PODS, made)
    hosts = all(HOST in each["metadata"]["labels"] for each in made.nodes)
    exact = hosts and asked.exact and all(pod.exact for pod in pods)
    _compare(seed, wanted, after, exact, seen)


# The program keeps a little of each world.
_OF_A_PROCESS = 2_000
_OF_PODS = ["NodeAffinity", "PodTopologySpread", "InterPodAffinity"]


def _with_taints(made: World) -> World:
    """The world, with the taint that Kubernetes gives cordoned nodes after a moment."""
    for each in made.nodes:
        if each["spec"].get("unschedulable"):
            taint = {"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule"}
            taints = [t for t in each["spec"].get("taints", ()) if t["key"] != taint["key"]]
            each["spec"]["taints"] = [*taints, taint]
    return made


def _refused(registry: Registry, made: World) -> set[str]:
    """The nodes that Placet rejects for the pod as it was created."""
    cache = cache_of(made.nodes, [*made.pods, made.pod])
    names = [each["metadata"]["name"] for each in made.nodes]
    inspection = Inspection(Engine(registry, Known(cache), CODEC, Silent()), raw(made.pod), names)
    return {
        name
        for objection in finished(inspection.objections())
        for name, refused in zip(names, objection.refused, strict=True)
        if refused
    }


def _judged(
    plugins: Plugins,
    nodes: list[Object],
    pods: list[Object],
    pod: Object,
    judges: list[str],
    made: World | None = None,
) -> dict[str, bool]:
    """Whether these plugins pass each node."""
    namespaces = made.namespaces if made is not None else []
    found = plugins.judge(
        {"namespaces": namespaces, "nodes": nodes, "pods": pods, "pod": pod, "plugins": judges}
    ).filters
    return {
        name: all(found[judge][name] for judge in judges)
        for name in (each["metadata"]["name"] for each in nodes)
    }


def _compare(
    seed: int,
    wanted: dict[str, bool],
    found: dict[str, bool],
    exact: bool,
    seen: Counter[str],
) -> None:
    stronger = [name for name, passes in wanted.items() if passes and not found[name]]
    assert not stronger, f"SEED={seed}: the form rejects {stronger}, and the policies do not"
    weaker = [name for name, passes in wanted.items() if found[name] and not passes]
    assert not (exact and weaker), f"SEED={seed}: the form passes {weaker}, and is called exact"
    seen["all"] += len(wanted)
    seen["exact"] += exact * len(wanted)
    seen["rejected"] += list(found.values()).count(False)
    seen["weaker"] += len(weaker)


def _report(what: str, seen: Counter[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert seen["rejected"]
    assert seen["exact"]
    with capsys.disabled():
        sys.stdout.write(
            f"\n{seen['all']} {what}: {seen['exact']} of exact forms, {seen['rejected']} rejected,"
            f" {seen['weaker']} left for Placet\n"
        )
