"""Trial: a draft beside the policies in force, on a cluster that was given as a file.

It runs in the process for drafts, and keeps nothing.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from pathlib import Path

import msgspec

from engine.cache.cache import Cache
from engine.cache.cluster_file import ClusterFileError, ClusterFileReader, bodies
from engine.cache.snapshot import Snapshot
from engine.decision.registry import Registry
from engine.engine import Engine
from engine.errors import EngineError
from engine.objects.codec import ObjectCodec
from engine.objects.request_pod import SYSTEM_NAMESPACES, Exemptions
from engine.program.needs import needs
from engine.program.policy_compiler import compile_policy
from grammar.checks.cluster_costs import UNKNOWN_SIZE
from grammar.policy_checker import Checked
from grammar.schema import Schema
from grammar.source import Source
from grammar.values.time import Timestamp
from policies.admission import check_stored
from policies.documents import DocumentError, as_json
from policies.validation import CheckedFile, InForce, Validator, succeed
from server.draft_answers import ChangedPod, TriedDraft
from server.policy_answers import Problem, problems

# The seconds after which no further pod is asked about, and the names in an answer.
_SECONDS, _MOST_NAMES = 3.0, 20
_FILE = Path("cluster")


class _Unobserved:
    """An observer that ignores everything: the answers are enough."""

    def rejected(self, *_: object, **__: object) -> None:
        pass

    failed = would_reject = conflict = bypassed = expensive = gave_up = shortened = rejected
    unnamed_scheduler = rejected


class _View:
    """A cluster that does not change but for the pod in question."""

    def __init__(self, cache: Cache) -> None:
        self.pods = cache

    def snapshot(self) -> Snapshot:
        return self.pods.snapshot()


def try_draft(
    name: str,
    text: str,
    cluster: str,
    files: Sequence[tuple[str, str]],
    objects: Mapping[str, bytes],
    schema: Schema,
) -> TriedDraft | str:
    """What changes with the draft, or why the cluster cannot be read.

    `files` are the policy files in force, by name and text, and `objects` the policy objects.
    """
    sources = [Source(*file) for file in files]
    stored = [check_stored(n, raw, schema, UNKNOWN_SIZE).checked.file for n, raw in objects.items()]
    before = _in_force(sources, stored, schema)
    draft = Source(name, text)
    # The first policy of a name counts, so those of the draft come first.
    after = Validator(schema).validate([draft, *sources], stored)
    found = next(each for each in after.files if each.source is draft)
    told = problems(found.diagnostics, draft)
    if any(each.severity == "error" for each in told):
        return TriedDraft(told, 0, 0, 0, ())
    policies = succeed(InForce(), after).policies
    read = needs(part.policy for c in (*before, *policies) for part in (c, *c.uses))
    codec = ObjectCodec(schema, read.annotations)
    try:
        documents = list(as_json(cluster.encode(), is_yaml=False))
        cache = ClusterFileReader(codec).take([_FILE], [(_FILE, d) for d in documents]).cache
    except (ClusterFileError, DocumentError, msgspec.MsgspecError) as error:
        return str(error)
    engines = [_engine(each, cache, codec) for each in (before, policies)]
    return _tried(told, engines, cache, bodies(documents, "Pod"))


def _in_force(
    sources: Sequence[Source], stored: Sequence[CheckedFile], schema: Schema
) -> Sequence[Checked]:
    return succeed(InForce(), Validator(schema).validate(sources, stored)).policies


def _engine(policies: Sequence[Checked], cache: Cache, codec: ObjectCodec) -> Engine:
    now = cache.snapshot().newest() or Timestamp.now()
    return Engine(
        Registry(map(compile_policy, policies)),
        _View(cache),
        codec,
        _Unobserved(),
        exemptions=Exemptions(SYSTEM_NAMESPACES, by_annotation=True),
        now=lambda: now,
    )


def _tried(
    told: Sequence[Problem],
    engines: Sequence[Engine],
    cache: Cache,
    pods: Mapping[str, bytes],
) -> TriedDraft:
    """Asks about pods without a node first, until the time is over."""
    names = sorted(cache.snapshot().table.rows)
    known = {key: pod for key in pods if (pod := cache.pod(key)) is not None}
    order = sorted(known, key=lambda key: (bool(known[key].nodeName), key))
    ends, asked = time.monotonic() + _SECONDS, 0
    changed: list[ChangedPod] = []
    for key in order:
        if time.monotonic() >= ends:
            break
        asked += 1
        pod = known[key]
        # As if it were not on its node.
        cache.put_pod(msgspec.structs.replace(pod, nodeName=""))
        before, after = (_passing(engine, pods[key], names) for engine in engines)
        cache.put_pod(pod)
        if (found := _change(key, before, after)) is not None:
            changed.append(found)
    return TriedDraft(told, len(names), len(known), asked, changed)


def _passing(engine: Engine, body: bytes, names: Sequence[str]) -> frozenset[str] | str:
    """The nodes that no clause rejects, or why there is no decision."""
    pod = msgspec.json.decode(body)
    (pod.get("spec") or {}).pop("nodeName", None)
    try:
        inspection = engine.inspect(msgspec.json.encode(pod))
    except EngineError as error:
        return str(error)
    if inspection.selection.unselectable:
        return frozenset()
    passing = set(names)
    for objection in inspection.all_objections(names):
        passing.difference_update(
            name for name, no in zip(names, objection.refused.tolist(), strict=True) if no
        )
    return frozenset(passing)


def _change(
    key: str, before: frozenset[str] | str, after: frozenset[str] | str
) -> ChangedPod | None:
    if before == after:
        return None
    old = frozenset[str]() if isinstance(before, str) else before
    new = frozenset[str]() if isinstance(after, str) else after
    return ChangedPod(
        key,
        len(old),
        len(new),
        sorted(new - old)[:_MOST_NAMES],
        sorted(old - new)[:_MOST_NAMES],
        after if isinstance(after, str) else None,
    )
