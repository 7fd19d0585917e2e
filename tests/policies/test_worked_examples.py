"""Worked examples of a PlacementPolicy: pods arrive one by one or at once and are placed."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence

import pytest

from engine.cache.store import pods as pod_store
from engine.clauses.programs import compile_policy
from engine.decision.registry import Registry
from engine.decision.verdict import Feasible
from engine.engine import Engine
from engine.errors import WaitingError
from engine.objects.request_pod import decode_namespace
from policies.admission import check_object
from tests.support.builders import (
    Object,
    cluster_placement_policy,
    namespace,
    node,
    on_wanted,
    placement_policy,
    pod,
    raw,
)
from tests.support.engines import CODEC, SCHEMA, Known, Silent, cache_of

NODES = [
    node("w1", labels={"node": "want"}),
    node("w2", labels={"node": "want"}),
    node("w3", labels={"node": "unwant"}),
]
ALL = ("w1", "w2", "w3")


class Play:
    """kube-scheduler's part: asks, takes the best node that passes, and binds."""

    def __init__(self, *manifests: Object) -> None:
        self._cache = cache_of(NODES)
        self._store = pod_store(CODEC, self._cache)
        checked = [check_object("policy", raw(m), SCHEMA).file for m in manifests]
        assert not any(d for file in checked for d in file.diagnostics if d.severity == "error")
        registry = Registry(compile_policy(p) for file in checked for p in file.policies)
        self.seen = Silent()
        self._engine = Engine(registry, Known(self._cache), CODEC, self.seen)
        self._cache.add_event_handler(self._engine.in_flight.pod_changed)
        self._revision = 0

    def name_space(self, name: str, **labels: str) -> None:
        self._cache.put_namespace(decode_namespace(raw(namespace(name, labels))))

    def shows(self, each: Object) -> None:
        """A watch shows the pod as it is."""
        self._revision += 1
        metadata = each["metadata"] | {"resourceVersion": str(self._revision)}
        key = f"{metadata['namespace']}/{metadata['name']}"
        self._store.upsert(key, str(self._revision), raw(each | {"metadata": metadata}))

    def goes(self, each: Object, nodes: Sequence[str] = ALL) -> str | None:
        """Where it is sent; None if it must wait."""
        try:
            verdicts = self._engine.filter(raw(each), nodes, None, math.inf)
        except WaitingError:
            return None
        passing = [n for n, v in zip(nodes, verdicts, strict=True) if isinstance(v, Feasible)]
        if not passing:
            return None
        scores = self._engine.prioritize(raw(each), passing, None, math.inf) or [0] * len(passing)
        return max(zip(scores, passing, strict=True))[1]

    def one_by_one(self, pods: Sequence[Object], nodes: Sequence[str] = ALL) -> list[str | None]:
        """Each comes when the one before it is on its node."""
        found = []
        for each in pods:
            self.shows(each)
            found.append(self._placed(each, self.goes(each, nodes)))
        return found

    def at_once(self, pods: Sequence[Object], nodes: Sequence[str] = ALL) -> list[str | None]:
        """All are there before the first is asked about.

        They are seen on their nodes after the last, or when a pod finds no place beside them.
        """
        for each in pods:
            self.shows(each)
        found, unseen = list[str | None](), list[tuple[Object, str | None]]()
        for each in pods:
            where = self.goes(each, nodes)
            if where is None:
                for other, there in unseen:
                    self._placed(other, there)
                unseen.clear()
                where = self.goes(each, nodes)
            found.append(where)
            unseen.append((each, where))
        for other, there in unseen:
            self._placed(other, there)
        return found

    def _placed(self, each: Object, where: str | None) -> str | None:
        if where is not None:
            self.shows(each | {"spec": each["spec"] | {"nodeName": where}})
        return where


def webs(count: int, first: int = 0, namespace: str = "default") -> list[Object]:
    return [
        pod(f"web-{number}", namespace, labels={"app": "web"})
        for number in range(first, first + count)
    ]


def sides(found: Sequence[str | None]) -> tuple[int, int]:
    """How many are on w1 and w2, and how many on w3; all must be somewhere."""
    assert None not in found
    counts = Counter(where == "w3" for where in found)
    return counts[False], counts[True]


@pytest.mark.parametrize("way", ["one by one", "at once"])
@pytest.mark.parametrize(
    ("size", "target", "count", "wanted"),
    [
        ("40%", {}, 10, (4, 6)),
        ("40%", {}, 1, (0, 1)),
        ("40%", {}, 5, (2, 3)),
        ("80%", {}, 5, (4, 1)),
        (2, {}, 5, (2, 3)),
        (9, {}, 5, (5, 0)),
        (0, {}, 5, (0, 5)),
        ("0%", {}, 5, (0, 5)),
        ("100%", {}, 5, (5, 0)),
        ("40%", {"action": "MustNot"}, 10, (6, 4)),
        ("80%", {"action": "MustNot"}, 5, (1, 4)),
        ("40%", {"action": "MustNot"}, 1, (0, 1)),
        ("33%", {"action": "MustNot"}, 10, (6, 4)),
        (2, {"action": "MustNot"}, 5, (3, 2)),
        (9, {"action": "MustNot"}, 5, (0, 5)),
    ],
    ids=lambda value: str(value).replace(" ", ""),
)
def test_strict_and_exact(
    way: str, size: int | str, target: dict[str, str], count: int, wanted: tuple[int, int]
) -> None:
    """`Must` is t = floor(p * N) or the count; `MustNot` is N - ceil(p * N)."""
    play = Play(placement_policy(on_wanted(size, **target)))
    found = play.at_once(webs(count)) if way == "at once" else play.one_by_one(webs(count))
    assert sides(found) == wanted


def test_ordered_pods_go_off_off_on_off_on() -> None:
    play = Play(placement_policy(on_wanted("40%")))
    found = play.one_by_one(webs(5))
    assert ["off" if where == "w3" else "on" for where in found] == "off off on off on".split()


def test_best_effort_comes_as_near() -> None:
    play = Play(placement_policy(on_wanted("40%", "BestEffort")))
    assert sides(play.one_by_one(webs(3))) == (1, 2)


def test_best_effort_pods_always_find_a_node() -> None:
    """Here w1 and w2 are full, so that kube-scheduler offers only w3."""
    play = Play(placement_policy(on_wanted("40%", "BestEffort")))
    assert sides(play.one_by_one(webs(3), ["w3"])) == (0, 3)


def test_strict_pods_wait_for_the_side_that_has_room() -> None:
    play = Play(placement_policy(on_wanted("100%")))
    assert play.one_by_one(webs(2), ["w3"]) == [None, None]
    assert ("rejected", "default/web", "placementPolicy", 1) in play.seen.heard


def test_workloads_that_share_labels_are_counted_together() -> None:
    play = Play(placement_policy(on_wanted("40%")))
    first, second = play.at_once(webs(5)), play.at_once(webs(5, first=5))
    assert sides([*first, *second]) == (4, 6)


def test_pods_that_are_not_selected_are_free() -> None:
    play = Play(placement_policy(on_wanted("80%")))
    other = pod("other", labels={"app": "else"})
    play.shows(other)
    assert sides(play.at_once(webs(5))) == (4, 1)
    assert play.goes(other, ["w1"]) == "w1"
    assert play.goes(other, ["w3"]) == "w3"


def test_at_most_on_ephemeral_nodes() -> None:
    """The proposal's first use case: the rest goes anywhere else, even where no other side is."""
    play = Play(placement_policy(on_wanted("40%", bound="AtMost")))
    assert sides(play.at_once(webs(10), ["w3"])) == (0, 10)
    play = Play(placement_policy(on_wanted("40%", bound="AtMost")))
    assert sum(where is not None for where in play.at_once(webs(10), ["w1", "w2"])) == 4


def test_at_least_on_cheap_nodes() -> None:
    """Its second: those that do not fit there flow over."""
    play = Play(placement_policy(on_wanted("80%", "BestEffort", bound="AtLeast")))
    assert sides(play.one_by_one(webs(5))) >= (4, 0)
    assert sides(play.one_by_one(webs(5, first=5), ["w3"])) == (0, 5)


def test_pods_of_other_namespaces_are_not_counted() -> None:
    play = Play(placement_policy(on_wanted("40%")))
    assert sides(play.at_once(webs(10, namespace="other"), ["w1"])) == (10, 0)
    assert sides(play.at_once(webs(10))) == (4, 6)


def test_cluster_policy_counts_everywhere_it_selects() -> None:
    """Namespaces a and b are selected and counted together; c is neither."""
    spec = on_wanted("40%") | {"namespaceSelector": {"matchLabels": {"team": "x"}}}
    play = Play(cluster_placement_policy(spec))
    for name, team in (("a", "x"), ("b", "x"), ("c", "y")):
        play.name_space(name, team=team)
    assert sides(play.at_once(webs(10, namespace="c"), ["w1"])) == (10, 0)
    both = [*webs(5, namespace="a"), *webs(5, namespace="b")]
    assert sides(play.at_once(both)) == (4, 6)
    # From now on the ten pods of c are pods of the policy too, and all of them are on w1.
    play.name_space("c", team="x")
    assert sides(play.at_once(webs(1, first=10, namespace="a"))) == (0, 1)


def test_empty_pod_selector_is_every_pod() -> None:
    namespaced = placement_policy(on_wanted("40%") | {"podSelector": {}})
    assert sides(Play(namespaced).at_once(webs(10))) == (4, 6)
    guardrail = cluster_placement_policy(on_wanted("40%") | {"podSelector": {}})
    play = Play(guardrail)
    assert sides([*play.at_once(webs(5, namespace="a")), *play.at_once(webs(5))]) == (4, 6)


def test_audit_rejects_nothing_and_reports() -> None:
    play = Play(placement_policy(on_wanted("0%", "Audit")))
    assert play.at_once(webs(1), ["w1"]) == ["w1"]


def test_greater_weight_governs() -> None:
    light = placement_policy(on_wanted("0%") | {"weight": 200}, "light")
    heavy = placement_policy(on_wanted("100%") | {"weight": 300}, "heavy")
    assert sides(Play(light, heavy).at_once(webs(5))) == (5, 0)


def test_strict_governs_before_best_effort_of_the_same_weight() -> None:
    wish = placement_policy(on_wanted("0%", "BestEffort"), "a")
    strict = placement_policy(on_wanted("100%"), "b")
    assert sides(Play(wish, strict).at_once(webs(5))) == (5, 0)


def test_rules_decide_beside_the_declarative_part() -> None:
    rules = 'filter "not w1" { require node.name != "w1" }'
    play = Play(placement_policy(on_wanted("40%") | {"rules": rules}))
    found = play.at_once(webs(10))
    assert sides(found) == (4, 6)
    assert "w1" not in found
