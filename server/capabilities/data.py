"""Data: the tables of a server, which its policies declare and its engine reads.

A server begins and ends sources as policies come and go, and tells
the log, `/readyz`, metrics and the view how they do. No source makes a server less ready: without
rows, rules say by `missing` what holds.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from enum import IntEnum

import msgspec

from engine.cache.cache import NodeStore
from engine.cluster.data_fetching import DataApi, PrometheusClient
from engine.cluster.data_sources import DataKeeper, SourceParts
from engine.decision.registry import Registry
from engine.engine import Engine
from engine.explanation.reader import EVERYTHING, Reader
from engine.facts import Facts
from engine.fairness import ByteAccounts, in_turns
from engine.program.tables import SourceStatus, TableSpec, source_label
from engine.work import shared_pause
from grammar.messages.texts import counted
from server.capabilities.capability import Capability, Opened, Site
from server.capabilities.policy_statuses import ReportedPolicy, StatusPart, condition
from server.http.health import ReadinessCheck
from server.metrics.families import Sample
from server.options import Options
from server.supervisor import ApiFailures, Background

# The sources of all policies, and those of one namespace.
MOST_SOURCES, MOST_OF_NAMESPACE = 100, 10
# Seconds between two deals of the sources while there are too many.
_DEAL_SECONDS = 10.0
# The work of reading the sources beyond these, for the log.
_MORE = "read more data"
# The sources that metrics name: policies come and go, and the others have names too.
_MOST_LABELS = 1000
# Not a failure of a source, which has read all other rows.
_LEFT_OUT = "left_out"


def _open(site: Site) -> Opened:
    accounts = site.led.cache.accounts if site.led is not None else ByteAccounts()
    parts = site.options, site.api, site.engine, site.background, accounts
    tables = DataTables(*parts, lambda: site.view.pods.nodes)
    site.background.stack.push_async_callback(tables.close)
    return Opened(
        adopted=tables.adopt,
        status=lambda: source_part(tables.statuses),
        facts=lambda: data_facts(tables.statuses),
        samples=lambda: data_samples(tables.statuses),
        checks=tables.checks,
        # Without a cluster all sources are the operator's.
        work={"data": tables.run} if site.led is not None else {},
    )


DATA = Capability(
    name="data",
    open=_open,
    rights={"data.configMaps": "get,list,watch configmaps"},
    metrics={
        "placet_data_rows{source}": "[ALPHA] Rows of a source of data.",
        "placet_data_age_seconds{source}": (
            "[ALPHA] Seconds since the source last said so; 0 while it is watched."
        ),
        "placet_data_stale{source}": (
            "[ALPHA] Whether no row of a source of data is read, because it failed for too long."
        ),
        "placet_data_useless{source}": (
            "[ALPHA] Whether a source of data has no rows, or none of a node."
        ),
        "placet_data_lacking_nodes{source}": (
            "[ALPHA] Nodes without a row, where policies read rows by a label or the name of nodes."
        ),
        "placet_data_failures_total{source,reason}": (
            "[ALPHA] Failures of a source of data, and answers with rows that were left out."
        ),
    },
)


class DataTables:
    """The tables of one engine and their sources. On one event loop."""

    def __init__(
        self,
        options: Options,
        api: DataApi | None,
        engine: Engine,
        background: Background,
        accounts: ByteAccounts,
        nodes: Callable[[], NodeStore] = NodeStore,
    ) -> None:
        """`api` is None without a cluster: then there are only files and Prometheus.

        `nodes` gives the nodes that there are.
        """
        self._nodes = nodes
        self._metrics = background.metrics
        self._failures = ApiFailures(background.log)
        # The sources beyond the limits.
        self._refused: Sequence[SourceStatus] = ()
        self._registry = engine.registry
        agent = f"placet/{options.version}"
        client = PrometheusClient(agent, options.data_ca, options.data_token, options.data_headers)
        parts = SourceParts(api, client, options.data_folder, accounts)
        start_task = background.supervisor.start
        self._keeper = DataKeeper(parts, start_task, engine.take_tables, self._noted)
        self.close = self._keeper.close

    def adopt(self, registry: Registry) -> None:
        """Reads what these policies declare from now on."""
        self._registry = registry
        self._deal()

    async def run(self) -> None:
        """Deals the sources out again and again while there are too many, and looks for room.

        A source that was not asked comes before one that is known to be absent, so all are asked in
        time.
        """
        while True:
            await shared_pause(_DEAL_SECONDS)
            if self._refused:
                self._deal()
            self._keeper.look_for_room()

    def _deal(self) -> None:
        registry = self._registry
        readers: dict[str, tuple[str, ...]] = {}
        asked: dict[tuple[str, str], TableSpec] = {}
        for program in sorted(registry.programs, key=lambda each: each.address):
            for table in program.tables:
                readers[table.digest] = (*readers.get(table.digest, ()), program.address)
                asked[program.namespace or "", table.digest] = table
        ranks = {each.digest: _rank(each) for each in self._keeper.statuses()}
        chosen, refused = dict[str, TableSpec](), dict[str, str]()
        of_namespace = Counter[str]()
        for namespace, digest in _dealt(asked, lambda key: ranks.get(key[1], _Rank.UNKNOWN)):
            if digest in chosen:
                continue
            if namespace and of_namespace[namespace] == MOST_OF_NAMESPACE:
                where = f"the policies of `{namespace}`"
                refused[digest] = f"{where} read more than {MOST_OF_NAMESPACE} sources"
            elif len(chosen) == MOST_SOURCES:
                refused[digest] = f"all policies read more than {MOST_SOURCES} sources"
            else:
                chosen[digest] = asked[namespace, digest]
                of_namespace[namespace] += 1
        self._refused = [
            SourceStatus(
                table.name,
                digest,
                table.source.word,
                readers[digest],
                error=why,
                reason="too_many",
                told_error=why,
                is_stale=True,
            )
            for digest, why in refused.items()
            if digest not in chosen
            for table in [registry.tables[digest]]
        ]
        self._keeper.adopt(chosen, readers, registry.keys)
        labels = (source_label(table.name, table.source.word) for table in chosen.values())
        self._failures.retain({_MORE, *map(_reading, labels)})
        why = "; ".join(dict.fromkeys(each.error for each in self._refused))
        self._failures.report(_MORE, f"cannot read data: {why}" if why else "")

    @property
    def statuses(self) -> Sequence[SourceStatus]:
        nodes = self._nodes().labels() if self._keeper.tables else {}
        return [*self._keeper.statuses(nodes), *self._refused]

    def checks(self) -> Sequence[ReadinessCheck]:
        """Readiness: a line for each source, which is a warning while it fails."""
        return [
            ReadinessCheck(f"data/{each.name}", _failure(each), is_warning=True)
            for each in self.statuses
        ]

    def _noted(self, source: str, reason: str, error: str) -> None:
        if reason:
            self._metrics.count("placet_data_failures_total", source, reason, names=1)
        if reason != _LEFT_OUT:
            text = f"cannot read data {source}: {error}" if error else ""
            self._failures.report(_reading(source), text)


class _Rank(IntEnum):
    """The rank of a source: which comes before another one of the same turn."""

    IN_USE, UNKNOWN, ABSENT = range(3)


def _rank(source: SourceStatus) -> _Rank:
    if source.age is not None:
        return _Rank.IN_USE
    return _Rank.ABSENT if source.reason == "absent" else _Rank.UNKNOWN


def _dealt(
    asked: Iterable[tuple[str, str]], rank: Callable[[tuple[str, str]], _Rank]
) -> Iterator[tuple[str, str]]:
    """The sources, each of a namespace, in the order in which they are chosen.

    Those of operators come first, and those that do not exist come last.
    """
    ordered = sorted(asked, key=rank)
    groups = (
        [each for each in ordered if not each[0]],
        [each for each in ordered if each[0] and rank(each) is not _Rank.ABSENT],
        [each for each in ordered if each[0] and rank(each) is _Rank.ABSENT],
    )
    for group in groups:
        for turn in in_turns(group, lambda each: each[0]):
            yield from sorted(turn, key=rank)


def _reading(source: str) -> str:
    """The work of reading a source, for the log."""
    return f"read data {source}"


def _failure(status: SourceStatus) -> str:
    if not status.error:
        return "it was not read yet" if status.age is None else ""
    if status.is_stale:
        return f"{status.error}; no rows are read"
    if status.is_read:
        return status.error
    last = "row is" if status.rows == 1 else f"{counted(status.rows, 'row')} are"
    return f"{status.error}; the last {last} read"


# ---- statuses


def source_part(sources: Iterable[SourceStatus]) -> StatusPart:
    """What statuses say of the tables that a policy reads.

    The text has no age, which is another one each time.
    """
    by_digest = {source.digest: source for source in sources}

    def part(policy: ReportedPolicy) -> None:
        if policy.program is None or not policy.program.tables:
            return
        namespace = policy.program.namespace
        reader = EVERYTHING if namespace is None else Reader(frozenset({namespace}))
        asked = (
            source
            if reader.may_read(spec)
            else msgspec.structs.replace(source, told_error=source.reason)
            for spec in policy.program.tables
            if (source := by_digest.get(spec.digest)) is not None
        )
        # Some rows come, and are stale when they come.
        failing = [
            each for each in asked if each.reason or (each.is_stale and each.age is not None)
        ]
        text = "; ".join(sorted(map(_condition, {s.label: s for s in failing}.values())))
        reasons = {_reason(source): source for source in failing}
        reason = next((each for each in _REASONS if each in reasons), "")
        policy.conditions["DataFailing"] = condition(reason, text, "its tables are read")

    return part


# The reasons of the condition, the worst first.
_REASONS = ("NoRows", "UselessRows", "OldRows", "DoubtfulRows")


def _reason(source: SourceStatus) -> str:
    if source.is_stale:
        return "NoRows"
    return f"{source.reason.title()}Rows" if source.is_read else "OldRows"


def _condition(source: SourceStatus) -> str:
    if source.is_read and not source.is_stale:
        return f"{source.label}: {source.reason}: {source.told_error}"
    read = "no rows are read" if source.is_stale else "the last rows are read"
    return f"{source.label}: {read}: {source.told_error or 'they are stale when they come'}"


# ---- facts and metrics


def data_facts(sources: Sequence[SourceStatus]) -> Facts:
    """A row for each source."""
    rows = [
        {
            "data": each.name,
            "from": each.kind,
            "policies": each.policies,
            "rows": each.rows,
            "age (s)": each.age,
            "state": _state(each),
        }
        for each in sources
    ]
    return {"data": rows}


def _state(each: SourceStatus) -> str:
    state = each.cause or ("ok" if each.age is not None else "not read yet")
    state = f"{each.left_out} left out: {state}" if each.left_out else state
    if each.lacking:
        state = f"{state}, {counted(each.lacking, 'node')} without a row"
    if each.error:
        state = f"{each.reason}: {each.error}" if each.is_read else each.error
    return f"stale: {state}" if each.is_stale else state


def data_samples(sources: Iterable[SourceStatus]) -> Iterator[Sample]:
    """The sources of data by name and kind; several of one name are as bad as the worst."""
    by_label: dict[str, list[SourceStatus]] = {}
    for each in sources:
        by_label.setdefault(source_label(each.name, each.kind), []).append(each)
    for label, found in sorted(by_label.items())[:_MOST_LABELS]:
        yield "placet_data_rows", [label], sum(each.rows for each in found)
        yield "placet_data_stale", [label], any(each.is_stale for each in found)
        yield "placet_data_useless", [label], any(each.reason == "useless" for each in found)
        if lacking := [each.lacking for each in found if each.lacking is not None]:
            yield "placet_data_lacking_nodes", [label], max(lacking)
        if known := [each.age for each in found if each.age is not None]:
            yield "placet_data_age_seconds", [label], max(known)
