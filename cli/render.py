"""Renderer of reports: the findings of `check`, `doctor`, `test` and `conformance`.

Each is shown in a form of REPORT: text for a terminal, lines for scripts, annotations, or one
document of JSON, SARIF or JUnit.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import TextIO
from urllib.parse import quote
from xml.etree import ElementTree as ET

from cli.streams import beneath, put_line
from grammar.messages.diagnostics import Diagnostic, human, plain
from grammar.messages.texts import counted, escaped, escaped_json
from grammar.tree.source import Source, Span

REPORT = """
  -o --output human|plain|json|github|sarif|junit=human
    human: with the line and a caret; plain: one line each; json: one document; github: annotations
    for GitHub Actions; sarif: for code scanning; junit: a report of tests
"""
# Those that are one document, beside which nothing is printed.
DOCUMENTS = ("json", "sarif", "junit")

_BOLD, _RED, _YELLOW, _RESET = (f"\x1b[{n}m" for n in (1, 31, 33, 0))
_SEVERITY_COLOURS = {"error": _RED, "warning": _YELLOW}


@dataclass(frozen=True, slots=True)
class FieldPlace:
    """The place of a field in a YAML or JSON file, for diagnostics without a span.

    `path` is like `extenders[0].weight`; `line` counts from 1, 0 is unknown.
    """

    name: str
    line: int
    path: str

    def __str__(self) -> str:
        return f"{self.name}:{self.line}: {self.path}" if self.line else f"{self.name}: {self.path}"


# A diagnostic in a text, one about a field of a file, and either of them.
Finding = tuple[Diagnostic, Source]
FieldFinding = tuple[Diagnostic, FieldPlace]
ReportFinding = tuple[Diagnostic, Source | FieldPlace]


@dataclass(frozen=True, slots=True)
class ReportCase:
    """A case of a report for CI services: a test, a line of a contract, or a finding of a file.

    It fails by its findings. `skipped` says why it does not apply.
    """

    suite: str
    name: str
    findings: Sequence[ReportFinding] = ()
    skipped: str = ""
    seconds: float = 0.0


def cases_of(findings: Iterable[ReportFinding], files: Iterable[str] = ()) -> list[ReportCase]:
    """A case for each finding, and one that passes for each file without any."""
    by_file: dict[str, list[ReportCase]] = {file: [] for file in files}
    for diagnostic, where in findings:
        (line, *_) = _range(diagnostic.span, where) or (0,)
        title = f"{diagnostic.code} in line {line}"
        by_file.setdefault(where.name, []).append(
            ReportCase(where.name, title, [(diagnostic, where)])
        )
    return [c for file, cases in by_file.items() for c in cases or [ReportCase(file, "check")]]


def wants_colour(stream: TextIO) -> bool:
    """Whether to colour a stream: a terminal, unless NO_COLOR is set (no-color.org)."""
    return stream.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


def render(
    findings: Sequence[ReportFinding],
    form: str,
    cases: Iterable[ReportCase] = (),
    *,
    colour: bool = False,
    more: Mapping[str, object] | None = None,
) -> Iterator[str]:
    """The findings in a form of REPORT: plain and github a line each, human several, others one.

    `cases` are what `junit` lists, and `more` is what `json` has beside the diagnostics.
    """
    match form:
        case "plain":
            yield from (_plain(*finding) for finding in findings)
        case "human":
            for diagnostic, where in findings:
                text = _human(diagnostic, where)
                yield coloured(text, diagnostic.severity) if colour else text
                yield ""
        case "github":
            yield from (_annotation(*finding) for finding in findings)
        case "sarif":
            yield escaped_json(json.dumps(_sarif(findings), ensure_ascii=False, indent=2))
        case "junit":
            yield _junit(cases)
        case _:
            found = {"diagnostics": [as_json(*f) for f in findings], **(more or {})}
            yield escaped_json(json.dumps(found, ensure_ascii=False))


def put_report(
    findings: Sequence[ReportFinding],
    form: str,
    cases: Iterable[ReportCase] = (),
    more: Mapping[str, object] | None = None,
) -> None:
    """Prints the findings on standard output."""
    for line in render(findings, form, cases, colour=wants_colour(sys.stdout), more=more):
        print(line, file=beneath(sys.stdout))


def put_note(text: str, form: str) -> None:
    """Prints a line beside a report: its output is for programs in all forms but `human`."""
    if form not in DOCUMENTS:
        put_line(text, sys.stdout if form == "human" else sys.stderr)


def fails(findings: Iterable[ReportFinding], *, strict: bool = False) -> bool:
    """Whether a command ends with a failure: by errors, and if `strict` by warnings too."""
    return any(strict or diagnostic.severity == "error" for diagnostic, _ in findings)


def put_findings(findings: Iterable[Finding]) -> None:
    """Prints findings on standard error, as people read them."""
    sys.stdout.flush()
    for diagnostic, source in findings:
        put_problem(human(diagnostic, source), diagnostic.severity)


def print_error(message: str, hint: str) -> None:
    """Prints an error that has no place in a text on standard error."""
    rows = [f"error: {message}", f"  = help: {hint}"] if hint else [f"error: {message}"]
    put_problem("\n".join(map(escaped, rows)), "error")


def put_problem(text: str, severity: str) -> None:
    """Prints an escaped text of a diagnostic on standard error."""
    shown = coloured(text, severity) if wants_colour(sys.stderr) else text
    print(shown, file=beneath(sys.stderr), flush=True)


def totals(diagnostics: Iterable[Diagnostic]) -> str:
    """The numbers of errors and warnings, as in `2 errors, 1 warning`; empty without any."""
    severities = [diagnostic.severity for diagnostic in diagnostics]
    counts = [counted(severities.count(s), s) for s in ("error", "warning") if s in severities]
    return ", ".join(counts)


def coloured(text: str, severity: str) -> str:
    """The text of a diagnostic with its first line in colours."""
    head, *rows = text.split("\n")
    kind, _, message = head.partition(": ")
    shown = f"{_BOLD}{_SEVERITY_COLOURS[severity]}{kind}{_RESET}{_BOLD}: {message}{_RESET}"
    return "\n".join([shown, *rows])


def _plain(diagnostic: Diagnostic, where: Source | FieldPlace) -> str:
    """`file:line: path: severity[code]: message (hint)`, or with the column in a text."""
    if isinstance(where, Source):
        return plain(diagnostic, where)
    return escaped(f"{where}: {diagnostic.kind}: {diagnostic.message}{_hint(diagnostic)}")


def _human(diagnostic: Diagnostic, where: Source | FieldPlace) -> str:
    if isinstance(where, Source):
        return human(diagnostic, where)
    rows = [f"{diagnostic.kind}: {diagnostic.message}", f" --> {where}"]
    rows += [f"  = help: {diagnostic.hint}"] if diagnostic.hint else []
    rows += [f"  = note: {note}" for note in diagnostic.notes]
    return "\n".join(map(escaped, rows))


def _annotation(diagnostic: Diagnostic, where: Source | FieldPlace) -> str:
    """A workflow command of GitHub Actions, which shows the message beside the line."""
    if isinstance(where, Source):
        line, column, end_line, end_column = _range(diagnostic.span, where)
        place: dict[str, object] = {"file": where.name, "line": line, "endLine": end_line}
        if line == end_line:  # GitHub ignores the columns of several lines
            place |= {"col": column, "endColumn": end_column}
    else:
        place = {"file": where.name, "line": where.line}
    properties = ",".join(f"{k}={_escaped(str(v), property_=True)}" for k, v in place.items())
    message = _escaped(f"{diagnostic.message}{_hint(diagnostic)}")
    return escaped(f"::{diagnostic.severity} {properties},title={diagnostic.code}::{message}")


def _hint(diagnostic: Diagnostic) -> str:
    return f" ({diagnostic.hint})" if diagnostic.hint else ""


def _escaped(text: str, *, property_: bool = False) -> str:
    text = text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")
    return text.replace(":", "%3A").replace(",", "%2C") if property_ else text


def as_json(diagnostic: Diagnostic, where: Source | FieldPlace) -> dict[str, object]:
    said: dict[str, object] = {
        "severity": diagnostic.severity,
        "code": diagnostic.code,
        "message": diagnostic.message,
        "hint": diagnostic.hint,
        "notes": list(diagnostic.notes),
    }
    if isinstance(where, FieldPlace):
        return {"file": where.name, "line": where.line or None, "place": where.path, **said}
    found = {"file": where.name, **_json_range(diagnostic.span, where), **said}
    if (fix := diagnostic.fix) is not None:
        found["fix"] = {**_json_range(fix.span, where), "text": fix.text}
    return found


def _json_range(span: Span, source: Source) -> dict[str, object]:
    names = ("line", "column", "endLine", "endColumn")
    return dict(zip(names, _range(span, source), strict=True))


def _range(span: Span, where: Source | FieldPlace) -> Sequence[int]:
    """The line, the column, and both of the end, as far as these are known."""
    if isinstance(where, FieldPlace):
        return [where.line] if where.line else []
    return *where.position(span.start), *where.position(span.end)


# ---- documents for other programs

# The rule of findings without a code, which are those of tests.
_OF_TESTS = "test"


def _sarif(findings: Sequence[ReportFinding]) -> dict[str, object]:
    """The findings as a log of SARIF 2.1.0 (OASIS), with columns in characters."""
    codes = sorted({diagnostic.code for diagnostic, _ in findings})
    results = [
        {
            "ruleId": diagnostic.code or _OF_TESTS,
            "ruleIndex": codes.index(diagnostic.code),
            "level": diagnostic.severity,
            "message": {"text": f"{diagnostic.message}{_hint(diagnostic)}"},
            "locations": [{"physicalLocation": _sarif_place(diagnostic, where)}],
        }
        for diagnostic, where in findings
    ]
    driver = {"name": "placet", "rules": [{"id": code or _OF_TESTS} for code in codes]}
    run = {"tool": {"driver": driver}, "columnKind": "unicodeCodePoints", "results": results}
    schema = "https://json.schemastore.org/sarif-2.1.0.json"
    return {"$schema": schema, "version": "2.1.0", "runs": [run]}


def _sarif_place(diagnostic: Diagnostic, where: Source | FieldPlace) -> dict[str, object]:
    # An address beside the working directory has `/`, and no characters that mean something else.
    place: dict[str, object] = {"artifactLocation": {"uri": quote(Path(where.name).as_posix())}}
    names = ("startLine", "startColumn", "endLine", "endColumn")
    if region := dict(zip(names, _range(diagnostic.span, where), strict=False)):
        place["region"] = region
    return place


def _junit(cases: Iterable[ReportCase]) -> str:
    """A report as JUnit writes it, with a failure for each finding."""
    root = ET.Element("testsuites", name="placet")
    for suite, group in groupby(cases, key=lambda case: case.suite):
        own, shown = list(group), escaped(suite)
        counts = {
            "tests": str(len(own)),
            "failures": str(sum(bool(case.findings) for case in own)),
            "errors": "0",
            "skipped": str(sum(bool(case.skipped) for case in own)),
        }
        element = ET.SubElement(root, "testsuite", {"name": shown, **counts})
        for case in own:
            time = f"{case.seconds:.3f}"
            made = ET.SubElement(
                element, "testcase", classname=shown, name=escaped(case.name), time=time
            )
            for each, where in case.findings:
                said = {"type": each.severity, "message": escaped(each.message)}
                ET.SubElement(made, "failure", said).text = _plain(each, where)
            if case.skipped:
                ET.SubElement(made, "skipped", message=escaped(case.skipped))
    ET.indent(root)
    return f'<?xml version="1.0" encoding="UTF-8"?>\n{ET.tostring(root, "unicode")}'
