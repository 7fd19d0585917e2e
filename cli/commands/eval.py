"""Command `eval`: the value and type of an expression, for a pod and a node of a snapshot."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from cli.command import Exit, given_path
from cli.console import add_output_argument
from cli.expressions import (
    ONLY_IN_CLAUSES,
    Expression,
    Subject,
    check,
    data_declared,
    put_value,
    put_values,
    tables_at,
)
from cli.render import print_findings
from cli.sources import (
    add_cluster_arguments,
    asked_pod,
    chosen_flag,
    is_live,
    live_data,
    opened,
    question_namespace,
    whole,
)
from cli.world import (
    add_cluster_argument,
    add_data_argument,
    add_pod_file_argument,
    check_data,
    read_cluster,
    read_data,
    read_policies,
)
from engine.cache.cluster_copy import ClusterCopy, NamedPod
from engine.cache.pod_manifests import read_pod
from engine.enforced import EnforcedPolicies
from engine.objects.codec import ObjectCodec
from grammar.meaning.schema import load_schema

if TYPE_CHECKING:
    from cli.live import LiveCluster

EXAMPLES = """\
examples:
  placet eval '"1500m" < quantity("2")'
  placet eval -n shop --pod web-1 --all-nodes 'node.free["cpu"]'
  placet eval --cluster cluster.json --node n-1 'node.free["cpu"]'
  placet eval --cluster cluster.json --pod shop/web-1 --all-nodes 'node.usage["memory"]'
  placet eval --policies load.policy --data load=load.csv 'data.load["n-1"].cpu'
"""


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("expression", metavar="EXPR", help="an expression of the policy language")
    add_cluster_argument(parser)
    parser.add_argument(
        "--pod", metavar="NS/NAME", help="the pod; its name alone if that is unique"
    )
    add_pod_file_argument(parser)
    nodes = parser.add_mutually_exclusive_group()
    nodes.add_argument("--node", metavar="NAME", help="the node")
    nodes.add_argument(
        "--all-nodes", action="store_true", help="one row for each node of the cluster"
    )
    parser.add_argument(
        "--policies",
        metavar="PATH",
        action="append",
        type=given_path,
        help="a policy file or a folder of them, whose tables of data the expression can read; may "
        "be given again",
    )
    add_data_argument(parser)
    add_output_argument(parser, "json", "yaml")
    add_cluster_arguments(parser)


def run(args: argparse.Namespace) -> int:
    policies = read_policies(args.policies or (), load_schema())
    expression = _checked(args, policies)
    if expression is None:
        return Exit.ERROR
    codec = ObjectCodec(load_schema(), expression.annotations)
    if not _is_live(args):
        data = read_data(args)
        check_data([policies], data)
        cluster = read_cluster(args.cluster, codec) if args.cluster else None
        pod, tables = _asked(args, cluster, None), tables_at(cluster, policies, data)
    else:
        with opened(args) as live:
            cluster = whole(live.read(question_namespace(args, live))).cluster(codec)
            tables = tables_at(cluster, policies, live_data(live, args, [policies]))
            pod = _asked(args, cluster, live)
    subject = Subject(cluster, codec, pod, args.node, tables)
    if args.all_nodes and cluster is not None:
        return put_values(expression, subject, cluster, args.output)
    return put_value(expression, subject, args.output)


def _is_live(args: argparse.Namespace) -> bool:
    """Whether a running cluster is asked: an expression alone, or of a manifest, needs none."""
    if chosen_flag(args) is None and not (args.pod or args.node or args.all_nodes):
        return False
    return is_live(args)


def _checked(args: argparse.Namespace, policies: EnforcedPolicies) -> Expression | None:
    """The checked expression, which can read the tables of policies; None after its errors."""
    hidden = {**ONLY_IN_CLAUSES}
    if not args.pod and not args.pod_file:
        hint = "give a pod with --pod NS/NAME or --pod-file FILE"
        hidden |= {"pod": hint, "namespaceObject": hint}
    if not args.node and not args.all_nodes:
        hidden["node"] = "give a node with --node NAME, or all of them with --all-nodes"
    expression, found, source = check(
        args.expression, load_schema(), hidden, data_declared(policies)
    )
    print_findings([(d, source) for d in found])
    return expression


def _asked(
    args: argparse.Namespace, cluster: ClusterCopy | None, live: LiveCluster | None
) -> NamedPod | None:
    if args.pod is None and args.pod_file is None:
        return None
    return read_pod(args.pod_file) if cluster is None else asked_pod(args, cluster, live)
