"""Explanation: makes the PodExplanation of a pod, from all that its policies say of every node.

It is worked out in portions of a few milliseconds: a running replica does so on the event loop that
decides, and decisions are made between two portions. The rest needs no event loop, so that a thread
can do it. A command does both at once.

A capability may object to nodes first. Once every clause was asked, it says something of the pod,
for people and as data: PARTS lists them.

Two answers about a pod, such as then and now, differ because of four things: the policies, the
offered nodes, what strict clauses counted, and the time. `changes` says which are others now.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import msgspec
import numpy as np

from engine.cache.cluster_copy import NamedPod
from engine.cache.node_table import KnownRows, without
from engine.counting.bounds import Mask
from engine.counting.count_clauses import of_unknown_size
from engine.counting.groups import Headroom
from engine.decision.audit_log import AuditedClause, PolicyAudit
from engine.decision.journal import recorded_counts
from engine.decision.plugin_filters import unknown_devices
from engine.decision.registry import Selection
from engine.decision.verdict import HeldBack, full_reason
from engine.enforced import EnforcedPolicies
from engine.engine import Engine
from engine.errors import (
    BadObjectError,
    DeadlineExceededError,
    EngineError,
    NotSyncedError,
    UnknownNodeError,
)
from engine.explanation.cause import cause_of, last_words
from engine.explanation.document import (
    CAVEAT,
    Applies,
    Change,
    ClauseCounts,
    ClauseSummary,
    ConcernedPolicy,
    NearestMiss,
    NodeExplanation,
    NodeGroup,
    PodAnswer,
    PodDecision,
    PodExplanation,
    RejectingClause,
    Requirement,
    ScoredNode,
    UnfitNodes,
    What,
    counts_of,
    in_order,
)
from engine.explanation.inspection import ClauseResults, Inspection, Objection
from engine.explanation.reader import EVERYTHING, Reader
from engine.explanation.written import Values, WrittenClauses, clauses_on, scores_on
from engine.facts import ExplainedPart
from engine.gangs.gang import part_of
from engine.gangs.gangs import Gangs
from engine.objects.eligibility import insufficient, not_looked_at
from engine.objects.eligibility import unfit as unfit_reasons
from engine.objects.peer import Workload, key_of
from engine.objects.request_pod import form_versions
from engine.portable.portable_form import told_to_others
from engine.program.frame import Frame
from engine.program.program import CardsProgram, Program
from engine.work import Work, finished
from grammar.meaning.schema import Schema
from grammar.messages.catalogue import listed
from grammar.messages.texts import named, shown
from grammar.values.errors import EvaluationError
from grammar.values.time import SECOND, Timestamp

# For people, and the same as data by its key in PodAnswer or PodExplanation.
Said = tuple[Sequence[ExplainedPart], Mapping[str, object]]
# Objections to nodes, and what is said once every clause was asked.
Explained = tuple[Sequence[Objection], Callable[[ClauseResults], Work[Said]]]


def _portable(inspection: Inspection) -> Explained | None:
    """What portable policies have told others of the pod."""
    pod = msgspec.json.decode(inspection.call.pod.body)
    said_of = form_versions(pod.get("metadata", {}).get("annotations") or {})
    may_name = inspection.reader.may_name
    told = {key: digest for key, digest in said_of.items() if "/" not in key or may_name(key)}
    if not told:
        return None
    texts = list(told_to_others(told, inspection.engine.registry))

    def said(_results: ClauseResults) -> Work[Said]:
        yield from ()
        return [ExplainedPart(texts=texts)], {"toldToOthers": texts}

    return (), said


def _gang(inspection: Inspection) -> Explained | None:
    """The gang of the pod, which objects to the nodes that it does not leave to the pod."""
    gangs = inspection.engine.part(Gangs)
    gang = None if gangs is None else gangs.of_pod(inspection.call, places=inspection.places)
    if gang is None:
        return None
    allowed = inspection.names if gang.allowed is None else gang.allowed
    refused = np.array([name not in allowed for name in inspection.names], np.bool_)
    objection = inspection.objection(gang.program, gang.program, refused, rest=gang.refusal)

    members = [each for each in gang.told.members if inspection.reader.may_name(each.pod)]
    unknown = gangs.not_on_paper(inspection.call) if gangs is not None else ()
    told = msgspec.structs.replace(gang.told, members=members, notOnPaper=unknown)

    def said(results: ClauseResults) -> Work[Said]:
        yield from ()
        pod = key_of(inspection.peer)
        alone = not inspection.names or results.rejects_alone(objection)
        return [part_of(told, pod, alone=alone)], {"gang": told}

    return [objection], said


def _audits(inspection: Inspection) -> Explained:
    """What each policy in audit mode would reject, and since when it leaves the pod no node."""

    def said(results: ClauseResults) -> Work[Said]:
        passing = ~results.refused.any(axis=0)
        audited = inspection.selection.audited
        known = inspection.engine.audits.log.of(inspection.peer.uid) if audited else ()
        since = {address: pod.since for address, pod in known if pod.wouldWait}
        audits = []
        for program in audited:
            against = yield from inspection.objections_of(program)
            would = ClauseResults(inspection, against).refused.any(axis=0)
            clauses = [AuditedClause(o.name, n) for o in against if (n := int(o.refused.sum()))]
            address, left = program.address, int((passing & ~would).sum())
            audits.append(PolicyAudit(address, int(would.sum()), clauses, left, since.get(address)))
        return [each.part for each in audits], {"audits": audits}

    return (), said


# In their order in explanations.
PARTS: Sequence[Callable[[Inspection], Explained | None]] = (_portable, _gang, _audits)


T = TypeVar("T")
_Differs = tuple[str, T | None, T | None]
_MOST_NEAREST = 20
# The most names in the text of a difference.
_NAMED = 4


@dataclass(frozen=True, slots=True)
class PodQuestion:
    """A question about a pod, and how much of it is to be explained.

    `node` is the node to show in full. With `places` those that wait together get places; only for
    an engine that serves nobody else. `reader` is who asks.
    """

    pod: NamedPod
    node: str | None = None
    places: bool = False
    reader: Reader = EVERYTHING


@dataclass(frozen=True, slots=True)
class Asker:
    """The asker of a question: who answers, what schedulers said, and the last decision.

    `replica` is None for a command. `events` are those about the pod. Without `is_live` nobody
    knows what a scheduler has said, unless the pod itself has it. `then` is the last decision.
    """

    replica: str | None = None
    is_live: bool = False
    events: Sequence[dict[str, Any]] = ()
    then: PodDecision | None = None


NOBODY = Asker()
Told = Callable[[Asker], PodExplanation]
_NOT_EXPLAINED = (UnknownNodeError, BadObjectError, DeadlineExceededError, NotSyncedError)


class Analyst:
    """The analyst of one engine, who explains pods by the policies that are in force."""

    def __init__(
        self,
        engine: Engine,
        policies: EnforcedPolicies,
        schema: Schema,
        clock: Callable[[], float] = time.monotonic,
        now: Callable[[], Timestamp] = Timestamp.now,
    ) -> None:
        self._engine = engine
        self._clock = clock
        self._now = now
        self.policies = policies
        self._broken = policies.broken
        self._written = WrittenClauses(policies.policies, policies.texts, Values(schema))

    def at_once(self, question: PodQuestion, asker: Asker = NOBODY) -> PodExplanation:
        """The explanation, without a rest. Raises as `work`."""
        return finished(self.work(question))(asker)

    def work(self, question: PodQuestion) -> Work[Told]:
        """What makes the explanation, for a thread. Yields after each portion.

        Where there would be no decision, the explanation has only the `problem`. Raises
        UnknownNodeError, BadObjectError, NotSyncedError, and DeadlineExceededError for what gets no
        further.
        """
        try:
            return (yield from self._told(question))
        except _NOT_EXPLAINED:
            raise
        except EngineError as error:
            explained = self._begun(question, self._now(), str(error))
            return lambda asker: _with_asker(explained, question.pod, asker)

    def _begun(
        self, question: PodQuestion, at: Timestamp, problem: str | None = None
    ) -> PodExplanation:
        """The beginning of an explanation, before anything is said of nodes."""
        pod, reader = question.pod, question.reader
        return PodExplanation(
            pod=pod.key,
            at=at.to_second(),
            on=pod.node or None,
            # An error may be one of a neighbour in the same file.
            notInForce=[
                msgspec.structs.replace(each, because=reader.error(each.because))
                for each in self._broken
                if each.namespace in ("", pod.namespace)
            ],
            problem=problem,
            caveat=_caveat(pod),
        )

    def _told(self, question: PodQuestion) -> Work[Told]:
        # What is in force may change while this works.
        registry, pod = self._engine.registry, question.pod
        inspection = Inspection(
            self._engine,
            pod.body,
            clock=self._clock,
            places=question.places,
            reader=question.reader,
        )
        table, selection = inspection.table, inspection.selection
        if question.node is not None and question.node not in table.rows:
            raise UnknownNodeError(f"there is no node `{shown(question.node)}`")
        objections = yield from inspection.objections()
        made = [found for part in PARTS if (found := part(inspection)) is not None]
        objections += [objection for against, _ in made for objection in against]
        scored = ClauseResults(inspection, objections).passing()
        given = yield from inspection.contributions(scored)
        results = ClauseResults(inspection, objections, given, scored)
        held = self._held_back(results) if not pod.node or question.places else {}
        clauses, nearest = yield from self._clauses(results)
        devices = unknown_devices(inspection.call.pod.pod.requests, table.nodes)
        unfit = yield from _unfit(inspection, pod, {*map(insufficient, devices)})
        known_rows = KnownRows(table.find(inspection.names), table.rows)
        counts = recorded_counts(inspection.headrooms, known_rows)
        parts, data = list[ExplainedPart](), dict[str, Any]()
        for _, work in made:
            more, known = yield from work(results)
            parts += more
            data |= known
        explained = msgspec.structs.replace(
            self._begun(question, inspection.frame.now),
            caveat=_caveat(
                pod, () if selection.of(CardsProgram) else devices, inspection.unknown_size
            ),
            exempt=selection.exempt or None,
            nodes=len(inspection.names),
            passing=int(results.passes.sum()),
            heldBack=len(held),
            clauses=clauses,
            nearest=nearest,
            counts=counts_of(counts, question.reader),
            parts=parts,
            **data,
        )
        node = None
        if (name := question.node) is not None:
            said = yield from clauses_on(self._written, results, name)
            terms, outcome = scores_on(self._written, results, name), _outcome(results, held, name)
            holds, score = results.holds(name), results.scores.get(name)
            others = unfit.get(name, ())
            node = NodeExplanation(name, holds, outcome, score, said, list(terms), others)

        def told(asker: Asker) -> PodExplanation:
            own = [p for p in registry.programs if p.namespace in (None, pod.namespace)]
            frame = inspection.frame
            whole = msgspec.structs.replace(
                explained,
                policies=[
                    ConcernedPolicy(p.address, *_application(p, selection, frame), p.digest)
                    for p in own
                ],
                otherPolicies=len(registry.programs) - len(own),
                groups=_groups(results, held),
                unfit=_by_reason(unfit),
                scores=_scores(results),
                node=node,
            )
            return _with_asker(whole, pod, asker)

        return told

    def _held_back(self, results: ClauseResults) -> Mapping[str, HeldBack]:
        """The nodes that pass and would be held back from a pod that is asked about now."""
        inspection, opened = results.inspection, results.passes.copy()
        counted = [*inspection.headrooms, *inspection.kept_out]
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
            uid, table = inspection.peer.uid, inspection.table
            suits = np.array([results.scores.get(name, 0) for name in results.names], np.float64)
            for headroom, kept in self._engine.placement.narrowed(
                uid, table, table.find(results.names), counted, opened.copy(), lambda: suits
            ):
                hold(headroom, kept)
        return found

    # ---- clauses and nodes

    def _clauses(
        self, results: ClauseResults
    ) -> Work[tuple[Sequence[ClauseSummary], Sequence[NearestMiss]]]:
        """Each clause with the nodes that it rejects, and the nodes that few clauses reject."""
        inspection, refused = results.inspection, results.refused
        counts = refused.sum(axis=0)
        order = np.argsort(counts, kind="stable")
        wanted = order[counts[order] > 0][:_MOST_NEAREST].tolist()
        nearest = []
        for name in (results.names[index] for index in wanted):
            if not inspection.selection.unselectable:
                against = yield from clauses_on(self._written, results, name, rejecting=True)
                nearest.append(NearestMiss(name, against))
        clauses = []
        for objection in results.objections:
            written, requires = self._written.find(objection.policy, objection.name), []
            if texts := [written.text(each) for each in written.clause.requirements]:
                failing = yield from inspection.parts(objection.program)
                pairs = zip(texts, failing, strict=True)
                requires = [Requirement(text, int(mask.sum())) for text, mask in pairs]
            clauses.append(
                ClauseSummary(
                    objection.policy,
                    objection.name,
                    int(objection.refused.sum()),
                    int((objection.refused & (counts == 1)).sum()),
                    len(objection.errors),
                    objection.message,
                    objection.program.counts_pods,
                    requires,
                    objection.opening or msgspec.UNSET,
                )
            )
        return clauses, nearest


def _with_asker(explained: PodExplanation, pod: NamedPod, asker: Asker) -> PodExplanation:
    """The explanation with the cause, what schedulers have said last, and the last decision."""
    body = msgspec.json.decode(pod.body)
    whole = {**body, "spec": {**(body.get("spec") or {}), "nodeName": pod.node}}
    broken = explained.notInForce
    return msgspec.structs.replace(
        explained,
        replica=asker.replica,
        cause=cause_of(whole, asker.events, explained, broken, is_live=asker.is_live),
        said=last_words(whole, asker.events) or None,
        then=asker.then,
        changes=() if asker.then is None else changes(asker.then, explained),
    )


# ---- the nodes


def _held_text(verdict: HeldBack) -> str:
    return full_reason(verdict.policy, verdict.clause, verdict.reason)


def _broken(results: ClauseResults) -> list[RejectingClause]:
    """The policies that reject every node, because their `for` cannot be evaluated."""
    found = results.inspection.selection.unselectable
    pairs = ((e.program.address, f"its `for` cannot be evaluated: {e.error}") for e in found)
    return [RejectingClause(address, "for", f"{address}: {text}") for address, text in pairs]


def _outcome(results: ClauseResults, held: Mapping[str, HeldBack], name: str) -> str:
    if name in held:
        return f"passes; {_held_text(held[name])}"
    if results.holds(name):
        return "passes"
    texts = [*(each.text for each in _broken(results)), *(o.text for o in results.against(name))]
    return f"fails by {texts[0]}"


def _by_reason(unfit: Mapping[str, Sequence[str]]) -> list[UnfitNodes]:
    """The nodes that kube-scheduler's own plugins reject, by reason, the most first."""
    by_reason: dict[str, list[str]] = {}
    for name, reasons in unfit.items():
        for reason in reasons:
            by_reason.setdefault(reason, []).append(name)
    found = (UnfitNodes(reason, len(names), names) for reason, names in by_reason.items())
    return sorted(found, key=lambda each: (-each.nodes, each.text))


def _groups(results: ClauseResults, held: Mapping[str, HeldBack]) -> list[NodeGroup]:
    indexes: dict[tuple[bytes, str], list[int]] = {}
    bits = [b""] * len(results.names)
    if results.objections:
        columns = np.ascontiguousarray(np.packbits(results.refused, axis=0).T)
        bits = [column.tobytes() for column in columns]
    for index, (name, column) in enumerate(zip(results.names, bits, strict=True)):
        why = _held_text(held[name]) if name in held else ""
        indexes.setdefault((column, why), []).append(index)
    broken, groups = _broken(results), []
    for (_, why), each in indexes.items():
        refusing = (o for o in results.objections if o.refused[each[0]])
        against = [RejectingClause(o.policy, o.name, o.text) for o in refusing]
        names = [results.names[index] for index in each]
        groups.append(NodeGroup([*broken, *against], len(names), names, why))
    return in_order(groups)


def _scores(results: ClauseResults) -> list[ScoredNode] | None:
    """The best first, of equal scores by what they were before they were rounded."""
    if not results.scores:
        return None
    total = sum(each.weight for each in results.given)
    exactly = np.sum([each.weight * each.points for each in results.given], axis=0) / total / 10
    scored = zip(results.scores.items(), exactly.round(4).tolist(), strict=True)
    order = sorted(scored, key=lambda each: (-each[0][1], -each[1], each[0][0]))
    missing: dict[str, list[str]] = {}
    for each in results.given:
        for index, error in each.errors.items():
            text = f"{each.policy}: {each.name} is missing: {error}"
            missing.setdefault(results.scored[index], []).append(text)
    return [ScoredNode(name, score, missing.get(name, ())) for (name, score), _ in order]


def _caveat(
    pod: NamedPod, devices: Iterable[str] = (), unknown_size: Workload | None = None
) -> str:
    """What an extender cannot see; no node shows the `devices`."""
    unknown = [*not_looked_at(pod.body), *(f"devices `{name}`" for name in sorted(devices))]
    found = f"it has {listed(unknown, 'and')}, which nobody here looks at; " if unknown else ""
    if pod.bound:
        found = f"its `nodeName` is `{shown(pod.bound)}`: kube-scheduler passes it by; {found}"
    if unknown_size is not None:
        found = f"{of_unknown_size([unknown_size])}; {found}"
    return f"{found}{CAVEAT}"


def _unfit(
    inspection: Inspection, pod: NamedPod, ignored: Collection[str]
) -> Work[Mapping[str, Sequence[str]]]:
    """By node, the reasons of kube-scheduler's own plugins, as if the pod was on no node.

    Reasons about devices of which nothing is known are `ignored`.
    """
    asked = inspection.call.pod.pod
    found: dict[str, Sequence[str]] = {}
    for name in inspection.names:
        node = inspection.table.node(name)
        assert node is not None, "the names are those of the table"
        if name == pod.node:
            node = without(node, [each for each in node.pods or () if key_of(each) == pod.key])
        if reasons := [each for each in unfit_reasons(asked, node) if each not in ignored]:
            found[name] = reasons
        yield from inspection.pause()
    return found


# ---- the policies


def _application(program: Program, selection: Selection, frame: Frame) -> tuple[Applies, str]:
    """How a policy that can apply to a pod applies to it, and the reason."""
    if selection.exempt:
        return "no", selection.exempt
    if program in selection.guardrails:
        return "as a guardrail", "every cluster policy that selects the pod applies"
    if program is selection.governing:
        return "governs", _victory(program, selection.gave_way)
    if program in selection.gave_way:
        assert selection.governing is not None, "no policy gives way without one that governs"
        return "gives way", f"`{selection.governing.address}` governs"
    if program in selection.audited:
        return "in audit", "it is evaluated, but rejects nothing"
    for broken in selection.unselectable:
        if broken.program is program:
            return "rejects all", f"its `for` cannot be evaluated: {broken.error}"
    assert program.select is not None, "a policy without a `for` selects every pod"
    try:
        program.select(frame)
    except EvaluationError as error:
        return "no", f"its `for` has no value: {error}"
    # Of an object it is made of selectors.
    selector = "podSelector or namespaceSelector" if program.cluster else "podSelector"
    is_text = program.source.policy.strict is None
    return "no", "its `for` is false" if is_text else f"its {selector} does not match"


def _victory(winner: Program, others: tuple[Program, ...]) -> str:
    """The first rule of precedence in which the winner and the next policy differ."""
    if not others:
        return "no other policy selects the pod"
    other, name = others[0], f"`{others[0].address}`"
    if winner.weight != other.weight:
        return f"its weight {winner.weight} is higher than the {other.weight} of {name}"
    if winner.strict != other.strict:
        return f"it can reject, and {name} cannot"
    if winner.namespace != other.namespace:
        return f"it belongs to the namespace, and {name} to all namespaces"
    return f"its name comes before {name}"


# ---- the difference of two answers


def changes(then: PodAnswer, now: PodAnswer) -> Sequence[Change]:
    """The differences between two answers about one pod, in the order of `What`."""
    found: tuple[tuple[What, Iterator[str]], ...] = (
        ("policies", _other_policies(then, now)),
        ("nodes", _other_nodes(then, now)),
        ("counts", _other_counts(then.counts, now.counts)),
        ("time", _other_time(then.at, now.at)),
    )
    return [Change(what, text) for what, parts in found if (text := "; ".join(parts))]


def _differing(before: Mapping[str, T], after: Mapping[str, T]) -> Iterator[_Differs[T]]:
    """The names under which two mappings say something else, with what each says, by name."""
    for name in sorted(before.keys() | after.keys()):
        if (old := before.get(name)) != (new := after.get(name)):
            yield name, old, new


def _other_policies(then: PodAnswer, now: PodAnswer) -> Iterator[str]:
    digests = ({p.address: p.digest for p in each.policies if p.concerns} for each in (then, now))
    for address, old, new in _differing(*digests):
        if new is None:
            yield f"{address} concerned the pod, and does not now"
        elif old is None:
            yield f"{address} concerns the pod now, and did not"
        else:
            yield f"{address} was {old} and is {new}"


def _other_nodes(then: PodAnswer, now: PodAnswer) -> Iterator[str]:
    before, after = ({n for g in each.groups for n in g.names} for each in (then, now))
    if then.nodes and not before:
        # Where no policy concerns the pod, only the number of nodes is kept.
        if then.nodes != now.nodes:
            yield f"{then.nodes} were offered, and there are {now.nodes}"
        return
    if more := sorted(after - before):
        yield f"not offered then: {named(more, _NAMED)}"
    if gone := sorted(before - after):
        yield f"offered then and gone: {named(gone, _NAMED)}"


def _other_counts(then: Sequence[ClauseCounts], now: Sequence[ClauseCounts]) -> Iterator[str]:
    before, after = _by_clause(then), _by_clause(now)
    # A clause that only one of them has is a change of the policies, or there was no decision.
    for clause in sorted(before.keys() & after.keys()):
        others = [
            f"{group} {old or 0:g} then and {new or 0:g} now"
            for group, old, new in _differing(before[clause], after[clause])
        ]
        if others:
            yield f"{clause}: {named(others, _NAMED)}"


def _by_clause(counts: Sequence[ClauseCounts]) -> Mapping[str, Mapping[str, float]]:
    return {
        f"{each.policy}: {each.clause}": {group.name: group.pods for group in each.groups}
        for each in counts
    }


def _other_time(then: str, now: str) -> Iterator[str]:
    try:
        seconds = (Timestamp.parse(now).nanos - Timestamp.parse(then).nanos) // SECOND
    except EvaluationError:
        return
    if seconds:
        yield f"{abs(seconds)} s {'later' if seconds > 0 else 'earlier'}"
