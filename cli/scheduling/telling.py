"""Problems of configurations as a terminal, a script and a program want to see them."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence

from cli.render import coloured, counted
from cli.scheduling.case import Case
from cli.scheduling.finding import Problem

FORMATS = ("human", "plain", "json")


def tell(
    problems: Sequence[Problem], cases: Sequence[Case], form: str, *, colour: bool
) -> Iterator[str]:
    """The problems in one of FORMATS: plain a line each, human several, json one for all."""
    match form:
        case "plain":
            yield from map(_plain, problems)
        case "human":
            for problem in problems:
                text = _human(problem)
                yield coloured(text, problem.finding.severity) if colour else text
                yield ""
        case _:
            found = {"findings": [_as_json(p) for p in problems], "placet": _chosen(cases)}
            yield json.dumps(found, ensure_ascii=False)


def summary(problems: Sequence[Problem], cases: Sequence[Case]) -> Iterator[str]:
    """Which extender was taken for Placet, and how much was found."""
    for case in cases:
        if (ours := case.ours) is not None:
            source, because = case.configuration.source, case.choice.because
            yield f"{source}: `{ours.place}` is taken for Placet: {because}"
    severities = [problem.finding.severity for problem in problems]
    counts = [counted(severities.count(s), s) for s in ("error", "warning") if s in severities]
    yield ", ".join(counts) or "all is well"


def _where(problem: Problem) -> str:
    return f"{problem.source}:{problem.line}" if problem.line else problem.source


def _plain(problem: Problem) -> str:
    """`file:line: path: severity[code]: message (hint)`."""
    finding = problem.finding
    kind = f"{finding.severity}[{problem.code}]"
    return f"{_where(problem)}: {finding.place}: {kind}: {finding.message} ({finding.hint})"


def _human(problem: Problem) -> str:
    finding = problem.finding
    return (
        f"{finding.severity}[{problem.code}]: {finding.message}\n"
        f" --> {_where(problem)}: {finding.place}\n"
        f"  = help: {finding.hint}"
    )


def _as_json(problem: Problem) -> dict[str, object]:
    finding = problem.finding
    return {
        "file": problem.source,
        "line": problem.line or None,
        "place": finding.place,
        "severity": finding.severity,
        "code": problem.code,
        "message": finding.message,
        "hint": finding.hint,
    }


def _chosen(cases: Sequence[Case]) -> list[dict[str, object]]:
    return [
        {
            "file": case.configuration.source,
            "extender": None if case.ours is None else case.ours.place,
            "because": case.choice.because,
        }
        for case in cases
    ]
