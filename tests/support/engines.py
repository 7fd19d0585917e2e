"""The shared set: policies from text, objects from `builders`, an engine over them, an observer.

`checked` → `programs_of` → `registry_of` go from policy text to a registry, and `frame_of` is what
the programs read; `node_of` and `peer_of` decode what `builders` makes, and `cache_of` and
`snapshot_of` put these together. `engine_of` does all of it. Tests that need less take the step
that they need.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from engine.cache.cache import Cache
from engine.cache.cluster_file import Reading, documents, files_of, read_cluster
from engine.cache.node_table import (
    UNKNOWN_ROW,
    NameIndex,
    NodeTable,
    NodeWithPods,
    Snapshot,
    with_pods,
)
from engine.clauses.programs import compile_policy
from engine.decision.registry import Registry
from engine.decision.verb_call import Observer, Occurrence
from engine.engine import Engine
from engine.gangs.gangs import Gangs
from engine.given_cards import GivenCards
from engine.objects.peer import ENDED, Controller, Peer, key_of, labelled, root_of, rooted
from engine.objects.request_pod import Namespace, Node, ObjectCodec
from engine.program.compiler import Compiler
from engine.program.frame import (
    CheckDeadline,
    Evaluate,
    Evaluation,
    Frame,
    Report,
    ReportText,
    unlimited,
)
from engine.program.policy_time import CallTime
from engine.program.program import Program
from engine.program.tables import TableSpec
from grammar.checker.expression_checker import Checker
from grammar.checker.policy_checker import Checked
from grammar.meaning.environment import Environment
from grammar.meaning.schema import load_schema
from grammar.syntax.parser import parse_expression
from grammar.tree.ast import Expr
from grammar.tree.source import Source
from grammar.values.errors import EvaluationError
from grammar.values.time import Timestamp
from policies.validation import check_source
from tests.support.builders import CREATED, Object, raw

SCHEMA = load_schema()
CODEC = ObjectCodec(SCHEMA)
NOW = Timestamp.parse(CREATED)


# ---- policies


def checked(text: str) -> tuple[Checked, ...]:
    """The policies of a text without errors; warnings are allowed."""
    file = check_source(Source("p.policy", text), SCHEMA)
    errors = [found for found in file.diagnostics if found.severity == "error"]
    assert not errors, errors
    return tuple(file.policies)


def compiled(text: str, environment: Environment) -> tuple[Expr, Evaluate, int]:
    """A checked expression, its closure, and the slots of a frame for it."""
    expr, found = parse_expression(Source("t", text))
    assert expr is not None, found
    checker, compiler = Checker(environment), Compiler(environment)
    checked_expr = checker.check(expr)
    assert not checker.found, (text, checker.found)
    run = compiler.compile(checked_expr)
    return checked_expr, run, compiler.slots


def programs_of(text: str) -> list[Program]:
    return [compile_policy(policy) for policy in checked(text)]


def registry_of(text: str) -> Registry:
    return Registry(programs_of(text))


def frame_of(pod: Object, now: Timestamp = NOW) -> Frame:
    """What a program of up to eight local variables reads when it decides about a pod."""
    return Frame(CODEC.pod(raw(pod)), now, slots=8)


def unexpected(policy: str, clause: str, error: EvaluationError) -> None:
    """The listener for errors of a test in which no evaluation fails."""
    raise AssertionError(f"{policy}: {clause}: {error}")


class CheckedTime(CallTime):
    """The time of a call that a test ends: `look` is called at each look at the time."""

    look: CheckDeadline = unlimited

    def check(self) -> None:
        self.look()


def unexpected_text(policy: str, clause: str, text: str) -> None:
    """The listener for long messages of a test in which none is too long."""
    raise AssertionError(f"{policy}: {clause}: {text}")


def evaluation_of(
    frame: Frame,
    check: CheckDeadline = unlimited,
    report: Report = unexpected,
    report_text: ReportText = unexpected_text,
) -> Evaluation:
    """The context of evaluations with this frame."""
    return Evaluation(
        lambda: frame,
        lambda: frame.now.nanos,
        CheckedTime(lambda: 0.0, math.inf, look=check),
        report,
        report_text,
    )


def gangs_of(engine: Engine) -> Gangs:
    """The gangs of an engine."""
    found = engine.part(Gangs)
    assert found is not None, "it is one of its parts"
    return found


# ---- the cluster


def node_of(value: Object) -> Node:
    return CODEC.node(raw(value))


def peer_of(value: Object) -> Peer:
    """The pod as the cache keeps it."""
    return CODEC.peer(raw(value))


def cache_of(nodes: Iterable[Object], pods: Iterable[Object] = ()) -> Cache:
    """A cache that knows these, and changes when the test tells it so."""
    cache = Cache()
    for node in nodes:
        cache.put_node(node_of(node))
    for pod in pods:
        cache.put_pod(peer_of(pod))
    return cache


def table_of(views: Iterable[NodeWithPods]) -> NodeTable:
    """A table of these nodes in this order, with an owner of its own."""
    views = tuple(views)
    rows = {each.name: row for row, each in enumerate(views, start=UNKNOWN_ROW + 1)}
    versions = np.ones(len(views) + 1, np.int64)
    versions[UNKNOWN_ROW] = 0
    return NodeTable(object(), rows, (None, *views), versions, NameIndex(rows))


def snapshot_of(
    nodes: Iterable[Object | Node],
    pods: Iterable[Object | Peer] = (),
    *,
    namespaces: Iterable[Namespace] = (),
    controllers: Iterable[Controller] = (),
) -> Snapshot:
    """The snapshot of these objects: the reference for those that the cache keeps.

    Of two objects of one name the later counts. As in kube-scheduler, a pod counts on its node
    until it has succeeded or failed, terminating or not. A pod on a node that is not among `nodes`
    counts on none, but is among the pods.
    """
    known = {c.workload.uid: c for c in controllers}
    workloads = {uid: root_of(controller, known) for uid, controller in known.items()}
    decoded = (each if isinstance(each, Node) else node_of(each) for each in nodes)
    by_name = {each.name: each for each in decoded}
    peers = (each if isinstance(each, Peer) else peer_of(each) for each in pods)
    placed: dict[str, list[Peer]] = {name: [] for name in by_name}
    pending: dict[str, Peer] = {}
    strays: dict[str, Peer] = {}
    spaces = {n.name: n for n in namespaces}
    labels = {name: space.labels for name, space in spaces.items()}
    known_pods = (labelled(rooted(p, workloads), labels.get(p.namespace, {})) for p in peers)
    for key, peer in {key_of(p): p for p in known_pods}.items():
        if peer.phase in ENDED:
            continue
        if not peer.nodeName:
            pending[key] = peer
        elif peer.nodeName in placed:
            placed[peer.nodeName].append(peer)
        else:
            strays[key] = peer
    return Snapshot(
        table=table_of(with_pods(node, tuple(placed[name])) for name, node in by_name.items()),
        pending=pending,
        strays=strays,
        namespaces=spaces,
        workloads=workloads,
    )


@dataclass(frozen=True, slots=True)
class Fixed:
    """A view of a cluster that does not change."""

    view: Snapshot

    def snapshot(self) -> Snapshot:
        return self.view

    @property
    def pods(self) -> Cache:
        cache = Cache()
        for pod in self.view.pods().values():
            cache.put_pod(pod)
        return cache


@dataclass(frozen=True, slots=True)
class Known:
    """A view of a cluster that changes as its cache does."""

    pods: Cache

    def snapshot(self) -> Snapshot:
        return self.pods.snapshot()


# ---- the engine


@dataclass(slots=True)
class Silent(Observer):
    """An observer that logs nothing and records its calls in `heard`."""

    heard: list[tuple[object, ...]] = field(default_factory=list)

    def rejected(self, policy: str, clause: str, nodes: int) -> None:
        self.heard.append(("rejected", policy, clause, nodes))

    def held_back(self, policy: str, clause: str, nodes: int) -> None:
        self.heard.append(("held back", policy, clause, nodes))

    def failed(self, policy: str, clause: str, error: str) -> None:
        self.heard.append(("failed", policy, clause, error))

    def would_reject(self, policy: str, clause: str, nodes: int) -> None:
        self.heard.append(("would reject", policy, clause, nodes))

    def conflict(self, winner: str, loser: str) -> None:
        self.heard.append(("conflict", winner, loser))

    def bypassed(self, pod: str, uid: str, reason: str) -> None:
        self.heard.append(("bypassed", pod, uid, reason))

    def expensive(self, policy: str) -> None:
        self.heard.append(("expensive", policy))

    def gave_up(self, work: str, about: str) -> None:
        self.heard.append(("gave up", work, about))

    def unnamed_scheduler(self, name: str) -> None:
        self.heard.append(("unnamed scheduler", name))

    def occurred(self, occurrence: Occurrence) -> None:
        self.heard.append(("occurred", occurrence))

    def shortened(self, policy: str, clause: str, text: str) -> None:
        self.heard.append(("shortened", policy, clause, text))


def engine_over(
    policies: str, cache: Cache, observer: Observer | None = None, **options: Any
) -> Engine:
    """An engine over a cache that the test goes on changing; `options` are those of Engine."""
    observer = observer if observer is not None else Silent()
    return Engine(registry_of(policies), Known(cache), CODEC, observer, **options)


def engine_of(
    policies: str, nodes: Iterable[Object], pods: Iterable[Object] = (), **options: Any
) -> Engine:
    """An engine over these nodes and pods."""
    return engine_over(policies, cache_of(nodes, pods), **options)


def read_files(codec: ObjectCodec, paths: Sequence[Path]) -> Reading:
    """Return the cluster of files and folders. Raises ClusterFileError."""
    files = files_of(paths)
    return read_cluster(codec, files, ((f, d) for f in files for d in documents(f)))


# ---- tables of data, as policies declare them


RACKS = (
    'from configmap "kube-system/racks" file "racks.csv" by "rack" '
    "columns { watts: double, owner: string }"
)
CLAIMS = (
    'from objects "v1/PersistentVolumeClaim" by object.metadata.namespace + "/" '
    "+ object.metadata.name columns { volume = string(object.spec.volumeName) }"
)


def spec_of(source: str, name: str = "load") -> TableSpec:
    """The table of a source that one policy declares."""
    text = f'cluster policy p {{ for pods where true data "{name}" {{ {source} }}'
    rule = f'filter "f" {{ require size(data.{name}) < 1000000 missing pass }} }}'
    (spec,) = registry_of(f"{text} {rule}").tables.values()
    return spec


def given_cards(engine: Engine) -> GivenCards:
    """The part that knows the cards of nodes."""
    part = engine.part(GivenCards)
    assert part is not None
    return part
