"""`placet test`: runs the tests of policy files."""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Iterable, Sequence
from pathlib import Path

from cli.command import CommandError, Exit
from cli.render import print_error, wants_colour
from cli.testing import report
from cli.testing.collection import Collection, Suite, collect
from cli.testing.report import junit
from cli.testing.trial import Result, Runner
from grammar.clauses import ClusterFile, Test
from grammar.schema import Schema, load_schema
from policies.loader import INTERVAL_SECONDS, Search, Watcher
from policies.validation import Validator

_EXAMPLES = """\
examples:
  placet test
  placet test --threshold 90 --junit-xml results.xml policies/
  placet test --watch -k spot policies/
"""


def configure(parser: argparse.ArgumentParser) -> None:
    parser.epilog = _EXAMPLES
    parser.add_argument(
        "paths",
        metavar="PATH",
        nargs="*",
        type=Path,
        default=[Path()],
        help="a policy file, or a folder of them (default: the current folder)",
    )
    parser.add_argument(
        "-k", metavar="TEXT", default="", help="only tests whose file or name has this in it"
    )
    parser.add_argument("-v", "--verbose", action="store_true", help="a line for each test")
    parser.add_argument(
        "--junit-xml", metavar="FILE", type=Path, help="also write the results for a CI service"
    )
    parser.add_argument(
        "--coverage", action="store_true", help="also say what of the policies no test has tried"
    )
    parser.add_argument(
        "--threshold",
        metavar="PERCENT",
        type=_percent,
        help="the least coverage that is enough; it is shown, as with --coverage",
    )
    parser.add_argument(
        "--watch", action="store_true", help="run again whenever a file changes, until Ctrl-C"
    )


def run(args: argparse.Namespace) -> int:
    schema = load_schema()
    validator = Validator(schema)
    if not args.watch:
        return _once(args, collect(args.paths, validator), schema)
    while True:
        _watched(args, validator, schema)


def _watched(args: argparse.Namespace, validator: Validator, schema: Schema) -> None:
    """Runs what there is, and returns when it has changed."""
    policies = Watcher(lambda: Search(args.paths).files)
    collection = collect(args.paths, validator)
    clusters = Watcher(lambda: _clusters(collection))
    try:
        _once(args, collection, schema)
    except CommandError as error:
        print_error(error.message, error.hint)
    print("\nwaiting for a change; Ctrl-C ends", flush=True)
    while not any([policies.changed(), clusters.changed()]):
        time.sleep(INTERVAL_SECONDS)
    print()


def _once(args: argparse.Namespace, collection: Collection, schema: Schema) -> int:
    """Runs what there is once. Raises CommandError where that is nothing."""
    started = time.perf_counter()
    colour = wants_colour(sys.stdout)
    chosen = [(suite, _chosen(suite, args.k)) for suite in collection.suites]
    for problem in collection.problems:
        print_error(problem.message, problem.hint)
    if not any(tests or suite.mistakes for suite, tests in chosen):
        if collection.problems:
            return Exit.ERROR
        raise _nothing(args, collection)
    runner = Runner(collection, schema)
    results = _run(runner, chosen, verbose=args.verbose, colour=colour)
    suites = [suite for suite, tests in chosen if tests or suite.mistakes]
    lines = [*report.details(suites, results, colour=colour)]
    if args.coverage or args.threshold is not None:
        lines.extend(report.uncovered(runner.coverage))
    seconds = time.perf_counter() - started
    for line in (*lines, "", report.summary(suites, results, seconds, colour=colour)):
        print(line)
    if args.junit_xml is not None:
        _write(args.junit_xml, junit(suites, results))
    enough = _enough(args.threshold, runner.coverage.percent)
    if collection.problems:
        return Exit.ERROR
    passed = all(result.outcome == "passed" for result in results)
    lost = any(suite.mistakes for suite in suites)
    return Exit.OK if passed and enough and not lost else Exit.FINDINGS


def _run(
    runner: Runner,
    chosen: Iterable[tuple[Suite, Sequence[Test]]],
    *,
    verbose: bool,
    colour: bool,
) -> list[Result]:
    results: list[Result] = []
    for suite, tests in chosen:
        if not tests and not suite.mistakes:
            continue
        if not verbose:
            print(f"{suite.source.name} ", end="", flush=True)
        if not tests:
            print(report.painted("E", "error", colour=colour), end="")
        for result in runner.run(suite, tests):
            results.append(result)
            if verbose:
                print(report.verbose(result, colour=colour), flush=True)
            else:
                sign = report.SIGNS[result.outcome]
                print(report.painted(sign, result.outcome, colour=colour), end="", flush=True)
        if not verbose:
            print()
    return results


def _chosen(suite: Suite, text: str) -> Sequence[Test]:
    wanted = text.casefold()
    name = suite.source.name
    return [t for t in suite.tests if wanted in f"{name}: {t.name}".casefold()]


def _nothing(args: argparse.Namespace, collection: Collection) -> CommandError:
    if collection.tests:
        return CommandError(f"no test has `{args.k}` in its file or name", "choose with another -k")
    paths = ", ".join(f"`{path}`" for path in args.paths)
    hint = 'a test stands beside its policy: test "it works" { … }'
    return CommandError(f"there are no tests in {paths}", hint)


def _enough(threshold: float | None, percent: float) -> bool:
    if threshold is None or percent >= threshold:
        return True
    print_error(
        f"the coverage is {percent:.4g}%, which is less than {threshold:g}%",
        "write tests for what has never happened in one",
    )
    return False


def _clusters(collection: Collection) -> list[Path]:
    """The files that tests take their clusters from."""
    return [
        suite.folder / item.path
        for suite in collection.suites
        for test in suite.tests
        for item in test.items
        if isinstance(item, ClusterFile)
    ]


def _write(file: Path, text: str) -> None:
    try:
        file.write_text(text, encoding="utf-8")
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        raise CommandError(f"cannot write `{file}`: {reason}", "check who may write it") from None


def _percent(text: str) -> float:
    number = float(text.removesuffix("%"))
    if not 0 <= number <= 100:
        raise ValueError(text)
    return number
