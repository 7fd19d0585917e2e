"""Policy states: what a replica knows of its policies, and the numbers of their pods."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import msgspec
from aiohttp import web

from engine.decision.journal import Journal
from engine.enforced import EnforcedPolicies
from engine.engine import Engine
from grammar.messages.diagnostics import Diagnostic
from grammar.messages.texts import shown
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
    State,
    problems,
)
from server.view.history import History
from server.view.policy_yaml import as_written, moved
from server.view.routes import Answer, ViewQuestion
from server.view.view import policies_in_force

# The edits that are told.
_MOST_EDITS = 10


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

    def numbers(self, name: str) -> PodNumbers:
        """The numbers of an object; none of a file."""
        try:
            return msgspec.json.decode(self.objects.get(name, b"{}"), type=_StatusObject).status
        except msgspec.MsgspecError:
            return PodNumbers()


# A policy, or a file without readable policies, with the file and the diagnostics.
_Known = tuple[PolicySummary, CheckedFile, Sequence[Diagnostic]]


@dataclass(eq=False, slots=True)
class PolicyStates:
    """The policies of one replica. `objects` gives the JSON of policy objects by name.

    `seen` keeps the edits of policies.
    """

    replica: str
    engine: Engine
    journal: Journal
    read: Callable[[], EnforcedPolicies]
    objects: Callable[[], Mapping[str, bytes] | None]
    seen: History

    def look(self) -> None:
        """Has the history see the policies of now."""
        self.seen.look(self.read(), self.objects() or {}, Timestamp.now().to_second())

    def edits(self) -> Sequence[PolicyEdit]:
        """The last edits of policies, the newest first."""
        self.look()
        return self.seen.edits[:_MOST_EDITS]

    @property
    def answers(self) -> Mapping[str, Answer]:
        return {
            "policies": self.policies,
            "clusterPolicy": self.policy,
            "policy": self.policy,
        }

    async def policies(self, _asked: ViewQuestion) -> Callable[[], PolicyList]:
        """The policies and their state."""
        now = self._gathered()

        def make() -> PolicyList:
            found = (summary for summary, _, _ in _every(now))
            ordered = sorted(found, key=lambda each: (each.address, each.origin))
            return PolicyList(self.replica, now.at, ordered)

        return make

    async def policy(self, asked: ViewQuestion) -> Callable[[], PolicyDetail]:
        """One policy: the text, diagnostics, and the numbers of pods. Raises HTTPNotFound."""
        now, address = self._gathered(), "/".join(asked.names.values())
        known = next(_every(now, address), None)
        if known is None or not asked.reader.may_list(known[0].namespace):
            raise web.HTTPNotFound(text=f"there is no policy `{shown(address)}`\n")
        summary, file, diagnostics = known
        raw = now.objects.get(summary.origin)
        audit = self.engine.audits.log.policies.get(address)

        def make() -> PolicyDetail:
            source, shown_of = file.source, diagnostics
            if raw is None and not asked.reader.may_list(None):
                source, shown_of = _without_neighbours(file, address, diagnostics)
            text, found = source.text, problems(shown_of, source)
            if raw is not None:
                text = as_written(raw)
                found = moved(found, source.text, text)
            return PolicyDetail(
                **msgspec.structs.asdict(summary),
                replica=self.replica,
                text=text,
                diagnostics=found,
                audit=audit,
            )

        return make

    def _gathered(self) -> _Now:
        return _Now(
            Timestamp.now().to_second(),
            self.read(),
            {each.address: each for each in policies_in_force(self.engine)},
            _overruled(self.journal),
            self.objects() or {},
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


def _every(now: _Now, address: str | None = None) -> Iterator[_Known]:
    """Each policy, or those of one address, in the order of the files."""
    states: dict[object, State] = {
        identity(each.checked.policy): "last valid version in force" if each.stale else "in force"
        for each in now.read.in_force.active
    }
    for file in now.read.validation.files:
        if file.private:
            continue
        known: list[tuple[str, str | None, State, Sequence[Diagnostic]]] = [
            (
                each.policy.address,
                each.policy.namespace,
                states.get(identity(each.policy), "not in force"),
                (*file.unread, *each.diagnostics),
            )
            for each in file.policies
        ]
        if not known and file.unread:
            known = [(file.source.name, None, "not in force", file.unread)]
        for name, namespace, state, found in known:
            if address not in (None, name):
                continue
            errors = sum(each.severity == "error" for each in found)
            summary = PolicySummary(
                address=name,
                namespace=namespace,
                origin=file.source.name,
                state=state,
                inForce=now.in_force.get(name) if state != "not in force" else None,
                errors=errors,
                warnings=len(found) - errors,
                overruledBy=now.overruled.get(name, ()),
                pods=now.numbers(file.source.name),
            )
            yield summary, file, found
