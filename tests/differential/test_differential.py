"""Placet and kube-scheduler's own plugins agree on every node, where docs/coming-from.md says so.

Compared with the plugins are the policies that the page prints, `library/preferred-nodes`, and what
Placet itself does for them (eligibility, and the model of `placet simulate`). `make differential
WORLDS=2000 SEED=1` plays more worlds; SEED and WORLDS=1 play one again.
"""

from __future__ import annotations

import math
import os
import sys
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path

import pytest

from engine.cache.cache import Cache
from engine.clauses.programs import compile_policy
from engine.decision.registry import Registry
from engine.decision.verdict import Feasible
from engine.engine import Engine
from engine.explanation.inspection import Inspection
from engine.objects.eligibility import CORDONED, matches_affinity, tolerates, unfit
from engine.objects.request_pod import decode_namespace
from engine.program.program import Program
from engine.simulation.cycle import NodeEligibility, demand, resources_of
from engine.work import finished
from tests.differential.documented import PAGE, REQUIRED, Documented, Judgement, running
from tests.differential.worlds import RACK, World, world
from tests.e2e.process import built_plugins
from tests.support.builders import Object, node, pod, raw
from tests.support.engines import CODEC, Known, Silent, cache_of, checked, engine_of, peer_of

# Rare parts of worlds, such as two pods with a port of every address, need so many.
FEW = 1000
_LIBRARY = Path(__file__).parents[2] / "policies" / "library"
# Enough to see what they have in common.
MOST_DIFFERENCES = 10
Verdicts = Mapping[str, Mapping[str, bool]]


@pytest.mark.parametrize("seed", range(30))
def test_the_page_prints_what_a_pod_needs(seed: int) -> None:
    """Every row that a world needs is there, and its policies are legal. This needs no Go."""
    made, documented = world(seed), Documented(PAGE.read_text(encoding="utf-8"))
    written = checked(documented.policies(made.pod, made.nodes))
    clauses = [clause for each in written for clause in each.policy.clauses]
    assert clauses or not {"affinity", "topologySpreadConstraints"} & made.pod["spec"].keys()
    assert len(checked(documented.plugins)) == 4


def passes(made: Object, there: Sequence[Object], asked: Object) -> tuple[bool, bool]:
    """Whether the policies of the page pass a node, and whether Placet's own model does."""
    policies = Documented(PAGE.read_text(encoding="utf-8")).plugins
    name = made["metadata"]["name"]
    engine = engine_of(policies, [made], there)
    (verdict,) = engine.filter(raw(asked), [name], None, math.inf)
    view = cache_of([made], there).snapshot().nodes[name]
    return isinstance(verdict, Feasible), not unfit(CODEC.pod(raw(asked)), view)


@pytest.mark.parametrize("operator", [{}, {"operator": "Equal"}, {"operator": "Exists"}])
@pytest.mark.parametrize("tolerated", [{}, {"value": ""}, {"value": "a"}])
@pytest.mark.parametrize("tainted", [{}, {"value": ""}, {"value": "a"}])
def test_an_empty_value_is_a_value(operator: Object, tolerated: Object, tainted: Object) -> None:
    """`Exists` takes every value, and has none. This needs no Go."""
    made = node("n")
    made["spec"]["taints"] = [{"key": "k", "effect": "NoSchedule", **tainted}]
    asked = pod("p", spec={"tolerations": [{"key": "k", **operator, **tolerated}]})
    equal = tolerated.get("value", "") == tainted.get("value", "")
    wanted = equal or operator.get("operator") == "Exists"
    assert passes(made, [], asked) == (wanted, wanted)


@pytest.mark.parametrize("ours", [None, "0.0.0.0", "10.0.0.1"])  # noqa: S104
@pytest.mark.parametrize("theirs", [None, "0.0.0.0", "10.0.0.1", "10.0.0.2"])  # noqa: S104
@pytest.mark.parametrize(("port", "protocol"), [(80, "TCP"), (81, "TCP"), (80, "UDP")])
def test_every_address_takes_a_port(
    ours: str | None, theirs: str | None, port: int, protocol: str
) -> None:
    """0.0.0.0 is the address where none is named. This needs no Go."""

    def ported(name: str, address: str | None, number: int, kind: str, on: str | None) -> Object:
        port: Object = {"containerPort": 1, "hostPort": number, "protocol": kind}
        if address is not None:
            port["hostIP"] = address
        made = pod(name, on=on)
        made["spec"]["containers"][0]["ports"] = [port]
        return made

    there = ported("there", theirs, 80, "TCP", "n")
    asked = ported("asked", ours, port, protocol, None)
    meet = None in (ours, theirs) or "0.0.0.0" in (ours, theirs) or ours == theirs  # noqa: S104
    wanted = not (meet and (port, protocol) == (80, "TCP"))
    assert passes(node("n"), [there], asked) == (wanted, wanted)


@pytest.mark.e2e
def test_shares_and_anti_affinity_agree(pytestconfig: pytest.Config) -> None:
    """At most one of the pods in each rack is anti-affinity among them, of pods that stay."""
    first, count = int(os.environ.get("SEED") or 1), int(os.environ.get("WORLDS") or FEW)
    found, rejected = [], 0
    with running(built_plugins(pytestconfig)) as plugins:
        for seed in range(first, first + count):
            made = world(seed)
            labels = {"app": made.pod["metadata"]["labels"]["app"]}
            term = {"labelSelector": {"matchLabels": labels}, "topologyKey": RACK}
            anti = {"podAntiAffinity": {REQUIRED: [term]}}
            made.pod["spec"]["affinity"] = anti
            made.pods[:] = [p for p in made.pods if "deletionTimestamp" not in p["metadata"]]
            where = f'peer.labels[?"app"] == optional.of("{labels["app"]}")'
            clauses = " ".join(
                f'share "{rack}" {{ placed pods where {where} on nodes where'
                f' node.labels[?"{RACK}"] == optional.of("{rack}") at most 1 strict }}'
                for rack in "rs"
            )
            namespace = made.pod["metadata"]["namespace"]
            text = f'policy p in namespace "{namespace}" {{ {clauses} }}'
            wanted = plugins.judge(made.objects).filters["InterPodAffinity"]
            rejected += list(wanted.values()).count(False)
            programs = [compile_policy(policy) for policy in checked(text)]
            cache = cache_of(made.nodes, [*made.pods, made.pod])
            engine = Engine(Registry(programs), Known(cache), CODEC, Silent())
            refused = dict.fromkeys(wanted, False)
            inspection = Inspection(engine, raw(made.pod), [*wanted])
            for objection in (o for p in programs for o in finished(inspection.objections_of(p))):
                for name, is_refused in zip(wanted, objection.refused, strict=True):
                    refused[name] |= bool(is_refused)
            found += [
                f"SEED={seed}: {name} passes there: {passes_there}"
                for name, passes_there in wanted.items()
                if passes_there is refused[name]
            ]
    assert not found, "\n".join(found[:MOST_DIFFERENCES])
    assert rejected > count // 4


@pytest.mark.e2e
def test_plugins_and_policies_agree(
    pytestconfig: pytest.Config, capsys: pytest.CaptureFixture[str]
) -> None:
    first, count = int(os.environ.get("SEED") or 1), int(os.environ.get("WORLDS") or FEW)
    comparison = Comparison(Documented(PAGE.read_text(encoding="utf-8")))
    found: list[str] = []
    with running(built_plugins(pytestconfig)) as plugins:
        for seed in range(first, first + count):
            made = world(seed)
            found += comparison.differences(made, plugins.judge(made.objects))
            if len(found) >= MOST_DIFFERENCES:
                break
    with capsys.disabled():
        sys.stdout.write(f"\n{comparison.report}\n")
    assert not found, "\n".join([*found, comparison.last])


# For all pods, and in a policy of the cluster, which reads the pods of every namespace.
PREFERRED_NODES = (
    (_LIBRARY / "preferred-nodes.policy")
    .read_text(encoding="utf-8")
    .replace("policy preferred-nodes", "cluster policy preferred-nodes")
    .replace("for pods where false", "")
)


class Comparison:
    """Compares worlds. It counts nodes by plugin, and those that it rejects.

    `last` has the policies of the last world.
    """

    def __init__(self, documented: Documented) -> None:
        self._documented = documented
        texts = (documented.plugins, PREFERRED_NODES)
        self._fixed = [compile_policy(policy) for text in texts for policy in checked(text)]
        self._compared: Counter[str] = Counter()
        self._rejected: Counter[str] = Counter()
        self.last = ""

    @property
    def report(self) -> str:
        """A line for each plugin."""
        return "\n".join(
            f"{what}: {nodes} nodes, {self._rejected[what]} of them rejected"
            if what in self._rejected
            else f"{what}: {nodes} nodes"
            for what, nodes in sorted(self._compared.items())
        )

    def differences(self, made: World, judged: Judgement) -> Iterator[str]:
        """A line for each node on which Placet differs."""
        self.last = self._documented.policies(made.pod, made.nodes)
        programs = [*self._fixed, *(compile_policy(policy) for policy in checked(self.last))]
        cache = cache_of(made.nodes, [*made.pods, made.pod])
        for each in made.namespaces:
            cache.put_namespace(decode_namespace(raw(each)))
        excepted = exceptions(made)
        passing = {**self._verdicts(programs, cache, made), **models(cache, made)}
        names = [node["metadata"]["name"] for node in made.nodes]
        known = {n: all(judged.filters[plugin][n] for plugin in KNOWN) for n in names}
        filters = {**judged.filters, "known plugins": known}
        for what, nodes in passing.items():
            plugin = what.removeprefix("model of ")
            if plugin in excepted:
                continue
            wanted = filters[plugin]
            self._compared[what] += len(nodes)
            self._rejected[what] += list(wanted.values()).count(False)
            for name, passes in nodes.items():
                if passes is not wanted[name]:
                    said = "passes" if wanted[name] else "rejects"
                    yield f"SEED={made.seed}: {what} {said} {name}, and Placet does not"
        yield from self._scores(programs, cache, made, judged, excepted)

    def _verdicts(self, programs: list[Program], cache: Cache, made: World) -> Verdicts:
        """Whether the clauses for each plugin pass each node."""
        engine = Engine(Registry(programs), Known(cache), CODEC, Silent())
        names = [node["metadata"]["name"] for node in made.nodes]
        inspection = Inspection(engine, raw(made.pod), names)
        passing = {
            plugin: dict.fromkeys(names, True)
            for plugin in (
                *("NodeUnschedulable", "TaintToleration", "NodeResourcesFit", "NodePorts"),
                *("NodeAffinity", "PodTopologySpread", "InterPodAffinity"),
            )
        }
        for program in programs:
            for objection in finished(inspection.objections_of(program)):
                plugin = program.name if program.name in passing else objection.name
                for name, refused in zip(names, objection.refused, strict=True):
                    passing[plugin][name] &= not refused
        return passing

    def _scores(
        self,
        programs: list[Program],
        cache: Cache,
        made: World,
        judged: Judgement,
        excepted: Collection[str],
    ) -> Iterator[str]:
        engine = Engine(Registry(programs), Known(cache), CODEC, Silent())
        names = [node["metadata"]["name"] for node in made.nodes]
        addresses = {program.address: program.name for program in programs}
        preferred = dict.fromkeys(names, 0.0)
        for given in finished(Inspection(engine, raw(made.pod), names).contributions()):
            policy, points = addresses[given.policy], dict(zip(names, given.points, strict=True))
            if policy == "preferred NodeAffinity":
                for name in names:
                    preferred[name] += given.weight * points[name]
                continue
            if policy == "preferred-nodes":
                self._compared["score of preferred-nodes"] += len(names)
                ours = {name: math.floor(points[name]) for name in names}
                theirs = judged.scores["NodeAffinity"] or dict.fromkeys(names, 0)
                if ours != theirs:
                    yield f"SEED={made.seed}: NodeAffinity gives {theirs}, not {ours}"
                continue
            if policy in excepted:
                continue
            self._compared[f"score of {policy}"] += len(names)
            for name in names:
                if points[name] != judged.scores[policy][name]:
                    wanted = judged.scores[policy][name]
                    yield f"SEED={made.seed}: {policy} gives {name} {wanted}, not {points[name]}"
        if scores := judged.scores["NodeAffinity"]:
            self._compared["order of NodeAffinity"] += len(names)
            order = sorted(names, key=lambda name: (preferred[name], scores[name]))
            if [scores[name] for name in order] != sorted(scores.values()):
                yield f"SEED={made.seed}: NodeAffinity orders {scores}, not {preferred}"
        if "LeastAllocated" not in excepted:
            views = cache.snapshot().nodes
            least = finished(resources_of([views[name] for name in names])).least_allocated(
                demand(peer_of(made.pod))
            )
            self._compared["score of the model of LeastAllocated"] += len(names)
            wanted_all = [judged.scores["LeastAllocated"][name] for name in names]
            if least.tolist() != wanted_all:
                yield f"SEED={made.seed}: LeastAllocated gives {wanted_all}, not {least.tolist()}"


# The plugins whose filters are known from nodes and pods, wherever a pod is not asked about.
KNOWN = ("NodeUnschedulable", "TaintToleration", "NodeAffinity", "NodePorts", "NodeResourcesFit")


def models(cache: Cache, made: World) -> Verdicts:
    """What Placet itself says for the plugins: of spreads, of preemption, and in simulations."""
    views = cache.snapshot().nodes
    pod, peer = CODEC.pod(raw(made.pod)), peer_of(made.pod)
    fits = finished(resources_of(list(views.values()))).fits(demand(peer))
    reasons = finished(NodeEligibility(list(views.values())).of(pod)).reasons
    return {
        "model of NodeAffinity": {n: matches_affinity(pod, v) for n, v in views.items()},
        "model of TaintToleration": {n: tolerates(pod, v) for n, v in views.items()},
        "model of NodeResourcesFit": dict(zip(views, fits.tolist(), strict=True)),
        "model of known plugins": {n: not unfit(pod, v) for n, v in views.items()},
        "model of NodeUnschedulable": {
            name: reason != CORDONED for name, reason in zip(views, reasons, strict=True)
        },
    }


def exceptions(made: World) -> set[str]:
    """The plugins for which the page says that this world is one of the cases that differ."""
    found = set()
    if not made.named or "resources" in made.pod["spec"]:
        found |= {"LeastAllocated", "MostAllocated"}
    labels = [node["metadata"]["labels"] for node in made.nodes]
    affinity = made.pod["spec"].get("affinity", {})
    keys = {term["topologyKey"] for term in affinity.get("podAffinity", {}).get(REQUIRED, ())}
    if any(len(keys & each.keys()) not in (0, len(keys)) for each in labels):
        found.add("InterPodAffinity")
    constraints = made.pod["spec"].get("topologySpreadConstraints", ())
    cordoned = any(node["spec"].get("unschedulable") for node in made.nodes)
    if cordoned and any(each.get("nodeTaintsPolicy") == "Honor" for each in constraints):
        found.add("PodTopologySpread")
    return found
