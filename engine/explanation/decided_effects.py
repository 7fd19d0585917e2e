"""Decided effects: what each policy did in the last decisions, in a few words.

They are read of the journal, so they cost no evaluation. `engine.explanation.effects` says the same
of each clause of policies that decide nothing yet, by asking about the pods of a copy.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from itertools import islice
from typing import Literal

import numpy as np

from engine.decision.journal import DecisionRecord, Journal
from engine.decision.verdict import Failed, Rejected
from engine.explanation.effects import SAME_SCORE, all_nodes, ways
from engine.program.program import Program

# So many decisions are looked at, the newest ones.
MOST_DECISIONS = 50
# All nodes are rejected, or get the same score, if it was so for each of at least so many pods.
_LEAST = 3

Kind = Literal["", "SelectsNoPod", "RejectsEveryNode", "SameScore"]


@dataclass(frozen=True, slots=True)
class DecidedEffect:
    """What a policy did; `kind` says why it makes no difference or leaves no node, if it does so.

    `clauses` are those that reject every node.
    """

    kind: Kind
    text: str
    clauses: tuple[str, ...] = ()


@dataclass(slots=True)
class _PolicyDecisions:
    """What was seen of one policy; `rejected` has the pods for which it rejected every node."""

    pods: int = 0
    asked: int = 0
    rejected: int = 0
    nodes: int = 0
    clauses: set[str] = field(default_factory=set)
    scored: int = 0
    equal: int = 0
    taken_from: Counter[str] = field(default_factory=Counter)
    gave_way: Counter[str] = field(default_factory=Counter)


class DecidedEffects:
    """The effects of policies by their addresses, worked out again after further decisions."""

    def __init__(self, journal: Journal) -> None:
        self._journal = journal
        self._at = (0, 0)
        self._decisions = 0
        self._seen: Mapping[str, _PolicyDecisions] = {}

    def of(self, programs: Iterable[Program]) -> Mapping[str, DecidedEffect]:
        """The effect of each policy, while there are decisions under the policies in force."""
        journal = self._journal
        if (at := (journal.generation, journal.number)) != self._at:
            records = (r for r in journal if r.generation == journal.generation and not r.error)
            newest = [*islice(records, MOST_DECISIONS)]
            self._at, self._decisions, self._seen = at, len(newest), _seen(newest)
        if not self._decisions:
            return {}
        nothing = _PolicyDecisions()
        return {
            p.address: _effect(self._seen.get(p.address, nothing), p, self._decisions)
            for p in programs
            if not p.only_used
        }


def _seen(records: Iterable[DecisionRecord]) -> Mapping[str, _PolicyDecisions]:
    found: dict[str, _PolicyDecisions] = {}
    for record in records:
        policies = record.policies
        governing = policies.governing
        applying = [*policies.guardrails, *([governing] if governing is not None else [])]
        for address in (*applying, *policies.audited):
            found.setdefault(address, _PolicyDecisions()).pods += 1
        for loser in policies.gave_way:
            lost = found.setdefault(loser, _PolicyDecisions())
            lost.pods += 1
            if governing is not None:
                lost.gave_way[governing] += 1
                found[governing].taken_from[loser] += 1
        _add_answers(record, [found[address] for address in applying], found)
    return found


def _add_answers(
    record: DecisionRecord, applying: list[_PolicyDecisions], found: dict[str, _PolicyDecisions]
) -> None:
    if record.answered is not None and record.offered:
        codes = np.unique(record.answered.codes).tolist()
        verdicts = [record.answered.verdicts[code] for code in codes]
        refusals = [v for v in verdicts if isinstance(v, Rejected | Failed)]
        policies = {v.policy for v in refusals}
        for each in applying:
            each.asked += 1
        only = found.get(next(iter(policies))) if len(policies) == 1 else None
        if only is not None and len(refusals) == len(verdicts):
            only.rejected += 1
            only.nodes = max(only.nodes, record.offered)
            only.clauses.update(v.clause for v in refusals)
    if record.scored is not None and len(record.scored.points) > 1:
        points = record.scored.points
        for each in applying:
            each.scored += 1
            each.equal += bool((points == points[0]).all())


def _selected(pods: int, decisions: int) -> str:
    """How many of the last decisions were about pods that a policy selects."""
    if decisions == 1:
        return (
            "selected the last pod asked about"
            if pods
            else "did not select the last pod asked about"
        )
    return f"selected {pods or 'none'} of the last {decisions} pods asked about"


def _effect(seen: _PolicyDecisions, program: Program, decisions: int) -> DecidedEffect:
    text = _selected(seen.pods, decisions)
    text += ways(seen.taken_from, seen.gave_way)
    if not seen.pods:
        return DecidedEffect("SelectsNoPod", text)
    if seen.asked >= _LEAST and seen.rejected == seen.asked:
        return DecidedEffect(
            "RejectsEveryNode", f"{text}, rejects {all_nodes(seen.nodes)}", (*sorted(seen.clauses),)
        )
    if program.scores and seen.scored >= _LEAST and seen.equal == seen.scored:
        return DecidedEffect("SameScore", f"{text}, {SAME_SCORE}")
    return DecidedEffect("", text)
