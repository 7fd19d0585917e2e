"""Command `simulate`: schedules pods under one set of policies, or compares two sets."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace

from cli.command import DATA, POLICIES, RUNNING, SNAPSHOTS, CommandError, Exit, flags_of, given_path
from cli.console import put_document
from cli.simulation import (
    difference,
    pending_pods,
    prepare,
    print_difference,
    print_result,
    read_pods,
    what_if,
)
from cli.sources import question_namespace, source_of
from cli.streams import put_line
from cli.world import in_force, put_notes, read_policies
from engine.cache.pod_manifests import DEFAULT_NAMESPACE
from engine.enforced import EnforcedPolicies
from engine.simulation.cycle import SimulationOptions
from engine.simulation.result import SimulationAnswer, result
from engine.simulation.what_if import NodesToAdd
from grammar.meaning.schema import Schema, load_schema

EXAMPLES = """\
examples:
  placet simulate -A
  placet simulate --context test --diff policies/ new-policies/ --pods pods.yaml
  placet simulate --cluster cluster.json --policies policies/ --pods pods.yaml
  placet simulate --cluster cluster.json --diff policies/ new-policies/ --pods pods.yaml
  helm template shop | placet simulate --context test --pods -
"""


def _added(text: str) -> NodesToAdd:
    template, _, count = text.rpartition("=")
    if not (template and _is_number(count) and 0 < int(count) <= _MOST_ADDED):
        message = f"`{text}` is not TEMPLATE=N with N from 1 to {_MOST_ADDED}, such as m5.large=3"
        raise argparse.ArgumentTypeError(message)
    return NodesToAdd(template, int(count))


def _weight(text: str) -> int:
    """kube-scheduler rejects an extender that scores without a weight."""
    if not (_is_number(text) and 0 < int(text) < 2**31):
        message = f"`{text}` is not a weight: it must be a whole number from 1"
        raise argparse.ArgumentTypeError(message)
    return int(text)


_MOST_ADDED = 10_000


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdigit() and len(text) < 16


ARGUMENTS = flags_of(
    f"""
{SNAPSHOTS}{POLICIES}
  or --diff OLD NEW
    two such paths: shows which pods move, or become placed or pending, under the second
  --pods FILE
    the pods to schedule, in order: the output of kubectl or helm, with the pods of workloads; `-`
    reads standard input (default: the pending pods of the cluster)
  --weight N=1
    the extender's weight in kube-scheduler's configuration
  --no-plugin-scores
    choose nodes by the scores of policies alone, without kube-scheduler's own
  --ignore-resource RESOURCE,
    a resource that kube-scheduler leaves to the extender (`ignoredByScheduler`), such as the whole
    cards of pods that share some; may be repeated
  --add-nodes TEMPLATE,
    first add nodes like a template, as in m5.large=3: a node by its name, or any that has a label,
    an instance type or a pool, or the manifest of a node in a file; may be repeated
  --drain NODE...
    first drain nodes, and schedule their pods
  -o --output json
    print data
{DATA}{RUNNING}
""",
    {"--weight": _weight, "--add-nodes": _added, "--diff": given_path},
)


def run(args: argparse.Namespace) -> int:
    """Shows one simulation for each set of policies, and what is different."""
    schema = load_schema()
    with source_of(args) as source:
        namespace, otherwise = question_namespace(args, source.live), DEFAULT_NAMESPACE
        if source.live is not None:
            otherwise = source.live.namespace
        read = source.read(namespace="")
        sets = _policy_sets(args, schema)
        if not sets:
            sets = {"the policies of the cluster": in_force((), source.policies(read), schema)}
        cluster = replace(read, data=source.data(sets.values()))
        pods = None
        if args.pods is not None:
            pods = read_pods(args.pods, cluster, namespace or otherwise)
        elif not args.drain:
            pods = pending_pods(cluster, namespace, source.name)
        change = what_if(args.add_nodes, args.drain, cluster)
    options = SimulationOptions(
        weight=args.weight, plugins=not args.no_plugin_scores, ignored=tuple(args.ignore_resource)
    )
    ready = {name: prepare(cluster, each, pods, options, change) for name, each in sets.items()}
    put_notes(next(iter(ready.values())).cluster, next(iter(sets.values())))
    notes = pods.notes if pods is not None else ()
    answers = [result(each.simulation, each.changed, notes) for each in ready.values()]
    return _shown(args, answers, list(sets))


def _shown(
    args: argparse.Namespace, answers: Sequence[SimulationAnswer], names: Sequence[str]
) -> int:
    """Shows an answer, or two under their names, and returns the exit code.

    Where one question is asked, a pod without a place is a finding.
    """
    for note in answers[0].notes:
        put_line(f"note: {note}", sys.stderr)
    if len(answers) == 2:
        if args.output:
            put_document(difference(*answers), "json")
        else:
            print_difference(names, *answers)
    elif args.output:
        put_document(answers[0], "json")
    else:
        print_result(answers[0])
    asks = args.add_nodes or args.drain
    return Exit.FINDINGS if asks and answers[-1].pending else Exit.OK


def _policy_sets(args: argparse.Namespace, schema: Schema) -> Mapping[str, EnforcedPolicies]:
    """The policies of files, by what their paths are; all their errors come before a long run."""
    sets = [[path] for path in args.diff] if args.diff else [args.policies]
    paths = {" ".join(map(str, some)): some for some in sets if some}
    if len(paths) < len(args.diff or ()):
        raise CommandError(
            f"`{args.diff[0]}` is both the old and the new policies", "give two paths"
        )
    return {name: read_policies(given, schema) for name, given in paths.items()}
