"""Model: where a pod may go for sure, by nothing but the objects that the API server has.

It counts all pods anew for each question, as the pages on clauses say, and keeps nothing: so what
Placet keeps wrongly is not wrong here, too. A pod on its way counts wherever it was offered a place
and, where that would be easier, nowhere. A model belongs to one question.
"""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Callable, Collection, Mapping
from typing import Any

from tests.chaos.observer import (
    CARD,
    CARDS_A_NODE,
    ENDED,
    EVERYWHERE,
    FLOOR_PERCENT,
    FLOOR_ZONES,
    HOSTILE,
    MOST_A_NODE,
    MOST_CROWD,
    MOST_SKEW,
    SHARE_PERCENT,
    SPOT,
    STEADY,
    TAKEN,
    node_of,
)
from tests.chaos.schedule import ZONES
from tests.chaos.workload import CARD_PART

Object = dict[str, Any]
# The apps whose counts have no pods that end: the others have them until they are gone.
WITHOUT_ENDING = ("shared", "even", "floored")


class Model:
    """The cluster at one time, for the pod in question.

    `others` are the pods beside it, `flights` has the nodes that were offered to those on their
    way, by key. `budget` and `pool` are what policies say now.
    """

    def __init__(
        self,
        nodes: Mapping[str, Object],
        others: Mapping[str, Object],
        flights: Mapping[str, Collection[str]],
        *,
        budget: int,
        pool: str,
    ) -> None:
        self._nodes = {name: node_of(node) for name, node in nodes.items()}
        self._others = {k: p for k, p in others.items() if _phase(p) not in ENDED}
        self._flights = flights
        self._budget, self._pool = budget, pool

    def open_to(self, app: str, names: Collection[str]) -> Collection[str]:
        """The nodes of these that a pod of an app may be offered, whatever comes of others."""
        match app:
            case "limited" | "summed":
                most, _ = self._counts(app, lambda name: name)
                return {name for name in names if most[name] < MOST_A_NODE}
            case "budget":
                most, _ = self._counts(app, lambda _: EVERYWHERE)
                return set(names) if most[EVERYWHERE] < self._budget else set()
            case "shared":
                return self._of_sides(names)
            case "even":
                return self._of_zones(names)
            case "floored":
                return self._of_floors(names)
            case "guarded":
                crowd, _ = self._counts("crowd", lambda name: name)
                return {name for name in names if crowd[name] <= MOST_CROWD}
            case "crowd":
                crowd, _ = self._counts("crowd", lambda name: name)
                guarded, _ = self._counts("guarded", lambda name: name)
                return {n for n in names if not guarded[n] or crowd[n] < MOST_CROWD}
            case "pooled":
                return {name for name in names if self._nodes[name].pool == self._pool}
            case "cards":
                return {name for name in names if self._has_card(name)}
            case _:
                return set(names)

    def _of_sides(self, names: Collection[str]) -> Collection[str]:
        most, _ = self._counts("shared", lambda name: self._nodes[name].capacity)
        total = 1 + len(self._counted("shared"))
        spot = total * SHARE_PERCENT // 100
        bounds = {SPOT: spot, STEADY: total - spot}
        return {n for n in names if most[self._nodes[n].capacity] < bounds[self._nodes[n].capacity]}

    def _of_floors(self, names: Collection[str]) -> Collection[str]:
        """A pod goes where pods lack, or leaves as many as lack: those that have no node yet."""
        _, least = self._counts("floored", lambda name: self._nodes[name].zone)
        pods = self._counted("floored")
        needed = math.ceil((1 + len(pods)) * FLOOR_PERCENT / 100)
        lack = {zone: max(0, needed - least[zone]) for zone in FLOOR_ZONES}
        left = sum(not pod["spec"].get("nodeName") for pod in pods.values())
        enough = left - len(self._flights.keys() & pods.keys()) >= sum(lack.values())
        return {name for name in names if enough or lack.get(self._nodes[name].zone)}

    def _of_zones(self, names: Collection[str]) -> Collection[str]:
        # Where no pod may go, none is counted.
        zones = {node.zone for node in self._nodes.values() if node.is_open}
        most, least = self._counts(
            "even", lambda n: self._nodes[n].zone if self._nodes[n].is_open else ""
        )
        # A zone is not compared with itself: where a pod on its way ends there, both sides have it.
        fewest = {
            zone: min((least[other] for other in zones - {zone}), default=most[zone])
            for zone in ZONES
        }
        return {n for n in names if most[zone := self._nodes[n].zone] < fewest[zone] + MOST_SKEW}

    def _has_card(self, name: str) -> bool:
        taken: Counter[int] = Counter()
        for pod in self._others.values():
            if pod["spec"].get("nodeName") == name:
                claims = json.loads(pod["metadata"].get("annotations", {}).get(TAKEN, "{}"))
                for claim in claims.values():
                    taken.update(dict.fromkeys(claim["cards"], claim["take"]["milli"]))
        return any(taken[card] + CARD_PART <= CARD for card in range(CARDS_A_NODE))

    def _counted(self, app: str) -> Mapping[str, Object]:
        return {
            key: pod
            for key, pod in self._others.items()
            if pod["metadata"]["labels"].get("app") == app
            and HOSTILE not in pod["metadata"]["labels"]
            and not (app in WITHOUT_ENDING and "deletionTimestamp" in pod["metadata"])
        }

    def _counts(self, app: str, group: Callable[[str], str]) -> tuple[Counter[str], Counter[str]]:
        """How many there may be in each group at most, and how many there are for sure."""
        least: Counter[str] = Counter()
        most: Counter[str] = Counter()
        for key, pod in self._counted(app).items():
            if node := pod["spec"].get("nodeName"):
                groups = {group(node)} if node in self._nodes else set()
                least.update(groups)
            else:
                groups = {group(n) for n in self._flights.get(key, ()) if n in self._nodes}
            most.update(groups)
        return most, least


def _phase(pod: Object) -> str:
    return str(pod.get("status", {}).get("phase", ""))
