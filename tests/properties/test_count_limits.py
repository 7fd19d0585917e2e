"""Strict bounds that read named counts: never passed, wherever pods on their way end.

Watches may be late, bindings may fail, and another replica may take over.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import product

from hypothesis import given, settings
from hypothesis import strategies as st

from engine.engine import Engine
from engine.errors import EngineError
from tests.support.books import examples
from tests.support.builders import Object, node, pod, raw
from tests.support.engines import CODEC, Known, Silent, cache_of, peer_of, registry_of

# How many pods of two other kinds there are.
Bound = Callable[[int, int], float]
# Bounds as they are written, and as they are meant: falling, rising, and both.
BOUNDS: Mapping[str, Bound] = {
    "3 - minus": lambda _, minus: 3 - minus,
    "plus": lambda plus, _: plus,
    "1 + plus - minus": lambda plus, minus: 1 + plus - minus,
    "plus > 1 ? 3 : 1": lambda plus, _: 3 if plus > 1 else 1,
    "2 * plus - 2 * minus + 2": lambda plus, minus: 2 * plus - 2 * minus + 2,
}
KINDS = ("team", "plus", "minus")
NODES = ("n-0", "n-1")


@dataclass
class Pod:
    """A pod that was offered nodes. It is `on` one of them for real, or else may still get one.

    Nobody may know it yet. It may be `assumed` there, and its binding may fail.
    """

    kind: str
    offered: Sequence[str]
    on: str = ""
    assumed: bool = False

    @property
    def ends(self) -> Sequence[str]:
        """Where it may be in the end."""
        if self.assumed:
            return ["", self.on]
        return [self.on] if self.on else ["", *self.offered]


def body_of(name: str, kind: str, on: str | None = None) -> Object:
    return pod(name, labels={"kind": kind}, on=on)


def numbers(ends: Iterable[tuple[Pod, str]], place: Sequence[str]) -> list[int]:
    """The pods of each kind that end in a place."""
    there = [each.kind for each, end in ends if end in place]
    return [there.count(kind) for kind in KINDS]


@settings(max_examples=examples(150), deadline=None)
@given(
    st.sampled_from(sorted(BOUNDS)),
    st.sampled_from(("cluster", "node")),
    st.lists(st.sampled_from(KINDS), min_size=1, max_size=6),
    st.data(),
)
def test_no_bound_is_passed_wherever_pods_end(
    bound: str, per: str, asked: Sequence[str], data: st.DataObject
) -> None:
    """Pods of the team are limited by what there is of the others."""
    place = "" if per == "cluster" else " per node"
    limit = f"""cluster policy p {{
      count plus{place} = all pods where peer.labels["kind"] == "plus"
      count minus{place} = all pods where peer.labels["kind"] == "minus"
      limit "team" when pod.labels["kind"] == "team" {{
        all pods where peer.labels["kind"] == "team" per {per} at most {bound} strict
      }}
    }}"""
    cache = cache_of([node(name) for name in NODES])
    registry = registry_of(limit)
    engine = Engine(registry, Known(cache), CODEC, Silent())
    pods: dict[str, Pod] = {}
    for number, kind in enumerate(asked):
        name = f"p{number}"
        try:
            verdicts = engine.filter(raw(body_of(name, kind)), list(NODES), None, math.inf)
        except EngineError:
            continue
        offered = [n for n, code in zip(NODES, verdicts.codes.tolist(), strict=True) if not code]
        for chosen in offered if kind == "team" else ():
            inside = NODES if per == "cluster" else [chosen]
            for ends in product(*(each.ends for each in pods.values())):
                team, plus, minus = numbers(zip(pods.values(), ends, strict=True), inside)
                assert team + 1 <= BOUNDS[bound](plus, minus)
        if offered:
            pods[name] = Pod(kind, offered)
            cache.put_pod(peer_of(body_of(name, kind)))
        flying = [name for name, each in pods.items() if not each.on]
        if bool(flying) and data.draw(st.booleans()):
            arrived = data.draw(st.sampled_from(flying))
            there = pods[arrived]
            there.on = data.draw(st.sampled_from(there.offered))
            seen = data.draw(st.sampled_from(("watch", "assumed", "not yet")))
            placed = peer_of(body_of(arrived, there.kind, there.on))
            if seen == "watch":
                cache.put_pod(placed)
            elif seen == "assumed":
                there.assumed = True
                cache.assume(peer_of(body_of(arrived, there.kind)), there.on, math.inf)
            if seen != "not yet":
                engine.in_flight.forget(placed.uid)
        if not any(each.assumed for each in pods.values()) and data.draw(st.booleans()):
            # Another replica takes over. It knows no offers: pods may end anywhere.
            engine = Engine(registry, Known(cache), CODEC, Silent())
            snapshot = cache.snapshot()
            engine.in_flight.take_over(snapshot.pending.values(), snapshot.table)


# ---- strict bounds that read groups of nodes: never passed, wherever pods on their way end


# Bounds as they are written, and as they are meant; the last one rises with what is requested.
GROUP_LIMITS_BOUNDS: Mapping[str, Bound] = {
    '0.66 * zone.allocatable["cpu"]': lambda has, _: 0.66 * has,
    'zone.free["cpu"] - "2"': lambda has, asked: has - asked - 2,
    'quantity(string(zone.nodes * 3)) - 0.5 * zone.requested["cpu"]': lambda has, asked: (
        has / 4 * 3 - 0.5 * asked
    ),
    '"2" + 0.5 * zone.requested["cpu"]': lambda _, asked: 2 + 0.5 * asked,
}
CPU = 4
Place = tuple[str, int, bool]


@settings(max_examples=examples(150), deadline=None)
@given(
    st.sampled_from(sorted(GROUP_LIMITS_BOUNDS)),
    st.lists(st.sampled_from(["a", "b"]), min_size=2, max_size=4),
    st.lists(st.tuples(st.integers(1, 3), st.booleans()), min_size=1, max_size=5),
    st.data(),
)
def test_no_bound_is_passed_wherever_pods_end_group_limits(
    bound: str, zones: Sequence[str], asked: Sequence[tuple[int, bool]], data: st.DataObject
) -> None:
    """Pods of the team count; others only take of the zone. Each may end where it was offered."""
    limit = f"""cluster policy p {{
      for pods where pod.labels["team"] == "yes"
      group zone by node.zone
      limit "team" {{
        sum peer.requests["cpu"] of all pods where peer.labels["team"] == "yes"
        per zone at most {bound} strict
      }}
    }}"""
    nodes = {f"n{number}": zone for number, zone in enumerate(zones)}
    cache = cache_of([node(name, zone, cpu=str(CPU)) for name, zone in nodes.items()])
    engine = Engine(registry_of(limit), Known(cache), CODEC, Silent())
    has = {zone: CPU * zones.count(zone) for zone in zones}
    # Where pods are, and where those on their way may end: nowhere, or in a zone.
    bound_pods: list[Place] = []
    on_their_way: dict[str, tuple[int, bool, list[str]]] = {}
    for number, (cpu, is_team) in enumerate(asked):
        name, team = f"p{number}", "yes" if is_team else "no"
        body = pod(name, cpu=str(cpu), labels={"team": team})
        try:
            verdicts = engine.filter(raw(body), list(nodes), None, math.inf)
        except EngineError:
            continue
        offered = [n for n, code in zip(nodes, verdicts.codes.tolist(), strict=True) if not code]
        for zone in {nodes[name] for name in offered} if is_team else ():
            ends = [["", *sorted({nodes[n] for n in to})] for _, _, to in on_their_way.values()]
            for chosen in product(*ends):
                flying = zip(chosen, on_their_way.values(), strict=True)
                there = [(at, size, of) for at, (size, of, _) in flying if at]
                places: list[Place] = [*bound_pods, *there]
                requested = sum(size for at, size, _ in places if at == zone)
                of_team = sum(size for at, size, of in places if at == zone and of)
                assert of_team + cpu <= GROUP_LIMITS_BOUNDS[bound](has[zone], requested) + 1e-9
        if not offered:
            continue
        on_their_way[name] = cpu, is_team, offered
        if data.draw(st.booleans()):
            # One of them arrives.
            arrives = data.draw(st.sampled_from(sorted(on_their_way)))
            size, of, to = on_their_way.pop(arrives)
            where = data.draw(st.sampled_from(to))
            labels = {"team": "yes" if of else "no"}
            cache.put_pod(peer_of(pod(arrives, cpu=str(size), labels=labels, on=where)))
            engine.in_flight.forget(peer_of(pod(arrives)).uid)
            bound_pods.append((nodes[where], size, of))
