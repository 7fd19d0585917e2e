"""Layout of what running replicas answer: decisions as a list and in full, and their status."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from cli.command import CommandError
from cli.console import Part, table
from cli.explanation.layout import NAMED, audited, by_reason, concerned, passed, preemption
from engine.decision.journal import CountedGroup
from engine.explanation.decided import Listing
from engine.explanation.document import PodDecision, Summary
from grammar.messages.texts import counted, named
from server.answers import Cell, Facts, Latency, PartOf, ReplicaStatus, WatchedResource


def listings(found: Sequence[Listing]) -> Iterator[Part]:
    """A row for each decision, the newest first; with several replicas it says whose it is."""
    every = [(one, each.replica) for each in found for one in each.decisions]
    if not every:
        yield "there are no decisions yet"
        return
    several = len(found) > 1
    columns = ("pod", "asked at", "pass", "of", "governed by", *(("replica",) if several else ()))
    rows = table(*columns, right=("pass", "of"))
    for one, replica in sorted(every, key=lambda pair: pair[0].at, reverse=True):
        row = (one.pod, one.at, str(one.passing), str(one.nodes), _note(one))
        rows.add_row(*row, *((replica,) if several else ()))
    yield rows


def _note(one: Summary) -> str:
    return f"error: {one.problem}" if one.problem else one.governing or ""


def head(decision: PodDecision, replica: str = "") -> Iterator[Part]:
    """The pod, the time of the decision, the replica if it is given, and the policies."""
    whose = f", by replica {replica}" if replica else ""
    yield f"pod {decision.pod}, asked about at {decision.at}{whose}"
    if decision.policiesChanged:
        yield "the policies have changed since then"
    yield ""
    if decision.policies:
        yield concerned(decision)
        yield ""
    elif decision.problem is None:
        yield "no policy applies to the pod"
        yield ""
    if decision.problem is not None:
        yield f"kube-scheduler got an error and retries: {decision.problem}"
        yield ""


def every_node(decision: PodDecision) -> Iterator[Part]:
    """The nodes by reason, and what strict clauses counted."""
    if decision.groups:
        yield by_reason(decision)
        yield ""
    if decision.groups or (decision.nodes and decision.problem is None):
        yield passed(decision.passing, decision.nodes, decision.heldBack)
    for each in decision.counts:
        yield f"{each.policy}: {each.clause} {_groups(each.groups)}"
    yield from preemption(decision)
    yield from map(audited, decision.audits)


def one_node(decision: PodDecision, node: str) -> Iterator[Part]:
    """The verdict about one node. Raises CommandError if it was not a candidate."""
    group = next((each for each in decision.groups if node in each.names), None)
    if group is None and not decision.groups and decision.problem is None:
        candidates = counted(decision.nodes, "candidate node")
        yield f"node {node} passes if it was one of the {candidates}"
    elif group is None:
        hint = "it sends only nodes that pass its own filters"
        raise CommandError(f"kube-scheduler did not send node `{node}` as a candidate", hint)
    elif group.rejectedBy:
        yield f"node {node} fails by {group.rejectedBy[0].text}"
    elif group.heldBack:
        yield f"node {node} passes; {group.heldBack}"
    else:
        score = next((s.score for s in decision.scores or () if s.node == node), None)
        yield f"node {node} passes"
        yield f"score {score} of 10" if score is not None else "not scored"


def _groups(groups: Sequence[CountedGroup]) -> str:
    """`counted z1 3, z2 2`, the fullest first."""
    if not groups:
        return "counted no other pod"
    return f"counted {named([f'{each.name} {each.pods:g}' for each in groups], NAMED)}"


# ---- the status of replicas


_NAMED = 5


def status(found: ReplicaStatus) -> Iterator[Part]:
    """Readiness, leader, policies, informers, pods in flight and latency of one replica."""
    state = "ready" if found.ready else "not ready"
    yield f"replica {found.replica}, version {found.version}, {state}, started at {found.started}"
    for check in found.failing:
        yield f"  {'warning' if check.warning else 'failing'}: {check.name}: {check.failure}"
    yield _leader(found)
    if (used := found.certificate) is not None and not used.warning:
        yield f"certificate {used.file}, valid until {used.expires}"
    kept = counted(found.recorded, "pod")
    yield f"{counted(found.decisions, 'decision')}; the last ones about {kept} are kept"
    yield ""
    yield from _policies_in_force(found)
    if found.cluster is not None:
        yield from _informers(found.cluster.resources)
    yield from _facts(found.facts)
    yield from _in_flight(found)
    yield from _latency(found)


def _leader(found: ReplicaStatus) -> str:
    if found.cluster is None:
        return "no cluster is watched"
    lease = found.cluster.lease
    if lease is None:
        return "decides by counts without a Lease"
    if lease.held:
        return "leader: this replica holds the Lease"
    failure = f" ({lease.failure})" if lease.failure else ""
    return f"leader: `{lease.holder or 'nobody'}` holds the Lease{failure}"


def _policies_in_force(found: ReplicaStatus) -> Iterator[Part]:
    if not found.policies:
        yield "no policy is in force"
    else:
        rows = table("policy in force", "kind", "mode", "weight", "digest", right=("weight",))
        for each in found.policies:
            kind = "guardrail" if each.guardrail else "policy"
            mode = f"{each.mode}, expensive" if each.expensive else each.mode
            mode += f", unmet: {each.unmet}" if each.unmet else ""
            rows.add_row(each.address, kind, mode, str(each.weight), each.digest)
        yield rows
    if found.notInForce:
        yield f"not in force: {', '.join(found.notInForce)}"
    yield ""


def _informers(resources: Mapping[str, WatchedResource]) -> Iterator[Part]:
    if not resources:
        return
    rows = table("informer", "objects", "synced", "silent", "failure", right=("objects", "silent"))
    for name, each in sorted(resources.items()):
        age, synced = each.secondsSinceLastEvent, "yes" if each.synced else "no"
        silent = "" if age is None else f"{age:.0f} s"
        rows.add_row(name, str(each.objects), synced, silent, each.failure)
    yield rows
    yield ""


def _facts(facts: Facts) -> Iterator[Part]:
    """A table for each fact of a capability, with the columns of all rows."""
    for name, found in facts.items():
        columns = list(dict.fromkeys(column for row in found for column in row))
        cells = [[row.get(column) for column in columns] for row in found]
        numbers = map(_numbers, zip(*cells, strict=True))
        right = tuple(column for column, has in zip(columns, numbers, strict=True) if has)
        yield name
        rows = table(*columns, right=right)
        for each in cells:
            rows.add_row(*map(_cell, each))
        yield rows
        yield ""


def _numbers(cells: Iterable[Cell]) -> bool:
    return all(each is None or isinstance(each, int | float | PartOf) for each in cells)


def _cell(value: Cell) -> str:
    match value:
        case None:
            return ""
        case PartOf(part, whole):
            return f"{part} of {whole}"
        case float():
            return f"{value:.0f}"
        case str() | int():
            return str(value)
        case _:
            return named(value, _NAMED)


def _in_flight(found: ReplicaStatus) -> Iterator[Part]:
    pods = counted(found.podsInFlight, "pod")
    if found.podsInFlight:
        first = named([each.pod for each in found.inFlight[:_NAMED]], _NAMED)
        more = found.podsInFlight - min(len(found.inFlight), _NAMED)
        others = f" and {more} more" if more > 0 else ""
        yield f"{pods} in flight: {first}{others}"
    else:
        yield "no pod is in flight"


def _latency(found: ReplicaStatus) -> Iterator[Part]:
    if not any(each.calls for each in found.latency):
        yield "no call yet"
        return
    yield ""
    columns = ("calls", "p50", "p90", "p99")
    rows = table("verb", *columns, right=columns)
    for each in found.latency:
        rows.add_row(each.verb, str(each.calls), *_percentiles(each))
    yield rows


def _percentiles(each: Latency) -> Iterator[str]:
    """In milliseconds."""
    for seconds in (each.p50, each.p90, each.p99):
        yield "" if seconds is None else f"{seconds * 1000:.1f} ms"
