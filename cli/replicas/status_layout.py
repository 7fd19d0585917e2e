"""Layout of the status of running replicas."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from cli.console import Part, table
from engine.objects.api_types import mapping
from grammar.messages.texts import counted, named
from server.answers.view_answers import Latency, ReplicaStatus

_NAMED = 5
_WRONG_CARDS = {
    "lost": "pods on cards that their node does not have",
    "guessed": "pods that others have bound, without a number of their cards",
}


def status(found: ReplicaStatus) -> Iterator[Part]:
    """Readiness, leader, policies, informers, pods in flight and latency of one replica."""
    state = "ready" if found.ready else "not ready"
    yield f"replica {found.replica}, version {found.version}, {state}, started at {found.started}"
    for check in found.failing:
        yield f"  {'warning' if check.warning else 'failing'}: {check.name}: {check.failure}"
    yield _leader(found)
    kept = counted(found.recorded, "pod")
    yield f"{counted(found.decisions, 'decision')}; the last ones about {kept} are kept"
    yield ""
    yield from _policies(found)
    yield from _informers(found)
    yield from _cards(found)
    yield from _in_flight(found)
    yield from _latency(found)


def _leader(found: ReplicaStatus) -> str:
    if found.cluster is None:
        return "no cluster is watched"
    lease = mapping(found.cluster, "lease")
    if not lease:
        return "decides by counts without a Lease"
    if lease.get("held"):
        return "leader: this replica holds the Lease"
    failure = f" ({lease['failure']})" if lease.get("failure") else ""
    return f"leader: `{lease.get('holder') or 'nobody'}` holds the Lease{failure}"


def _policies(found: ReplicaStatus) -> Iterator[Part]:
    if not found.policies:
        yield "no policy is in force"
    else:
        rows = table("policy in force", "kind", "mode", "weight", "digest", right=("weight",))
        for each in found.policies:
            kind = "guardrail" if each.guardrail else "policy"
            mode = f"{each.mode}, expensive" if each.expensive else each.mode
            rows.add_row(each.address, kind, mode, str(each.weight), each.digest)
        yield rows
    if found.notInForce:
        yield f"not in force: {', '.join(found.notInForce)}"
    yield ""


def _informers(found: ReplicaStatus) -> Iterator[Part]:
    resources = mapping(found.cluster or {}, "resources")
    if not resources:
        return
    rows = table("informer", "objects", "synced", "silent", "failure", right=("objects", "silent"))
    for name, each in sorted(resources.items()):
        rows.add_row(name, *_informer(each if isinstance(each, Mapping) else {}))
    yield rows
    yield ""


def _informer(each: Mapping[str, object]) -> tuple[str, str, str, str]:
    silent = each.get("secondsSinceLastEvent")
    seconds = f"{silent:.0f} s" if isinstance(silent, int | float) else ""
    synced = "yes" if each.get("synced") else "no"
    return str(each.get("objects", "")), synced, seconds, str(each.get("failure") or "")


def _cards(found: ReplicaStatus) -> Iterator[Part]:
    """What is left of the cards of each clause, and the pods that are not where they should be."""
    clauses = mapping(found.cluster or {}, "cards")
    if not clauses:
        return
    columns = ("idle", "split", "full")
    rows = table("cards", *columns, "used", right=columns)
    wrong = []
    for name in sorted(clauses):
        each = mapping(clauses, name)
        amounts = mapping(each, "amounts")
        used = [
            f"{mapping(amounts, key).get('used')} of {mapping(amounts, key).get('capacity')} {key}"
            for key in sorted(amounts)
        ]
        rows.add_row(name, *(str(each.get(column, "")) for column in columns), ", ".join(used))
        for kind, text in _WRONG_CARDS.items():
            pods, number = each.get(f"{kind}Pods"), each.get(kind)
            if isinstance(pods, list) and isinstance(number, int) and number:
                more = f" and {number - len(pods)} more" if number > len(pods) else ""
                wrong.append(f"cards `{name}`: {text}: {', '.join(map(str, pods))}{more}")
    yield rows
    yield from wrong
    yield ""


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
