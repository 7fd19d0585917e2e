"""Trial: a draft beside the policies in force, on a cluster that comes in parts.

It runs in the process for drafts: `begin`, `take` for each part, and `finish`.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import msgspec

from engine.cache.cluster_copy import ClusterCopy, DataText, NamedPod
from engine.cache.cluster_file import (
    ClusterFileError,
    ClusterFileReader,
    ClusterObjects,
    bodies,
    cache_of,
)
from engine.cache.informers import Needs
from engine.cache.pod_manifests import DEFAULT_NAMESPACE
from engine.enforced import EnforcedPolicies, enforced, needs_of
from engine.engine import Engine
from engine.errors import EngineError
from engine.explanation.difference import PodAnswer, answer_of
from engine.explanation.effects import EffectOfPolicy, effects
from engine.explanation.inspection import Inspection
from engine.objects.codec import ObjectCodec
from engine.objects.peer import key_of
from engine.offline import offline_engine
from engine.simulation.pod_list import PodList, PodReader, pods_in
from grammar.checks.costs import UNKNOWN_SIZE
from grammar.meaning.schema import Schema
from grammar.messages.diagnostics import UserError
from grammar.messages.texts import shown
from grammar.syntax.parser import parse_file
from grammar.tree.source import Source
from policies.admission import StoredObject, check_stored
from policies.documents import DocumentError, as_json
from policies.editor.completion import NoSamples
from policies.editor.edited_text import EditedDocument, complete, document
from policies.editor.meaning import meaning
from policies.manifest_text import is_manifest
from policies.object_form import NoObjectError, as_object
from policies.validation import Validation, Validator
from server.answers.simulation_answers import MOST_PODS
from server.answers.view_answers import (
    ChangedPod,
    CompletedDraft,
    DescribedName,
    DraftObjects,
    DraftOnNodes,
    Problem,
    TriedDraft,
    problems,
)
from server.view.policy_yaml import as_yaml

# The seconds after which no further pod is asked about, and the names in an answer.
_SECONDS, _MOST_NAMES = 3.0, 20
# The pods that are asked about for what the draft's policies do.
_MOST_ASKED = 100
_FILE = Path("cluster")
# By this label the nodes of a trial are grouped.
_ZONE = "topology.kubernetes.io/zone"
# The bytes of placed pods that can be asked about; other placed pods only count.
_MOST_BYTES = 64 * 1024 * 1024
_LOST = "the process for drafts has begun anew in the middle (try again)"


@dataclass(frozen=True, slots=True)
class Draft:
    """A text of policies, with what is in force beside it.

    `files` are the policy files by name and text, `objects` the policy objects by name and JSON.
    `data` are the tables of the server, by their names. `before` is the text that the draft takes
    the place of; without one it joins what is in force, and takes the place of its namesakes there.
    """

    name: str
    text: str
    files: Sequence[tuple[str, str]]
    objects: Mapping[str, bytes]
    data: Mapping[str, DataText] = field(default_factory=dict)
    before: str | None = None


@dataclass(slots=True)
class _Trial:
    """A draft without errors, the policies without it and with it, and the cluster so far.

    `own` are the addresses of the draft's policies.
    """

    told: Sequence[Problem]
    own: frozenset[str]
    policies: Sequence[EnforcedPolicies]
    codec: ObjectCodec
    reader: ClusterFileReader
    data: Mapping[str, DataText]
    objects: ClusterObjects = field(default_factory=ClusterObjects)
    pods: dict[str, bytes] = field(default_factory=dict)
    bytes_of_placed: int = 0


@dataclass(slots=True)
class _Kept:
    """What the process keeps between two jobs: it has one trial at a time."""

    trial: _Trial | None = None


_kept = _Kept()


def check_draft(draft: Draft, schema: Schema) -> Sequence[Problem]:
    """What is wrong with a draft."""
    return _checked(draft, schema)[0]


def complete_draft(draft: Draft, offset: int, schema: Schema) -> CompletedDraft:
    """What can stand at a place of a draft."""
    text = _document(draft, schema)
    return CompletedDraft(complete(text, min(offset, len(draft.text)), NoSamples()))


def describe_name(draft: Draft, offset: int, schema: Schema) -> DescribedName:
    """What the name at a place of a draft stands for."""
    found = meaning(_document(draft, schema), min(offset, len(draft.text)), NoSamples())
    if found is None:
        return DescribedName(None, ())
    return DescribedName(found.heading, found.about)


def objects_of(draft: Draft, schema: Schema) -> DraftObjects:
    """The policies of a draft as objects, which are without errors, too."""
    told = _checked(draft, schema)[0]
    if any(each.severity == "error" for each in told):
        return DraftObjects(None, "the draft has errors")
    if is_manifest(draft.name):
        return DraftObjects(draft.text, "")
    written, _ = parse_file(Source(draft.name, draft.text))
    try:
        made = [as_object(policy, draft.text) for policy in written.policies]
    except NoObjectError as error:
        return DraftObjects(None, str(error))
    text = "---\n".join(as_yaml(each) for each in made)
    told = _checked(replace(draft, name="draft.yaml", text=text), schema)[0]
    problem = next((each.message for each in told if each.severity == "error"), "")
    return DraftObjects(None if problem else text, problem)


# The kind and the `namespace/name` of workloads, and the uids of those that are in the cluster.
Keys = frozenset[tuple[str, str]]
KnownUids = Mapping[tuple[str, str], str]


def pods_of(
    text: str, namespace: str, most: int, uids: KnownUids, _schema: Schema
) -> tuple[PodList, Keys] | str:
    """The pods of manifests, at most so many, and the workloads whose uids would be of use.

    A text says why there are none.
    """
    wanted = set[tuple[str, str]]()

    def known(kind: str, key: str) -> str | None:
        wanted.add((kind, key))
        return uids.get((kind, key))

    try:
        data = text.encode()
        is_json = data.lstrip().startswith((b"{", b"["))
        contents = list(as_json(data, is_yaml=not is_json))
        return pods_in(contents, PodReader(Path("pods"), namespace, most), known), frozenset(wanted)
    except DocumentError as error:
        return f"`pods` cannot be read: {error}"
    except UserError as error:
        return f"{error.message} ({error.hint})" if error.hint else error.message


def pod_of(text: str, name: str | None, schema: Schema) -> NamedPod | str:
    """A pod of manifests, the first one without a name; a text says why there is none."""
    found = pods_of(text, DEFAULT_NAMESPACE, MOST_PODS, {}, schema)
    if isinstance(found, str):
        return found
    bodies = found[0].bodies
    body = bodies.get(next(iter(bodies)) if name is None else name)
    if body is None:
        return f"no pod of the manifests is called `{shown(name or '')}`"
    return NamedPod.created(msgspec.json.decode(body), found[0].owners)


def begin(draft: Draft, schema: Schema) -> TriedDraft | Needs:
    """Begins a trial: what its policies read of a cluster, or the errors of the draft."""
    told, sources, stored, after = _checked(draft, schema)
    if any(each.severity == "error" for each in told):
        return TriedDraft(told, 0, 0, 0, ())
    files = [each.checked.file for each in stored.values()]
    earlier = [] if draft.before is None else [Source(draft.name, draft.before)]
    before = Validator(schema).validate([*earlier, *sources], files)
    for file in before.files:
        if file.source in earlier and any(d.severity == "error" for d in file.diagnostics):
            return TriedDraft(problems(file.diagnostics, file.source), 0, 0, 0, ())
    policies = enforced(before, stored), enforced(after, stored)
    read = needs_of(checked for each in policies for checked in each.policies)
    codec = ObjectCodec(schema, read.annotations)
    own = (p.policy.address for f in after.files if f.source.name == draft.name for p in f.policies)
    reader = ClusterFileReader(codec)
    _kept.trial = _Trial(told, frozenset(own), policies, codec, reader, draft.data)
    return read


def take(text: bytes, _schema: Schema) -> str | None:
    """Takes a part of the cluster, in JSON or YAML; what it says is why it cannot be read."""
    if (trial := _kept.trial) is None:
        return _LOST
    try:
        for document in as_json(text, is_yaml=False):
            first = len(trial.objects.pods)
            trial.reader.add(trial.objects, _FILE, document)
            placed = {key_of(pod) for pod in trial.objects.pods[first:] if pod.nodeName}
            for key, body in bodies([document], "Pod").items():
                # Bytes of their own: a Raw would keep the whole text.
                own = bytes(body)
                if key not in placed or trial.bytes_of_placed + len(own) <= _MOST_BYTES:
                    trial.pods[key] = own
                    trial.bytes_of_placed += len(own) if key in placed else 0
    except (ClusterFileError, DocumentError, msgspec.MsgspecError) as error:
        return str(error)
    return None


def finish(_schema: Schema) -> TriedDraft | str:
    """What changes with the draft, or why it cannot be told. The cluster is given back."""
    trial, _kept.trial = _kept.trial, None
    if trial is None:
        return _LOST
    if not trial.objects.nodes:
        return "the cluster has no nodes"
    cluster = ClusterCopy(cache_of(trial.objects), data=trial.data)
    try:
        engines = [offline_engine(each.registry, cluster, trial.codec) for each in trial.policies]
    except UserError as error:
        return error.message
    found = _tried(trial.told, engines, cluster, trial.pods)
    return msgspec.structs.replace(found, effects=_effects(trial, engines[-1], cluster))


def _checked(
    draft: Draft, schema: Schema
) -> tuple[Sequence[Problem], Sequence[Source], Mapping[str, StoredObject], Validation]:
    """What is wrong with a draft, what is beside it, and all of it together."""
    sources = [Source(*file) for file in draft.files]
    stored = {n: check_stored(n, raw, schema, UNKNOWN_SIZE) for n, raw in draft.objects.items()}
    own = Source(draft.name, draft.text)
    # The first policy of a name counts, so those of the draft come first.
    files = [each.checked.file for each in stored.values()]
    after = Validator(schema).validate([own, *sources], files)
    found = next(each for each in after.files if each.source is own)
    return problems(found.diagnostics, own), sources, stored, after


def _document(draft: Draft, schema: Schema) -> EditedDocument:
    _, _, _, validation = _checked(draft, schema)
    found = document(draft.name, validation, schema)
    assert found is not None, "the draft is among the files"
    return found


def _tried(
    told: Sequence[Problem],
    engines: Sequence[Engine],
    cluster: ClusterCopy,
    pods: Mapping[str, bytes],
) -> TriedDraft:
    """Asks about pods without a node first, until the time is over."""
    names = sorted(cluster.snapshot().table.rows)
    known = {key: pod for key in pods if (pod := cluster.pods.pod(key)) is not None}
    order = sorted(known, key=lambda key: (bool(known[key].nodeName), key))
    ends, asked = time.monotonic() + _SECONDS, 0
    changed: list[ChangedPod] = []
    admits, rejects = Counter[str](), Counter[str]()
    for key in order:
        if time.monotonic() >= ends:
            break
        asked += 1
        asking = NamedPod.of(pods[key])
        with cluster.asking(asking):
            before, after = (_answer(engine, asking.body, names) for engine in engines)
        if before != after:
            changed.append(_change(key, known[key].nodeName or None, before, after))
            admits.update(after.passing - before.passing)
            rejects.update(before.passing - after.passing)
    views = [cluster.snapshot().table.node(name) for name in names]
    zones = [view.labels.get(_ZONE) if view is not None else None for view in views]
    groups = {zone: n for n, zone in enumerate(sorted({z for z in zones if z is not None}))}
    return TriedDraft(
        told,
        len(names),
        len(cluster.snapshot().pods()),
        asked,
        changed,
        onNodes=DraftOnNodes(
            _ZONE,
            list(groups),
            names,
            [-1 if zone is None else groups[zone] for zone in zones],
            [admits[name] for name in names],
            [rejects[name] for name in names],
        ),
    )


def _effects(trial: _Trial, engine: Engine, cluster: ClusterCopy) -> Sequence[EffectOfPolicy]:
    """What the draft's policies do, by some of the pods."""
    found = effects(engine, cluster, trial.pods, _MOST_ASKED)
    return [each for each in found if each.policy in trial.own]


def _answer(engine: Engine, body: bytes, names: Sequence[str]) -> PodAnswer:
    try:
        return answer_of(Inspection.of(engine, body), names)
    except EngineError as error:
        return PodAnswer(error=str(error))


def _change(key: str, node: str | None, before: PodAnswer, after: PodAnswer) -> ChangedPod:
    return ChangedPod(
        key,
        node,
        len(before.passing),
        len(after.passing),
        sorted(after.passing - before.passing)[:_MOST_NAMES],
        sorted(before.passing - after.passing)[:_MOST_NAMES],
        before.best,
        after.best,
        after.error,
    )
