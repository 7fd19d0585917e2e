"""Plan: the clauses compiled for one pod shape, and what they gave on each node.

A plan is made for the first pod of a shape under one registry. Its memos remember verdicts and
scores by row and re-evaluate a node only when the node has changed. The CallOpener keeps plans,
bounded by their size.
"""

from __future__ import annotations

from engine.counting.count_clauses import CountClauses
from engine.decision import scoring
from engine.decision.filtering import FilterMemo
from engine.decision.registry import Registry, Selection
from engine.decision.verdict import Failed
from engine.objects.codec import Namespace
from engine.program.frame import MEMO_BYTES, NEVER, Evaluation, Frame
from engine.program.program import applies
from grammar.texts import MOST_SHOWN, cut, shown


class Plan:
    """The clauses that apply to pods of one shape; it grows with the nodes it has seen.

    `empty`: no policy concerns such pods, and no limit of other pods may keep them out. `filters`,
    `scorer` and `counts` decide. `scored`: some score clause or count preference applies. `audits`
    and `audited_counts` are those of policies in audit mode.
    """

    def __init__(
        self,
        registry: Registry,
        where: str,
        namespace: Namespace | None,
        evaluation: Evaluation,
        *,
        nodes: int,
        exempt: str,
    ) -> None:
        """`evaluation` is of the first pod of the shape, `where` is its namespace.

        `nodes` estimates the size of the cluster. `exempt` is the reason why no policy decides,
        empty where policies do.
        """
        self.registry = registry
        self.namespace = namespace
        self.frame: Frame = evaluation.frame()
        self._made, self.frame.until = evaluation.now, NEVER
        self.selection = selection = (
            Selection(exempt=exempt) if exempt else registry.select(where, evaluation)
        )
        reaching = () if exempt else [m for m in registry.mutual if m.reaches(where)]
        mutual = [m for m in reaching if not m.program.audit]
        self.empty = selection.empty and not reaching
        enforced = selection.enforced
        filters = [clause for program in enforced for clause in program.filters]
        self.filters = FilterMemo(filters, _unselectable(selection))
        scores = (clause for program in enforced for clause in program.scores)
        self.scorer = scoring.Scorer([c for c in scores if applies(c, evaluation)])
        counts = [clause for program in enforced for clause in program.counts]
        self.counts = CountClauses(counts, evaluation, mutual)
        self.scored = self.scorer.applies or self.counts.soft
        self.audits = [(program, FilterMemo(program.filters)) for program in selection.audited]
        self.audited_counts = [
            (program, CountClauses(program.counts, evaluation))
            for program in selection.audited
            if any(clause.count.weight is None for clause in program.counts)
        ]
        self.audited_counts += [
            (m.program, CountClauses((), evaluation, [m])) for m in reaching if m.program.audit
        ]
        # In nanoseconds: from this moment on, other clauses may apply.
        self._until = self.frame.until
        every = (*enforced, *selection.audited)
        self.time_dependent_counts = any(
            c.count.peers.time_dependent for p in every for c in p.counts
        )
        self._clauses = (
            selection,
            *self.scorer.clauses,
            *self.counts.clauses,
            *(clause for _, each in self.audited_counts for clause in each.clauses),
        )
        # Bytes per node: a code and a version in a FilterMemo, two numbers in a ScoreMemo.
        per_node = 12 * (1 + len(self.audits)) + 16 * len(self.scorer)
        # Few frames keep as much as they may.
        self.bytes = 4096 + MEMO_BYTES // 2 + nodes * per_node

    def lasts(self, now: int) -> bool:
        """Whether the clauses that apply are certain to be the same at a moment."""
        return self._made <= now < self._until

    def follows(self, earlier: Plan) -> Plan:
        """The earlier plan, with what it keeps, if the same clauses apply; else this one."""
        if self._clauses != earlier._clauses:
            return self
        earlier._made, earlier._until = self._made, self._until
        return earlier


def _unselectable(selection: Selection) -> Failed | None:
    """The verdict of every node, where the `for` of a policy could not be evaluated."""
    for broken in selection.unselectable:
        reason = shown(f"policy {broken.program.name}: its `for` cannot be evaluated")
        return Failed(cut(reason, MOST_SHOWN), broken.program.address, "for", broken.error)
    return None
