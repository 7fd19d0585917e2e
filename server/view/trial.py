"""Trial: a draft beside the policies in force, on a cluster that comes in parts.

It runs in the process for drafts: `begin`, `take` for each part, and `finish`.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

import msgspec

from engine.cache.cluster_copy import ClusterCopy, DataText, NamedPod
from engine.cache.cluster_file import ClusterFileError, ClusterObjects
from engine.cache.informers import Needs
from engine.cache.pod_manifests import DEFAULT_NAMESPACE
from engine.enforced import EnforcedPolicies, enforced, needs_of
from engine.engine import Engine
from engine.errors import EngineError
from engine.explanation.effects import effects
from engine.explanation.inspection import ClauseResults, Inspection
from engine.objects.peer import key_of
from engine.objects.request_pod import ObjectCodec
from engine.objects.workload_pods import as_stored
from engine.offline import offline_engine
from engine.simulation.pod_list import PodList, PodReader, pods_in
from engine.work import finished
from grammar.meaning.schema import Schema
from grammar.messages.diagnostics import UserError
from grammar.messages.texts import shown
from grammar.tree.source import Source
from policies.admission import StoredObject, check_stored
from policies.documents import DocumentError, as_json
from policies.editor.completion import Samples
from policies.editor.edited_text import EditedDocument, complete, usable
from policies.validation import CheckedFile, Validation, Validator
from server.answers import (
    MOST_PODS,
    ChangedPod,
    CheckedDraft,
    CompletedDraft,
    DraftText,
    Point,
    Problem,
    Trial,
    TriedDraft,
    problems,
)

T = TypeVar("T")
# The seconds after which no further pod is asked about, and the names in an answer.
_SECONDS, _MOST_NAMES = 3.0, 20
# The pods that are asked about for what the draft's policies do.
_MOST_ASKED = 100
_FILE = Path("cluster")


@dataclass(frozen=True, slots=True)
class Beside:
    """What is in force beside a draft: policy files, and policy objects by name."""

    files: Sequence[Source]
    objects: Mapping[str, bytes]


@dataclass(frozen=True, slots=True)
class _Checked:
    """A checked draft, and what was checked with it."""

    file: CheckedFile
    stored: Mapping[str, StoredObject]
    validation: Validation

    @property
    def told(self) -> Sequence[Problem]:
        return problems(self.file.diagnostics, self.file.source.position)


@dataclass(frozen=True, slots=True)
class _Trial:
    """A trial of a draft: the policies without and with the draft, and the cluster so far."""

    draft: _Checked
    policies: Sequence[EnforcedPolicies]
    objects: ClusterObjects
    data: Mapping[str, DataText]


# What the process keeps between two jobs: it has one trial at a time.
_trials: list[_Trial] = []


def answered(function: Callable[..., T], *args: object) -> T | UserError:
    """The answer of a function below, or the error that a user is told. Runs in the process."""
    try:
        return function(*args)
    except UserError as error:
        return error


def check_draft(beside: Beside, draft: DraftText, schema: Schema) -> CheckedDraft:
    """What is wrong with a draft."""
    return CheckedDraft(_checked(beside, draft, schema).told)


def complete_draft(beside: Beside, point: Point, schema: Schema) -> CompletedDraft:
    """What can stand at a place of a draft."""
    checked = _checked(beside, point, schema)
    text = EditedDocument(checked.file, usable(checked.validation.files), schema)
    return CompletedDraft(complete(text, min(point.offset, len(point.text)), Samples()))


# The kind and the `namespace/name` of workloads, and the uids of those that are in the cluster.
Keys = frozenset[tuple[str, str]]
KnownUids = Mapping[tuple[str, str], str]


def pods_of(text: str, namespace: str, uids: KnownUids, _schema: Schema) -> tuple[PodList, Keys]:
    """The pods of manifests, at most MOST_PODS, and the workloads whose uids would be of use."""
    wanted = set[tuple[str, str]]()

    def known(kind: str, key: str) -> str | None:
        wanted.add((kind, key))
        return uids.get((kind, key))

    try:
        contents = list(as_json(text.encode(), is_yaml=False))
    except DocumentError as error:
        raise UserError(f"`pods` cannot be read: {error}") from None
    found = pods_in(contents, PodReader(Path("pods"), namespace, MOST_PODS), known)
    return found, frozenset(wanted)


def pod_of(text: str, name: str | None, schema: Schema) -> NamedPod:
    """A pod of manifests, the first one without a name."""
    found, _ = pods_of(text, DEFAULT_NAMESPACE, {}, schema)
    body = found.bodies.get(next(iter(found.bodies)) if name is None else name)
    if body is None:
        raise UserError(f"no pod of the manifests is called `{shown(name or '')}`")
    return NamedPod.created(msgspec.json.decode(body), found.owners)


def begin(
    beside: Beside, draft: Trial, data: Mapping[str, DataText], schema: Schema
) -> TriedDraft | Needs:
    """Begins a trial: what its policies read of a cluster, or the errors of the draft.

    The draft joins the policies in force, and takes the place of its namesakes. `data` are the
    tables of the server, by their names.
    """
    checked = _checked(beside, draft, schema)
    if any(each.severity == "error" for each in checked.told):
        return TriedDraft(checked.told, 0, 0, 0, ())
    files = [each.checked.file for each in checked.stored.values()]
    before = Validator(schema).validate(beside.files, files)
    policies = [enforced(each, checked.stored) for each in (before, checked.validation)]
    read = needs_of(each for found in policies for each in found.policies)
    objects = ClusterObjects(ObjectCodec(schema, read.annotations))
    _trials[:] = [_Trial(checked, policies, objects, data)]
    return read


def take(text: bytes, _schema: Schema) -> None:
    """Takes a part of the cluster, in JSON or YAML."""
    trial = _begun()
    try:
        for document in as_stored(as_json(text, is_yaml=False)):
            trial.objects.add(_FILE, document)
    except (ClusterFileError, DocumentError, msgspec.MsgspecError) as error:
        raise UserError(str(error)) from None


def finish(_schema: Schema) -> TriedDraft:
    """What changes with the draft. The cluster is given back.

    Pods without a node are asked about first, until the time is over.
    """
    trial = _begun()
    _trials.clear()
    if not trial.objects.nodes:
        raise UserError("the cluster has no nodes")
    bodies = {key_of(pod): body for pod, body in trial.objects.pods}
    cluster = ClusterCopy(trial.objects.cache(), data=trial.data)
    try:
        engines = [
            offline_engine(each.registry, cluster, trial.objects.codec) for each in trial.policies
        ]
    except UserError as error:
        # What it hints at is of no use: the rows are those of the server.
        raise UserError(error.message) from None
    addresses = {each.policy.address for each in trial.draft.file.policies}
    done = effects(engines[-1], cluster, bodies, _MOST_ASKED)
    names, pods = sorted(cluster.snapshot().table.rows), cluster.snapshot().pods()
    ends, asked, changed = time.monotonic() + _SECONDS, 0, list[ChangedPod]()
    for key in sorted(pods.keys() & bodies.keys(), key=lambda key: (bool(pods[key].nodeName), key)):
        if time.monotonic() >= ends:
            break
        asked += 1
        asking = NamedPod.of(bodies[key])
        with cluster.asking(asking):
            before, after = (_answer(engine, asking.body, names) for engine in engines)
        if before != after:
            changed.append(_change(key, asking.node, before, after))
    own = [each for each in done if each.policy in addresses]
    return TriedDraft(trial.draft.told, len(names), len(pods), asked, changed, own)


def _begun() -> _Trial:
    if not _trials:
        raise UserError("the process for drafts has begun anew in the middle", "try again")
    return _trials[0]


def _checked(beside: Beside, draft: DraftText, schema: Schema) -> _Checked:
    """A draft and what is beside it; the first policy of a name counts, so its own come first."""
    stored = {name: check_stored(name, raw, schema) for name, raw in beside.objects.items()}
    own = Source(draft.name, draft.text)
    files = [each.checked.file for each in stored.values()]
    validation = Validator(schema).validate([own, *beside.files], files)
    found = next(each for each in validation.files if each.source is own)
    return _Checked(found, stored, validation)


@dataclass(frozen=True, slots=True)
class _Tried:
    """A tried answer: the nodes that pass, and the best if scores tell them apart."""

    passing: frozenset[str] = frozenset()
    best: str | None = None
    error: str | None = None


def _answer(engine: Engine, body: bytes, names: Sequence[str]) -> _Tried:
    """What the policies answer about a pod and these sorted nodes, or why there is no answer."""
    try:
        inspection = Inspection(engine, body, names, time.monotonic)
        objections = finished(inspection.objections())
        passing = ClauseResults(inspection, objections).passing()
        given = finished(inspection.contributions(passing)) if passing else []
    except EngineError as error:
        return _Tried(error=str(error))
    scores, best = ClauseResults(inspection, objections, given, passing).scores, None
    if scores and min(scores.values()) < (most := max(scores.values())):
        # The first of equals, by name.
        best = min(name for name, score in scores.items() if score == most)
    return _Tried(frozenset(passing), best)


def _change(pod: str, node: str, before: _Tried, after: _Tried) -> ChangedPod:
    return ChangedPod(
        pod=pod,
        on=node or None,
        before=len(before.passing),
        after=len(after.passing),
        admits=sorted(after.passing - before.passing)[:_MOST_NAMES],
        rejects=sorted(before.passing - after.passing)[:_MOST_NAMES],
        bestBefore=before.best,
        bestAfter=after.best,
        error=after.error,
    )
