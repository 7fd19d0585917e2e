"""Filtering: why each node is rejected by the filter clauses, evaluated and remembered.

Every clause is evaluated on the nodes that earlier clauses have left. A FilterMemo belongs to the
plan for a pod shape and re-evaluates a node only when the node has changed. An evaluation that runs
out of time continues at the next call after the last portion of nodes that it has finished.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import replace
from functools import partial

import msgspec
import numpy as np

from engine.cache.node_table import UNKNOWN_ROW, KnownRows, NodeRows, NodeTable, NodeWithPods
from engine.counting.node_groups import (
    CallGroups,
    GroupVersions,
    OnTheWay,
    PerGroup,
    counted_on_the_way,
)
from engine.decision.verdict import FEASIBLE, Codes, Decision, Rejected, Verdict, decision
from engine.errors import BriefWaitError, own_text
from engine.program.columns import ByKind, Freshness, KindsOf, Moments, grown, no_kinds
from engine.program.frame import Evaluation, Frame
from engine.program.policy_time import CallTime
from engine.program.program import FilterProgram
from grammar.messages.texts import shown
from grammar.values.errors import EvaluationError, MissingError
from grammar.values.time import NEVER

UNKNOWN_NODE = own_text("node not yet known")
# Beyond this number, rejections probably carry errors that name what they read: start over.
_MOST_REJECTIONS = 1000


class Rejection(msgspec.Struct, frozen=True):
    """The reason to reject a node: a clause does not hold, fails, or needs an unknown node.

    `lacks` says which table has no row to judge by; then the words of the clause do not hold.
    """

    clause: FilterProgram
    error: str | None = None
    known: bool = True
    lacks: str = ""

    def text(self, evaluation: Evaluation) -> str:
        """The text for an answer: the same for all errors of a clause.

        Raises ExpensivePolicyError.
        """
        if self.lacks:
            return f"{self.clause.name}: {self.lacks}"
        return self.clause.message(evaluation) if self.known else UNKNOWN_NODE

    def verdict(self, text: str) -> Rejected:
        clause, error = self.clause, self.error or ""
        # No eviction helps where a clause cannot be evaluated.
        resolvable = clause.resolvable and self.known and not (error or self.lacks)
        name = clause.policy, clause.name
        return Rejected(text, *name, resolvable, waits=not self.known, error=error)


class FilterMemo:
    """A memo of filters: the first of some clauses that rejects each node.

    Clauses that read groups of nodes come after those that read pod and node alone. They are
    evaluated once for a group where they read nothing else of the node.
    """

    def __init__(
        self,
        clauses: Sequence[FilterProgram],
        failed: Rejected | None = None,
        kinds: KindsOf = no_kinds,
    ) -> None:
        """`failed` is the verdict of every node where a `for` cannot be evaluated."""
        self._failed = failed
        self._plain = _RowMemo([clause for clause in clauses if not clause.groups], kinds)
        self._grouped = [clause for clause in clauses if clause.groups]
        self._by_way: dict[OnTheWay, _ByGroups] = {}
        # Whether pods on their way can make a difference.
        self.reads_pods = any(clause.groups.pods for clause in clauses)

    def tables_changed(self, digests: AbstractSet[str]) -> None:
        """Has the clauses that read these tables be evaluated again."""
        self._plain.fresh.tables_changed(digests)
        for memo in self._by_way.values():
            memo.rows.fresh.tables_changed(digests)

    def decide(
        self,
        table: NodeTable,
        rows: NodeRows,
        evaluation: Evaluation,
        known_rows: KnownRows | None = None,
        on_the_way: OnTheWay = "worst",
    ) -> Decision:
        """A verdict per row. Raises DeadlineExceededError and ExpensivePolicyError.

        The portions of nodes that were finished until then are kept.
        """
        if self._failed is not None:
            return decision([self._failed] * len(rows), known_rows)
        codes = self._plain.evaluated(table, rows, evaluation)
        rejections: Sequence[Rejection | None] = self._plain.rejections
        if self._grouped:
            memo = self._by_way.get(on_the_way)
            if memo is None:
                memo = self._by_way[on_the_way] = _ByGroups(self._grouped, on_the_way)
            codes, rejections = memo.added(table, rows, evaluation, codes, rejections)
        if not np.count_nonzero(codes):
            return Decision(codes, (FEASIBLE,), known_rows)
        counts: list[int] = np.bincount(codes, minlength=len(rejections)).tolist()
        # A clause has a rejection for each error, and one text, which is made once.
        texts: dict[tuple[FilterProgram, bool, str], str] = {}
        verdicts: list[Verdict] = []
        for rejection, count in zip(rejections, counts, strict=True):
            if rejection is None or not count:
                verdicts.append(FEASIBLE)
                continue
            key = rejection.clause, rejection.known, rejection.lacks
            if (text := texts.get(key)) is None:
                text = texts[key] = rejection.text(evaluation)
            verdicts.append(rejection.verdict(text))
        return Decision(codes, verdicts, known_rows)


class _ByGroups:
    """Rejections by groups of nodes, that clauses read, with pods on their way in one way."""

    def __init__(self, clauses: Sequence[FilterProgram], on_the_way: OnTheWay) -> None:
        self._on_the_way = on_the_way
        self.rows = _RowMemo([clause for clause in clauses if not clause.groups.alone])
        self._groups = [_GroupMemo(clause) for clause in clauses if clause.groups.alone]

    def added(
        self,
        table: NodeTable,
        rows: NodeRows,
        evaluation: Evaluation,
        codes: Codes,
        rejections: Sequence[Rejection | None],
    ) -> tuple[Codes, Sequence[Rejection | None]]:
        """The codes of other clauses with those of these, and the rejections of all of them."""
        found = evaluation.groups_of_call()
        assert isinstance(found, CallGroups), "a call has groups where a policy reads them"
        groups = found.counting(self._on_the_way)
        if len(self._groups) == 1 and not self.rows.clauses and not np.count_nonzero(codes):
            # The usual case: one rule, and nothing else in the way.
            (memo,) = self._groups
            return memo.evaluated(groups, table, rows, evaluation), memo.rejections
        codes, rejections = codes.copy(), list(rejections)

        def reject(left: NodeRows, found: Codes, more: Sequence[Rejection | None]) -> None:
            rejected = found > 0
            codes[left[rejected]] = found[rejected] + len(rejections) - 1
            rejections.extend(more[1:])

        if self.rows.clauses and len(left := np.flatnonzero(codes == 0)):
            with counted_on_the_way(evaluation.frame(), self._on_the_way):
                by_row = self.rows.evaluated(table, rows[left], evaluation)
            reject(left, by_row, self.rows.rejections)
        for memo in self._groups:
            left = np.flatnonzero(codes == 0)
            if not len(left):
                break
            reject(left, memo.evaluated(groups, table, rows[left], evaluation), memo.rejections)
        return codes, rejections


class _GroupMemo:
    """The rejection of each group of nodes by one clause that reads it and no node."""

    def __init__(self, clause: FilterProgram) -> None:
        self._clause = clause
        given = clause.groups, clause.policy, lambda frame, _: judge(clause, frame)
        self._values: PerGroup[Rejection | None] = PerGroup(*given, self._coded)
        self._unknown = 0
        self.rejections: list[Rejection | None] = [None]

    def evaluated(
        self, groups: CallGroups, table: NodeTable, rows: NodeRows, evaluation: Evaluation
    ) -> Codes:
        """Indexes into `rejections`, in the order of `rows`."""
        codes: Codes = self._values.of(groups, table, rows, evaluation)
        codes[rows == UNKNOWN_ROW] = self._unknown
        return codes

    def _coded(self, found: list[Rejection | None]) -> Codes:
        known = {rejection: at for at, rejection in enumerate(dict.fromkeys([None, *found]))}
        self._unknown = known.setdefault(Rejection(self._clause, known=False), len(known))
        self.rejections = list(known)
        return np.array([known[each] for each in found], np.int32)


class _RowMemo:
    """A memo by row: the first of some clauses that rejects each node."""

    def __init__(self, clauses: Sequence[FilterProgram], kinds: KindsOf = no_kinds) -> None:
        self.clauses = clauses
        self._by_kind: dict[FilterProgram, ByKind[Rejection | None]] = {
            clause: ByKind(of_clause, Rejection(clause, known=False))
            for clause in clauses
            if (of_clause := kinds(clause)) is not None
        }
        self._groups = GroupVersions([clause.groups for clause in clauses])
        timed = any(clause.time_dependent for clause in clauses)
        self.fresh = Freshness(time_dependent=timed, tables=[each.tables for each in clauses])
        self._codes: Codes = np.empty(0, np.int32)
        self.rejections: list[Rejection | None] = [None]
        self._known: dict[Rejection | None, int] = {None: 0}

    def evaluated(self, table: NodeTable, rows: NodeRows, evaluation: Evaluation) -> Codes:
        """Indexes into `rejections`, in the order of `rows`."""
        if not self.clauses:
            return np.zeros(len(rows), np.int32)
        if self._groups.digests:
            table = self._groups.table(table, evaluation)
        if len(self.rejections) > _MOST_REJECTIONS:
            self.fresh.forget()
            self.rejections, self._known = [None], {None: 0}
        portions = self.fresh.stale(table, evaluation.now, rows)
        if portions or len(self._codes) < len(table.nodes):
            self._codes = grown(self._codes, len(table.nodes), 0)
        for portion in portions:
            nodes = [table.nodes[row] for row in portion.tolist()]
            until = self.fresh.moments(portion)
            sweep = Sweep(nodes, until, partial(self._alike, table, portion, evaluation))
            sweep.run(self.clauses, evaluation)
            try:
                codes = list(map(self._known.__getitem__, sweep.found))
            except KeyError:
                codes = list(map(self._code, sweep.found))
            self._codes[portion] = codes
            self.fresh.worked_out(table, portion, until)
        return self._codes.take(rows)

    def _alike(
        self,
        table: NodeTable,
        portion: NodeRows,
        evaluation: Evaluation,
        clause: FilterProgram,
        left: Sequence[int],
    ) -> Sequence[Rejection | None] | None:
        """What a clause says of some of these rows, by their kinds; None where these are no use."""
        by_kind = self._by_kind.get(clause)
        if by_kind is None or by_kind.kinds.are_useless:
            return None
        rows = portion if len(left) == len(portion) else portion[left]
        return by_kind.values(table, rows, evaluation, partial(judge, clause))

    def _code(self, rejection: Rejection | None) -> int:
        code = self._known.get(rejection)
        if code is None:
            code = self._known[rejection] = len(self.rejections)
            self.rejections.append(rejection)
        return code


def check_on_the_way(
    memo: FilterMemo, decided: Decision, table: NodeTable, rows: NodeRows, evaluation: Evaluation
) -> None:
    """Raises BriefWaitError where only pods on their way keep the pod off every node.

    A pod on its way counts in every group where it may end, and ends in a single group. It makes a
    difference only if the memo reads pods.
    """
    if np.count_nonzero(decided.codes) < len(rows):
        return
    groups = evaluation.groups_of_call()
    assert isinstance(groups, CallGroups), "a call has groups where a policy reads them"
    if not groups.has_arrivals:
        return
    if not np.count_nonzero(memo.decide(table, rows, evaluation, on_the_way="bound").codes == 0):
        return
    rejected = [v.reason for v in decided.verdicts if isinstance(v, Rejected) and v.resolvable]
    raise BriefWaitError(f"waiting for in-flight pods: {'; '.join(dict.fromkeys(rejected))}")


def waits(clauses: Iterable[FilterProgram]) -> list[FilterProgram]:
    """What these clauses wait for at bind, as filters that require it."""
    return [
        replace(c, requires=(c.wait.until.evaluate,), reads_node=c.wait.until.per_node)
        for c in clauses
        if c.wait is not None
    ]


def longest_wait(clauses: Iterable[FilterProgram]) -> float:
    """For how many seconds a binding may wait for what these clauses require."""
    return max((clause.wait.seconds for clause in clauses if clause.wait is not None), default=0.0)


def rejections(
    clauses: Sequence[FilterProgram], evaluation: Evaluation, nodes: Sequence[NodeWithPods | None]
) -> list[Rejection | None]:
    """The rejection of each node, in order, or None; see `Sweep`. Raises as `Sweep.run`."""
    sweep = Sweep(nodes)
    sweep.run(clauses, evaluation)
    return sweep.found


# What a clause says of nodes, by their places in a sweep; None where it is evaluated on each.
Alike = Callable[[FilterProgram, Sequence[int]], Sequence[Rejection | None] | None]


class Sweep:
    """A sweep: an evaluation of clauses on nodes, clause by clause; a node of None is not known.

    `found` has the rejection of each node by the first clause that does not hold, or None. Results
    stay as they are until the moments in `until`, which is None if no clause reads the time.
    """

    def __init__(
        self,
        nodes: Sequence[NodeWithPods | None],
        until: Moments | None = None,
        alike: Alike = lambda *_: None,
    ) -> None:
        """`alike` gives the finding of a clause about several nodes, if all have the same."""
        self.found: list[Rejection | None] = [None] * len(nodes)
        self.until = until
        self._nodes = nodes
        self._alike = alike

    def run(self, clauses: Sequence[FilterProgram], evaluation: Evaluation) -> None:
        """Evaluates. Raises DeadlineExceededError and ExpensivePolicyError."""
        left = list(range(len(self._nodes)))
        for clause in clauses:
            if not left:
                break
            left = self._apply(clause, left, evaluation)
        evaluation.time.rest()

    def _apply(self, clause: FilterProgram, left: list[int], evaluation: Evaluation) -> list[int]:
        """Applies a clause to the nodes that are left; returns the nodes that pass it."""
        evaluation.time.charge(clause.policy)
        of_pod = clause.when is not None and not clause.when.per_node
        if not of_pod and (by_kind := self._alike(clause, left)) is not None:
            return self._taken(left, by_kind)
        frame = evaluation.frame()
        frame.until = NEVER
        if not (clause.reads_node or (clause.when is not None and clause.when.per_node)):
            rejection = judge(clause, frame)
            self._hold(left, frame.until)
            return left if rejection is None else self._taken(left, [rejection] * len(left))
        if of_pod:
            applies = _holds(clause, frame)
            self._hold(left, frame.until)
            if not applies:
                return left
            if (by_kind := self._alike(clause, left)) is not None:
                return self._taken(left, by_kind)
        return self._taken(left, self._judge_each(clause, left, frame, evaluation.time))

    def _taken(self, left: list[int], said: Sequence[Rejection | None]) -> list[int]:
        """Takes what a clause says of nodes, each of which has a place; returns those that pass."""
        if not any(said):
            return left
        passed: list[int] = []
        for i, rejection in zip(left, said, strict=True):
            if rejection is None:
                passed.append(i)
            else:
                self.found[i] = rejection
        return passed

    def _hold(self, of: Sequence[int], moment: int | Sequence[int]) -> None:
        """Says that results of these nodes stay as they are until a moment, or one for each."""
        if self.until is not None and of:
            self.until[of] = np.minimum(self.until[of], moment)

    def _judge_each(
        self, clause: FilterProgram, left: list[int], frame: Frame, time: CallTime
    ) -> list[Rejection | None]:
        said, unknown = list[Rejection | None](), Rejection(clause, known=False)
        # The nodes whose results may change with the time, and when.
        held, moments = list[int](), list[int]()
        for count, i in enumerate(left):
            if count and not count % clause.nodes_per_look:
                time.check()
            node = self._nodes[i]
            if node is None:
                said.append(unknown)
                continue
            frame.node, frame.until = node, NEVER
            said.append(judge(clause, frame))
            if frame.until != NEVER:
                held.append(i)
                moments.append(frame.until)
        self._hold(held, moments)
        return said


def judge(clause: FilterProgram, frame: Frame) -> Rejection | None:
    """The rejection of the frame's node by one clause, or None."""
    try:
        if clause.when is not None and clause.when.evaluate(frame) is not True:
            return None
    except MissingError:
        return None
    except EvaluationError as error:
        return None if clause.passes_missing else Rejection(clause, shown(str(error)))
    # What is excused leaves the decision to the others, whatever their order.
    for require in clause.requires:
        try:
            if require(frame) is not True:
                return Rejection(clause)
        except EvaluationError as error:
            if clause.passes_missing:
                continue
            if isinstance(error, MissingError):
                return Rejection(clause, lacks=error.reason)
            return Rejection(clause, shown(str(error)))
    return None


def _holds(clause: FilterProgram, frame: Frame) -> bool:
    """Whether a condition about the pod lets the clause apply; an error is judged per node."""
    assert clause.when is not None
    try:
        return clause.when.evaluate(frame) is True
    except MissingError:
        return False
    except EvaluationError:
        return True
