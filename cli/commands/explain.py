"""Command `explain`: the policies that apply to a pod, and why each node passes or fails."""

from __future__ import annotations

import argparse

from cli.command import CommandError, Exit
from cli.console import put
from cli.explaining import decisions
from cli.explaining.explanation import explain
from cli.explaining.views import every_node, head, one_node
from cli.world import add_arguments, add_pod_arguments, ambiguous, named_pod, read_world
from server.debug import DecisionDetail

EXAMPLES = """\
examples:
  placet explain shop/web-1 --cluster cluster.json --policies policies/
  placet explain shop/web-1 node-3 --cluster cluster.json --policies policies/
  placet explain --pod-file pod.yaml --cluster cluster.json --policies policies/
  placet explain shop/web-1 --server http://127.0.0.1:12345
"""
_OFFLINE = ("cluster", "policies", "pod_file")


def configure(parser: argparse.ArgumentParser) -> None:
    add_pod_arguments(parser)
    parser.add_argument(
        "node", metavar="NODE", nargs="?", help="only this node, with each part of each expression"
    )
    add_arguments(parser, required=False)
    decisions.add_arguments(parser)


def run(args: argparse.Namespace) -> int:
    if args.server is not None:
        return _explain_server(args)
    _check_offline(args)
    if args.pod_file is not None and args.node is None:
        # With a file, the only positional argument is the node.
        args.pod, args.node = None, args.pod
    world = read_world(args)
    pod = named_pod(world.cluster, args.pod, args.pod_file)
    if args.node is not None:
        world.cluster.node(args.node)
    with world.cluster.asking(pod):
        found = explain(world, pod)
        put(head(world, found))
        if args.node is not None:
            put(one_node(world, found, args.node))
        else:
            put(every_node(world, found))
    return Exit.OK


def _check_offline(args: argparse.Namespace) -> None:
    for name in ("ca_file", "client_cert", "client_key"):
        if getattr(args, name) is not None:
            flag = f"--{name.replace('_', '-')}"
            raise CommandError(f"{flag} works only with a server", "give one with --server URL")
    if not args.cluster or not args.policies:
        missing = "are no policies" if args.cluster else "is no cluster"
        hint = "give --cluster SNAPSHOT and --policies PATH, or --server URL"
        raise CommandError(f"there {missing}", hint)


def _explain_server(args: argparse.Namespace) -> int:
    given = [f"--{name.replace('_', '-')}" for name in _OFFLINE if getattr(args, name)]
    if given:
        hint = "a server has its own cluster and policies"
        raise CommandError(f"--server does not work with {given[0]}", hint)
    server = decisions.server(args)
    if args.pod is None:
        put(decisions.listing(server.decisions()))
        return Exit.OK
    decision = _decision(server, args.pod)
    put(decisions.head(decision))
    if args.node is None:
        put(decisions.every_node(decision))
    else:
        put(decisions.one_node(decision, args.node))
    return Exit.OK


def _decision(server: decisions.Server, pod: str) -> DecisionDetail:
    """The last decision about a `NAMESPACE/NAME`, or a name that only one pod has."""
    key = pod
    if "/" not in pod:
        keys = sorted(one.pod for one in server.decisions().decisions)
        keys = [key for key in keys if key.partition("/")[2] == pod]
        if len(keys) > 1:
            raise ambiguous(pod, keys)
        key = keys[0] if keys else ""
    namespace, _, name = key.partition("/")
    found = server.decision(namespace, name) if namespace and name else None
    if found is None:
        hint = f"list the recorded decisions with: placet explain --server {server.url}"
        raise CommandError(f"the server has no decision about `{pod}`", hint)
    return found
