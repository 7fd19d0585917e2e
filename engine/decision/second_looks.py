"""SecondLooks: whether a rejected pod would pass now, for who may have kube-scheduler ask again.

Nobody waits for them, so they take small portions of time. They offer nothing, but a part of
decisions may reserve places for a pod that passes.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence

import numpy as np

from engine.decision.part import DecisionPart
from engine.decision.placement import PlacingParts
from engine.decision.verdict import attributed
from engine.errors import own_text
from engine.objects.request_pod import RequestPod
from engine.program.frame import Evaluation
from engine.program.program import CountProgram, FilterProgram, PartProgram


class SecondLooks:
    """The looks of one engine, made of its parts."""

    def __init__(self, placing: PlacingParts, parts: Sequence[DecisionPart]) -> None:
        self._calls, self._placement, self._plugins, self._pods = placing
        self._parts = parts

    def read(self, pod: bytes) -> RequestPod:
        """A pod to ask about. Raises BadObjectError."""
        return self._pods.read(pod)

    def waits_unchanged(self, pod: RequestPod) -> bool:
        """Whether a look would say no: the pod waits for the same as before."""
        return any(part.waits_unchanged(pod) for part in self._parts)

    def has_refused(self, pod: RequestPod, reasons: str) -> bool:
        """Whether kube-scheduler's `reasons` have one that the policies give for this pod.

        Raises EngineError as `would_pass`.
        """
        call = self._calls.look(pod)
        texts = list[str]()
        for program in call.plan.selection.enforced:
            counts = (clause.count for clause in program.counts)
            strict = [count for count in counts if count.weight is None]
            texts += _event_texts((*program.of(FilterProgram), *strict), call.evaluation)
        mutual = (limit.clause.count for limit in call.plan.counts.mutual)
        texts += _event_texts(mutual, call.evaluation)
        # As in `2 Insufficient cpu, 1 policy web: zone.`; a damped text joins several by `; `.
        ours = [re.escape(text) for text in texts if text]
        # That of a part goes on with what the pod waits for; Placet's own may say anything.
        of_parts = (f"{text}: " for text in _event_texts(call.plan.of_parts, call.evaluation))
        ours += [f"{re.escape(text)}[^.;]*" for text in (*of_parts, own_text(""))]
        return re.search(rf"(?:\d|;) (?:{'|'.join(ours)})(?:[,.;]|$)", reasons) is not None

    def would_pass(self, pod: RequestPod) -> bool:
        """Whether filter would offer a node that kube-scheduler would ask about.

        Nobody waits for the answer, so a call is a portion of a few milliseconds. Raises
        DeadlineExceededError at its end: the next call continues. Raises other EngineErrors where
        there would be no decision.
        """
        call = self._calls.look(pod)
        counts, table = call.plan.counts, call.snapshot.table
        rows = np.fromiter(table.rows.values(), np.intp, len(table.rows))
        decided = call.plan.filters.decide(table, rows, call.evaluation)
        passing = rows[decided.codes == 0]
        if len(passing) and (counts.strict or call.plan.of_parts):
            self._placement.check(call, asked=False)
            passing = passing[self._placement.open(call, passing)]
        if not len(passing) or not all(part.would_pass(call) for part in self._parts):
            return False
        check = call.evaluation.time.check
        return bool(self._plugins.allowed(pod, table, passing, check).any())


def _event_texts(
    clauses: Iterable[FilterProgram | CountProgram | PartProgram], evaluation: Evaluation
) -> Iterator[str]:
    """The texts of clauses as events have them, or had them without the names of policies."""
    for clause in clauses:
        text = clause.message(evaluation)
        yield from (text, attributed(clause.policy, text))
