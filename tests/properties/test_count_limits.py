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
from tests.support.builders import Object, node, pod, raw
from tests.support.engines import CODEC, Known, Silent, cache_of, peer_of, registry_of
from tests.support.examples import examples

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
