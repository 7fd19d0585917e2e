"""`placet test`: runs the tests of policy files."""

from __future__ import annotations

import argparse
import math
import sys
import time
from collections.abc import Iterable, Sequence
from pathlib import Path

from cli.command import CommandError, Exit, given_path, write_text
from cli.policy_tests import report
from cli.policy_tests.runner import Collection, Runner, Suite, TestOutcome, collect
from cli.render import print_error, wants_colour
from cli.sources import add_cluster_arguments, chosen_flag, opened, whole
from cli.streams import beneath
from engine.cache.cluster_copy import ClusterDocuments
from grammar.meaning.schema import Schema, load_schema
from grammar.messages.diagnostics import UserError
from grammar.tree.written_tests import ClusterFile, Test
from policies.loader import INTERVAL_SECONDS, Search, Watcher
from policies.validation import Validator

EXAMPLES = """\
examples:
  placet test
  placet test --threshold 90 --junit-xml results.xml policies/
  placet test --watch -k spot policies/
  placet test --cluster live policies/
"""


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "paths",
        metavar="PATH",
        nargs="*",
        type=given_path,
        default=[Path()],
        help="a policy file, or a folder of them (default: the current folder)",
    )
    parser.add_argument(
        "-k", metavar="TEXT", default="", help="only tests with this text in their file or name"
    )
    parser.add_argument("-v", "--verbose", action="store_true", help="one line for each test")
    parser.add_argument(
        "--junit-xml",
        metavar="FILE",
        type=given_path,
        help="also write the results for a CI service",
    )
    parser.add_argument(
        "--coverage", action="store_true", help="also list the branches that no test has taken"
    )
    parser.add_argument(
        "--threshold",
        metavar="PERCENT",
        type=_percent,
        help="the minimum coverage; implies --coverage",
    )
    parser.add_argument(
        "--watch", action="store_true", help="run again when a file changes, until Ctrl-C"
    )
    parser.add_argument(
        "--cluster",
        choices=["live"],
        help="live: the cluster of the kubeconfig stands for the `cluster` files of the tests",
    )
    add_cluster_arguments(parser, live_namespace=False)


def run(args: argparse.Namespace) -> int:
    schema = load_schema()
    validator = Validator(schema)
    if args.cluster is None and (flag := chosen_flag(args)) is not None:
        raise CommandError(f"{flag} works only with --cluster live", "tests are not live otherwise")
    if not args.watch:
        return _run_once(args, collect(args.paths, validator), schema)
    while True:
        _run_until_change(args, validator, schema)


def _run_until_change(args: argparse.Namespace, validator: Validator, schema: Schema) -> None:
    policies = Watcher(lambda visit: Search(args.paths, visit).paths)
    collection = collect(args.paths, validator)
    clusters = Watcher(lambda _: _cluster_files(collection))
    try:
        _run_once(args, collection, schema)
    except UserError as error:
        print_error(error.message, error.hint)
    print("\nwaiting for a change; Ctrl-C ends", flush=True)
    while not any([policies.changed(), clusters.changed()]):
        time.sleep(INTERVAL_SECONDS)
    print()


def _run_once(args: argparse.Namespace, collection: Collection, schema: Schema) -> int:
    """Runs the tests once. Raises CommandError if there are none."""
    started = time.perf_counter()
    colour = wants_colour(sys.stdout)
    matching = [(suite, _matching(suite, args.k)) for suite in collection.suites]
    chosen = [(suite, tests) for suite, tests in matching if tests or suite.errors]
    for problem in collection.problems:
        print_error(problem.message, problem.hint)
    if not chosen:
        if collection.problems:
            return Exit.ERROR
        raise _no_tests(args, collection)
    runner = Runner(collection, schema, _running(args) if args.cluster is not None else None)
    results = _results(runner, chosen, verbose=args.verbose, colour=colour)
    suites = [suite for suite, _ in chosen]
    lines = [*report.details(suites, results, colour=colour)]
    if args.coverage or args.threshold is not None:
        lines.extend(report.uncovered(runner.coverage))
    seconds = time.perf_counter() - started
    for line in (*lines, "", report.summary(suites, results, seconds, colour=colour)):
        print(line, file=beneath(sys.stdout))
    if args.junit_xml is not None:
        write_text(args.junit_xml, report.junit(suites, results))
    covered = _is_covered(args.threshold, runner.coverage.percent)
    if collection.problems:
        return Exit.ERROR
    passed = all(result.outcome == "passed" for result in results)
    broken = any(suite.errors for suite in suites)
    return Exit.OK if passed and covered and not broken else Exit.FINDINGS


def _running(args: argparse.Namespace) -> ClusterDocuments:
    """The cluster of the kubeconfig. Raises CommandError."""
    with opened(args) as live:
        return whole(live.read(""))


def _results(
    runner: Runner,
    chosen: Iterable[tuple[Suite, Sequence[Test]]],
    *,
    verbose: bool,
    colour: bool,
) -> list[TestOutcome]:
    results: list[TestOutcome] = []
    to = beneath(sys.stdout)
    for suite, tests in chosen:
        if not verbose:
            print(f"{suite.source.name} ", end="", flush=True)
        if not tests:
            print(report.painted("E", "error", colour=colour), end="", file=to)
        for result in runner.run(suite, tests):
            results.append(result)
            if verbose:
                print(report.verbose(result, colour=colour), file=to, flush=True)
            else:
                sign = report.SIGNS[result.outcome]
                print(
                    report.painted(sign, result.outcome, colour=colour), end="", file=to, flush=True
                )
        if not verbose:
            print()
    return results


def _matching(suite: Suite, text: str) -> Sequence[Test]:
    wanted, name = text.casefold(), suite.source.name
    return [t for t in suite.tests if wanted in f"{name}: {t.name}".casefold()]


def _no_tests(args: argparse.Namespace, collection: Collection) -> CommandError:
    if any(suite.tests for suite in collection.suites):
        message = f"no test has `{args.k}` in its file or name"
        return CommandError(message, "give another text with -k")
    paths = ", ".join(f"`{path}`" for path in args.paths)
    hint = 'write one beside its policy, as in `test "it works" { … }`'
    return CommandError(f"there are no tests in {paths}", hint)


def _is_covered(threshold: float | None, percent: float) -> bool:
    if threshold is None or percent >= threshold:
        return True
    print_error(
        f"the coverage is {percent:.4g}%, which is less than {threshold:g}%",
        "write tests for the branches that no test has taken",
    )
    return False


def _cluster_files(collection: Collection) -> list[Path]:
    return [
        Path(suite.source.name).parent / item.path
        for suite in collection.suites
        for test in suite.tests
        for item in test.items
        if isinstance(item, ClusterFile)
    ]


def _percent(text: str) -> float:
    try:
        number = float(text.removesuffix("%"))
    except ValueError:
        number = math.nan
    if not 0 <= number <= 100:
        raise argparse.ArgumentTypeError(f"`{text}` is not a percentage from 0 to 100")
    return number
