"""Command `audit`: what policies in audit mode would have done, and whether to enforce them."""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence

from cli import replicas
from cli.command import CommandError, flags_of
from cli.console import Part, first_rows
from engine.decision.audit_log import AuditedPod, PolicyAudits
from engine.explanation.document import AuditList
from engine.facts import PartOf
from grammar.messages.texts import counted

EXAMPLES = """\
examples:
  placet audit
  placet audit shop/web
  placet audit -n shop -o json
  placet audit --url http://127.0.0.1:12346
"""
ARGUMENTS = flags_of(f"{replicas.POLICY}{replicas.ASKED}")
# The pods of a policy in a table.
_MOST_ROWS = 20


def run(args: argparse.Namespace) -> int:
    lists, errors = replicas.asked(args, "/audit", AuditList)
    policies = sorted({each.policy for one in lists for each in one.policies})
    if args.policy is not None and args.policy not in policies:
        hint = "set `mode audit` in it, or `enforcementMode: Audit`; see: placet status"
        raise CommandError(f"no policy `{args.policy}` is in audit mode", hint)
    shown = [args.policy] if args.policy is not None else policies
    lists = [
        AuditList(o.replica, o.at, [_within(p, args) for p in o.policies if p.policy in shown])
        for o in lists
    ]
    every = [each for one in lists for each in one.policies]
    parts = [p for name in shown for p in _policy([each for each in every if each.policy == name])]
    return replicas.put_answers(args, lists, parts[1:] or ["no policy is in audit mode"], errors)


def _within(found: PolicyAudits, args: argparse.Namespace) -> PolicyAudits:
    """The audits of a policy for the pods of a namespace, if one is given."""
    if args.namespace is None:
        return found
    pods = [pod for pod in found.pods if pod.pod.startswith(f"{args.namespace}/")]
    return PolicyAudits(found.policy, found.digest, found.since, *_numbers(pods), pods)


def _numbers(pods: Sequence[AuditedPod]) -> tuple[int, int, int]:
    """How many of the pods would have waited, of how many workloads, and gone elsewhere."""
    waiting = [pod.owner for pod in pods if pod.wouldWait]
    return len(waiting), len({*waiting}), len(pods) - len(waiting)


def _policy(found: Sequence[PolicyAudits]) -> Iterator[Part]:
    """A policy as the replicas know it: an empty line, a sentence, and its pods."""
    yield ""
    since = min(each.since for each in found)
    # Each pod that one of them knows once, the newest first.
    every = {pod.uid: pod for each in found for pod in each.pods}.values()
    pods = sorted(every, key=lambda pod: pod.at, reverse=True)
    # Of pods that are forgotten the numbers are left.
    known = [_numbers(pods), *((e.waiting, e.workloads, e.elsewhere) for e in found)]
    number, workloads, elsewhere = map(max, zip(*known, strict=True))
    yield f"policy {found[0].policy}, in audit mode since {since}"
    if not number and not elsewhere:
        yield f"would have rejected no pod since {since}: enforce it with `mode enforce`"
        return
    kept = f"{counted(number, 'pod')} of {counted(workloads, 'workload')}" if number else "no pod"
    yield f"would have kept {kept} pending since {since}: enforce?"
    if elsewhere:
        yield f"would have sent {counted(elsewhere, 'pod')} to another node"
    yield ""
    rows = []
    for pod in pods:
        would = "waited" if pod.wouldWait else "gone elsewhere"
        by, of = ", ".join(each.clause for each in pod.clauses), PartOf(pod.rejected, pod.offered)
        rows.append((pod.pod, pod.workload, would, by, of, pod.since, pod.node))
    columns = ("pod", "of", "would have", "by", "nodes", "since", "is on")
    yield from first_rows(*columns, rows=rows, most=_MOST_ROWS)
