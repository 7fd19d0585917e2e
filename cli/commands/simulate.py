"""`placet simulate`: where pods would go under some policies, or what others would change."""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from cli.command import CommandError, Exit
from cli.render import counted
from cli.simulating.inputs import Inputs, prepare, read_inputs
from cli.simulating.views import (
    chart,
    difference_json,
    print_difference,
    print_result,
    progress,
    result_json,
)
from engine.simulation.result import Result, result
from grammar.schema import load_schema

_EXAMPLES = """\
examples:
  placet simulate --cluster cluster.json --policies policies/ --pods pods.yaml
  placet simulate --cluster cluster.json --diff policies/ new-policies/ --pods pods.yaml
  placet simulate --cluster openb_node_list_all_node.csv --policies gpu.policy \\
      --pods openb_pod_list_default.csv --chart gpu.svg
"""


def configure(parser: argparse.ArgumentParser) -> None:
    parser.epilog = _EXAMPLES
    parser.add_argument(
        "--cluster",
        metavar="SNAPSHOT",
        action="append",
        required=True,
        type=Path,
        help="what `kubectl get nodes,pods -A -o json` (or yaml) wrote, or openb's nodes in CSV; "
        "may be given again",
    )
    policies = parser.add_mutually_exclusive_group(required=True)
    policies.add_argument(
        "--policies",
        metavar="PATH",
        action="append",
        type=Path,
        help="a policy file, or a folder of them; may be given again",
    )
    policies.add_argument(
        "--diff",
        metavar=("OLD", "NEW"),
        nargs=2,
        type=Path,
        help="two of them: which pods would be elsewhere, placed or pending under the second",
    )
    parser.add_argument(
        "--pods",
        metavar="FILE",
        required=True,
        type=Path,
        help="the pods to schedule, in order: what kubectl wrote, or openb's pods in CSV",
    )
    parser.add_argument(
        "--weight",
        metavar="N",
        type=_weight,
        default=1,
        help="the extender's weight in kube-scheduler's configuration (default: 1)",
    )
    parser.add_argument("--json", action="store_true", help="one JSON document, with every pod")
    parser.add_argument(
        "--chart", metavar="FILE", type=Path, help="write an SVG of what is allocated as pods come"
    )


def run(args: argparse.Namespace) -> int:
    inputs = read_inputs(args.cluster, args.pods)
    for notice in inputs.pods.notices:
        print(f"note: {notice}", file=sys.stderr)
    sets = _policy_sets(args)
    results, seconds = _simulated(inputs, sets, args.weight)
    match results:
        case [old, new]:
            if args.json:
                print(difference_json(old, new))
            else:
                print_difference(list(sets), old, new)
        case [only]:
            if args.json:
                print(result_json(only))
            else:
                print_result(only)
        case _:
            raise AssertionError("there are one or two sets of policies")
    if args.chart is not None:
        _write(args.chart, chart(dict(zip(sets, results, strict=True))))
    count = sum(len(result.outcomes) for result in results)
    each = 1e6 * seconds / count
    print(f"{counted(count, 'pod')} in {seconds:.1f} s: {each:.0f} µs a pod", file=sys.stderr)
    return Exit.OK


def _policy_sets(args: argparse.Namespace) -> Mapping[str, Sequence[Path]]:
    """The paths by what they are called in tables and charts."""
    if args.diff is None:
        return {" ".join(map(str, args.policies)): args.policies}
    old, new = args.diff
    if old == new:
        raise CommandError(f"`{old}` is both the old and the new policies", "give two paths")
    return {str(old): [old], str(new): [new]}


def _simulated(
    inputs: Inputs, sets: Mapping[str, Sequence[Path]], weight: int
) -> tuple[list[Result], float]:
    """A result for each set of policies, and how long all took without reading files."""
    schema = load_schema()
    # Mistakes in the second policies are told before the first have run for a minute.
    ready = {name: prepare(inputs, paths, schema, weight) for name, paths in sets.items()}
    results, began = [], time.perf_counter()
    for name, simulation in ready.items():
        with progress(sys.stderr, name, len(inputs.pods.bodies)) as heard:
            results.append(result(simulation, heard))
    return results, time.perf_counter() - began


def _write(file: Path, text: str) -> None:
    try:
        file.write_text(text, encoding="utf-8")
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        raise CommandError(f"cannot write `{file}`: {reason}", "check the path") from None


def _weight(text: str) -> int:
    """kube-scheduler refuses an extender that scores and has no weight."""
    if not (text.isascii() and text.isdigit() and 0 < int(text) < 2**31):
        raise argparse.ArgumentTypeError(f"`{text}` is no weight, a whole number from 1")
    return int(text)
