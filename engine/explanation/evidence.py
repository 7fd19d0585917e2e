"""Evidence: every clause on one node for one pod, with the values that were read.

A value is evaluated in its own frame for this node, which no clause or policy changes.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import assert_never

import numpy as np

from engine.cache.tallies import FULL
from engine.cards.card_functions import CardFacts
from engine.cards.node_cards import Card, holders
from engine.counting.bounds import OFF, ON, GroupCounts, fewest, wanted_on
from engine.counting.groups import PRESENCES, PodInGroup
from engine.explanation.document import (
    ClauseOnNode,
    CountedPod,
    NodeCounts,
    ScoreTerm,
    TracedPart,
)
from engine.explanation.inspection import ClauseResults, Objection
from engine.explanation.written import Written, WrittenClauses
from engine.objects.peer import Peer, key_of
from engine.program.frame import Frame
from engine.program.operations import THOUSANDTHS
from engine.program.program import (
    BoundProgram,
    CountClause,
    FilterProgram,
    GangProgram,
    LimitProgram,
    RejectingProgram,
    ShareProgram,
    SpreadProgram,
)
from engine.work import Work
from grammar.clauses.cards import Cards
from grammar.clauses.limit import Limit
from grammar.clauses.score import Score
from grammar.meaning import card_forms as cards
from grammar.messages.texts import counted, named
from grammar.tree.ast import Expr, Ident
from grammar.tree.clause_parts import AnyClause
from grammar.values.errors import EvaluationError
from grammar.values.quantity import NANO, Quantity

# The most pods of one kind in a line, and of all in a list.
_PODS, _MOST_LISTED = 10, 100
# What is said of a limit that other pods have.
KEPT_OUT = "a pod that is there, or may end there, has this limit"


def clauses_on(
    written: WrittenClauses, found: ClauseResults, name: str, *, rejecting: bool = False
) -> Work[list[ClauseOnNode]]:
    """What each filter and each strict count says about a node, in the order of the policies.

    Its expressions are those that can differ between nodes. With `rejecting` only the clauses that
    reject the node are asked.
    """
    against, frame = found.against(name), found.inspection.frame_at(name)
    said = []
    for objection in against if rejecting else found.objections:
        clause = written.find(objection.policy, objection.name)
        refuses = objection in against
        said.append(
            ClauseOnNode(
                objection.policy,
                objection.name,
                objection.text,
                not refuses,
                clause.detail(frame) if refuses else "",
                [
                    written.expression(part, clause.traced(expr, frame))
                    for part, expr in told(objection.program, clause.clause)
                ],
                (yield from counted_on(objection, clause, found, name)),
            )
        )
        yield from found.inspection.pause()
    return said


def scores_on(written: WrittenClauses, found: ClauseResults, name: str) -> Iterator[ScoreTerm]:
    """The terms of the score of a node; none for a node that filter did not return.

    The shown values are differences of rounded sums, so that they add up to the rounded sum.
    """
    if name not in found.scores:
        return
    index, frame = list(found.scores).index(name), found.inspection.frame_at(name)
    total, so_far = sum(each.weight for each in found.given), 0.0
    for given in found.given:
        clause, value = written.find(given.policy, given.name), None
        if isinstance(clause.clause, Score):
            value = written.expression("value", clause.traced(clause.clause.value, frame))
        points = float(given.points[index])
        end = so_far + given.weight * points / total / 10
        adds = round(round(end, 2) - round(so_far, 2), 2)
        lacks = given.lacks_value(index)
        yield ScoreTerm(given.policy, given.name, given.weight, points, adds, lacks, value)
        so_far = end


def told(program: RejectingProgram, clause: AnyClause) -> Iterator[tuple[TracedPart, Expr]]:
    """The expressions of a clause that can differ between nodes."""
    when = program.count.when if isinstance(program, CountClause) else None
    # The `when` of a clause that counts is the same for every node unless it reads named counts.
    if clause.when is not None and (not program.counts_pods or (when and when.counts)):
        yield "when", clause.when
    if isinstance(program, LimitProgram) and isinstance(clause, Limit) and program.count.groups:
        assert isinstance(clause.bound.amount, Expr), "it reads something"
        yield "bound", clause.bound.amount
    yield from (("require", each) for each in clause.requirements)


def counted_on(
    objection: Objection, written: Written, found: ClauseResults, name: str
) -> Work[NodeCounts | None]:
    """What a clause counts for a node, of pods or of cards; None for one that counts nothing."""
    match objection.program:
        case FilterProgram():
            if isinstance(written.clause, Cards):
                return _card_evidence(written.clause, written, found.inspection.frame_at(name))
            return None
        case ShareProgram() | SpreadProgram() | LimitProgram() as counting:
            return (yield from _count_evidence(counting, objection, found, name))
        case GangProgram():
            # Its members are listed once, beside the nodes.
            return None
        case _:
            assert_never(objection.program)


def _counts(
    text: str, pods: Sequence[PodInGroup] = (), emptiest: Sequence[PodInGroup] = ()
) -> NodeCounts:
    here = [CountedPod(*pod) for pod in pods[:_MOST_LISTED]]
    beside = tuple([CountedPod(*pod) for pod in emptiest[:_MOST_LISTED]])
    more = len(pods) - len(here) + len(emptiest) - len(beside)
    return NodeCounts(text, here, beside, more)


def count_lines(counts: NodeCounts) -> Iterator[str]:
    """The counts of a clause for one node, and a line for the pods of each presence."""
    yield counts.text
    for pods, where in ((counts.pods, ""), (counts.emptiestDomain, ", in the emptiest one")):
        for presence in PRESENCES:
            if names := [each.name for each in pods if each.presence == presence]:
                yield f"  {presence}{where}: {named(names, _PODS)}"
    if counts.more:
        yield f"  and {counted(counts.more, 'more pod')}"


# ---- the cards of a node

_MOST_CARDS = 16


def _card_evidence(clause: Cards, written: Written, frame: Frame) -> NodeCounts:
    """What the pod takes, what is left of the cards of a node, and the pods on them."""
    node, span = Ident("node"), clause.name_span
    try:
        found = written.value(cards.cards(clause, node, span), frame)
        take, number = (
            written.value(expr, frame) for expr in (clause.take, cards.number(clause, span))
        )
    except EvaluationError as error:
        return _counts(str(error))
    assert isinstance(found, list | tuple), "the checker has seen its type"
    assert isinstance(take, Mapping), "the checker has seen its type"
    amounts = " and ".join(f"{amount} {name}" for name, amount in take.items())
    many = "1 card" if number == 1 else f"each of {number} cards"
    parts = [
        f"card {card.index} has {', '.join(_left(card, name) for name in take)}"
        for card in found[:_MOST_CARDS]
    ]
    if len(found) > _MOST_CARDS:
        parts.append(f"and {len(found) - _MOST_CARDS} more cards")
    there = "; ".join(parts) or "the node has no cards"
    pods: Sequence[Peer] = getattr(frame.node, "pods", None) or ()
    facts = frame.cardFacts
    assert isinstance(facts, CardFacts), "a frame has them"
    capacities = [card.capacity for card in found]
    there_are = holders(clause.name, capacities, pods, facts.claim)
    on_them = [
        PodInGroup(key_of(each.pod), "guessed" if each.is_guessed else "bound")
        for each in there_are
        if isinstance(each.pod, Peer)
    ]
    return _counts(f"the pod takes {amounts} of {many}; {there}", sorted(on_them))


def _left(card: Card, name: str) -> str:
    return f"{card.free.get(name, 0)} of {card.capacity.get(name, 0)} {name}"


# ---- the counts of a share, spread or limit for one node


def _count_evidence(
    clause: CountClause, objection: Objection, found: ClauseResults, name: str
) -> Work[NodeCounts]:
    """The counts of a clause for one node, and the pods that make them up."""
    inspection = found.inspection
    if objection.is_mutual:
        return _counts(KEPT_OUT, inspection.keepers(clause, name))
    counts, group = yield from inspection.group_counts(clause, name)
    text = count_text(clause, counts, group)
    if group < 0:
        return _counts(text)
    wanted, emptiest = _shown_groups(clause, counts, group)
    pods = yield from inspection.counting(clause, wanted)
    return _counts(text, pods, (yield from inspection.counting(clause, emptiest)))


def _shown_groups(
    clause: CountClause, counts: GroupCounts, group: int
) -> tuple[Sequence[int], Sequence[int]]:
    """The groups whose pods are shown for a node of a group, and those of the emptiest domain."""
    emptiest: list[int] = []
    match clause:
        case ShareProgram():
            wanted = [ON]
        case SpreadProgram():
            wanted, every = [group], fewest(clause, counts)
            least = every[group]
            beside = counts.domains & (counts.low == least)
            if counts.sections is not None:
                beside &= counts.sections == counts.sections[group]
            there = np.flatnonzero(beside).tolist()
            emptiest = there[:1] if least and group not in there else []
        case LimitProgram(nodes="used" | "empty"):
            wanted = list(range(ON, len(counts.high)))
        case LimitProgram():
            wanted = [group]
        case _:
            assert_never(clause)
    return wanted, emptiest


def count_text(clause: CountClause, counts: GroupCounts, group: int) -> str:
    """A sentence about the counts without this pod; `group` is that of the node, or -1."""
    if group < 0:
        return "the node has no value for the domain, or for the bound"
    here = int(counts.high[group])
    match clause:
        case ShareProgram():
            bound = counts.bound_of(clause, group)
            wanted = wanted_on(bound, counts.total, counts.pods)
            every = counts.pods if bound.amount == 100 else counts.total
            rounded = f" rounded {bound.rounding}" if bound.rounding else ""
            share = f" ({_amount(bound)} of {every}{rounded})" if bound.percent else ""
            there, off = int(counts.high[ON]), int(counts.high[OFF])
            elsewhere = f" and {off} elsewhere" if bound.kind != "at most" else ""
            text = f"{there} on these nodes{elsewhere}, {bound.kind} {wanted}{share}"
            return f"{text}; this node is {'one' if group == ON else 'not one'} of them"
        case SpreadProgram():
            least, skew = fewest(clause, counts)[group], counts.skew_of(clause, group)
            beside = "" if counts.sections is None else " beside it"
            other = f"{least} in the emptiest one{beside}"
            return f"{here} in this node's domain, {other}; skew at most {skew:g}"
        case LimitProgram(nodes="used" | "empty" as unit):
            bound, is_sum = counts.bound_of(clause, group), clause.amount is not None
            most = _sum(bound.amount or 0) if is_sum else _amount(bound)
            used = f"up to {here} of {counts.total} nodes are used with this pod"
            if is_sum:
                used = f"up to {_sum(here)} of {_sum(counts.total)} on used nodes with this pod"
            used = used if here else "with this pod no more nodes are used"
            return f"{used}; {bound.kind} {most} {unit}"
        case LimitProgram(per_node=per_node, domain=domain):
            bound = counts.bound_of(clause, group)
            scope = "on this node" if per_node else "in the cluster"
            where = scope if domain is None else "in this node's domain"
            if clause.count.peers.amount is not None:
                own = "no amount" if counts.own == FULL else _sum(counts.own)
                most = f"{bound.kind} {_sum(bound.amount or 0)}"
                return f"{_sum(here)} {where}, {own} of this pod; {most}"
            return f"{here} {where}, {bound.kind} {_amount(bound)} with this pod"
        case _:
            assert_never(clause)


def _sum(thousandths: float) -> str:
    """A sum, which is in thousandths, as an amount."""
    if thousandths >= FULL:
        return "more than any bound"
    return str(Quantity(int(thousandths) * NANO // THOUSANDTHS))


def _amount(bound: BoundProgram) -> str:
    return f"{bound.amount:g}{'%' if bound.percent else ''}"
