"""Policy states: what a replica knows of its policies, and the numbers of their pods."""

from __future__ import annotations

import asyncio
import time
from collections import defaultdict
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

import msgspec
from aiohttp import web
from cachetools import TTLCache

from engine.decision.journal import Journal
from engine.decision.registry import Registry
from engine.enforced import EnforcedPolicies
from engine.errors import NotSyncedError
from engine.explanation.fills import selects
from engine.objects.peer import Peer, PeerReads, key_of, values_at
from engine.program.frame import Frame
from engine.program.program import Program
from engine.work import Work
from grammar.messages.diagnostics import Diagnostic
from grammar.messages.texts import shown
from grammar.tree.policy import Policy
from grammar.tree.source import Source, Span
from grammar.values.time import Timestamp
from policies.validation import CheckedFile, identity
from server.answers import (
    PodNumbers,
    PolicyDetail,
    PolicyEdit,
    PolicyInForce,
    PolicyList,
    PolicySummary,
    SelectedPod,
    State,
    problems,
)
from server.view.explaining import Explainer
from server.view.history import History
from server.view.policy_yaml import as_written, position_in
from server.view.routes import Answer, ViewQuestion
from server.view.turns import STEP_SECONDS, done, waiting_first
from server.view.view import policies_in_force

# The edits that are told, the pods of a policy that are listed, and for how many seconds selected
# pods serve those who ask.
_MOST_EDITS, _LISTED, _KEPT_SECONDS = 10, 20, 15.0


@dataclass(slots=True)
class _Selected:
    """The selected pods of a policy, the first by name; without `exactly` some are too many."""

    exactly: bool = True
    pods: int = 0
    waiting: int = 0
    listed: list[SelectedPod] = field(default_factory=list)

    def add(self, pods: int, waiting: int, some: list[SelectedPod]) -> None:
        self.pods, self.waiting = self.pods + pods, self.waiting + waiting
        self.listed = sorted(self.listed + some, key=lambda each: bool(each.node))[:_LISTED]


class _StatusObject(msgspec.Struct):
    status: PodNumbers = PodNumbers()


@dataclass(frozen=True, slots=True)
class _Now:
    """Policies now, as the event loop knows them; a thread makes answers of this.

    `objects` are by name.
    """

    at: str
    read: EnforcedPolicies
    in_force: Mapping[str, PolicyInForce]
    overruled: Mapping[str, Sequence[str]]
    objects: Mapping[str, bytes]
    edits: Mapping[str, PolicyEdit]
    selected: Mapping[str, _Selected]


# A policy, or a file without readable policies, with the file and the diagnostics.
_Known = tuple[PolicySummary, CheckedFile, Sequence[Diagnostic]]


@dataclass(eq=False, slots=True)
class PolicyStates:
    """The policies of one replica, which `here` knows; `seen` keeps their edits."""

    here: Explainer
    seen: History
    _selected: TTLCache[Registry, Mapping[str, _Selected]] = field(
        default_factory=lambda: TTLCache(1, _KEPT_SECONDS), init=False
    )
    _counting: asyncio.Lock = field(default_factory=asyncio.Lock, init=False)

    def look(self) -> None:
        """Has the history see the policies of now."""
        self.seen.look(
            self.here.enforced(), self.here.cluster.policies() or {}, Timestamp.now().to_second()
        )

    def edits(self) -> Sequence[PolicyEdit]:
        """The last edits of policies, the newest first."""
        self.look()
        return self.seen.edits[:_MOST_EDITS]

    @property
    def answers(self) -> Mapping[str, Answer]:
        return {"policies": self.policies, "clusterPolicy": self.policy, "policy": self.policy}

    async def policies(self, _asked: ViewQuestion) -> Callable[[], PolicyList]:
        """The policies and their state."""
        now = await self._now()
        every = (summary for summary, _, _ in _every(now))
        return lambda: PolicyList(
            self.here.replica, now.at, sorted(every, key=lambda each: (each.address, each.origin))
        )

    async def policy(self, asked: ViewQuestion) -> Callable[[], PolicyDetail]:
        """One policy: the text, diagnostics, and the numbers of pods. Raises HTTPNotFound."""
        now, address = await self._now(), "/".join(asked.names.values())
        may_list, audit = asked.reader.may_list, self.here.engine.audits.log.policies.get(address)

        def make() -> PolicyDetail:
            known = next((each for each in _every(now) if each[0].address == address), None)
            if known is None or not may_list(known[0].namespace):
                raise web.HTTPNotFound(text=f"there is no policy `{shown(address)}`\n")
            summary, file, diagnostics = known
            # Who may see a policy may list its pods: they are of its namespace, if it has one.
            pods = now.selected.get(address, _Selected())
            raw = now.objects.get(summary.origin)
            source = file.source
            if raw is None and not may_list(None):
                source, diagnostics = _without_neighbours(file, address, diagnostics)
            text = source.text if raw is None else as_written(raw)
            position = source.position if raw is None else position_in(text, source)
            return PolicyDetail(
                **msgspec.structs.asdict(summary),
                replica=self.here.replica,
                text=text,
                diagnostics=problems(diagnostics, position),
                audit=audit,
                exactly=pods.exactly,
                listed=pods.listed,
            )

        return make

    async def _pods(self) -> Mapping[str, _Selected]:
        """By policy the pods that it selects, those that wait first; none while none is known."""
        registry, exempts = self.here.engine.registry, self.here.engine.exemptions.exempts
        found = dict[str, _Selected]()
        # Of pods that are alike in what policies of a namespace read, one is evaluated.
        of = defaultdict[tuple[str | None, PeerReads], list[Program]](list)
        for each in registry.programs:
            by = each.selects_by
            found[each.address] = _Selected(each.select is None or by is not None)
            of[each.namespace, by.pod if by else frozenset()].append(each)

        def work() -> Work[None]:
            snapshot = self.here.cluster.snapshot()
            there = defaultdict[str | None, list[Peer]](list)
            frame = Frame(None, Timestamp.now(), slots=registry.slots)
            for pod in waiting_first(snapshot):
                for namespace in (None, pod.namespace) if not exempts(pod) else ():
                    there[namespace].append(pod)
                yield
            for (namespace, reads), programs in of.items():
                alike, values = defaultdict[Hashable, list[Peer]](list), values_at(reads)
                for pod in there[namespace]:
                    alike[pod.namespace, values(pod)].append(pod)
                    yield
                for pods in alike.values():
                    waiting = sum(not pod.nodeName for pod in pods)
                    some = [SelectedPod(key_of(p), p.nodeName or None) for p in pods[:_LISTED]]
                    for each in programs:
                        if selects(each, pods[0], snapshot, frame):
                            found[each.address].add(len(pods), waiting, some)
                        yield

        async with self._counting:
            if registry not in self._selected:
                try:
                    await done(work(), 0.0, time.monotonic, STEP_SECONDS)
                except NotSyncedError:
                    return {}
                self._selected[registry] = found
            return self._selected[registry]

    async def _now(self) -> _Now:
        selected = await self._pods()
        self.look()
        return _Now(
            Timestamp.now().to_second(),
            self.here.enforced(),
            {each.address: each for each in policies_in_force(self.here.engine)},
            _overruled(self.here.journal),
            self.here.cluster.policies() or {},
            {each.address: each for each in self.seen.edits},
            selected,
        )


def _without_neighbours(
    file: CheckedFile, address: str, found: Sequence[Diagnostic]
) -> tuple[Source, Sequence[Diagnostic]]:
    """The text of one policy of a file, and what is wrong there."""
    spans = (each.policy.span for each in file.policies if each.policy.address == address)
    span = next(spans, Span(0, 0))
    return Source(file.source.name, file.source.slice(span)), [
        replace(each, span=each.span.moved(-span.start))
        for each in found
        if span.start <= each.span.start and each.span.end <= span.end
    ]


def _overruled(journal: Journal) -> Mapping[str, Sequence[str]]:
    """By policy, which others governed pods that it selects too."""
    found: dict[str, set[str]] = {}
    for record in journal:
        if (governing := record.policies.governing) is not None:
            for other in record.policies.gave_way:
                found.setdefault(other, set()).add(governing)
    return {other: sorted(winners) for other, winners in found.items()}


def _every(now: _Now) -> Iterator[_Known]:
    """Each policy, in the order of the files."""
    states: dict[object, State] = {
        identity(each.checked.policy): "last valid version in force" if each.stale else "in force"
        for each in now.read.in_force.active
    }
    for file in now.read.validation.files:
        if file.private:
            continue
        told: list[tuple[Policy | None, Sequence[Diagnostic]]] = [
            (each.policy, (*file.unread, *each.diagnostics)) for each in file.policies
        ]
        if file.unread and not told:
            told = [(None, file.unread)]
        for policy, found in told:
            name = file.source.name if policy is None else policy.address
            state = states.get(identity(policy), "not in force") if policy else "not in force"
            pods, errors = now.selected.get(name), sum(each.severity == "error" for each in found)
            summary = PolicySummary(
                address=name,
                description="" if policy is None else str(policy.setting("description", "")),
                namespace=None if policy is None else policy.namespace,
                origin=file.source.name,
                state=state,
                inForce=now.in_force.get(name) if state != "not in force" else None,
                errors=errors,
                warnings=len(found) - errors,
                overruledBy=now.overruled.get(name, ()),
                pods=_numbers(now.objects.get(file.source.name, b"{}")),
                selected=None if pods is None else pods.pods,
                waiting=None if pods is None else pods.waiting,
                edit=now.edits.get(name),
            )
            yield summary, file, found


def _numbers(raw: bytes) -> PodNumbers:
    """The numbers of an object; none where they cannot be read."""
    try:
        return msgspec.json.decode(raw, type=_StatusObject).status
    except msgspec.MsgspecError:
        return PodNumbers()
