"""Command `eval`: the value and type of an expression, for a pod and a node of a snapshot."""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from contextlib import nullcontext
from typing import TYPE_CHECKING

from cli.command import Exit, given_path
from cli.console import add_output_argument, put_document, show, table
from cli.policy_tests.fixture import to_json
from cli.render import print_findings, put_problem
from cli.repl.expressions import Evaluator, Expression, Failure, check
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
from engine.cache.cluster_copy import ClusterCopy, DataText, NamedPod
from engine.cache.pod_manifests import read_pod
from engine.enforced import EnforcedPolicies
from engine.explanation.written import Values
from engine.objects.codec import ObjectCodec
from engine.offline import question_frame, tables_of
from engine.program.frame import Frame
from engine.program.tables import Tables
from grammar.meaning.schema import Schema, load_schema
from grammar.messages.diagnostics import human
from grammar.tree.printer import print_data
from grammar.values.time import Timestamp

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
    schema = load_schema()
    policies = read_policies(args.policies or (), schema)
    expression = _checked(args, schema, policies)
    if expression is None:
        return Exit.ERROR
    codec = ObjectCodec(schema, expression.annotations)
    if not _is_live(args):
        data = read_data(args)
        check_data([policies], data)
        cluster = read_cluster(args.cluster, codec) if args.cluster else None
        tables = _tables(policies, data, cluster)
        return _evaluated(args, expression, cluster, codec, None, tables)
    with opened(args) as live:
        cluster = whole(live.read(question_namespace(args, live))).cluster(codec)
        tables = _tables(policies, live_data(live, args, [policies]), cluster)
        return _evaluated(args, expression, cluster, codec, live, tables)


def _tables(
    policies: EnforcedPolicies, data: Mapping[str, DataText], cluster: ClusterCopy | None
) -> Tables:
    """The tables of the policies, as of the time of the cluster."""
    now = cluster.now if cluster is not None else Timestamp.now()
    return tables_of(policies.registry, data, now)


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
    tables: Tables,
) -> int:
    asked = _asked(args, cluster, live)
    values = Values(load_schema())
    with nullcontext() if cluster is None or asked is None else cluster.asking(asked):
        read = question_frame(asked, cluster, codec)
        read.tables = tables
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


def _checked(
    args: argparse.Namespace, schema: Schema, policies: EnforcedPolicies
) -> Expression | None:
    """The checked expression, which can read the tables of policies; None after its errors."""
    every = (c.environment.tables.items() for c in policies.validation.policies)
    declared = {name: print_data(data) for tables in every for name, data in tables}
    hidden = dict.fromkeys(("peer", "victim", "victims"), _OF_CLAUSES)
    hidden["domain"] = _OF_BOUNDS
    if not args.pod and not args.pod_file:
        hint = "give a pod with --pod NS/NAME or --pod-file FILE"
        hidden |= {"pod": hint, "namespaceObject": hint}
    if not args.node and not args.all_nodes:
        hidden["node"] = "give a node with --node NAME, or all of them with --all-nodes"
    definitions = "\n".join(declared.values())
    expression, found, source = check(args.expression, schema, hidden, definitions)
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
