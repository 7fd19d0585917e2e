"""Command `status`: what the running Placet is and knows."""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Mapping

from cli import replicas
from cli.command import OUTPUT, flags_of
from cli.console import Part, table
from cli.explanation import not_in_force, row_table
from grammar.messages.texts import counted, named
from server.answers import ReplicaStatus, WatchedResource

EXAMPLES = """\
examples:
  placet status
  placet status --replica placet-0 -o json
  placet status --url http://127.0.0.1:12346
"""

# The names in a text.
_NAMED = 5

ARGUMENTS = flags_of(f"{OUTPUT}{replicas.PLACET}")


def run(args: argparse.Namespace) -> int:
    found, errors = replicas.asked(args, "/status", ReplicaStatus)
    parts = [part for each in found for part in ("", *_status(each))]
    return replicas.put_answers(args, found, parts[1:], errors)


def _status(found: ReplicaStatus) -> Iterator[Part]:
    """Readiness, leader, policies, informers and pods in flight of one replica."""
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
    for name, rows in found.facts.items():
        yield from (name, row_table(rows), "")
    pods = counted(found.podsInFlight, "pod")
    if found.podsInFlight:
        first = named([each.pod for each in found.inFlight[:_NAMED]], _NAMED)
        more = found.podsInFlight - min(len(found.inFlight), _NAMED)
        others = f" and {more} more" if more > 0 else ""
        yield f"{pods} in flight: {first}{others}"
    else:
        yield "no pod is in flight"


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
        rows = []
        for each in found.policies:
            kind = "guardrail" if each.guardrail else "policy"
            mode = f"{each.mode}, expensive" if each.expensive else each.mode
            mode += f", unmet: {each.unmet}" if each.unmet else ""
            rows.append((each.address, kind, mode, each.weight, each.digest))
        yield table("policy in force", "kind", "mode", "weight", "digest", rows=rows)
    yield ""
    yield from not_in_force(found.broken)


def _informers(resources: Mapping[str, WatchedResource]) -> Iterator[Part]:
    if not resources:
        return
    rows = []
    for name, each in sorted(resources.items()):
        age, synced = each.secondsSinceLastEvent, "yes" if each.synced else "no"
        silent = "" if age is None else f"{age:.0f} s"
        rows.append((name, each.objects, synced, silent, each.failure))
    yield table("informer", "objects", "synced", "silent", "failure", rows=rows, right=("silent",))
    yield ""
