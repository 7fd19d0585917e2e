"""Report: the results of tests, as text for a terminal and as JUnit XML for CI services."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from xml.etree import ElementTree as ET

from cli.policy_tests.coverage import Coverage
from cli.policy_tests.runner import Outcome, Suite, TestOutcome
from cli.render import render
from grammar.messages.diagnostics import Diagnostic, human
from grammar.messages.texts import counted, escaped
from grammar.tree.source import Source, Span

SIGNS: dict[Outcome, str] = {"passed": ".", "failed": "F", "error": "E"}
_COLOURS: dict[Outcome, int] = {"passed": 32, "failed": 31, "error": 31}


def painted(text: str, outcome: Outcome, *, colour: bool) -> str:
    return f"\x1b[{_COLOURS[outcome]}m{escaped(text)}\x1b[0m" if colour else escaped(text)


def verbose(result: TestOutcome, *, colour: bool) -> str:
    outcome = painted(result.outcome, result.outcome, colour=colour)
    return escaped(f"{result.suite.source.name}: {result.test.name} ") + outcome


def details(
    suites: Iterable[Suite], results: Sequence[TestOutcome], *, colour: bool
) -> Iterator[str]:
    for suite in suites:
        if suite.errors:
            yield ""
            yield painted(f"ERROR {suite.source.name}", "error", colour=colour)
            yield from list(render(suite.errors, "human", colour=colour))[:-1]
    for result in results:
        if result.diagnostics:
            word = "FAILED" if result.outcome == "failed" else "ERROR"
            title = f"{word} {result.suite.source.name}: {result.test.name}"
            yield ""
            yield painted(title, result.outcome, colour=colour)
            for found in result.diagnostics:
                yield _shown(found, result.suite.source, colour=colour)


def uncovered(coverage: Coverage) -> Iterator[str]:
    """Each branch that no test has taken, with its place, and the percentage of the others."""
    yield ""
    for branch in coverage.missed:
        line, column = branch.source.position(branch.point.span.start)
        yield f"{branch.source.name}:{line}:{column}: {branch.never} in a test"
    total = len(coverage.branches)
    taken = total - len(coverage.missed)
    yield f"coverage {coverage.percent:.4g}%: {taken} of {counted(total, 'branch', 'branches')}"


def summary(
    suites: Sequence[Suite], results: Sequence[TestOutcome], seconds: float, *, colour: bool
) -> str:
    """`1 failed, 2 passed in 0.03s`. A file that cannot be read counts as an error."""
    outcomes = [result.outcome for result in results]
    unread = sum(bool(suite.errors) and not suite.tests for suite in suites)
    failed, passed = outcomes.count("failed"), outcomes.count("passed")
    errors = outcomes.count("error") + unread
    parts = [f"{failed} failed"] * bool(failed) + [f"{passed} passed"] * bool(passed)
    parts += [counted(errors, "error")] * bool(errors)
    outcome: Outcome = "failed" if failed or errors else "passed"
    return painted(f"{', '.join(parts)} in {seconds:.2f}s", outcome, colour=colour)


def _shown(found: Diagnostic, source: Source, *, colour: bool = False) -> str:
    """A diagnostic of a test, which has no code. Of a longer span the first line is shown."""
    end = source.text.find("\n", found.span.start)
    if 0 <= end < found.span.end:
        found = replace(found, span=Span(found.span.start, end))
    return next(render([(found, source)], "human", colour=colour))


# XML 1.0 cannot contain these characters.
_UNWRITABLE = re.compile(r"[^\t\n\r\u0020-\uD7FF\uE000-\uFFFD\U00010000-\U0010FFFF]")


def junit(suites: Sequence[Suite], results: Sequence[TestOutcome]) -> str:
    root = ET.Element("testsuites", _counts(results))
    for suite in suites:
        own = [result for result in results if result.suite is suite]
        name = suite.source.name
        element = ET.SubElement(root, "testsuite", {"name": _text(name), **_counts(own)})
        for result in own:
            _add_case(element, result)
        if suite.errors and not own:
            case = ET.SubElement(element, "testcase", {"classname": name, "name": name})
            _add_errors(case, suite)
    ET.indent(root)
    return ET.tostring(root, "unicode", xml_declaration=False) + "\n"


def _add_case(parent: ET.Element, result: TestOutcome) -> None:
    source = result.suite.source
    line, _ = source.position(result.test.span.start)
    attributes = {
        "classname": _text(source.name),
        "name": _text(result.test.name),
        "file": _text(source.name),
        "line": str(line),
        "time": f"{result.seconds:.3f}",
    }
    case = ET.SubElement(parent, "testcase", attributes)
    if result.suite.errors:
        _add_errors(case, result.suite)
    elif result.diagnostics:
        kind = "failure" if result.outcome == "failed" else "error"
        message = "; ".join(found.message for found in result.diagnostics)
        element = ET.SubElement(case, kind, {"message": _text(message)})
        element.text = _text("\n".join(_shown(found, source) for found in result.diagnostics))


def _add_errors(case: ET.Element, suite: Suite) -> None:
    first, _ = suite.errors[0]
    element = ET.SubElement(case, "error", {"message": _text(first.message)})
    element.text = _text("\n".join(human(*finding) for finding in suite.errors))


def _counts(results: Sequence[TestOutcome]) -> dict[str, str]:
    outcomes = [result.outcome for result in results]
    return {
        "tests": str(len(results)),
        "failures": str(outcomes.count("failed")),
        "errors": str(outcomes.count("error")),
        "time": f"{sum(result.seconds for result in results):.3f}",
    }


def _text(text: str) -> str:
    return _UNWRITABLE.sub("\ufffd", text)
