"""Audit: what policies in audit mode would reject, which is reported and changes no answer.

It is worked out after the answer, in portions of a few milliseconds, so that no other call waits
for it. Audits belong to the engine and live as long as it does.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Sequence
from functools import partial

import msgspec

from engine.cache.node_table import NodeRows, NodeTable
from engine.counting.count_clauses import CountClauses
from engine.decision.after import Later
from engine.decision.filtering import FilterMemo
from engine.decision.placement import Placement
from engine.decision.verb_call import CallOpener, Observer, VerbCall
from engine.decision.verdict import Feasible
from engine.errors import DeadlineExceededError, EngineError
from engine.program.policy_time import MOST_PORTIONS
from engine.program.program import Program

# The clauses that reject some of the nodes, with the number of these.
_Rejecting = list[tuple[str, int]]


class Audits:
    """Audits of filter's calls."""

    def __init__(
        self,
        calls: CallOpener,
        placement: Placement,
        observer: Observer,
        later: Later,
    ) -> None:
        self._calls = calls
        self._placement = placement
        self._observer = observer
        self._later = later

    def follow(
        self, call: VerbCall, names: Sequence[str], table: NodeTable, rows: NodeRows
    ) -> None:
        """Audits a call about these nodes, later."""
        work = self._audit(call, names, table, rows)
        self._later(lambda: self._continue(work))

    def _continue(self, work: Iterator[None]) -> None:
        """Does a portion of some work now, and the next one after what else there is to do."""
        for _ in work:
            self._later(lambda: self._continue(work))
            return

    def _audit(
        self, call: VerbCall, names: Sequence[str], table: NodeTable, rows: NodeRows
    ) -> Iterator[None]:
        """Reports what policies in audit mode would reject; stops at the end of each portion."""
        for program, memo in call.plan.audits:
            yield from self._report(program, call, partial(_rejecting, memo, table, rows))
        for program, counts in call.plan.audited_counts:
            yield from self._report(program, call, partial(self._closed, counts, names))

    def _report(
        self, program: Program, call: VerbCall, work: Callable[[VerbCall], _Rejecting]
    ) -> Iterator[None]:
        for clause, count in (yield from self._in_portions(program, call, work)):
            self._observer.would_reject(program.address, clause, count)

    def _in_portions(
        self, program: Program, call: VerbCall, work: Callable[[VerbCall], _Rejecting]
    ) -> Generator[None, None, _Rejecting]:
        """What the work finds, in portions of time; nothing if it takes too many."""
        for _ in range(MOST_PORTIONS):
            portion = self._calls.portion(call.evaluation.frame())
            try:
                return work(msgspec.structs.replace(call, evaluation=portion))
            except DeadlineExceededError:
                yield
            except EngineError:
                return []
        self._observer.gave_up("audit", program.address)
        return []

    def _closed(self, counts: CountClauses, names: Sequence[str], call: VerbCall) -> _Rejecting:
        return self._placement.closed(counts, call, names)


def _rejecting(memo: FilterMemo, table: NodeTable, rows: NodeRows, call: VerbCall) -> _Rejecting:
    would = memo.decide(table, rows, call.evaluation)
    found = zip(would.verdicts, would.counts(), strict=True)
    return [(v.clause, count) for v, count in found if count and not isinstance(v, Feasible)]
