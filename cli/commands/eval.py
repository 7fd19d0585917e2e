"""Command `eval`: the value and type of an expression, for a pod and a node of a snapshot."""

from __future__ import annotations

import argparse
from contextlib import nullcontext
from typing import TYPE_CHECKING

from cli.command import Exit
from cli.console import add_output_argument, put_document, show, table
from cli.expressions import Evaluator, Expression, Failure, check
from cli.policy_tests.fixture import to_json
from cli.render import print_findings, put_problem
from cli.sources import (
    ForbiddenError,
    add_cluster_arguments,
    asked_pod,
    chosen_flag,
    is_live,
    opened,
    question_namespace,
)
from cli.world import add_cluster_argument, add_pod_file_argument, read_cluster
from engine.cache.cluster_copy import ClusterCopy, NamedPod
from engine.cache.pod_manifests import read_pod
from engine.explanation.written import Values
from engine.objects.codec import ObjectCodec
from engine.offline import question_frame
from engine.program.frame import Frame
from grammar.meaning.schema import Schema, load_schema
from grammar.messages.diagnostics import human

if TYPE_CHECKING:
    from cli.live import LiveCluster

EXAMPLES = """\
examples:
  placet eval '"1500m" < quantity("2")'
  placet eval -n shop --pod web-1 --all-nodes 'node.free["cpu"]'
  placet eval --cluster cluster.json --node n-1 'node.free["cpu"]'
  placet eval --cluster cluster.json --pod shop/web-1 --all-nodes 'node.usage["memory"]'
"""
_OF_CLAUSES = "it exists only in `preempt` and `pods where` clauses"
_OF_BOUNDS = "it exists only in the bounds of limits per domain and of spreads"


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
    add_output_argument(parser, "json", "yaml")
    add_cluster_arguments(parser)


def run(args: argparse.Namespace) -> int:
    schema = load_schema()
    expression = _checked(args, schema)
    if expression is None:
        return Exit.ERROR
    codec = ObjectCodec(schema, expression.annotations)
    if not _is_live(args):
        cluster = read_cluster(args.cluster, codec) if args.cluster else None
        return _evaluated(args, expression, cluster, codec, None)
    with opened(args) as live:
        found = live.read(question_namespace(args, live))
        if found.documents is None:
            raise ForbiddenError(found)
        return _evaluated(args, expression, found.documents.cluster(codec), codec, live)


def _is_live(args: argparse.Namespace) -> bool:
    """Whether a running cluster is asked: an expression alone, or of a manifest, needs none."""
    if chosen_flag(args) is None and not (args.pod or args.node or args.all_nodes):
        return False
    return is_live(args)


def _evaluated(
    args: argparse.Namespace,
    expression: Expression,
    cluster: ClusterCopy | None,
    codec: ObjectCodec,
    live: LiveCluster | None,
) -> int:
    asked = _asked(args, cluster, live)
    values = Values(load_schema())
    with nullcontext() if cluster is None or asked is None else cluster.asking(asked):
        read = question_frame(asked, cluster, codec)
        if args.all_nodes and cluster is not None:
            return _every_node(args, expression, read, cluster, values)
        if args.node is not None and cluster is not None:
            read.node = cluster.node(args.node)
        found = Evaluator(expression).evaluate(read)
    if isinstance(found, Failure):
        put_problem(human(found.diagnostic, expression.source), "error")
        return Exit.FINDINGS
    if args.output is not None:
        put_document(_document(found, expression, values), args.output)
    else:
        print(values.typed(found, expression.expr.type))
    return Exit.OK


def _document(found: object, expression: Expression, values: Values) -> object:
    """A value as plain JSON, or its text in the language if JSON has no such value."""
    try:
        return to_json(found)
    except TypeError:
        return values.line(found, expression.expr.type)


def _every_node(
    args: argparse.Namespace,
    expression: Expression,
    frame: Frame,
    cluster: ClusterCopy,
    values: Values,
) -> int:
    evaluator, kind = Evaluator(expression), expression.expr.type
    rows = table("node", f"value : {kind}")
    document: dict[str, object] = {}
    failed = False
    for name, node in sorted(cluster.snapshot().nodes.items()):
        frame.node = node
        found = evaluator.evaluate(frame)
        if isinstance(found, Failure):
            failed = True
            rows.add_row(name, f"error: {found.error}")
            document[name] = {"error": str(found.error)}
        else:
            rows.add_row(name, values.line(found, kind))
            document[name] = {"value": _document(found, expression, values)}
    if args.output is not None:
        put_document(document, args.output)
    else:
        show(rows)
    return Exit.FINDINGS if failed else Exit.OK


def _checked(args: argparse.Namespace, schema: Schema) -> Expression | None:
    """The checked expression; None after its errors were printed."""
    hidden = dict.fromkeys(("peer", "victim", "victims"), _OF_CLAUSES)
    hidden["domain"] = _OF_BOUNDS
    if not args.pod and not args.pod_file:
        hint = "give a pod with --pod NS/NAME or --pod-file FILE"
        hidden |= {"pod": hint, "namespaceObject": hint}
    if not args.node and not args.all_nodes:
        hidden["node"] = "give a node with --node NAME, or all of them with --all-nodes"
    expression, found, source = check(args.expression, schema, hidden)
    print_findings([(d, source) for d in found])
    return expression


def _asked(
    args: argparse.Namespace, cluster: ClusterCopy | None, live: LiveCluster | None
) -> NamedPod | None:
    if args.pod is None and args.pod_file is None:
        return None
    if cluster is not None:
        return asked_pod(args, cluster, live)
    return read_pod(args.pod_file)
