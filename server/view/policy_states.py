"""Policy states: what a replica knows of its policies, and the numbers of their pods over time."""

from __future__ import annotations

import asyncio
import math
from collections import Counter, deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from logging import Logger

import msgspec
from aiohttp import web

from engine.cluster.events import PodEvent
from engine.decision.journal import Journal
from engine.enforced import EnforcedPolicies
from engine.engine import Engine
from engine.explanation.decision_document import (
    AuditList,
    audit_list,
    policy_audit,
)
from engine.explanation.effects import DecidedEffect, DecidedEffects
from engine.objects.peer import Peer
from engine.program.program import Program
from engine.work import shared_pause
from grammar.messages.diagnostics import Diagnostic
from grammar.messages.texts import shown
from grammar.values.errors import EvaluationError
from grammar.values.time import Timestamp
from policies.resource import ClusterSpec, Manifest, PolicyStatus
from policies.sugar import matches
from policies.validation import CheckedFile, identity
from server.answers.overview_answers import PodOnNode, PolicyEdit, RevisionList
from server.answers.view_answers import (
    PodNumbers,
    PolicyDetail,
    PolicyEvent,
    PolicyList,
    PolicySummary,
    Sample,
    State,
    problems,
)
from server.view.history import History
from server.view.policy_yaml import as_written, moved
from server.view.routes import Answer, ViewQuestion

_LOOK_SECONDS = 15.0
# The numbers that are kept of a policy: only those that differ from the ones before.
_MOST_SAMPLES = 120
# The objects between two turns of the event loop, and the pods in flight that are looked at.
_TURN, _MOST_IN_FLIGHT = 50, 1000
# The policies whose last edits are told, and the pods of each.
_MOST_EDITS, _MOST_PLACED = 10, 5
# The events of a policy that are told.
_MOST_EVENTS = 50
_NO_NUMBERS = PodNumbers(None, None, None, None, None)


class _StatusObject(msgspec.Struct):
    status: PolicyStatus = PolicyStatus()


@dataclass(frozen=True, slots=True)
class _Now:
    """What the event loop knows of the policies; answers are made of it in a thread.

    `objects` are by name.
    """

    at: str
    read: EnforcedPolicies
    programs: Mapping[str, Program]
    expensive: frozenset[str]
    overruled: Mapping[str, Sequence[str]]
    effects: Mapping[str, DecidedEffect]
    objects: Mapping[str, bytes]
    in_flight: Sequence[Peer]

    def numbers(self, name: str) -> PodNumbers:
        """The numbers of an object; none of a file."""
        checked, raw = self.read.objects.get(name), self.objects.get(name)
        if raw is None:
            return _NO_NUMBERS
        try:
            status = msgspec.json.decode(raw, type=_StatusObject).status
        except msgspec.MsgspecError:
            status = PolicyStatus()
        flying = None
        if checked is not None and checked.manifest is not None:
            flying = sum(_selects(checked.manifest, pod) for pod in self.in_flight)
        return PodNumbers(
            status.matchedPods, status.placedPods, status.targetPods, status.violations, flying
        )


@dataclass(frozen=True, slots=True)
class _KnownPolicy:
    """A policy, or a file without one that can be read, with its file and what is wrong."""

    summary: PolicySummary
    file: CheckedFile
    found: Sequence[Diagnostic]


class PolicyStates:
    """The policies of one replica. `objects` gives the JSON of policy objects by name.

    `log` hears once of each policy that rejects every node, or scores all nodes alike. `seen`
    keeps the texts of policies. `events` gives the events about an object that this replica has
    written, with their times.
    """

    def __init__(
        self,
        replica: str,
        engine: Engine,
        journal: Journal,
        read: Callable[[], EnforcedPolicies],
        objects: Callable[[], Mapping[str, bytes] | None],
        seen: History,
        log: Logger,
        events: Callable[[bytes], Sequence[tuple[str, PodEvent]]] = lambda _: (),
    ) -> None:
        self._replica = replica
        self._engine = engine
        self._journal = journal
        self.effects = DecidedEffects(journal)
        self._log = log
        self._told: dict[str, str] = {}
        self._read = read
        self._objects = objects
        self._events = events
        self._history: dict[str, deque[Sample]] = {}
        self._seen = seen

    async def follow(self) -> None:
        """Keeps the numbers of pods, until it is cancelled."""
        while True:
            await self.look()
            await shared_pause(_LOOK_SECONDS)

    async def look(self) -> None:
        """Adds the numbers of now to the history of each object, if they are others."""
        now = self._gathered()
        self._seen.look(now.read, now.objects, now.at)
        self._tell(now.effects)
        for number, name in enumerate(now.objects):
            if number % _TURN == _TURN - 1:
                await asyncio.sleep(0)
            pods = now.numbers(name)
            kept = self._history.setdefault(name, deque(maxlen=_MOST_SAMPLES))
            if not kept or kept[-1].pods != pods:
                kept.append(Sample(now.at, pods))
        self._history = {n: kept for n, kept in self._history.items() if n in now.objects}

    def edits(self, pod: Callable[[str], Peer | None]) -> Sequence[PolicyEdit]:
        """The last edits of policies, the newest first; `pod` gives one by `namespace/name`."""
        self._seen.look(self._read(), self._objects() or {}, Timestamp.now().to_second())
        newest = self._seen.edits(_MOST_EDITS)
        decisions = Counter[str]()
        placed: dict[str, list[PodOnNode]] = {each.address: [] for each in newest}
        since = {each.address: _nanos(each.at) for each in newest}
        for record in self._journal if newest else ():
            for address in (record.policies.governing, *record.policies.guardrails):
                if address in since and since[address] <= record.at.nanos:
                    decisions[address] += 1
                    key = f"{record.namespace}/{record.name}"
                    known = pod(key)
                    if known is not None and known.uid == record.uid and known.nodeName:
                        placed[address].append(PodOnNode(key, known.nodeName))
        return [
            PolicyEdit(
                each.address,
                each.at,
                each.by,
                each.action,
                decisions[each.address],
                len(placed[each.address]),
                placed[each.address][:_MOST_PLACED],
            )
            for each in newest
        ]

    def _tell(self, effects: Mapping[str, DecidedEffect]) -> None:
        void = {a: e for a, e in effects.items() if e.kind not in ("", "SelectsNoPod")}
        for address, effect in void.items():
            if self._told.get(address) != effect.kind:
                self._log.warning("policy %s %s", address, effect.text)
        self._told = {address: effect.kind for address, effect in void.items()}

    @property
    def answers(self) -> Mapping[str, Answer]:
        return {
            "policies": self.policies,
            "clusterPolicy": self.policy,
            "policy": self.policy,
            "revisions": self.revisions,
            "audit": self.audits,
        }

    async def audits(self, _asked: ViewQuestion) -> AuditList:
        """What policies in audit mode would have rejected."""
        return audit_list(self._replica, self._engine.audits.log)

    async def policies(self, _asked: ViewQuestion) -> object:
        """The policies and their state."""
        return self.listing()

    async def policy(self, asked: ViewQuestion) -> object:
        """One policy: its text, what is wrong with it, and the numbers of its pods over time."""
        address = "/".join(asked.names.values())
        if (answer := self.detail(address)) is None:
            raise web.HTTPNotFound(text=f"there is no policy `{shown(address)}`\n")
        return answer

    async def revisions(self, asked: ViewQuestion) -> object:
        """The texts that a policy had."""
        address, now = asked.query.get("policy", ""), self._gathered()
        self._seen.look(now.read, now.objects, now.at)
        found = self._seen.of(address)[::-1]
        return lambda: RevisionList(self._replica, address, [each.in_full() for each in found])

    def listing(self) -> Callable[[], PolicyList]:
        """What makes the list, in a thread."""
        now = self._gathered()

        def make() -> PolicyList:
            found = (known.summary for known in _every(now))
            ordered = sorted(found, key=lambda each: (each.address, each.origin))
            return PolicyList(self._replica, now.at, ordered)

        return make

    def detail(self, address: str) -> Callable[[], PolicyDetail] | None:
        """What makes the answer about one policy, in a thread; None if there is no such policy."""
        now = self._gathered()
        known = next((each for each in _every(now, address)), None)
        if known is None:
            return None
        history = tuple(self._history.get(known.summary.origin, ()))
        raw = now.objects.get(known.summary.origin)
        audits = self._engine.audits.log.policies.get(address)
        audit = None if audits is None else policy_audit(address, audits)
        events = [
            PolicyEvent(at, each.type, each.reason, each.note)
            for at, each in (self._events(raw) if raw is not None else ())
        ]

        def make() -> PolicyDetail:
            text = page = known.file.source.text
            found = problems(known.found, known.file.source)
            if raw is not None:
                text = as_written(raw)
                found = moved(found, page, text)
            return PolicyDetail(
                **msgspec.structs.asdict(known.summary),
                replica=self._replica,
                text=text,
                diagnostics=found,
                history=history,
                audit=audit,
                events=events[:_MOST_EVENTS],
            )

        return make

    def _gathered(self) -> _Now:
        flying = (known.pod for known, _ in self._engine.in_flight.first(_MOST_IN_FLIGHT))
        programs = {program.address: program for program in self._engine.registry.programs}
        return _Now(
            Timestamp.now().to_second(),
            self._read(),
            programs,
            self._engine.expensive,
            _overruled(self._journal),
            self.effects.of(programs.values()),
            self._objects() or {},
            [pod for pod in flying if pod is not None],
        )


def _nanos(at: str) -> float:
    """The nanoseconds of a time; infinity for a text that is no time."""
    try:
        return Timestamp.parse(at).nanos
    except EvaluationError:
        return math.inf


def _overruled(journal: Journal) -> Mapping[str, Sequence[str]]:
    """By policy, which others governed pods that it selects too."""
    found: dict[str, set[str]] = {}
    for record in journal:
        if (governing := record.policies.governing) is not None:
            for other in record.policies.gave_way:
                found.setdefault(other, set()).add(governing)
    return {other: sorted(winners) for other, winners in found.items()}


def _selects(manifest: Manifest, pod: Peer) -> bool:
    """Whether an object may concern a pod; its `namespaceSelector` is not looked at."""
    is_cluster = isinstance(manifest.spec, ClusterSpec)
    is_inside = is_cluster or pod.namespace == manifest.metadata.namespace
    return is_inside and matches(manifest.spec.podSelector, pod.labels)


def _every(now: _Now, address: str | None = None) -> Iterator[_KnownPolicy]:
    """Each policy, or those of one address, in the order of the files."""
    states: dict[object, State] = {
        identity(each.checked.policy): "last valid version in force" if each.stale else "in force"
        for each in now.read.in_force.active
    }
    for file in now.read.validation.files:
        if file.private:
            continue
        if not file.policies and file.unread and address in (None, file.source.name):
            name = file.source.name
            yield _known(now, file, name, None, "not in force", file.unread)
        for checked in file.policies:
            policy = checked.policy
            if address in (None, policy.address):
                state = states.get(identity(policy), "not in force")
                found = (*file.unread, *checked.diagnostics)
                yield _known(now, file, policy.address, policy.namespace, state, found)


def _known(
    now: _Now,
    file: CheckedFile,
    address: str,
    namespace: str | None,
    state: State,
    found: Sequence[Diagnostic],
) -> _KnownPolicy:
    program = now.programs.get(address) if state != "not in force" else None
    errors = sum(each.severity == "error" for each in found)
    summary = PolicySummary(
        address=address,
        namespace=namespace,
        origin=file.source.name,
        state=state,
        mode=None if program is None else "audit" if program.audit else "enforce",
        weight=None if program is None else program.weight,
        digest=None if program is None else program.digest,
        expensive=address in now.expensive,
        errors=errors,
        warnings=len(found) - errors,
        overruledBy=now.overruled.get(address, ()),
        effect=now.effects[address].text if address in now.effects else "",
        pods=now.numbers(file.source.name),
    )
    return _KnownPolicy(summary, file, found)
