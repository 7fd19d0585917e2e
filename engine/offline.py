"""Offline engine: an engine over a cluster that stands still, for questions of people.

It decides as that of a server does, at the time of the copy. Nobody binds what it offers.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping

from engine.cache.cluster_copy import ClusterCopy, DataText, NamedPod
from engine.clauses.programs import compile_policy
from engine.counting.node_groups import CallGroups, KnownGroups
from engine.data import DataError, rows_of_text
from engine.decision.journal import Journal
from engine.decision.recent_answers import AfterDecision
from engine.decision.registry import Registry
from engine.decision.verb_call import Observer
from engine.engine import Engine
from engine.errors import EngineError
from engine.objects.request_pod import NO_EXEMPTIONS, SYSTEM_NAMESPACES, Exemptions, ObjectCodec
from engine.program.compiler import Compiler
from engine.program.frame import Frame
from engine.program.policy_compiler import group_specs
from engine.program.policy_time import DecisionTime
from engine.program.tables import Table, Tables
from grammar.checker.policy_checker import Checked
from grammar.messages.diagnostics import UserError
from grammar.values.time import Timestamp

# The pods about which no policy of a server decides, unless it is told otherwise.
USUAL_EXEMPTIONS = Exemptions(SYSTEM_NAMESPACES, by_annotation=True)


def offline_engine(
    registry: Registry,
    cluster: ClusterCopy,
    codec: ObjectCodec,
    *,
    journal: Journal | None = None,
    exemptions: Exemptions = USUAL_EXEMPTIONS,
    clock: Callable[[], float] = time.monotonic,
) -> Engine:
    """A new engine, without in-flight pods, that decides at the time of the copy.

    Raises UserError for a table of data that cannot be read.
    """
    made = Engine(
        registry,
        cluster,
        codec,
        Observer(),
        exemptions=exemptions,
        time=DecisionTime(clock, lambda: cluster.now),
        after=AfterDecision(clock, journal=journal),
    )
    if registry.tables and cluster.data:
        made.take_tables(tables_of(registry, cluster.data, cluster.now))
    return made


def tables_of(registry: Registry, data: Mapping[str, DataText], now: Timestamp) -> Tables:
    """The tables that policies declare and that texts are given for, by name or digest.

    A row is of the time `now`, or as much older as it says. Raises UserError.
    """
    found: dict[str, Table] = {}
    for digest, spec in registry.tables.items():
        given = data.get(spec.name) or data.get(digest)
        if given is not None:
            try:
                rows = rows_of_text(spec, given.text, given.form, now.nanos, complete=False).rows
            except DataError as error:
                hint = f"fix the rows of `{spec.name}`"
                raise UserError(f"{given.file}: {error}", hint) from None
            found[digest] = Table(spec, rows)
    return found


def useless_data(registry: Registry, cluster: ClusterCopy) -> Iterator[str]:
    """A text about each table that has rows, but none that is of use. Raises UserError."""
    nodes = cluster.pods.nodes.labels()
    for digest, table in tables_of(registry, cluster.data, cluster.now).items():
        if useless := table.use(nodes, registry.keys[digest])[0]:
            yield f'`data "{table.spec.name}"` is useless: {useless}'


def question_frame(
    asked: NamedPod | None,
    cluster: ClusterCopy | None,
    codec: ObjectCodec,
    definitions: Checked | None = None,
) -> Frame:
    """The frame in which an engine would evaluate rules for the pod. Raises UserError.

    `definitions` are the groups and counts that are read there.
    """
    if asked is None:
        frame = Frame(None, cluster.now if cluster is not None else Timestamp.now(), slots=0)
        if cluster is not None and definitions is not None:
            specs = group_specs(Compiler(definitions.environment))
            known = KnownGroups({spec.digest: spec for spec in specs})
            frame.groups = CallGroups(known, cluster.snapshot().table, tuple, frame.check)
        return frame
    try:
        if cluster is None:
            return Frame(codec.pod(asked.body), Timestamp.now(), slots=0)
        registry = Registry() if definitions is None else Registry([compile_policy(definitions)])
        made = offline_engine(registry, cluster, codec, exemptions=NO_EXEMPTIONS)
        call, _ = made.opened(asked.body)
        return call.evaluation.frame()
    except EngineError as error:
        raise UserError(str(error), "fix the pod") from None
