"""Survey: a look at every pod on a node: which rules it breaks, and what a repair would do.

A repair moves one pod after another, so the survey does the same on paper: each pod is looked at
with those before it where they would be. Of a bound that is passed by some pods, as many are found:
then it holds on paper. Those come first that cost least: pods that are not ready, pods of low
priority, then young ones.

A Survey belongs to one replica, or to a command. It is done in steps of some milliseconds. Of pods
of one template, which are alike in all that the cache knows, the whole JSON of one says which may
break a rule; what is told of a pod comes from its own. Since when it breaks a rule is kept from one
survey to the next.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Generator, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TypeVar

import msgspec

from engine.cache.cluster_copy import NamedPod
from engine.cache.cluster_file import ClusterFileError
from engine.cache.node_table import Snapshot
from engine.decision.moves import BrokenRule, MovedPods, OtherNodes
from engine.decision.part import Breach, DecisionPart
from engine.decision.verb_call import ClusterState
from engine.drift.drift_document import BrokenClause, DriftDocument, DriftedPod, clauses_of
from engine.engine import Engine
from engine.errors import BadObjectError, DeadlineExceededError, EngineError
from engine.objects.kept_pods import kept
from engine.objects.peer import Peer, key_of
from engine.objects.remembered import Remembered
from engine.objects.request_pod import RequestPod
from grammar.values.time import NEVER, Timestamp

T = TypeVar("T")
# The pods between two looks at the clock, and the seconds of a step.
_PER_LOOK, _STEP_SECONDS = 128, 0.004
# The pods that are sorted at once.
_RUN = 1000
# The pods that are found in one survey: a repair takes its time for as many.
_MOST_FOUND = 1000
# The steps of one question; what takes longer is left out.
_MOST_STEPS = 200
# The paths of a pod that its template does not decide.
_OWN = frozenset(
    {
        (),
        ("metadata",),
        *(("metadata", key) for key in ("name", "uid", "creationTimestamp", "annotations")),
    }
)


# Yields None after each step, and the key of a pod to be sent its JSON, or None without one.
Steps = Generator[str | None, bytes | None, T]


@dataclass(frozen=True, slots=True)
class _Template:
    """What pods of one template have in common: one of them, and why a repair keeps that one."""

    pod: RequestPod
    kept: str


@dataclass(frozen=True, slots=True)
class _Suspect:
    """Suspect: a pod that may break a rule."""

    pod: Peer
    template: _Template


# Pods that belong together, as a part of decisions has it.
_Group = tuple[DecisionPart, Hashable]


def _cost(suspect: _Suspect) -> tuple[bool, int, int, str]:
    """What comes first is moved first."""
    pod = suspect.pod
    created = pod.created.nanos if pod.created is not None else -NEVER
    return pod.ready, pod.priority, -created, key_of(pod)


class Survey:
    """The surveys of one engine, one after another."""

    def __init__(
        self,
        replica: str,
        engine: Engine,
        cluster: ClusterState,
        clock: Callable[[], float],
        now: Callable[[], Timestamp] = Timestamp.now,
        drifting: Callable[[], Mapping[str, str]] = dict,
    ) -> None:
        """`drifting` gives the times since when policies have drifted, as their statuses say."""
        self._replica = replica
        self._engine = engine
        self._cluster = cluster
        self._clock = clock
        self._now = now
        self._drifting = drifting
        self._templates: Remembered[Hashable, _Template] = Remembered(
            size=lambda _, each: each.pod.undecoded_bytes, owner=lambda each: each.pod.namespace
        )
        # Whether the next survey is the first one of a term. What there was before has its time
        # from `drifting`, by the address of a policy.
        self._is_first = True
        self._before: Mapping[str, str] = {}
        # By uid, policy and clause.
        self._since: dict[tuple[str, str, str], str] = {}
        self._lost: dict[str, BrokenRule] = {}
        # The groups that have been whole, with the uids of their pods.
        self._whole: Mapping[_Group, frozenset[str]] = {}
        # The uids of the pods that this survey could not look at: it says nothing about them.
        self._unseen: set[str] = set()
        self._step_ends = 0.0

    def failed(self, problem: str) -> DriftDocument:
        """The document of a replica that cannot look."""
        return DriftDocument(replica=self._replica, problem=problem)

    def forget(self) -> None:
        """Forgets what was seen: the next survey is the first one of a term."""
        self._is_first, self._since, self._whole = True, {}, {}

    def look(self) -> Steps[DriftDocument]:
        """What has drifted now. Raises NotSyncedError."""
        began, at = self._clock(), self._now().to_second()
        self._before = self._drifting() if self._is_first else {}
        self._step_ends, self._unseen = began + _STEP_SECONDS, set()
        snapshot = self._cluster.snapshot()
        templates, looked = yield from self._by_template(snapshot)
        # By uid, the pods that have what their node does not have any more.
        self._lost = {}
        for view in filter(None, snapshot.table.nodes):
            for part in self._engine.parts:
                self._lost.update(part.misplaced(view))
            yield from self._rest()
        runs, groups, skipped = list[list[_Suspect]](), dict[_Group, list[_Suspect]](), list[str]()
        for key, pods in templates.items():
            template = yield from self._template(key, pods)
            if template is None:
                continue
            try:
                suspects = yield from self._suspects(template, pods, groups)
            except EngineError as error:
                skipped.append(f"{key_of(pods[0])} and pods like it: {error}")
                self._unseen.update(pod.uid for pod in pods)
                continue
            for begin in range(0, len(suspects), _RUN):
                runs.append(sorted(suspects[begin : begin + _RUN], key=_cost))
                yield from self._rest()
        # One by one: to sort all of them would be a long step.
        ordered, number = heapq.merge(*runs, key=_cost), sum(map(len, runs))
        found, left = yield from self._found(ordered, at, skipped)
        more = number - left if left else 0
        found += yield from self._broken_together(groups, at, len(found))
        current = {(p.uid, c.policy, c.clause) for p in found for c in p.clauses}
        self._since = {
            key: since
            for key, since in self._since.items()
            if key in current or key[0] in self._unseen
        }
        self._is_first = self._is_first and bool(self._unseen)
        return DriftDocument(
            replica=self._replica,
            at=at,
            seconds=round(self._clock() - began, 3),
            looked=looked,
            clauses=clauses_of(found),
            pods=found,
            more=more,
            skipped=skipped[:20],
        )

    # ---- the pods by their templates

    def _by_template(self, snapshot: Snapshot) -> Steps[tuple[dict[Hashable, list[Peer]], int]]:
        """The pods on nodes that a policy may concern, and the number of all."""
        registry, exempts = self._engine.registry, self._engine.exemptions.exempts
        each_alone = any(not _OWN.isdisjoint(program.reads) for program in registry.programs)
        concerns: dict[str, bool] = {}
        found: dict[Hashable, list[Peer]] = {}
        looked = 0
        for view in snapshot.table.nodes:
            for pod in (view.pods if view is not None else None) or ():
                looked += 1
                if looked % _PER_LOOK == 0:
                    yield from self._rest()
                namespace = pod.namespace
                if namespace not in concerns:
                    spaces = (p.namespace for p in registry.programs)
                    concerns[namespace] = any(each in (None, namespace) for each in spaces)
                if not concerns[namespace] or pod.deletionTimestamp is not None or exempts(pod):
                    continue
                found.setdefault(_template_key(pod, alone=each_alone), []).append(pod)
        return found, looked

    def _template(self, key: Hashable, pods: Sequence[Peer]) -> Steps[_Template | None]:
        """What the pods have in common; None if all that are asked for are gone."""
        if (known := self._templates.get(key)) is not None:
            return known
        for pod in pods[:3]:
            body = yield key_of(pod)
            if body is None:
                continue
            try:
                read = self._engine.moves.read(NamedPod.of(body).body)
                why = kept(pod, body, self._engine.exemptions)
            except (BadObjectError, ClusterFileError, msgspec.MsgspecError):
                continue
            if read.uid != pod.uid:
                continue
            return self._templates.put(key, _Template(read.undecoded(), why))
        return None

    def _suspects(
        self, template: _Template, pods: Sequence[Peer], groups: dict[_Group, list[_Suspect]]
    ) -> Steps[list[_Suspect]]:
        """The pods of a template that may break a rule; those of groups are added to these.

        Raises EngineError.
        """
        moves, nodes = self._engine.moves, sorted({pod.nodeName for pod in pods})
        # One more of the template, which is nowhere.
        asked = template.pod.like(msgspec.structs.replace(pods[0], uid="", name=""))
        call = yield from self._again(lambda: moves.call(asked))
        mask = yield from self._again(lambda: moves.suspects(moves.call(asked), nodes))
        there = {node for node, is_one in zip(nodes, mask.tolist(), strict=True) if is_one}
        for part in self._engine.parts:
            for number, pod in enumerate(pods):
                if (group := part.group_of(call, pod)) is not None:
                    groups.setdefault((part, group), []).append(_Suspect(pod, template))
                if number % _PER_LOOK == 0:
                    yield from self._rest()
        found = (pod for pod in pods if pod.nodeName in there or pod.uid in self._lost)
        return [_Suspect(pod, template) for pod in found]

    # ---- what they break

    def _found(
        self, suspects: Iterable[_Suspect], at: str, skipped: list[str]
    ) -> Steps[tuple[list[DriftedPod], int]]:
        """The pods that break rules, one after the other moved on paper.

        And how many suspects were looked at where these are too many, else 0.
        """
        moved, found = MovedPods(), list[DriftedPod]()
        for number, suspect in enumerate(suspects):
            if len(found) >= _MOST_FOUND:
                return found, number
            try:
                one = yield from self._drifted(suspect, moved, at, len(found) + 1)
            except EngineError as error:
                skipped.append(f"{key_of(suspect.pod)}: {error}")
                self._unseen.add(suspect.pod.uid)
                continue
            if one is not None:
                found.append(one)
        return found, 0

    def _drifted(
        self, suspect: _Suspect, moved: MovedPods, at: str, order: int
    ) -> Steps[DriftedPod | None]:
        pod, moves = suspect.pod, self._engine.moves
        now = self._cluster.pods.pod(key_of(pod))
        if now is None or now.uid != pod.uid or now.nodeName != pod.nodeName:
            return None
        # What a pod of its template may break, it breaks or not as its own JSON says.
        if not (yield from self._broken(suspect.template, pod, moved)):
            return None
        own = yield from self._own(pod)
        rules = (yield from self._broken(own, pod, moved)) if own is not None else ()
        if own is None or not rules:
            return None
        asked = own.pod.like(pod)
        other = yield from self._again(lambda: moves.others(asked, pod, moved))
        moved.move(pod, other.names[0] if other.names else other.paper)
        yield from self._rest()
        return self._document_of(pod, own.kept, rules, other, at, order)

    def _broken(
        self, template: _Template, pod: Peer, moved: MovedPods
    ) -> Steps[Sequence[BrokenRule]]:
        """The rules that a pod of a template breaks by itself. Raises EngineError."""
        asked = template.pod.like(pod)
        rules = yield from self._again(lambda: self._engine.moves.broken(asked, pod, moved))
        lost = self._lost.get(pod.uid)
        return rules if lost is None else [*rules, lost]

    def _own(self, pod: Peer) -> Steps[_Template | None]:
        """What a pod has by itself; None if it is gone."""
        return (yield from self._template(_template_key(pod, alone=True), [pod]))

    def _document_of(
        self,
        pod: Peer,
        kept: str,
        rules: Iterable[BrokenRule],
        other: OtherNodes,
        at: str,
        order: int,
    ) -> DriftedPod:
        broken = [self._clause(pod, rule, at) for rule in rules]
        workload = pod.workload
        return DriftedPod(
            order,
            key_of(pod),
            pod.uid,
            workload.title if workload is not None else None,
            pod.nodeName,
            broken,
            other.names,
            other.number,
            other.reason,
            kept,
        )

    def _broken_together(
        self, groups: Mapping[_Group, Sequence[_Suspect]], at: str, found: int
    ) -> Steps[list[DriftedPod]]:
        """The pods that break a rule together with those that they belong to."""
        unseen = {g: uids for g, uids in self._whole.items() if not self._unseen.isdisjoint(uids)}
        broken, whole = list[DriftedPod](), dict(unseen)
        for group, members in groups.items():
            if group in unseen:
                continue
            breach = yield from self._again(partial(self._breach, group, members))
            if breach.whole:
                whole[group] = frozenset(each.pod.uid for each in members)
            nowhere = OtherNodes((), 0, breach.stays)
            for pod in breach.pods[: _MOST_FOUND - len(broken) - found]:
                if (own := (yield from self._own(pod))) is not None:
                    order = found + len(broken) + 1
                    made = self._document_of(pod, own.kept, [breach.rule], nowhere, at, order)
                    broken.append(made)
        self._whole = whole
        return broken

    def _breach(self, group: _Group, members: Sequence[_Suspect]) -> Breach:
        """What the pods of a group break. Raises EngineError."""
        call = self._engine.moves.call(members[0].template.pod.like(members[0].pod))
        pods, (part, name) = [each.pod for each in members], group
        return part.breach(name, pods, call, was_whole=group in self._whole)

    # ---- since when

    def _clause(self, pod: Peer, rule: BrokenRule, at: str) -> BrokenClause:
        key = pod.uid, rule.policy, rule.clause
        since = self._since.setdefault(key, self._before.get(rule.policy, at))
        return BrokenClause(rule.policy, rule.clause, rule.kind, rule.text, since)

    # ---- steps

    def _rest(self) -> Iterator[None]:
        """Yields at the end of a step."""
        if self._clock() >= self._step_ends:
            yield None
            self._step_ends = self._clock() + _STEP_SECONDS

    def _again(self, question: Callable[[], T]) -> Steps[T]:
        """The answer to a question that goes on where its last step ended. Raises EngineError."""
        for _ in range(_MOST_STEPS):
            try:
                answer = question()
            except DeadlineExceededError:
                yield None
            else:
                yield from self._rest()
                return answer
        raise DeadlineExceededError("its policies take too long")


def _template_key(pod: Peer, *, alone: bool) -> Hashable:
    """What tells pods apart: equal for pods that are decided about alike."""
    return (
        pod.namespace,
        pod.controller,
        pod.uid if alone or not pod.controller else "",
        tuple(pod.labels.items()),
        tuple(pod.annotations.items()),
        tuple(pod.requests.items()),
        tuple(pod.limits.items()),
        pod.hostPorts,
        pod.group,
        pod.schedulerName,
        pod.priority,
        pod.containers,
    )


def answered(steps: Steps[T], pods: Callable[[str], bytes | None]) -> T:
    """The result of steps that nobody has to rest between; `pods` has the JSON of each."""
    answer: bytes | None = None
    while True:
        try:
            wanted = steps.send(answer)
        except StopIteration as end:
            found: T = end.value
            return found
        answer = pods(wanted) if wanted is not None else None
