"""Strict bounds that read groups of nodes: never passed, wherever pods on their way end."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from itertools import product

from hypothesis import given, settings
from hypothesis import strategies as st

from engine.engine import Engine
from engine.errors import EngineError
from tests.support.builders import node, pod, raw
from tests.support.engines import CODEC, Known, Silent, cache_of, peer_of, registry_of
from tests.support.examples import examples

# What each zone offers, and what is requested there, in CPUs.
Bound = Callable[[int, int], float]
# Bounds as they are written, and as they are meant; the last one rises with what is requested.
BOUNDS: Mapping[str, Bound] = {
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
    st.sampled_from(sorted(BOUNDS)),
    st.lists(st.sampled_from(["a", "b"]), min_size=2, max_size=4),
    st.lists(st.tuples(st.integers(1, 3), st.booleans()), min_size=1, max_size=5),
    st.data(),
)
def test_no_bound_is_passed_wherever_pods_end(
    bound: str, zones: Sequence[str], asked: Sequence[tuple[int, bool]], data: st.DataObject
) -> None:
    """Pods of the team count; others only take of the zone. Each may end where it was offered."""
    limit = f"""cluster policy p {{
      for pods where pod.labels["team"] == "yes"
      group zone by node.zone
      limit "team" {{
        sum peer.requests["cpu"] of all pods where peer.labels["team"] == "yes"
        per group zone at most {bound} strict
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
                assert of_team + cpu <= BOUNDS[bound](has[zone], requested) + 1e-9
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
