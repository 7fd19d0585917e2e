"""Command `eval`: the value and type of an expression, for a pod and a node of a snapshot."""

from __future__ import annotations

import argparse
from dataclasses import replace

from cli.command import DATA, OUTPUT, POD_FILE, POLICIES, RUNNING, SNAPSHOTS, Exit, flags_of
from cli.expressions import (
    ONLY_IN_CLAUSES,
    Subject,
    check,
    data_declared,
    put_value,
    tables_at,
)
from cli.render import put_findings
from cli.sources import AskedCluster, asked_pod, chosen_flag, question_namespace, source_of
from cli.world import read_policies
from engine.cache.pod_manifests import read_pod
from engine.objects.request_pod import ObjectCodec
from grammar.meaning.schema import load_schema

EXAMPLES = """\
examples:
  placet eval '"1500m" < quantity("2")'
  placet eval -n shop --pod web-1 'node.free["cpu"]'
  placet eval --cluster cluster.json --node n-1 'node.free["cpu"]'
  placet eval --cluster cluster.json --pod shop/web-1 'node.usage["memory"]'
  placet eval --policies load.policy --data load=load.csv 'data.load["n-1"].cpu'
"""


ARGUMENTS = flags_of(f"""
  EXPR
    an expression of the policy language
{SNAPSHOTS}
  --pod NS/NAME
    the pod; its name alone if that is unique
{POD_FILE}
  --node NAME
    the node; without it, an expression that reads the node has a row for each one
{POLICIES}{DATA}{OUTPUT}{RUNNING}
""")


def run(args: argparse.Namespace) -> int:
    policies = read_policies(args.policies, load_schema())
    hidden = {**ONLY_IN_CLAUSES}
    if not args.pod and not args.pod_file:
        hint = "give a pod with --pod NS/NAME or --pod-file FILE"
        hidden |= {"pod": hint, "namespaceObject": hint}
    expression, found, text = check(args.expr, hidden, data_declared(policies))
    put_findings([(d, text) for d in found])
    if expression is None:
        return Exit.ERROR
    codec = ObjectCodec(load_schema(), expression.needs.annotations)
    cluster, pod = None, None
    # An expression alone, or of a manifest, needs no cluster.
    given = args.cluster or args.pod or args.node or "node" in expression.names
    if given or chosen_flag(args) is not None:
        with source_of(args) as source:
            data = source.data([policies])
            read = source.read(question_namespace(args, source.live))
            cluster = source.completed(replace(read, data=data), [expression.needs]).cluster(codec)
            if args.pod is not None or args.pod_file is not None:
                pod = asked_pod(args, cluster, source.live)
    else:
        data = AskedCluster(args).data([policies])
        pod = read_pod(args.pod_file) if args.pod_file is not None else None
    tables = tables_at(cluster, policies, data)
    return put_value(expression, Subject(cluster, codec, pod, args.node, tables), args.output)
