"""A pod that is rejected again and again: what kube-scheduler is told, and whom we wake up."""

from __future__ import annotations

import math
from dataclasses import dataclass

import pytest

from engine.decision.recent_answers import AfterDecision, RejectedPods
from engine.decision.verdict import FURTHER, Feasible
from engine.engine import Engine
from engine.errors import EngineError
from engine.program.policy_time import DecisionTime
from tests.support.builders import node, pod, raw
from tests.support.engines import cache_of, engine_over, node_of
from tests.support.fake_clock import HandClock

PARTS = "abc"
NAMES = [f"n{number}" for number in range(30)]
_CLAUSES = "".join(
    f'filter "not {part}" {{ require node.labels["part"] != "{part}" message "{part} is closed" }}'
    for part in PARTS
)
THREE = f"cluster policy three {{ {_CLAUSES} }}"
ASKED = raw(pod("web", "shop"))
# The text of a damped rejection by all three.
ALL = "; ".join(f"policy three: {part} is closed" for part in "abc")


@dataclass
class Asked:
    """An engine over thirty nodes, and kube-scheduler's sample of them, which goes round."""

    policies: str = THREE
    time: float = 1000.0
    at: int = 0

    def __post_init__(self) -> None:
        self.cache = cache_of(())
        for number, name in enumerate(NAMES):
            self.put(name, PARTS[number % 3])
        self.engine: Engine = engine_over(
            self.policies, self.cache, time=DecisionTime(lambda: self.time)
        )

    def put(self, name: str, part: str) -> None:
        self.cache.put_node(node_of(node(name, labels={"part": part})))

    def ask(self, sample: int = 10) -> str:
        """The text that kube-scheduler makes of the answer; a node that passes is `ok`."""
        names = [NAMES[(self.at + number) % len(NAMES)] for number in range(sample)]
        self.at += sample
        try:
            verdicts = list(self.engine.filter(ASKED, names, None, math.inf))
        except EngineError as error:
            return f"error: {error}"
        texts = ["ok" if isinstance(v, Feasible) else v.reason for v in verdicts]
        return ", ".join(sorted(f"{texts.count(text)} {text}" for text in set(texts)))


def test_the_text_stops_changing() -> None:
    asked = Asked()
    first = [asked.ask() for _ in range(3)]
    assert len(set(first)) == 3, "the counts go round with the sample"
    then = [asked.ask() for _ in range(3)]
    assert set(then) == {f"10 {ALL}"}
    asked.time += 10_000.0
    assert asked.ask() == then[0], "it is remembered as long as the pod is rejected"


def test_errors_follow_if_that_does_not_help() -> None:
    asked = Asked()
    texts = [asked.ask() for _ in range(20)]
    assert set(texts[6:]) == {f"error: {ALL}"}


def test_a_requeue_of_ours_is_no_loop() -> None:
    """A pod that loses a race for a free place is Unschedulable all the time."""
    cache = cache_of([node("n1", labels={"part": "a"})])
    clock = HandClock()
    rejected = RejectedPods(clock, 1.0, 60.0)
    # By its own clock no time passes: only rejections are counted.
    after = AfterDecision(lambda: 0.0, rejected=rejected)
    engine = engine_over(THREE, cache, after=after)

    def ask() -> None:
        assert len(engine.filter(ASKED, ["n1"], None, math.inf)) == 1

    ask()
    for _ in range(20):
        clock.seconds += 60.0
        (due,) = rejected.due()
        rejected.requeued(due)
        ask()
    ask()
    ask()
    with pytest.raises(EngineError):
        ask()


def test_a_node_that_passes_is_offered_at_once() -> None:
    asked = Asked()
    for _ in range(20):
        asked.ask(30)
    asked.put("n7", "d")
    assert asked.ask(30).startswith("1 ok")
    assert asked.ask(30).startswith("1 ok")
    asked.put("n7", "b")
    parts = ", ".join(f"10 policy three: {part} is closed" for part in "abc")
    assert asked.ask(30) == parts, "as it is"


@pytest.mark.parametrize(
    ("reasons", "is_ours"),
    [
        ("0/30 nodes are available: 10 a is closed, 10 b is closed, 10 c is closed.", True),
        ("0/30 nodes are available: 10 policy three: a is closed, 20 Insufficient cpu.", True),
        (f"0/30 nodes are available: 30 {ALL}.", True),
        ("0/30 nodes are available: 10 policy four: a is closed.", False),
        ("0/30 nodes are available: 30 a is closed; b is closed. preemption: 0/30 …", True),
        ("0/30 nodes are available: 20 Insufficient cpu, 10 c is closed.", True),
        (f"0/30 nodes are available: 30 {FURTHER}.", True),
        (
            "0/30 nodes are available: 30 placet: held back: another pod may be on its way there.",
            True,
        ),
        ("0/30 nodes are available: 20 Insufficient cpu, 10 placet: node not yet known.", True),
        ("0/30 nodes are available: 30 Insufficient cpu.", False),
        ("0/30 nodes are available: 30 zona is closed.", False),
        ("0/30 nodes are available: 30 a is closed for ever.", False),
        ("", False),
    ],
)
def test_our_reasons_are_recognized(reasons: str, is_ours: bool) -> None:
    engine = Asked().engine
    assert engine.looks.has_refused(engine.looks.read(ASKED), reasons) is is_ours


def test_reasons_of_policies_that_do_not_concern_the_pod_are_not_ours() -> None:
    other = THREE.replace("{", '{ for pods where pod.name == "other" ', 1)
    engine = Asked(other).engine
    assert not engine.looks.has_refused(engine.looks.read(ASKED), "1 a is closed.")


def test_the_reasons_of_strict_counts_are_ours() -> None:
    rules = 'cluster policy one { limit "one" { per node at most 1 strict message "one each" } }'
    engine = Asked(rules).engine
    assert engine.looks.has_refused(
        engine.looks.read(ASKED), "0/3 nodes are available: 3 one each."
    )
