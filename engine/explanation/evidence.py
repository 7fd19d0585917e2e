"""Evidence: every clause on one node for one pod, with the values that were read.

A value is evaluated in its own frame for this node, which no clause or policy changes.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import partial

from engine.clauses import MEANINGS
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
from engine.program.program import CountClause, RejectingProgram
from engine.work import Work
from grammar.messages.texts import counted, named
from grammar.tree.ast import Expr
from grammar.tree.clause_parts import AnyClause

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
        for part, expr in _told(clause.clause):
            if part == "value":
                value = written.expression(part, clause.traced(expr, frame))
        points = float(given.points[index])
        end = so_far + given.weight * points / total / 10
        adds = round(round(end, 2) - round(so_far, 2), 2)
        lacks = given.lacks_value(index)
        yield ScoreTerm(given.policy, given.name, given.weight, points, adds, lacks, value)
        so_far = end


def told(program: RejectingProgram, clause: AnyClause) -> Iterator[tuple[TracedPart, Expr]]:
    """The expressions of a clause that can differ between nodes."""
    count = program.count if isinstance(program, CountClause) else None
    when = count.when if count is not None else None
    # The `when` of a clause that counts is the same for every node unless it reads named counts.
    if clause.when is not None and (not program.counts_pods or (when and when.counts)):
        yield "when", clause.when
    # So is the bound, unless it reads groups of nodes.
    yield from (part for part in _told(clause) if part[0] != "bound" or (count and count.groups))


def _told(clause: AnyClause) -> Iterable[tuple[TracedPart, Expr]]:
    if (told := MEANINGS[type(clause)].told) is not None:
        return told(clause)
    return [("require", each) for each in clause.requirements]


def counted_on(
    objection: Objection, written: Written, found: ClauseResults, name: str
) -> Work[NodeCounts | None]:
    """What a clause counts for a node, of pods or of cards; None for one that counts nothing."""
    program, inspection = objection.program, found.inspection
    clause, meaning = written.clause, MEANINGS[type(written.clause)]
    if not isinstance(program, CountClause):
        if meaning.evidence is None:
            return None
        frame = inspection.frame_at(name)
        return _counts(*meaning.evidence(clause, partial(written.value, frame=frame), frame))
    if objection.is_mutual:
        return _counts(KEPT_OUT, inspection.keepers(program, name))
    if meaning.counted is None:
        return None
    counts, group = yield from inspection.group_counts(program, name)
    if group < 0:
        return _counts("the node has no value for the domain, or for the bound")
    text, groups, emptiest = meaning.counted(program, counts, group)
    pods = yield from inspection.counting(program, groups)
    return _counts(text, pods, (yield from inspection.counting(program, emptiest)))


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
