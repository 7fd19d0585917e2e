"""Cards clauses in decisions: the cards that are chosen, and room for pods on their way."""

from __future__ import annotations

import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.cards.fragmentation import CardShape
from engine.cards.node_cards import TAKEN, Taken, annotation, taken
from engine.decision.preemption import Victims
from engine.decision.verdict import Feasible, HeldBack
from engine.engine import Engine
from engine.errors import WaitingError
from engine.given_cards import shape
from engine.objects.request_pod import ObjectCodec
from engine.program.program import CardsProgram
from grammar.tree.source import Source
from policies.validation import check_source
from tests.support import builders
from tests.support.builders import Object, node, pod, raw
from tests.support.engines import (
    SCHEMA,
    Known,
    Silent,
    cache_of,
    checked,
    frame_of,
    given_cards,
    programs_of,
    registry_of,
)

CODEC = ObjectCodec(SCHEMA, (TAKEN,))


def engine(clauses: str, *pods: dict[str, Any], nodes: int = 1) -> Engine:
    cache = cache_of([builders.node(f"n{number}") for number in range(1, nodes + 1)])
    for each in pods:
        cache.put_pod(CODEC.peer(builders.raw(each)))
    text = f"policy gpu {{ for pods where true\n{clauses}\n}}"
    return Engine(registry_of(text), Known(cache), CODEC, Silent())


def on(name: str, node: str, *cards: int, clause: str = "gpu", **take: int) -> dict[str, Any]:
    text = annotation({clause: Taken(cards, take)})
    return builders.pod(name, on=node, annotations={TAKEN: text})


def given_to(found: Engine, node: str = "n1") -> dict[str, Taken]:
    """The cards of a new pod on a node."""
    admission = found.admit(builders.raw(builders.pod("new", cpu="1")), node, math.inf)
    return dict(taken(admission.annotations.get(TAKEN, "{}")))


def test_unlike_cards_and_several_amounts() -> None:
    clause = """cards "gpu" {
      on node [{"milli": 1000, "memory": 24}, {"milli": 1000, "memory": 80}]
      take {"milli": 500, "memory": 40}
    }"""
    assert given_to(engine(clause)) == {"gpu": Taken((1,), {"milli": 500, "memory": 40})}
    full = engine(clause, on("a", "n1", 1, memory=50))
    pod = builders.raw(builders.pod("new"))
    assert full.filter(pod, ["n1"], None, math.inf).codes.all()


def test_a_node_whose_cards_have_no_value_is_rejected_for_it_could_never_bind() -> None:
    cards = 'cards "gpu" { on node int(node.labels["gpus"]) of {"milli": 1} take {"milli": 1} }'
    found = engine(f"missing pass {cards}").filter(raw(pod("new")), ["n1"], None, math.inf)
    assert found.codes.all()


def test_several_clauses_are_written_together() -> None:
    clauses = """
      cards "gpu" { on node 2 of {"milli": 1000} take 2 of {"milli": 1000} }
      cards "nic" { on node 4 of {"vf": 8} take {"vf": 1} pick most card.index }
      cards "fpga" when pod.priority > 0 { on node 1 of {"whole": 1} take {"whole": 1} }
    """
    assert given_to(engine(clauses)) == {
        "gpu": Taken((0, 1), {"milli": 1000}),
        "nic": Taken((3,), {"vf": 1}),
    }


@pytest.mark.parametrize(
    ("pick", "card"),
    [
        ('pick least card.free["m"]', 1),
        ('pick most card.free["m"]', 2),
        ("", 0),
        ("pick most card.pods", 1),
    ],
)
def test_the_card_that_is_picked(pick: str, card: int) -> None:
    clause = f'cards "gpu" {{ on node 3 of {{"m": 10}} take {{"m": 2}} {pick} }}'
    found = engine(clause, on("a", "n1", 0, m=3), on("b", "n1", 1, m=2), on("c", "n1", 1, m=2))
    assert given_to(found)["gpu"].cards == (card,)


def test_scores_read_the_cards_and_those_that_are_chosen() -> None:
    clauses = """
      cards "gpu" { on node 2 of {"m": 10} take {"m": 5} pick least card.free["m"] }
      score "used" weight 1 { value node.chosen["gpu"].map(c, c.pods).sum() range 0 .. 1 }
    """
    found = engine(clauses, on("a", "n1", 1, m=2), nodes=2)
    pod = builders.raw(builders.pod("new"))
    scores = found.prioritize(pod, ["n1", "n2"], None, math.inf)
    assert scores is not None
    assert list(scores) == [10, 0]


def test_victims_free_their_cards() -> None:
    clause = 'cards "gpu" { on node 1 of {"m": 10} take {"m": 6} }'
    holder, other = on("holder", "n1", 0, m=6), on("other", "n1")
    found = engine(clause, holder, other)
    pod = builders.raw(builders.pod("new", priority=10))
    for victim, names in ((holder, {"n1"}), (other, set[str]())):
        proposed = {"n1": Victims([victim["metadata"]["uid"]], 0)}
        assert set(found.preempt(pod, proposed, math.inf)) == names


@pytest.mark.parametrize("in_flight", [False, True])
def test_a_pod_in_flight_holds_the_cards_of_victims(in_flight: bool) -> None:
    """It may end there as soon as they are gone, so another one would be refused at bind."""
    text = 'policy gpu { for pods where true cards "gpu" { on node 1 of {"m": 10} take {"m": 6} } }'
    cache = cache_of([builders.node("n1")])
    found = Engine(registry_of(text), Known(cache), CODEC, Silent())
    if in_flight:
        first = builders.raw(builders.pod("first", priority=10))
        assert list(found.filter(first, ["n1"], None, math.inf).codes) == [0]
    cache.put_pod(CODEC.peer(builders.raw(on("holder", "n1", 0, m=6))))
    pod = builders.raw(builders.pod("new", priority=10))
    holder = cache.pod("default/holder")
    assert holder is not None
    kept = found.preempt(pod, {"n1": Victims([holder.uid], 0)}, math.inf)
    assert set(kept) == (set() if in_flight else {"n1"})


def test_definitions_and_cards_can_use_each_other() -> None:
    text = """policy gpu {
      for pods where true
      let part = half * 2
      let busy = node.cards["gpu"].exists(c, c.pods > 0)
      let half = 250
      cards "gpu" { on node 2 of {"milli": 1000} take {"milli": part} }
      filter "busy" { require busy || node.chosen["gpu"].size() == 1 }
    }"""
    assert [policy.diagnostics for policy in checked(text)] == [()]


ISLAND = "filter(c, c.pods == 0 && c.index / 2 == card.index / 2).size()"


@pytest.mark.parametrize(
    ("definition", "pick", "more"),
    [
        ("", f'node.cards["gpu"].{ISLAND}', ""),
        ('let every = node.cards["gpu"]', f"every.{ISLAND}", ""),
        (
            f'def idle(card: Card, on: Node): int = on.cards["gpu"].{ISLAND}',
            "idle(card, node)",
            "",
        ),
        (
            'let taken = node.chosen["gpu"].size()',
            f'node.cards["gpu"].{ISLAND}',
            'write { "e.com/taken": string(taken) } detail "takes {taken}"',
        ),
    ],
)
def test_a_card_of_the_fullest_island_while_others_read_what_is_chosen(
    definition: str, pick: str, more: str
) -> None:
    clauses = f"""
      {definition}
      cards "gpu" {{ on node 4 of {{"m": 10}} take {{"m": 10}} pick least {pick} {more} }}
      score "any" weight 1 {{ value node.chosen["gpu"].map(c, c.index).sum() range 0 .. 3 }}
    """
    found = engine(clauses, on("a", "n1", 2, m=10))
    assert given_to(found)["gpu"].cards == (3,)
    scores = found.prioritize(builders.raw(builders.pod("new")), ["n1"], None, math.inf)
    assert scores is not None
    assert list(scores) == [10]


def test_cards_that_are_picked_by_those_of_another_clause() -> None:
    clauses = """
      let taken = node.chosen["gpu"].map(c, c.index).sum()
      cards "gpu" { on node 2 of {"m": 10} take {"m": 10} }
      cards "nic" { on node 4 of {"vf": 8} take {"vf": 1} pick most card.index == taken ? 1 : 0 }
    """
    assert given_to(engine(clauses, on("a", "n1", 0, m=10)))["nic"].cards == (1,)


@pytest.mark.parametrize(
    "clauses",
    [
        'cards "gpu" { on node node.cards["gpu"].size() of {"m": 1} take {"m": 1} }',
        'cards "gpu" { on node 2 of {"m": 1} take {"m": 1} pick least node.chosen["gpu"].size() }',
        """let taken = node.chosen["gpu"].size()
        cards "gpu" { on node 2 of {"m": 1} take {"m": 1} pick least taken }""",
        """cards "gpu" { on node 2 of {"m": 1} take {"m": 1} pick least node.chosen["nic"].size() }
        cards "nic" { on node 2 of {"m": 1} take {"m": 1} pick least node.chosen["gpu"].size() }""",
    ],
)
def test_cards_that_are_made_of_themselves(clauses: str) -> None:
    file = check_source(Source("p.policy", f"policy p {{ for pods where true {clauses} }}"), SCHEMA)
    assert {found.code for found in file.diagnostics} == {"P0110"}


def test_the_shape_of_a_pod() -> None:
    text = """policy gpu {
      for pods where true
      cards "gpu" { on node 2 of {"m": 10} take int(pod.annotations["n"]) of {"m": 5} }
    }"""
    (program,) = programs_of(text)
    (clause,) = program.of(CardsProgram)

    def of(**annotations: str) -> CardShape | None:
        return shape(clause, frame_of(builders.pod("a", cpu="1500m", annotations=annotations)))

    assert of(n="2") == CardShape(1500, 2, 5)
    assert of(n="0") == CardShape(1500, 0, 0)
    assert of() is None


def test_cards_without_amounts_have_no_fragmentation() -> None:
    clauses = """
      cards "gpu" { on node 2 of {} take {} pick most fragmentation("gpu") }
      score "s" weight 1 { value fragmentation("gpu") range -1 .. 1 }
    """
    found = engine(clauses)
    given_cards(found).measure_by({"gpu": [CardShape(1000, 1, 100)]})
    scores = found.prioritize(builders.raw(builders.pod("new")), ["n1"], None, math.inf)
    assert scores is not None
    assert list(scores) == [5]
    assert given_to(found) == {"gpu": Taken((0,), {})}


@given(
    st.lists(st.tuples(st.integers(0, 3), st.sampled_from([100, 300, 500])), max_size=8),
    st.lists(st.builds(CardShape, st.just(1000), st.integers(0, 2), st.integers(1, 1000))),
    st.integers(1, 2),
    st.integers(1, 600),
)
def test_cards_by_fragmentation_are_those_that_any_expression_with_it_picks(
    taken_by: list[tuple[int, int]], usual: list[CardShape], number: int, milli: int
) -> None:
    """It is worked out for all cards of a node at once."""
    pods = [on(f"p{n}", "n1", card, milli=each) for n, (card, each) in enumerate(taken_by)]

    def chosen(by: str) -> list[object]:
        clause = (
            f'cards "gpu" {{ on node 4 of {{"milli": 1000}} take {number} of {{"milli": {milli}}}'
            f" pick most {by} }}"
        )
        score = 'score "s" weight 1 { value fragmentation("gpu") range -1000 .. 1000 }'
        found = engine(f"{clause} {score}", *pods)
        given_cards(found).measure_by({"gpu": usual})
        body = builders.raw(builders.pod("new", cpu="1"))
        if found.filter(body, ["n1"], None, math.inf).codes.all():
            return ["no room"]
        scores = found.prioritize(body, ["n1"], None, math.inf)
        assert scores is not None
        return [given_to(found), *scores]

    assert chosen('fragmentation("gpu")') == chosen('(fragmentation("gpu") + 0.0)')


# ---- the nodes that a pod is offered while others that take cards are in flight


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
    assert burst.ask("another", group="more") == "", "an error would end the cycle of its group"


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
