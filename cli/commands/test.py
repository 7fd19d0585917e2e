"""Command `test`: runs the tests of policy files."""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from cli.command import CommandError, Exit, flags_of
from cli.policy_tests.runner import Outcome, Runner, Suite, TestOutcome, collect
from cli.render import REPORT, Finding, ReportCase, print_error, put_note, put_report, wants_colour
from cli.streams import beneath
from grammar.meaning.schema import load_schema
from grammar.messages.texts import counted, escaped
from grammar.tree.policy import Test
from policies.validation import Validator

EXAMPLES = """\
examples:
  placet test
  placet test -o junit policies/ > results.xml
  placet test -v -k spot policies/
"""


ARGUMENTS = flags_of(
    f"""
  [PATH...]
    a policy file, or a folder of them (default: the current folder)
  -k TEXT
    only tests with this text in their file or name
{REPORT}
  -v --verbose
    one line for each test
"""
)


def run(args: argparse.Namespace) -> int:
    schema = load_schema()
    args.paths = args.paths or [Path()]
    collection = collect(args.paths, Validator(schema))
    started = time.perf_counter()
    wanted, chosen = (args.k or "").casefold(), list[tuple[Suite, Sequence[Test]]]()
    for suite in collection.suites:
        name = suite.source.name
        tests = [test for test in suite.tests if wanted in f"{name}: {test.name}".casefold()]
        if tests or suite.errors:
            chosen.append((suite, tests))
    for problem in collection.problems:
        print_error(problem.message, problem.hint)
    if not chosen:
        if collection.problems:
            return Exit.ERROR
        if any(suite.tests for suite in collection.suites):
            message = f"no test has `{args.k}` in its file or name"
            raise CommandError(message, "give another text with -k")
        paths = ", ".join(f"`{path}`" for path in args.paths)
        hint = 'write one beside its policy, as in `test "it works" { … }`'
        raise CommandError(f"there are no tests in {paths}", hint)
    runner = Runner(collection, schema)
    results = _results(runner, chosen, args)
    suites = [suite for suite, _ in chosen]
    findings: list[Finding] = [error for suite in suites for error in suite.errors]
    findings += [(d, result.suite.source) for result in results for d in result.diagnostics]
    more = {"tests": [result.as_json for result in results]}
    put_report(findings, args.output, _cases(suites, results), more)
    put_note(_summary(suites, results, time.perf_counter() - started), args.output)
    if collection.problems:
        return Exit.ERROR
    return Exit.FINDINGS if findings else Exit.OK


_SIGNS: dict[Outcome, str] = {"passed": ".", "failed": "F", "error": "E"}


def _results(
    runner: Runner, chosen: Iterable[tuple[Suite, Sequence[Test]]], args: argparse.Namespace
) -> list[TestOutcome]:
    """All outcomes. For people each one has a sign, or a line, as soon as it is known."""
    results: list[TestOutcome] = []
    is_shown = args.output == "human"
    has_signs = is_shown and not args.verbose
    for suite, tests in chosen:
        name = escaped(suite.source.name)
        if has_signs:
            _put(f"{name} {'' if tests else _painted('E', 'error')}")
        for result in runner.run(suite, tests):
            results.append(result)
            outcome = result.outcome
            if has_signs:
                _put(_painted(_SIGNS[outcome], outcome))
            elif is_shown:
                _put(f"{name}: {escaped(result.test.name)} {_painted(outcome, outcome)}\n")
        if has_signs:
            _put("\n")
    if is_shown:
        _put("\n")
    return results


def _put(text: str) -> None:
    print(text, end="", file=beneath(sys.stdout), flush=True)


def _painted(text: str, outcome: Outcome) -> str:
    colour = 32 if outcome == "passed" else 31
    return f"\x1b[{colour}m{text}\x1b[0m" if wants_colour(sys.stdout) else text


def _cases(suites: Iterable[Suite], results: Sequence[TestOutcome]) -> Iterator[ReportCase]:
    """A case for each test, and one for a file that has none because of its errors."""
    for suite in suites:
        name, own = suite.source.name, [result for result in results if result.suite is suite]
        for result in own:
            found = suite.errors or [(d, suite.source) for d in result.diagnostics]
            yield ReportCase(name, result.test.name, found, seconds=result.seconds)
        if not own:
            yield ReportCase(name, name, suite.errors)


def _summary(suites: Sequence[Suite], results: Sequence[TestOutcome], seconds: float) -> str:
    """`1 failed, 2 passed in 0.03s`. A file that cannot be read counts as an error."""
    outcomes = [result.outcome for result in results]
    unread = sum(bool(suite.errors) and not suite.tests for suite in suites)
    failed, passed = outcomes.count("failed"), outcomes.count("passed")
    errors = outcomes.count("error") + unread
    parts = [f"{failed} failed"] * bool(failed) + [f"{passed} passed"] * bool(passed)
    parts += [counted(errors, "error")] * bool(errors)
    return f"{', '.join(parts)} in {seconds:.2f}s"
