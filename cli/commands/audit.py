"""Command `audit`: what policies in audit mode would have done, and whether to enforce them."""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from itertools import chain, islice

from cli import replicas
from cli.command import OUTPUT, CommandError, flags_of
from cli.console import Part, put_answer, table
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
ARGUMENTS = flags_of(f"{replicas.POLICY}{replicas.NAMESPACES}{OUTPUT}{replicas.PLACET}")
# The pods of a policy in a table.
_MOST_ROWS = 20


def run(args: argparse.Namespace) -> int:
    lists, errors = replicas.asked(args, "/audit", AuditList)
    policies = sorted({each.policy for one in lists for each in one.policies})
    if args.policy is not None and args.policy not in policies:
        hint = "set `mode audit` in it, or `enforcementMode: Audit`; see: placet status"
        raise CommandError(f"no policy `{args.policy}` is in audit mode", hint)
    wanted = [args.policy] if args.policy is not None else policies
    parts = chain.from_iterable(_policy(each, lists, args.namespace) for each in wanted)
    known = ["no policy is in audit mode"] if not policies else islice(parts, 1, None)
    put_answer(replicas.document(lists), args.output, known)
    return replicas.end(errors)


def _policy(policy: str, lists: Sequence[AuditList], namespace: str | None) -> Iterator[Part]:
    """A policy as the replicas know it: an empty line, a sentence, and its pods."""
    found = [each for one in lists for each in one.policies if each.policy == policy]
    yield ""
    since = min(each.since for each in found)
    # Each pod that one of them knows once, the newest first.
    every = {pod.uid: pod for each in found for pod in each.pods}.values()
    wanted = [pod for pod in every if namespace in (None, pod.pod.partition("/")[0])]
    pods = sorted(wanted, key=lambda pod: pod.at, reverse=True)
    waiting = [pod for pod in pods if pod.wouldWait]
    # Of pods that are forgotten the numbers are left.
    whole = found if namespace is None else ()
    number = max([len(waiting), *(each.waiting for each in whole)])
    owners = {pod.owner for pod in waiting}
    workloads = max([len(owners), *(each.workloads for each in whole)])
    elsewhere = max([len(pods) - len(waiting), *(each.elsewhere for each in whole)])
    yield f"policy {policy}, in audit mode since {since}"
    if not number and not elsewhere:
        yield f"would have rejected no pod since {since}: enforce it with `mode enforce`"
        return
    kept = f"{counted(number, 'pod')} of {counted(workloads, 'workload')}" if number else "no pod"
    yield f"would have kept {kept} pending since {since}: enforce?"
    if elsewhere:
        yield f"would have sent {counted(elsewhere, 'pod')} to another node"
    yield ""
    rows = []
    for pod in pods[:_MOST_ROWS]:
        would = "waited" if pod.wouldWait else "gone elsewhere"
        by, of = ", ".join(each.clause for each in pod.clauses), PartOf(pod.rejected, pod.offered)
        rows.append((pod.pod, pod.workload, would, by, of, pod.since, pod.node))
    yield table("pod", "of", "would have", "by", "nodes", "since", "is on", rows=rows)
    if len(pods) > _MOST_ROWS:
        yield f"{len(pods) - _MOST_ROWS} others are in: placet audit {policy} -o json"
