"""Command `eval`: the value and type of an expression, for a pod and a node of a snapshot."""

from __future__ import annotations

import argparse
from dataclasses import replace

from cli.command import Exit
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
    AskedCluster,
    add_cluster_arguments,
    asked_pod,
    chosen_flag,
    question_namespace,
    source_of,
)
from cli.world import (
    add_cluster_argument,
    add_data_argument,
    add_pod_file_argument,
    add_policies_argument,
    read_policies,
)
from engine.cache.pod_manifests import read_pod
from engine.enforced import EnforcedPolicies
from engine.objects.codec import ObjectCodec
from grammar.meaning.schema import load_schema

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
    add_policies_argument(parser)
    add_data_argument(parser)
    add_output_argument(parser, "json", "yaml")
    add_cluster_arguments(parser)


def run(args: argparse.Namespace) -> int:
    policies = read_policies(args.policies, load_schema())
    expression = _checked(args, policies)
    if expression is None:
        return Exit.ERROR
    codec = ObjectCodec(load_schema(), expression.annotations)
    cluster, pod = None, None
    if _asks_cluster(args):
        with source_of(args) as source:
            data = source.data([policies])
            read = source.read(question_namespace(args, source.live))
            cluster = replace(read, data=data).cluster(codec)
            if args.pod is not None or args.pod_file is not None:
                pod = asked_pod(args, cluster, source.live)
    else:
        data = AskedCluster(args).data([policies])
        pod = read_pod(args.pod_file) if args.pod_file is not None else None
    tables = tables_at(cluster, policies, data)
    subject = Subject(cluster, codec, pod, args.node, tables)
    if args.all_nodes and cluster is not None:
        return put_values(expression, subject, cluster, args.output)
    return put_value(expression, subject, args.output)


def _asks_cluster(args: argparse.Namespace) -> bool:
    """Whether a cluster is asked: an expression alone, or of a manifest, needs none."""
    given = args.cluster or args.pod or args.node or args.all_nodes
    return bool(given) or chosen_flag(args) is not None


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
