"""Command `explain`: the policies that apply to a pod, and why each node passes or fails."""

from __future__ import annotations

import argparse
import asyncio
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import msgspec

from cli.command import CommandError, Exit
from cli.console import put, show, table
from cli.explanation.decision_layout import every_node, head, one_node
from cli.explanation.explanation import Explanation, UndecidedError, explain
from cli.explanation.explanation_documents import decision_document
from cli.explanation.live_layout import cause_lines, not_in_force, readable_policies, said_about
from cli.explanation.pending import Cause, Decided, cause, decided
from cli.explanation.then_and_now import decision_now, then_and_now
from cli.output import add_output_argument, put_document
from cli.render import excerpt
from cli.replicas import replicas
from cli.sources import (
    ForbiddenError,
    add_cluster_arguments,
    asked_pod,
    is_live,
    live_world,
    opened,
    question_namespace,
    require_cluster,
    warn_of,
)
from cli.world import World, add_arguments, add_pod_arguments, in_force, read_world
from engine.cache.cluster_copy import NamedPod
from grammar.meaning.schema import load_schema
from grammar.messages.diagnostics import nearest
from server.answers.view_answers import DecisionDetail

if TYPE_CHECKING:
    from cli.live import Found, LiveCluster

EXAMPLES = """\
examples:
  placet explain -n shop web-1
  placet explain -n shop web-1 node-3
  placet explain -n shop
  placet explain shop/web-1 --cluster cluster.json --policies policies/
  placet explain --pod-file pod.yaml --context test --policies policies/
  placet explain -n shop web-1 --decision
"""
# The most pending pods of a list, and the longest cause in it.
_MOST_PENDING, _SHORT = 100, 160
Json = dict[str, Any]


def configure(parser: argparse.ArgumentParser) -> None:
    add_pod_arguments(parser)
    parser.add_argument(
        "node", metavar="NODE", nargs="?", help="only this node, with each part of each expression"
    )
    add_arguments(parser, required=False)
    add_output_argument(parser, "wide", "json", "yaml", "name")
    add_cluster_arguments(parser)
    parser.add_argument(
        "--decision",
        action="store_true",
        help="also show what the running Placet decided last, and what has changed since; it is "
        "found as `placet decisions` finds it",
    )
    parser.add_argument("--url", metavar="URL", help="with --decision: the view of this server")


def run(args: argparse.Namespace) -> int:
    if args.url is not None and not args.decision:
        raise CommandError("--url has no effect without --decision", "add --decision")
    if args.pod_file is not None and args.node is None:
        # With a file, the only positional argument is the node.
        args.pod, args.node = None, args.pod
    if not is_live(args):
        require_cluster(args)
        return _explain(args, read_world(args), None)
    with opened(args) as live:
        try:
            read = live_world(live, args, question_namespace(args, live))
        except ForbiddenError as error:
            return _without_rights(args, live, error)
        warn_of(read.lacks)
        if args.pod is None and args.pod_file is None:
            return _pending_pods(args, read.world, live)
        return _explain(args, read.world, live)


def _explain(args: argparse.Namespace, world: World, live: LiveCluster | None) -> int:
    pod = asked_pod(args, world.cluster, live)
    if args.node is not None:
        world.cluster.node(args.node)
    asks_why = live is not None and args.pod_file is None
    events = live.events(pod.namespace, pod.name) if live is not None and asks_why else []
    with world.cluster.asking(pod):
        found, summary = _decided(world, pod, is_needed=not asks_why)
        why = _cause(world, pod, events, summary) if asks_why else None
        if args.output in ("json", "yaml"):
            put_document(decision_document(world, pod, found, why, args.node), args.output)
        elif args.output == "name":
            put(f"node/{name}" for name in (found.passing if found is not None else ()))
        else:
            if why is not None:
                put(cause_lines(why))
                put(said_about(_whole(pod), events))
            _put_decision(args, world, pod.namespace, found)
            if args.decision:
                then = asyncio.run(_last_decision(args, f"{pod.namespace}/{pod.name}"))
                put(["", *then_and_now(then, decision_now(world, pod))])
    # A file with errors is a finding; what a cluster has is what was asked about.
    return Exit.FINDINGS if live is None and world.policies.broken else Exit.OK


def _decided(world: World, pod: NamedPod, *, is_needed: bool) -> tuple[Explanation | None, Decided]:
    """The decision, and a summary; a policy that is not in force can prevent one."""
    try:
        found = explain(world, pod)
    except UndecidedError as error:
        if is_needed:
            put(not_in_force(world.policies.broken_in(pod.namespace)))
            raise
        return None, Decided(problem=error.message)
    return found, decided(found)


def _cause(world: World, pod: NamedPod, events: Sequence[Json] | str, summary: Decided) -> Cause:
    known = () if isinstance(events, str) else events
    return cause(_whole(pod), known, summary, world.policies.broken)


def _whole(pod: NamedPod) -> Json:
    """The JSON of a pod with its node."""
    body: Json = msgspec.json.decode(pod.body)
    return {**body, "spec": {**(body.get("spec") or {}), "nodeName": pod.node}}


def _put_decision(
    args: argparse.Namespace, world: World, namespace: str, found: Explanation | None
) -> None:
    put(not_in_force(world.policies.broken_in(namespace)))
    if found is None:
        return
    put(head(world, found))
    if args.node is not None:
        put(one_node(world, found, args.node))
    else:
        put(every_node(world, found, every=args.output == "wide"))


def _pending_pods(args: argparse.Namespace, world: World, live: LiveCluster) -> int:
    """A row for each pending pod of a namespace, or of all."""
    namespace = question_namespace(args, live)
    keys = sorted(world.cluster.snapshot().pending)
    keys = [key for key in keys if not namespace or key.startswith(f"{namespace}/")]
    causes: dict[str, Cause] = {}
    for key in keys[:_MOST_PENDING]:
        pod = world.cluster.pod(key)
        with world.cluster.asking(pod):
            _, summary = _decided(world, pod, is_needed=False)
        causes[key] = _cause(world, pod, [], summary)
    if args.output == "name":
        put(f"pod/{key.rpartition('/')[2]}" for key in causes)
    elif args.output in ("json", "yaml"):
        items = [{"pod": key, "kind": c.kind, "cause": c.text} for key, c in causes.items()]
        put_document({"pending": items}, args.output)
    else:
        _put_causes(causes, wide=args.output == "wide")
        if (more := len(keys) - len(causes)) > 0:
            print(f"and {more} more")
        put(["", *not_in_force(world.policies.broken_in(namespace))])
    return Exit.OK


def _put_causes(causes: Mapping[str, Cause], *, wide: bool) -> None:
    if not causes:
        print("no pod is pending there")
        return
    rows = table("pending pod", "cause")
    for key, why in causes.items():
        rows.add_row(key, why.text if wide else excerpt(why.text, _SHORT))
    show(rows)


def _without_rights(args: argparse.Namespace, live: LiveCluster, error: ForbiddenError) -> int:
    """What can be told without the right to read all nodes and pods. Raises CommandError."""
    namespace = question_namespace(args, live) or live.namespace
    if args.pod is None or args.node is not None:
        raise error
    found, name = error.found, args.pod.rpartition("/")[2]
    bodies = {str(pod["metadata"]["name"]): pod for pod in live.pods(namespace)}
    if name not in bodies:
        close = nearest(name, bodies)
        hint = f"a similar name exists: `{close}`" if close is not None else ""
        raise CommandError(f"there is no pod `{name}` in the namespace `{namespace}`", hint)
    body, events = bodies[name], live.events(namespace, name)
    policies = in_force((), found.policies, load_schema())
    why = cause(body, () if isinstance(events, str) else events, None, policies.broken)
    if args.output in ("json", "yaml"):
        document = {"pod": f"{namespace}/{name}", "kind": why.kind, "cause": why.text}
        put_document({**document, "lacks": list(found.lacks)}, args.output)
        return Exit.OK
    put([f"pod {namespace}/{name}", ""])
    put(cause_lines(why))
    put(said_about(body, events))
    put(not_in_force(policies.broken))
    put(readable_policies(found.policies))
    put(["", *_missing_rights(found)])
    return Exit.OK


def _missing_rights(found: Found) -> Iterator[str]:
    yield "which nodes would pass is not known:"
    yield from (f"  you may not {right}" for right in found.lacks)


async def _last_decision(args: argparse.Namespace, pod: str) -> DecisionDetail:
    """What the running Placet decided last about a pod. Raises CommandError.

    It is found by the same kubeconfig as the cluster.
    """
    url = replicas.checked(args.url) if args.url is not None else None
    target = replicas.ReplicaTarget(url, args.kubeconfig, args.context)
    async with replicas.replicas(target) as found:
        details, errors = await replicas.last_decisions(found, pod)
    replicas.end(errors)
    return details[0]
