"""The nodes that a pod is offered while others that take cards are in flight."""

from __future__ import annotations

import math

import pytest

from engine.cards.node_cards import TAKEN, Taken, annotation
from engine.decision.verdict import Feasible, HeldBack
from engine.engine import Engine
from engine.errors import WaitingError
from engine.objects.codec import ObjectCodec
from tests.support.builders import Object, node, pod, raw
from tests.support.engines import SCHEMA, Known, Silent, cache_of, registry_of

CODEC = ObjectCodec(SCHEMA, (TAKEN,))
HALF = 'take {"milli": int(pod.annotations["milli"])}'
FULL = "nobody: no card has room"


def policy(take: str = HALF, cards: int = 1) -> str:
    return f"""policy nobody {{
      for pods where "milli" in pod.annotations
      cards "gpu" {{ on node {cards} of {{"milli": 1000}} {take} message "no card has room" }}
    }}"""


class Burst:
    """kube-scheduler and its pods; nothing is bound until `bind`."""

    def __init__(self, text: str, nodes: str, **there: int) -> None:
        """`there` is what one pod takes of a node's first card."""
        self.cache = cache_of([node(name) for name in nodes])
        for name, milli in there.items():
            self.cache.put_pod(CODEC.peer(raw(taking(f"on-{name}", milli, name, 0))))
        self.engine = Engine(registry_of(text), Known(self.cache), CODEC, Silent())
        self.cache.add_event_handler(self.engine.in_flight.pod_changed)
        self.nodes = nodes

    def ask(self, name: str, milli: int = 500, group: str = "") -> str:
        """The nodes that a pod is offered; `waits` where the answer is an error."""
        spec = {"schedulingGroup": {"podGroupName": group}} if group else {}
        asked = pod(name, annotations={"milli": str(milli)}, spec=spec)
        try:
            found = self.engine.filter(raw(asked), list(self.nodes), None, math.inf)
        except WaitingError as error:
            assert str(error) == "waiting for in-flight pods: no card has room"  # noqa: PT017
            return "waits"
        named = zip(self.nodes, found, strict=True)
        assert {v.reason for v in found if not isinstance(v, Feasible)} <= {
            f"policy {FULL}",
            FULL,
            "no card has room",
            HeldBack.reason,
        }
        return "".join(n for n, v in named if isinstance(v, Feasible))

    def bind(self, name: str, milli: int, to: str, card: int) -> None:
        self.cache.put_pod(CODEC.peer(raw(taking(name, milli, to, card))))


def taking(name: str, milli: int, on: str, card: int) -> Object:
    text = annotation({"gpu": Taken((card,), {"milli": milli})})
    return pod(name, on=on, annotations={"milli": str(milli), TAKEN: text})


def test_a_pod_alone_gets_every_node_with_room() -> None:
    assert Burst(policy(), "abc", b=600).ask("p") == "ac"


def test_the_next_pod_does_not_get_what_one_in_flight_may_take() -> None:
    """Two filters that pick one card are what other extenders are known for."""
    burst = Burst(policy(), "a")
    assert [burst.ask("p", 1000), burst.ask("q")] == ["a", "waits"]
    burst.bind("p", 1000, "a", 0)
    assert burst.ask("q") == ""


def test_while_pods_are_in_flight_an_offer_leaves_room_for_one_more() -> None:
    """Two halves a node: one wide offer; then one node each; then nobody until one is bound."""
    burst = Burst(policy(), "abc")
    asked = [burst.ask(f"p{number}") for number in range(6)]
    assert (asked[0], sorted(asked[1:4]), asked[4:]) == ("abc", ["a", "b", "c"], ["waits"] * 2)
    burst.bind("p0", 500, "b", 0)
    assert [*sorted([burst.ask("p6"), burst.ask("p7")]), burst.ask("p8")] == ["a", "c", "waits"]


@pytest.mark.parametrize(
    ("milli", "wanted"), [(300, "a"), (400, "waits"), (500, "waits"), (1000, "waits")]
)
def test_pods_of_other_sizes_hold_what_could_be_in_the_way(milli: int, wanted: str) -> None:
    """One of 600 is counted as two of 300 or of 400, so some wait although they would fit."""
    burst = Burst(policy(cards=2), "a")
    assert [burst.ask("p", 600), burst.ask("q", 600), burst.ask("r", milli)] == ["a", "a", wanted]


def test_pods_of_one_group_are_held_as_one_request() -> None:
    """kube-scheduler asks about all of them before one is bound: 16 halves on 16 cards."""
    burst = Burst(policy(cards=4), "abcd")
    assert {burst.ask(f"p{number}", group="training") for number in range(16)} == {"abcd"}
    for name in "abcd":
        burst.bind(f"on-{name}", 500, name, 0)
    asked = {burst.ask(f"q{number}", 1000, "training") for number in range(16)}
    assert asked == {"abcd"}, "not one node for all of them"
    assert burst.ask("other") == "waits"
    assert burst.ask("another", group="more") == "waits"


@pytest.mark.parametrize(("number", "wanted"), [(1, ["abc"]), (4, ["a", "b", "c"]), (5, ["waits"])])
def test_whole_cards(number: int, wanted: list[str]) -> None:
    """One pod takes four of eight cards."""
    text = policy('take int(pod.annotations["milli"]) of {"milli": 1000}', cards=8)
    burst = Burst(text, "abc")
    assert burst.ask("p", 4) == "abc"
    assert burst.ask("q", number) in wanted


def test_pods_without_cards_hold_none() -> None:
    text = policy() + 'policy other { for pods where "other" in pod.annotations }'
    burst = Burst(text, "a")
    plain = pod("plain", annotations={"other": ""})
    assert len(burst.engine.filter(raw(plain), ["a"], None, math.inf)) == 1
    assert burst.ask("p", 1000) == "a"
