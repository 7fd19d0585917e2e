"""What `placet test` prints: a line per file, what failed, what was never tried, a summary."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from cli.render import counted, render
from cli.testing.collection import Suite
from cli.testing.complaint import shown
from cli.testing.coverage import Coverage
from cli.testing.trial import Outcome, Result

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
