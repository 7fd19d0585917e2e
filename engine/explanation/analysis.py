"""Analysis: all that is found out about one pod for an explanation, a few milliseconds at a time.

A running replica works it out on the event loop that decides, and decisions are made between two
portions; a command works it out at once. It belongs to one question. `explanation` makes the
PodExplanation, and needs no event loop.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from engine.cache.cluster_copy import NamedPod
from engine.cache.node_table import KnownRows, without
from engine.counting.bounds import Mask
from engine.counting.groups import Headroom
from engine.decision.journal import RecordedCounts, recorded_counts
from engine.decision.plugin_filters import unknown_resources
from engine.decision.registry import Registry
from engine.decision.verdict import Feasible, HeldBack, Verdict
from engine.enforced import EnforcedPolicies
from engine.engine import Engine
from engine.errors import EngineError, UnknownNodeError
from engine.explanation.decision_document import AuditedClause, PolicyAudit
from engine.explanation.document import ClauseSummary, NearestMiss, RejectionOfNode, Requirement
from engine.explanation.evidence import (
    ClauseEvidence,
    ScoreEvidence,
    clauses_on,
    count_lines,
    count_pods_on,
    counted_on,
    scores_on,
)
from engine.explanation.inspection import (
    ClauseResults,
    Contribution,
    Inspection,
    Objection,
    PodResults,
    RefusalSummary,
    summarize,
)
from engine.explanation.written import Values, Written, WrittenClauses
from engine.gangs.gang import GangOfPod
from engine.objects.codec import Pod
from engine.objects.eligibility import unfit as unfit_reasons
from engine.objects.peer import key_of
from engine.program.frame import Frame
from engine.work import Work, finished
from grammar.meaning.schema import Schema
from grammar.messages.texts import shown
from grammar.tree.ast import Expr
from grammar.values.errors import EvaluationError

# Explanations of more nodes than this have no row for each, unless it is asked for.
LISTED = 20
_MOST_NEAREST = 20


@dataclass(frozen=True, slots=True)
class PodQuestion:
    """A pod to explain, and how much of it.

    `node` is the node to show in full. With `every_node` each node has a row, whatever their
    number. With `offers` the engine is asked as kube-scheduler asks it, so that nodes are held
    back; only for an engine that serves nobody else.
    """

    pod: NamedPod
    node: str | None = None
    every_node: bool = False
    offers: bool = False


@dataclass(frozen=True, slots=True)
class Analysis:
    """What was found out about a pod. `verdicts` are None where nothing was offered.

    `held` has the nodes that pass and would be held back if kube-scheduler asked now.

    `unfit` has by node the reasons of kube-scheduler's own plugins against it, as far as nodes and
    pods show them. `audits` says what policies in audit mode would reject. `rows` has by node what
    is said of it beside its rejections, None if there are too many nodes. `on_node` and `terms` are
    about the node of the question. `gang` is None for a pod that is in none. `problem` is an error
    in the place of an answer.
    """

    question: PodQuestion
    policies: EnforcedPolicies
    registry: Registry
    results: ClauseResults
    summary: RefusalSummary
    given: Sequence[Contribution]
    counts: Sequence[RecordedCounts]
    clauses: Sequence[ClauseSummary]
    nearest: Sequence[NearestMiss]
    audits: Sequence[PolicyAudit]
    rows: Mapping[str, Sequence[str]] | None
    unfit: Mapping[str, Sequence[str]]
    held: Mapping[str, HeldBack]
    on_node: Sequence[ClauseEvidence] = ()
    terms: Sequence[ScoreEvidence] = ()
    verdicts: Mapping[str, Verdict] | None = None
    gang: GangOfPod | None = None
    problem: str = ""


class Analyst:
    """Analyses questions of one engine about the policies that are in force at this time."""

    def __init__(
        self,
        engine: Engine,
        policies: EnforcedPolicies,
        schema: Schema,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._engine = engine
        self._policies = policies
        self._clock = clock
        self._values = Values(schema)
        self._written = WrittenClauses(policies.policies, policies.texts)

    @property
    def policies(self) -> EnforcedPolicies:
        return self._policies

    def at_once(self, question: PodQuestion) -> Analysis:
        """The analysis, without a rest. Raises as `work`."""
        return finished(self.work(question))

    def work(self, question: PodQuestion) -> Work[Analysis]:
        """Yields after each portion.

        Raises UnknownNodeError, DeadlineExceededError for what gets no further, and other
        EngineErrors where there would be no decision.
        """
        registry = self._engine.registry
        inspection = Inspection.of(self._engine, question.pod.body)
        names = sorted(inspection.table.rows)
        if question.node is not None and question.node not in inspection.table.rows:
            raise UnknownNodeError(f"there is no node `{shown(question.node)}`")
        work = PodResults(inspection, names, self._clock)
        objections = yield from work.objections()
        gang = self._engine.gang_of(question.pod.body, places=question.offers)
        if gang is not None:
            objections.append(inspection.gang_objection(gang, names))
        verdicts, problem = self._offered(question, names) if question.offers else (None, "")
        if verdicts is None:
            scored = work.passing(objections)
        else:
            scored = [n for n, verdict in verdicts.items() if isinstance(verdict, Feasible)]
        given = yield from work.contributions(scored)
        results = work.results(objections, given, scored)
        held: Mapping[str, HeldBack] = {}
        if verdicts is not None:
            held = {n: v for n, v in verdicts.items() if isinstance(v, HeldBack)}
        elif not question.pod.node:
            held = self._held_back(work, results)
        summary = summarize(results.refused)
        wanted = () if inspection.selection.unselectable else summary.nearest[:_MOST_NEAREST]
        nearest = []
        for index in wanted:
            nearest.append(NearestMiss(names[index], self._rejections(results, names[index])))
            yield from work.pause()
        clauses = []
        for objection, fails, alone in zip(objections, summary.fails, summary.alone, strict=True):
            clauses.append((yield from self._summary(objection, fails, alone, work)))
        rows = None
        if question.every_node or len(names) <= LISTED:
            rows = yield from self._rows(results, given, work)
        unfit = yield from self._unfit(inspection, question.pod, work)
        audits = yield from self._audits(results, work, offers=question.offers)
        on_node, terms = yield from self._on_node(question.node, results, given, work)
        known_rows = KnownRows(inspection.table.find(names), inspection.table.rows)
        return Analysis(
            question=question,
            policies=self._policies,
            registry=registry,
            results=results,
            summary=summary,
            given=given,
            counts=recorded_counts(work.headrooms, known_rows),
            clauses=clauses,
            nearest=nearest,
            audits=audits,
            rows=rows,
            unfit=unfit,
            held=held,
            on_node=on_node,
            terms=terms,
            verdicts=verdicts,
            gang=gang,
            problem=problem,
        )

    def _held_back(self, work: PodResults, results: ClauseResults) -> Mapping[str, HeldBack]:
        """The nodes that pass and would be held back from a pod that is asked about now."""
        opened = np.array([results.holds(name) for name in results.names], np.bool_)
        suits = np.array([results.scores.get(name, 0) for name in results.names], np.float64)
        counted = [*work.headrooms, *work.mutual]
        if not counted or not opened.any():
            return {}
        found = dict[str, HeldBack]()

        def hold(headroom: Headroom, left: Mask) -> None:
            verdict = HeldBack(headroom.rule.policy, headroom.rule.name)
            held = np.flatnonzero(opened & ~left).tolist()
            found.update((results.names[index], verdict) for index in held)
            np.logical_and(opened, left, out=opened)

        for each in counted:
            hold(each, each.open)
        if opened.any():
            inspection = results.inspection
            uid, table = inspection.peer.uid, inspection.table
            rows = table.find(results.names)
            for headroom, kept in self._engine.placement.narrowed(
                uid, table, rows, counted, opened.copy(), lambda: suits
            ):
                hold(headroom, kept)
        return found

    def _offered(
        self, question: PodQuestion, names: Sequence[str]
    ) -> tuple[Mapping[str, Verdict], str]:
        """The answer of filter, and the error of a call."""
        body, verdicts = question.pod.body, dict[str, Verdict]()
        try:
            decided = self._engine.filter(body, names, None, math.inf)
            verdicts = dict(zip(names, decided, strict=True))
            passing = [n for n, verdict in verdicts.items() if isinstance(verdict, Feasible)]
            self._engine.prioritize(body, passing, None, math.inf)
        except EngineError as error:
            return verdicts, str(error)
        return verdicts, ""

    def _audits(
        self, results: ClauseResults, work: PodResults, *, offers: bool
    ) -> Work[list[PolicyAudit]]:
        """What each policy in audit mode would reject, and since when it leaves the pod no node."""
        inspection, passing = results.inspection, ~results.refused.any(axis=0)
        known = () if offers else self._engine.audits.log.of(inspection.peer.uid)
        since = {address: pod.since.to_second() for address, pod in known if pod.would_wait}
        audits = []
        for program in inspection.selection.audited:
            against = yield from work.objections_of(program)
            would = ClauseResults(inspection, results.names, {}, against).refused.any(axis=0)
            audits.append(
                PolicyAudit(
                    program.address,
                    int(would.sum()),
                    [AuditedClause(o.name, n) for o in against if (n := int(o.refused.sum()))],
                    int((passing & ~would).sum()),
                    since.get(program.address),
                )
            )
        return audits

    def _on_node(
        self,
        node: str | None,
        results: ClauseResults,
        given: Sequence[Contribution],
        work: PodResults,
    ) -> Work[tuple[Sequence[ClauseEvidence], Sequence[ScoreEvidence]]]:
        """The evidence of each clause about the node of the question, if there is one."""
        if node is None:
            return (), ()
        yield from count_pods_on(node, work)
        clauses = []
        for clause in clauses_on(self._written, results, node):
            clauses.append(clause)
            yield from work.pause()
        return clauses, [*scores_on(self._written, results, given, node)]

    def _rejections(self, results: ClauseResults, name: str) -> list[RejectionOfNode]:
        """The clauses that refuse a node, and by how much."""
        return [
            RejectionOfNode(o.policy, o.name, o.text, "\n".join(self._shortfall(o, results, name)))
            for o in results.against(name)
        ]

    def _shortfall(self, objection: Objection, results: ClauseResults, name: str) -> Iterable[str]:
        """The `detail` of a clause; without one, its counts or the failing parts of its filter."""
        written = self._written.find(objection.policy, objection.name)
        frame = results.inspection.frame_at(name)
        if detail := written.detail(frame):
            return [detail]
        if (counts := counted_on(objection, written, results, name)) is not None:
            return count_lines(counts)
        failing = finished(PodResults(results.inspection, [name]).parts(objection.program))
        requires = zip(written.clause.requirements, failing, strict=True)
        return [_because(written, r, frame, self._values) for r, mask in requires if mask[0]]

    def _summary(
        self, objection: Objection, fails: int, alone: int, work: PodResults
    ) -> Work[ClauseSummary]:
        """A clause with each `require` of a filter and on how many nodes it does not hold."""
        written = self._written.find(objection.policy, objection.name)
        requires: Sequence[Requirement] = ()
        if requirements := written.clause.requirements:
            failing = yield from work.parts(objection.program)
            texts = map(written.text, requirements)
            pairs = zip(texts, failing, strict=True)
            requires = [Requirement(text, int(mask.sum())) for text, mask in pairs]
        return ClauseSummary(
            objection.policy,
            objection.name,
            fails,
            alone,
            len(objection.errors),
            objection.message,
            objection.program.counts_pods,
            requires,
        )

    def _rows(
        self, results: ClauseResults, given: Sequence[Contribution], work: PodResults
    ) -> Work[Mapping[str, Sequence[str]]]:
        """By node, the clauses that refuse it with their `detail`, and scores without a value."""
        scored = list(results.scores)
        unscored: dict[str, list[str]] = {}
        for each in given:
            for index, error in each.errors.items():
                reason = f"{each.policy}: {each.name} is missing: {error}"
                unscored.setdefault(scored[index], []).append(reason)
        rows: dict[str, Sequence[str]] = {}
        for name in results.names:
            frame = results.inspection.frame_at(name)
            against = [self._reason(objection, frame) for objection in results.against(name)]
            rows[name] = [*against, *unscored.get(name, ())]
            yield from work.pause()
        return rows

    def _unfit(
        self, inspection: Inspection, pod: NamedPod, work: PodResults
    ) -> Work[Mapping[str, Sequence[str]]]:
        """By node, the reasons of kube-scheduler's own plugins, as if the pod was on no node.

        Where cards are given to the pod, it may request a resource that only stands for them.
        """
        asked = inspection.frame.pod
        assert isinstance(asked, Pod), "it is the pod of a request"
        gives_cards = any(program.cards for program in inspection.selection.enforced)
        ignored = unknown_resources(asked, inspection.table) if gives_cards else frozenset()
        found: dict[str, Sequence[str]] = {}
        for name in work.names:
            node = inspection.table.node(name)
            assert node is not None, "the names are those of the table"
            if name == pod.node:
                node = without(node, [each for each in node.pods or () if key_of(each) == pod.key])
            if reasons := [each for each in unfit_reasons(asked, node) if each not in ignored]:
                found[name] = reasons
            yield from work.pause()
        return found

    def _reason(self, objection: Objection, frame: Frame) -> str:
        detail = self._written.find(objection.policy, objection.name).detail(frame)
        more = f" ({detail})" if detail else ""
        return f"{objection.text}{more}"


def _because(written: Written, require: Expr, frame: Frame, values: Values) -> str:
    """An expression with the values of its outermost parts, and the part in which each error is."""
    known, failed = dict[str, str](), dict[str, str]()
    for depth, text, step in written.traced(require, frame).rows:
        if isinstance(step.outcome, EvaluationError):
            # The parts around it have the same error, and come before it.
            failed[str(step.outcome)] = text
        elif depth == 1:
            known.setdefault(text, values.line(step.outcome, step.expr.type))
    said = [f"{text} is {value}" for text, value in known.items()]
    said += [f"{text} has no value: {error}" for error, text in failed.items()]
    parts = ", ".join(said)
    whole = written.text(require)
    return f"{whole}: {parts}" if parts else whole
