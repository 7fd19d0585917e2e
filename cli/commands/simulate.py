"""`placet simulate`: schedules pods under one set of policies, or compares two sets."""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from cli.command import CommandError, Exit, write_text
from cli.render import counted
from cli.simulating.inputs import Inputs, pending_pods, prepare, read_inputs, read_pods
from cli.simulating.views import (
    chart,
    difference_json,
    print_difference,
    print_result,
    progress,
    result_json,
)
from cli.sources import (
    ForbiddenError,
    add_cluster_arguments,
    is_live,
    live_policies,
    opened,
    question_namespace,
    require_cluster,
    warn_of,
)
from cli.world import Policies, read_policies
from engine.simulation.result import Result, result
from grammar.schema import Schema, load_schema

if TYPE_CHECKING:
    from cli.live import LiveCluster

EXAMPLES = """\
examples:
  placet simulate -A
  placet simulate --context test --diff policies/ new-policies/ --pods pods.yaml
  placet simulate --cluster cluster.json --policies policies/ --pods pods.yaml
  placet simulate --cluster cluster.json --diff policies/ new-policies/ --pods pods.yaml
  placet simulate --cluster openb_node_list_all_node.csv --policies gpu.policy \\
      --pods openb_pod_list_default.csv --chart gpu.svg
"""


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--cluster",
        metavar="SNAPSHOT",
        action="append",
        type=Path,
        help="the output of `kubectl get nodes,pods -A -o json` (or yaml), or openb's nodes in "
        "CSV; may be repeated",
    )
    policies = parser.add_mutually_exclusive_group()
    policies.add_argument(
        "--policies",
        metavar="PATH",
        action="append",
        type=Path,
        help="a policy file, or a folder of them; may be repeated",
    )
    policies.add_argument(
        "--diff",
        metavar=("OLD", "NEW"),
        nargs=2,
        type=Path,
        help="two such paths: shows which pods move, or become placed or pending, under the second",
    )
    parser.add_argument(
        "--pods",
        metavar="FILE",
        type=Path,
        help="the pods to schedule, in order: the output of kubectl, or openb's pods in CSV "
        "(default: the pending pods of a running cluster)",
    )
    parser.add_argument(
        "--weight",
        metavar="N",
        type=_weight,
        default=1,
        help="the extender's weight in kube-scheduler's configuration (default: 1)",
    )
    parser.add_argument(
        "--json", action="store_true", help="print one JSON document with every pod"
    )
    parser.add_argument(
        "--chart", metavar="FILE", type=Path, help="write an SVG of the allocation after each pod"
    )
    add_cluster_arguments(parser)


def run(args: argparse.Namespace) -> int:
    schema = load_schema()
    if is_live(args, ("cluster", "policies", "diff")):
        with opened(args) as live:
            inputs, running = _live(args, live, schema)
        sets = _policy_sets(args, schema) or {"the policies of the cluster": running}
        return _simulate(args, inputs, sets, schema)
    require_cluster(args)
    if args.pods is None:
        raise CommandError("there are no pods to schedule", "give them with --pods FILE")
    inputs = read_inputs(args.cluster, args.pods)
    sets = _policy_sets(args, schema)
    if not sets:
        raise CommandError("there are no policies", "give --policies PATH, or --diff OLD NEW")
    return _simulate(args, inputs, sets, schema)


def _live(args: argparse.Namespace, live: LiveCluster, schema: Schema) -> tuple[Inputs, Policies]:
    """The inputs of a running cluster, and its policies. Raises CommandError."""
    namespace = question_namespace(args, live)
    found = live.read("")
    if found.documents is None:
        raise ForbiddenError(found)
    policies, lacks = live_policies(found, None, schema)
    warn_of(lacks)
    cluster = found.documents
    if args.pods is not None:
        return Inputs(cluster, read_pods(args.pods)), policies
    return Inputs(cluster, pending_pods(cluster, namespace, live.name)), policies


def _simulate(
    args: argparse.Namespace, inputs: Inputs, sets: Mapping[str, Policies], schema: Schema
) -> int:
    for note in inputs.pods.notes:
        print(f"note: {note}", file=sys.stderr)
    results, seconds = _results(inputs, sets, schema, args.weight)
    if args.json:
        print(difference_json(*results) if args.diff else result_json(*results))
    elif args.diff:
        print_difference(list(sets), *results)
    else:
        print_result(*results)
    if args.chart is not None:
        write_text(args.chart, chart(dict(zip(sets, results, strict=True))))
    count = sum(len(result.outcomes) for result in results)
    each = 1e6 * seconds / count
    print(f"{counted(count, 'pod')} in {seconds:.1f} s: {each:.0f} µs a pod", file=sys.stderr)
    return Exit.OK


def _policy_sets(args: argparse.Namespace, schema: Schema) -> Mapping[str, Policies]:
    """The policies of files, by what their paths are; all their errors come before a long run."""
    paths = _paths(args)
    return {name: read_policies(given, schema) for name, given in paths.items()}


def _paths(args: argparse.Namespace) -> Mapping[str, Sequence[Path]]:
    if args.diff is None:
        return {" ".join(map(str, args.policies)): args.policies} if args.policies else {}
    old, new = args.diff
    if old == new:
        raise CommandError(f"`{old}` is both the old and the new policies", "give two paths")
    return {str(old): [old], str(new): [new]}


def _results(
    inputs: Inputs, sets: Mapping[str, Policies], schema: Schema, weight: int
) -> tuple[list[Result], float]:
    """A result for each set of policies, and the seconds of all runs without reading files."""
    ready = {name: prepare(inputs, read, schema, weight) for name, read in sets.items()}
    results, started = [], time.perf_counter()
    for name, simulation in ready.items():
        with progress(sys.stderr, name, len(inputs.pods.bodies)) as update:
            results.append(result(simulation, update))
    return results, time.perf_counter() - started


def _weight(text: str) -> int:
    """kube-scheduler rejects an extender that scores without a weight."""
    if not (text.isascii() and text.isdigit() and 0 < int(text) < 2**31):
        message = f"`{text}` is not a weight: it must be a whole number from 1"
        raise argparse.ArgumentTypeError(message)
    return int(text)
