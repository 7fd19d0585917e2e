"""Command `decisions`: the last decisions of the running Placet."""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence

from cli import replicas
from cli.command import CommandError, flags_of
from cli.console import Part, table
from cli.explanation import NAMED, by_reason, concerned, parts_of, passed, preemption
from cli.sources import pod_namespace
from engine.explanation.document import Listing, PodDecision
from grammar.messages.texts import counted, named

EXAMPLES = """\
examples:
  placet decisions
  placet decisions shop/web-1
  placet decisions shop/web-1 node-3
  placet decisions --url http://127.0.0.1:12346
"""


ARGUMENTS = flags_of(f"""
  [POD]
    NAMESPACE/NAME, or the name alone if it is unique
  [NODE]
    only what was said of this node
{replicas.ASKED}
""")


def run(args: argparse.Namespace) -> int:
    if args.pod is not None and args.namespace is not None:
        namespace = pod_namespace(args)
        args.pod = f"{namespace}/{args.pod.rpartition('/')[2]}"
    if args.pod is None:
        found, errors = replicas.listings(args, args.namespace)
        return replicas.put_answers(args, found, _listings(found), errors)
    details, errors = replicas.last_decisions(args, args.pod)
    return replicas.put_answers(args, details, _parts(details, args), errors)


def _parts(details: Sequence[PodDecision], args: argparse.Namespace) -> Iterator[Part]:
    """The newest decision, on all nodes or one, and when the other replicas were asked."""
    newest, *others = details
    yield from _head(newest, "" if args.url else f", by replica {newest.replica}")
    if args.node is None:
        # The nodes by reason, and what strict clauses counted.
        if newest.groups:
            yield by_reason(newest)
            yield ""
        if newest.groups or (newest.nodes and newest.problem is None):
            yield passed(newest.passing, newest.nodes, newest.heldBack)
        for each in newest.counts:
            groups = named([f"{group.name} {group.pods:g}" for group in each.groups], NAMED)
            yield f"{each.policy}: {each.clause} counted {groups or 'no other pod'}"
        yield from preemption(newest)
        yield from parts_of(newest, after=True)
    else:
        yield from _one_node(newest, args.node)
    for other in others:
        yield f"replica {other.replica} was asked at {other.at}"


def _listings(found: Sequence[Listing]) -> Iterator[Part]:
    """A row for each decision, the newest first; with several replicas it says whose it is."""
    every = [(one, each.replica) for each in found for one in each.decisions]
    if not every:
        yield "there are no decisions yet"
        return
    every.sort(key=lambda pair: pair[0].at, reverse=True)
    rows = [
        (o.pod, o.at, o.passing, o.nodes, f"error: {o.problem}" if o.problem else o.governing, by)
        for o, by in every
    ]
    columns = ("pod", "asked at", "pass", "of", "governed by", *["replica"] * (len(found) > 1))
    yield table(*columns, rows=[row[: len(columns)] for row in rows])


def _head(decision: PodDecision, by: str) -> Iterator[Part]:
    """The pod, the time of the decision, whose it is, and the policies."""
    yield f"pod {decision.pod}, asked about at {decision.at}{by}"
    if decision.policiesChanged:
        yield "the policies have changed since then"
    yield ""
    known: list[Part] = [concerned(decision)] if decision.policies else []
    if decision.problem is not None:
        known.append(f"kube-scheduler got an error and retries: {decision.problem}")
    for each in known or ["no policy applies to the pod"]:
        yield from (each, "")


def _one_node(decision: PodDecision, node: str) -> Iterator[Part]:
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
