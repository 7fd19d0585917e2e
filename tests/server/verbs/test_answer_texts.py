"""Texts of an answer: short, in one line, made once, and not too many, whatever a policy writes."""

from __future__ import annotations

import json
import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.decision.journal import Journal
from engine.decision.recent_answers import AfterDecision
from engine.decision.verdict import (
    FEASIBLE,
    FURTHER,
    MOST_REPEATED,
    MOST_TEXTS,
    Decision,
    Rejected,
    Verdict,
    decision,
    texts,
)
from engine.engine import Engine
from engine.program.frame import Frame
from engine.program.operations import message
from grammar.messages.texts import MOST_SHOWN, MOST_WHOLE
from server.call import CallRecord
from server.verbs.answering import DecisionQueue
from server.verbs.filter import AnsweredNames, FilterVerb, NameFragments
from tests.support.builders import Object, node, pod, raw
from tests.support.engines import (
    CODEC,
    Fixed,
    Silent,
    evaluation_of,
    frame_of,
    registry_of,
    snapshot_of,
)

NODES = [f"n{i}" for i in range(200)]
HEAD = 'policy a in namespace "default"'
DOUBLE = "def d(s: string): string = s + s"
POD = pod("p", labels={"app": "0123456789"})


def doubled(text: str, times: int) -> str:
    for _ in range(times):
        text = f"d({text})"
    return text


def policy(said: str, rule: str = 'node.name == "zz"') -> str:
    return f'{HEAD} {{ {DOUBLE} filter "f" {{ require {rule} message "{said}" }} }}'


def engine_of(text: str, observer: Silent, journal: Journal | None = None) -> Engine:
    snapshot = snapshot_of([node(name) for name in NODES])
    return Engine(
        registry_of(text), Fixed(snapshot), CODEC, observer, after=AfterDecision(journal=journal)
    )


def answer(text: str, observer: Silent, asked: Object = POD) -> bytes:
    """The body that kube-scheduler gets about 200 nodes."""
    verb = FilterVerb(
        engine_of(text, observer),
        DecisionQueue(1),
        AnsweredNames(),
        NameFragments(),
        resolvable_rejections=False,
    )
    body = json.dumps({"Pod": asked, "NodeNames": NODES})
    answered = verb.decide(body.encode(), CallRecord("filter", 0.0))
    assert isinstance(answered, bytes), "no pod is in flight"
    return answered


def reasons(body: bytes) -> set[str]:
    failed: dict[str, str] = json.loads(body)["FailedAndUnresolvableNodes"]
    assert len(failed) == len(NODES)
    return set(failed.values())


# ---- one text


@pytest.mark.parametrize("times", [5, 14])
def test_a_long_message_is_cut(times: int) -> None:
    """What is shown does not depend on how long it is; the whole is reported once for a call."""
    observer = Silent()
    hole = doubled("pod.name + pod.labels['app']", times)
    body = answer(policy(f"{{{hole}}}"), observer)
    (text,) = reasons(body)
    assert len(text) == MOST_SHOWN
    assert text == f"policy a: {'p0123456789' * 30}"[: MOST_SHOWN - 1] + "…"
    assert len(body) < 200 * (MOST_SHOWN + 20)
    (told,) = [heard for heard in observer.heard if heard[0] == "shortened"]
    assert told[1:3] == ("default/a", "f")
    assert len(str(told[3])) <= MOST_WHOLE
    assert f"policy a: {told[3]}".startswith(text[:-1])


def test_a_short_message_is_not_reported() -> None:
    observer = Silent()
    assert reasons(answer(policy("needs {pod.name}"), observer)) == {"policy a: needs p"}
    assert [heard for heard in observer.heard if heard[0] == "shortened"] == []


@pytest.mark.parametrize("said", [r"a\n\u202eb", "{pod.labels['app']}"])
def test_a_message_is_one_line(said: str) -> None:
    asked = pod("p", labels={"app": "a\n\u202eb"})
    (text,) = reasons(answer(policy(said), Silent(), asked))
    assert text.endswith(r"\n\u202eb")
    assert text.isprintable()


def test_a_message_that_is_too_long_is_not_evaluated_to_its_end() -> None:
    def fails(_frame: Frame) -> object:
        raise AssertionError("it is beyond the limit")

    reported: list[str] = []
    made = message("p", "f", ["x" * MOST_WHOLE, "y", fails])
    evaluation = evaluation_of(frame_of(POD), report_text=lambda *told: reported.append(told[2]))
    assert made(evaluation) == "x" * (MOST_SHOWN - 1) + "…"
    assert reported == ["x" * (MOST_WHOLE - 1) + "…"]


def test_the_text_of_a_clause_is_made_once_for_all_its_errors() -> None:
    """Each node has an error of its own."""
    engine = engine_of(policy("no {pod.name}", "int(node.name) == 1"), Silent())
    verdicts = engine.filter(raw(POD), NODES, None, math.inf)
    failed = [v for v in verdicts if isinstance(v, Rejected) and v.error]
    assert len({v.error for v in failed}) == 200
    assert {v.reason for v in failed} == {"policy a: no p"}
    assert len({id(v.reason) for v in failed}) == 1


def test_the_text_of_an_error_is_cut_and_escaped() -> None:
    rule = f"int({doubled('node.name + pod.labels[`app`]', 9)}) == 1"
    engine = engine_of(policy("no", rule.replace("[`app`]", '["app"]')), Silent())
    verdicts = engine.filter(raw(POD), NODES, None, math.inf)
    failed = {v for v in verdicts if isinstance(v, Rejected) and v.error}
    assert failed
    assert all(len(v.error) <= MOST_SHOWN and v.error.isprintable() for v in failed)


def test_the_journal_counts_texts() -> None:
    """Its bound is in bytes: errors of a thousand nodes are kept for each of many pods."""
    sizes = []
    for said in ("a", "a" * 200):
        journal = Journal()
        engine_of(policy(said), Silent(), journal).filter(raw(POD), NODES, None, math.inf)
        sizes.append(journal.bytes)
    assert sizes[1] - sizes[0] == 199


# ---- all texts of an answer


def rejected(*reasons: str) -> list[Verdict]:
    return [Rejected(reason, "p", f"c{i}") for i, reason in enumerate(reasons)]


def test_ordinary_texts_stay() -> None:
    verdicts = [FEASIBLE, *rejected("no zone", "no disk"), Rejected("no", "p", "f", error="why")]
    assert texts(decision(verdicts)) == ["", "no zone", "no disk", "no"]


def test_too_many_texts_share_one() -> None:
    """Sixteen texts of the greatest length fit; the others say where to look."""
    verdicts = rejected(*(f"{i:03} {'x' * 252}" for i in range(100)))
    found = texts(decision(reversed(verdicts)))[1:]
    assert found == [FURTHER] * 84 + [f"{i:03} {'x' * 252}" for i in reversed(range(16))]


def test_with_many_nodes_texts_are_shorter() -> None:
    verdicts = (FEASIBLE, *rejected("x" * 256, "y" * 40))
    for nodes in (8_192, 20_000, 3 * MOST_REPEATED):
        decided = Decision(np.broadcast_to(np.int32(1), (nodes,)), verdicts)
        _, longest, _ = texts(decided)
        assert len(longest) == min(256, max(1, MOST_REPEATED // nodes))


@given(
    st.lists(st.text(st.characters(codec="utf-8"), max_size=600), max_size=60),
    st.integers(0, 100_000),
    st.randoms(use_true_random=False),
)
def test_the_sum_is_bounded_and_the_same_in_any_order(
    reasons: list[str], nodes: int, dice: Any
) -> None:
    codes = np.broadcast_to(np.int32(0), (nodes,))
    verdicts = [FEASIBLE, *rejected(*reasons)]
    found = dict(zip(["", *reasons], texts(Decision(codes, verdicts)), strict=True))
    assert sum(map(len, set(found.values()) - {FURTHER})) <= MOST_TEXTS
    assert max(map(len, found.values())) <= max(1, min(MOST_SHOWN, MOST_REPEATED // max(1, nodes)))
    shuffled = dice.sample(reasons, len(reasons))
    again = texts(Decision(codes, [FEASIBLE, *rejected(*shuffled)]))
    assert dict(zip(["", *shuffled], again, strict=True)) == found


def test_many_clauses_with_long_messages() -> None:
    """Each node is rejected by another clause; kube-scheduler joins all of their texts."""
    clauses = " ".join(
        f'filter "f{i}" when node.name == "n{i}" {{ require false message "{i} {"x" * 200}" }}'
        for i in range(200)
    )
    found = reasons(answer(f"{HEAD} {{ {clauses} }}", Silent()))
    assert sum(map(len, found)) <= MOST_TEXTS + len(FURTHER)
    assert FURTHER in found
