"""The results as JUnit XML, which CI services show."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from xml.etree import ElementTree as ET

from cli.render import counted, render
from cli.testing.collection import Suite
from cli.testing.coverage import Coverage
from cli.testing.stage import shown
from cli.testing.trial import Outcome, Result
from grammar.diagnostics import human

# XML 1.0 has no way to write these.
_UNWRITABLE = re.compile(r"[^\t\n\r\u0020-\uD7FF\uE000-\uFFFD\U00010000-\U0010FFFF]")


def junit(suites: Sequence[Suite], results: Sequence[Result]) -> str:
    """One document: a suite per file, a case per test."""
    root = ET.Element("testsuites", _counts(results))
    for suite in suites:
        own = [result for result in results if result.suite is suite]
        name = suite.source.name
        element = ET.SubElement(root, "testsuite", {"name": _text(name), **_counts(own)})
        for result in own:
            _case(element, result)
        if suite.mistakes and not own:
            case = ET.SubElement(element, "testcase", {"classname": name, "name": name})
            _mistakes(case, suite)
    ET.indent(root)
    return ET.tostring(root, "unicode", xml_declaration=False) + "\n"


def _case(parent: ET.Element, result: Result) -> None:
    source = result.suite.source
    line, _ = source.position(result.test.span.start)
    case = ET.SubElement(
        parent,
        "testcase",
        {
            "classname": _text(source.name),
            "name": _text(result.test.name),
            "file": _text(source.name),
            "line": str(line),
            "time": f"{result.seconds:.3f}",
        },
    )
    if result.suite.mistakes:
        _mistakes(case, result.suite)
    elif result.found:
        kind = "failure" if result.outcome == "failed" else "error"
        message = "; ".join(found.message for found in result.found)
        element = ET.SubElement(case, kind, {"message": _text(message)})
        element.text = _text("\n".join(shown(found, source) for found in result.found))


def _mistakes(case: ET.Element, suite: Suite) -> None:
    first, _ = suite.mistakes[0]
    element = ET.SubElement(case, "error", {"message": _text(first.message)})
    element.text = _text("\n".join(human(*finding) for finding in suite.mistakes))


def _counts(results: Sequence[Result]) -> dict[str, str]:
    outcomes = [result.outcome for result in results]
    return {
        "tests": str(len(results)),
        "failures": str(outcomes.count("failed")),
        "errors": str(outcomes.count("error")),
        "time": f"{sum(result.seconds for result in results):.3f}",
    }


def _text(text: str) -> str:
    return _UNWRITABLE.sub("\ufffd", text)


# ---- What `placet test` prints: a line per file, what failed, what was never tried, a summary.

SIGNS: dict[Outcome, str] = {"passed": ".", "failed": "F", "error": "E"}
_COLOURS: dict[Outcome, int] = {"passed": 32, "failed": 31, "error": 31}


def painted(text: str, outcome: Outcome, *, colour: bool) -> str:
    return f"\x1b[{_COLOURS[outcome]}m{text}\x1b[0m" if colour else text


def verbose(result: Result, *, colour: bool) -> str:
    """A line per test."""
    outcome = painted(result.outcome, result.outcome, colour=colour)
    return f"{result.suite.source.name}: {result.test.name} {outcome}"


def details(suites: Iterable[Suite], results: Sequence[Result], *, colour: bool) -> Iterator[str]:
    """Each mistake of a file once, then each test that did not pass."""
    for suite in suites:
        if suite.mistakes:
            yield ""
            yield painted(f"ERROR {suite.source.name}", "error", colour=colour)
            yield from list(render(suite.mistakes, "human", colour=colour))[:-1]
    for result in results:
        if result.found:
            word = "FAILED" if result.outcome == "failed" else "ERROR"
            head = f"{word} {result.suite.source.name}: {result.test.name}"
            yield ""
            yield painted(head, result.outcome, colour=colour)
            for found in result.found:
                yield shown(found, result.suite.source, colour=colour)


def uncovered(coverage: Coverage) -> Iterator[str]:
    """What never happened in a test, by its place, and how much that is of all."""
    yield ""
    for branch in coverage.missed:
        line, column = branch.source.position(branch.spot.span.start)
        yield f"{branch.source.name}:{line}:{column}: {branch.never} in a test"
    total = len(coverage.branches)
    taken = total - len(coverage.missed)
    yield f"coverage {coverage.percent:.4g}%: {taken} of {counted(total, 'branch', 'branches')}"


def summary(
    suites: Sequence[Suite], results: Sequence[Result], seconds: float, *, colour: bool
) -> str:
    """`1 failed, 2 passed in 0.03s`. A file that cannot be read counts as an error."""
    outcomes = [result.outcome for result in results]
    lost = sum(bool(suite.mistakes) and not suite.tests for suite in suites)
    counts = {
        "failed": outcomes.count("failed"),
        "passed": outcomes.count("passed"),
        "error": outcomes.count("error") + lost,
    }
    words = [
        counted(number, "error") if name == "error" else f"{number} {name}"
        for name, number in counts.items()
        if number
    ]
    outcome: Outcome = "failed" if counts["failed"] or counts["error"] else "passed"
    return painted(f"{', '.join(words)} in {seconds:.2f}s", outcome, colour=colour)
