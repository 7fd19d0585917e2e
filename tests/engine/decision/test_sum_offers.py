"""The nodes that a pod is offered under a bound of a sum: many far from the bound, one near it."""

from __future__ import annotations

import math
from collections.abc import Mapping

import pytest

from engine.decision.verdict import Feasible
from engine.errors import WaitingError
from tests.support.builders import Object, node, pod, raw
from tests.support.engines import Silent, cache_of, engine_over, peer_of
from tests.support.rows import rows

NODES = "abcd"
ZONES = {"a": "x", "b": "x", "c": "y", "d": "y"}
SUM = 'sum peer.requests["cpu"] of all pods where true'


class Burst:
    """kube-scheduler and its pods, each with an amount; nothing is bound until `bind`."""

    def __init__(
        self, clauses: str, pods: Mapping[str, str], there: Mapping[str, str] = {}
    ) -> None:
        """`pods` has the amounts of the pods that wait, `there` one pod on some nodes."""
        self.pods = {name: pod(name, cpu=cpu) for name, cpu in pods.items()}
        bound = [pod(f"on-{name}", cpu=cpu, on=name) for name, cpu in there.items()]
        self.cache = cache_of(
            [node(name, zone) for name, zone in ZONES.items()], [*bound, *self.pods.values()]
        )
        self.observer = Silent()
        self.engine = engine_over(f"cluster policy p {{ {clauses} }}", self.cache, self.observer)
        self.cache.add_event_handler(self.engine.in_flight.pod_changed)

    def ask(self, name: str, nodes: str = NODES) -> str:
        """The nodes that a pod is offered; `waits` where the answer is an error."""
        try:
            found = self.engine.filter(raw(self.pods[name]), list(nodes), None, math.inf)
        except WaitingError:
            return "waits"
        return "".join(n for n, v in zip(nodes, found, strict=True) if isinstance(v, Feasible))

    def bind(self, name: str, to: str) -> None:
        bound: Object = self.pods[name]
        self.cache.put_pod(peer_of(bound | {"spec": bound["spec"] | {"nodeName": to}}))


def limit(scope: str, bound: str, what: str = SUM) -> str:
    return f'limit "l" {{ {what} per {scope} {bound} strict }}'


@rows(
    ("clauses", "there", "wanted"),
    {
        "empty node": (limit("node", "at most 3"), {}, "abcd"),
        "full ones": (limit("node", "at most 3"), {"a": "2", "b": "2500m"}, "acd"),
        "a thousandth too much": (limit("node", "at most 3"), {"a": "2001m"}, "bcd"),
        "as much as the pod": (limit("node", "at most 1"), {"a": "1"}, "bcd"),
        "a full zone": (limit("node.zone", "at most 3"), {"a": "3"}, "cd"),
        "the cluster": (limit("cluster", "at most 3"), {"a": "1"}, "abcd"),
        "all of it": (limit("cluster", "at most 3"), {"a": "1", "b": "2"}, ""),
        "at least": (limit("node", "at least 2"), {"a": "2", "c": "1"}, "a"),
        "and a filter": (
            limit("node", "at most 3") + ' filter "f" { require node.name != "d" }',
            {},
            "abc",
        ),
    },
)
def test_a_pod_alone_gets_every_node_with_room(
    clauses: str, there: Mapping[str, str], wanted: str
) -> None:
    assert Burst(clauses, {"p": "1"}, there).ask("p") == wanted


def test_while_others_wait_an_offer_leaves_room_for_one_more() -> None:
    """Three on each node: two wide offers; then one node each; then nobody until one is bound."""
    burst = Burst(limit("node", "at most 3"), {f"p{number}": "1" for number in range(9)})
    asked = [burst.ask(f"p{number}") for number in range(7)]
    assert asked[:2] == ["abcd", "abcd"]
    assert (sorted(asked[2:6]), asked[6]) == (list("abcd"), "waits")
    burst.bind("p0", "a")
    assert burst.ask("p7") in list("bcd"), "`a` is full of what may land there"


def test_slots_for_one_pod_a_node_fill_at_once() -> None:
    burst = Burst(limit("node", "at most 1"), dict.fromkeys("pqrst", "1"))
    assert sorted(burst.ask(name) for name in "pqrs") == list("abcd")
    assert burst.ask("t") == "waits"
    for name, to in zip("pqrs", NODES, strict=True):
        burst.bind(name, to)
    assert burst.ask("t") == ""


def test_far_from_the_bound_all_nodes_are_offered_to_a_burst() -> None:
    """At a tenth of the bound kube-scheduler chooses, also for pods that are in flight together."""
    there = dict.fromkeys(NODES, "1")
    burst = Burst(limit("node", "at most 10"), {f"p{n}": "500m" for n in range(10)}, there)
    assert {burst.ask(f"p{number}") for number in range(10)} == {NODES}


def test_nodes_that_are_nearly_full_stay_in_a_wide_offer() -> None:
    """Who packs pods finds them; the next pod has room elsewhere."""
    burst = Burst(limit("node", "at most 4"), {"p": "1", "q": "1"}, {"a": "3", "b": "3"})
    assert [burst.ask("p"), burst.ask("q")] == ["abcd", "cd"]


def test_an_offer_is_narrow_for_each_clause_that_needs_it() -> None:
    """`other` is near its bound in every zone, the sum on no node."""
    other = limit("node.zone", "at most 1").replace('"l"', '"other"')
    burst = Burst(limit("node", "at most 9") + other, {"p": "1", "q": "1", "r": "1"})
    assert sorted([burst.ask("p"), burst.ask("q")]) == ["ab", "cd"]
    assert burst.ask("r") == "waits"


def test_a_node_that_a_filter_rejects_is_no_room_for_the_next_pod() -> None:
    """Only `a` has room for two, and the filter keeps pods off it."""
    clauses = limit("node", "at most 2") + ' filter "f" { require node.name != "a" }'
    burst = Burst(clauses, {"p": "1", "q": "1"}, {"b": "1", "c": "1", "d": "1"})
    asked = [burst.ask("p"), burst.ask("q")]
    assert sorted("".join(asked)) == list("bcd"), "one node is left to the other pod"


def test_a_large_pod_waits_for_small_ones_and_not_for_ever() -> None:
    burst = Burst(limit("node", "at most 4"), {"small": "1", "large": "4", "huge": "5"})
    assert burst.ask("small") == NODES
    assert burst.ask("large") == "waits"
    assert burst.ask("huge") == "", "no binding makes room for it"
    burst.bind("small", "a")
    assert burst.ask("large") in ("bc", "bd", "cd"), "one is left to the other pod that waits"


def test_a_pod_that_adds_nothing_is_offered_what_is_not_beyond_the_bound() -> None:
    burst = Burst(limit("node", "at most 2"), {"p": "0", "q": "2"}, {"a": "2", "b": "3"})
    assert burst.ask("p") == "acd"


def test_the_binding_looks_at_bound_pods_alone() -> None:
    """With a bindVerb the amount is checked where the pod goes."""
    burst = Burst(limit("node", "at most 3"), {"p": "2", "q": "2"})
    assert burst.engine.admit(raw(burst.pods["p"]), "a", math.inf).is_counted
    burst.bind("p", "a")
    with pytest.raises(WaitingError):
        burst.engine.admit(raw(burst.pods["q"]), "a", math.inf)
    assert burst.engine.admit(raw(burst.pods["q"]), "b", math.inf).is_counted


def test_what_other_pods_lack_is_reported_once_for_each_change() -> None:
    """The tally hears of it, however often kube-scheduler asks."""
    clause = limit("node", "at most 3", 'sum int(peer.labels["slots"]) of pods where true')
    burst = Burst(clause, {"p": "1"})
    burst.pods["p"]["metadata"]["labels"] = {"slots": "1"}
    for made in (burst.pods["p"], pod("there", on="a")):
        burst.cache.put_pod(peer_of(made))
    for _ in range(3):
        assert burst.ask("p") == NODES
    wanted = ("failed", "p", "l", "there is no key `slots`")
    assert [heard for heard in burst.observer.heard if heard[0] == "failed"] == [wanted]


def test_best_effort_prefers_nodes_with_room() -> None:
    clauses = f'limit "l" {{ {SUM} per node at most 2 weight 10 }}'
    burst = Burst(clauses, {"p": "1"}, {"a": "2", "b": "1"})
    assert burst.ask("p") == NODES
    scores = burst.engine.prioritize(raw(burst.pods["p"]), list(NODES), None, math.inf)
    assert scores is not None
    assert [int(each) for each in scores] == [0, 10, 10, 10]
