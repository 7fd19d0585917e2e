"""Audit: what policies in audit mode would reject, which is reported and changes no answer.

It is worked out after the answer, in portions of a few milliseconds, so that no other call waits
for it. Audits belong to the engine and live as long as it does, and so does their log.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Sequence
from functools import partial

import msgspec

from engine.cache.node_table import NodeRows, NodeTable
from engine.counting.bounds import Mask
from engine.counting.count_clauses import CountClauses
from engine.decision.after import Later
from engine.decision.audit_log import AuditLog
from engine.decision.filtering import FilterMemo
from engine.decision.placement import Placement
from engine.decision.verb_call import CallOpener, Observer, VerbCall
from engine.decision.verdict import Decision, Feasible, HeldBack
from engine.errors import DeadlineExceededError, EngineError
from engine.program.policy_time import MOST_PORTIONS
from engine.program.program import Program

# The clauses that reject some of the nodes, and which.
_Rejecting = list[tuple[str, Mask]]
_Work = Callable[[VerbCall], _Rejecting]


class Audits:
    """Audits of filter's calls, and the `log` of what they have found."""

    def __init__(
        self,
        calls: CallOpener,
        placement: Placement,
        observer: Observer,
        later: Later,
    ) -> None:
        self.log = AuditLog(calls.now)
        self.log.adopted(calls.registry.programs)
        self._calls = calls
        self._placement = placement
        self._observer = observer
        self._later = later

    def follow(
        self,
        call: VerbCall,
        names: Sequence[str],
        table: NodeTable,
        rows: NodeRows,
        decided: Decision,
    ) -> None:
        """Audits a call about these nodes, later. `decided` is its answer."""
        work = self._audit(call, names, table, rows, decided.codes == 0)
        self._later(lambda: self._continue(work))

    def _continue(self, work: Iterator[None]) -> None:
        """Does a portion of some work now, and the next one after what else there is to do."""
        for _ in work:
            self._later(lambda: self._continue(work))
            return

    def _audit(
        self,
        call: VerbCall,
        names: Sequence[str],
        table: NodeTable,
        rows: NodeRows,
        passing: Mask,
    ) -> Iterator[None]:
        """Reports what policies in audit mode would reject; stops at the end of each portion."""
        parts: dict[str, tuple[Program, list[_Work]]] = {}
        for program, memo in call.plan.audits:
            work: _Work = partial(_rejecting, memo, table, rows)
            parts.setdefault(program.address, (program, []))[1].append(work)
        for program, counts in call.plan.audited_counts:
            work = partial(self._closed, counts, names)
            parts.setdefault(program.address, (program, []))[1].append(work)
        for program, works in parts.values():
            rejecting: _Rejecting = []
            for work in works:
                rejecting += yield from self._in_portions(program, call, work)
            for clause, mask in rejecting:
                self._observer.would_reject(program.address, clause, int(mask.sum()))
            self.log.asked(program, call, names, passing, rejecting)

    def _in_portions(
        self, program: Program, call: VerbCall, work: _Work
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
    found = enumerate(zip(would.verdicts, would.counts(), strict=True))
    return [
        (v.clause, would.codes == code)
        for code, (v, count) in found
        if count and not isinstance(v, Feasible | HeldBack)
    ]
