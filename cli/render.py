"""Renderer of diagnostics and costs: text for a terminal, lines for scripts, JSON, annotations."""

from __future__ import annotations

import json
import os
import re
import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TextIO
from urllib.parse import quote
from xml.etree import ElementTree as ET

from cli.streams import beneath
from grammar.checker.policy_checker import Checked
from grammar.meaning.costs import describe
from grammar.messages.diagnostics import Diagnostic, human, plain
from grammar.messages.texts import counted, escaped, escaped_json, excerpt
from grammar.tree.source import Source, Span

FORMATS = ("human", "plain", "json", "github", "sarif", "junit")
# Those that are one document, beside which nothing is printed.
DOCUMENTS = ("json", "sarif", "junit")

_BOLD, _RED, _YELLOW, _BLUE, _CYAN, _RESET = (f"\x1b[{n}m" for n in (1, 31, 33, 34, 36, 0))
_SEVERITY_COLOURS = {"error": _RED, "warning": _YELLOW}
_GUTTER = re.compile(r"^( *\d* *)(\||-->|=)(.*)$")


@dataclass(frozen=True, slots=True)
class FieldPlace:
    """The place of a field in a YAML or JSON file, for diagnostics without a span.

    `path` is like `extenders[0].weight`; `line` counts from 1, 0 is unknown.
    """

    file: str
    line: int
    path: str

    def __str__(self) -> str:
        return f"{self.file}:{self.line}: {self.path}" if self.line else f"{self.file}: {self.path}"


# A diagnostic in a text, and one about a field of a file.
Finding = tuple[Diagnostic, Source]
FieldFinding = tuple[Diagnostic, FieldPlace]


def wants_colour(stream: TextIO) -> bool:
    """Whether to colour a stream: a terminal, unless NO_COLOR is set (no-color.org)."""
    return stream.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


def render(
    findings: Sequence[Finding | FieldFinding],
    form: str,
    files: Sequence[str] = (),
    *,
    colour: bool = False,
) -> Iterator[str]:
    """The findings in one of FORMATS: plain and github a line each, human several, others one.

    `files` are the names of all files, of which those without findings pass in `junit`.
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
            yield _junit(findings, files)
        case _:
            found = {"diagnostics": [as_json(*f) for f in findings]}
            yield escaped_json(json.dumps(found, ensure_ascii=False))


def print_findings(findings: Sequence[Finding]) -> None:
    """Prints findings in the human format on standard error."""
    for line in render(findings, "human", colour=wants_colour(sys.stderr)):
        print(line, file=beneath(sys.stderr))


def put_findings(findings: Iterable[Finding]) -> None:
    """Prints findings on standard error, without empty lines between them."""
    sys.stdout.flush()
    for diagnostic, source in findings:
        put_problem(human(diagnostic, source), diagnostic.severity)


def print_error(message: str, hint: str) -> None:
    """Prints an error that has no place in a text on standard error."""
    put_problem(error_text(message, hint), "error")


def put_problem(text: str, severity: str) -> None:
    """Prints an escaped text of a diagnostic on standard error."""
    shown = coloured(text, severity) if wants_colour(sys.stderr) else text
    print(shown, file=beneath(sys.stderr), flush=True)


def error_text(message: str, hint: str) -> str:
    rows = [f"error: {message}", f"  = help: {hint}"] if hint else [f"error: {message}"]
    return "\n".join(map(escaped, rows))


def totals(diagnostics: Iterable[Diagnostic]) -> str:
    """The numbers of errors and warnings, as in `2 errors, 1 warning`; empty without any."""
    severities = [diagnostic.severity for diagnostic in diagnostics]
    counts = [counted(severities.count(s), s) for s in ("error", "warning") if s in severities]
    return ", ".join(counts)


def coloured(text: str, severity: str) -> str:
    """The text of a diagnostic with colours: the head and carets by severity, margins in blue."""
    colour = _SEVERITY_COLOURS[severity]
    head, *rows = text.split("\n")
    kind, _, message = head.partition(": ")
    lines = [f"{_BOLD}{colour}{kind}{_RESET}{_BOLD}: {message}{_RESET}"]
    for row in rows:
        if (parts := _GUTTER.match(row)) is None:
            lines.append(row)
            continue
        margin, sign, rest = parts.groups()
        if sign == "|" and rest.lstrip().startswith("^") and not margin.strip():
            rest = f"{colour}{rest}{_RESET}"
        elif sign == "=":
            rest = f"{_CYAN}{rest}{_RESET}"
        lines.append(f"{_BLUE}{margin}{sign}{_RESET}{rest}")
    return "\n".join(lines)


def _plain(diagnostic: Diagnostic, where: Source | FieldPlace) -> str:
    """`file:line: path: severity[code]: message (hint)`, or with the column in a text."""
    if isinstance(where, Source):
        return plain(diagnostic, where)
    return escaped(f"{where}: {diagnostic.kind}: {diagnostic.message}{_hint(diagnostic)}")


def _human(diagnostic: Diagnostic, where: Source | FieldPlace) -> str:
    if isinstance(where, Source):
        return human(diagnostic, where)
    rows = [f"{diagnostic.kind}: {diagnostic.message}", f" --> {where}"]
    if diagnostic.hint:
        rows.append(f"  = help: {diagnostic.hint}")
    return "\n".join(map(escaped, rows))


def _annotation(diagnostic: Diagnostic, where: Source | FieldPlace) -> str:
    """A workflow command of GitHub Actions, which shows the message beside the line."""
    if isinstance(where, Source):
        line, column, end_line, end_column = _range(diagnostic.span, where)
        place: dict[str, object] = {"file": where.name, "line": line, "endLine": end_line}
        if line == end_line:  # GitHub ignores the columns of several lines
            place |= {"col": column, "endColumn": end_column}
    else:
        place = {"file": where.file, "line": where.line}
    properties = ",".join(f"{k}={_escaped(str(v), property_=True)}" for k, v in place.items())
    message = _escaped(f"{diagnostic.message}{_hint(diagnostic)}")
    return escaped(f"::{diagnostic.severity} {properties},title={diagnostic.code}::{message}")


def _hint(diagnostic: Diagnostic) -> str:
    return f" ({diagnostic.hint})" if diagnostic.hint else ""


def _escaped(text: str, *, property_: bool = False) -> str:
    text = text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")
    return text.replace(":", "%3A").replace(",", "%2C") if property_ else text


def as_json(diagnostic: Diagnostic, where: Source | FieldPlace) -> dict[str, object]:
    said = {
        "severity": diagnostic.severity,
        "code": diagnostic.code,
        "message": diagnostic.message,
        "hint": diagnostic.hint,
    }
    if isinstance(where, FieldPlace):
        return {"file": where.file, "line": where.line or None, "place": where.path, **said}
    found = {"file": where.name, **_json_range(diagnostic.span, where), **said}
    found["notes"] = list(diagnostic.notes)
    if (fix := diagnostic.fix) is not None:
        found["fix"] = {**_json_range(fix.span, where), "text": fix.text}
    return found


def _json_range(span: Span, source: Source) -> dict[str, object]:
    names = ("line", "column", "endLine", "endColumn")
    return dict(zip(names, _range(span, source), strict=True))


def _range(span: Span, source: Source) -> tuple[int, int, int, int]:
    return *source.position(span.start), *source.position(span.end)


# ---- documents for other programs


def sarif_log(rules: object, results: object, **more: object) -> dict[str, object]:
    """A log of SARIF 2.1.0 (OASIS), with one run of Placet."""
    run = {"tool": {"driver": {"name": "placet", "rules": rules}}, **more, "results": results}
    schema = "https://json.schemastore.org/sarif-2.1.0.json"
    return {"$schema": schema, "version": "2.1.0", "runs": [run]}


def xml_text(root: ET.Element) -> str:
    """The text of a report as JUnit writes it."""
    ET.indent(root)
    return f'<?xml version="1.0" encoding="UTF-8"?>\n{ET.tostring(root, "unicode")}'


def _sarif(findings: Sequence[Finding | FieldFinding]) -> dict[str, object]:
    """The findings as a log, with columns in characters."""
    codes = sorted({diagnostic.code for diagnostic, _ in findings})
    results = [
        {
            "ruleId": diagnostic.code,
            "ruleIndex": codes.index(diagnostic.code),
            "level": diagnostic.severity,
            "message": {"text": f"{diagnostic.message}{_hint(diagnostic)}"},
            "locations": [{"physicalLocation": _sarif_place(diagnostic, where)}],
        }
        for diagnostic, where in findings
    ]
    rules = [{"id": code} for code in codes]
    return sarif_log(rules, results, columnKind="unicodeCodePoints")


def _sarif_place(diagnostic: Diagnostic, where: Source | FieldPlace) -> dict[str, object]:
    name = where.name if isinstance(where, Source) else where.file
    # An address beside the working directory has `/`, and no characters that mean something else.
    place: dict[str, object] = {"artifactLocation": {"uri": quote(Path(name).as_posix())}}
    if isinstance(where, Source):
        names = ("startLine", "startColumn", "endLine", "endColumn")
        place["region"] = dict(zip(names, _range(diagnostic.span, where), strict=True))
    elif where.line:
        place["region"] = {"startLine": where.line}
    return place


def _junit(findings: Sequence[Finding | FieldFinding], files: Sequence[str]) -> str:
    """A report as JUnit writes it: a suite for each file, with a failure for each finding.

    A file without findings is a suite with one test that passes.
    """
    by_file: dict[str, list[tuple[Diagnostic, Source | FieldPlace]]] = {f: [] for f in files}
    for diagnostic, where in findings:
        name = where.name if isinstance(where, Source) else where.file
        by_file.setdefault(name, []).append((diagnostic, where))
    root = ET.Element("testsuites", name="placet check")
    for name, found in by_file.items():
        tests, failures = str(max(len(found), 1)), str(len(found))
        shown = escaped(name)
        suite = ET.SubElement(
            root, "testsuite", name=shown, tests=tests, failures=failures, errors="0"
        )
        if not found:
            ET.SubElement(suite, "testcase", classname=shown, name="check")
        for each, where in found:
            text = _plain(each, where)
            line = where.position(each.span.start)[0] if isinstance(where, Source) else where.line
            case = ET.SubElement(
                suite, "testcase", classname=shown, name=f"{each.code} in line {line}"
            )
            failure = ET.SubElement(
                case, "failure", type=each.severity, message=escaped(each.message)
            )
            failure.text = text
    return xml_text(root)


# ---- the costs of expressions


# The longest text of an expression in a cost table.
_TEXT = 72


def cost_table(checked: Checked, source: Source, limit: int) -> Iterator[str]:
    """Lines with the steps for one node, the place and the text of each expression.

    The most expensive parts of an expression follow it.
    """
    described = list(describe(checked.policy, checked.environment))
    yield f"cost of {checked.policy.address} in steps for one node, of {limit:,}"
    if not described:
        yield "  nothing"
        return
    rows = [
        row
        for d in described
        for row in (
            (d.steps, d.expr.span, ""),
            *((part.steps, part.span, "  ") for part in d.parts),
        )
    ]
    width = max(len(f"{steps:,}") for steps, _, _ in rows)
    places = [line_and_column(source, span) for _, span, _ in rows]
    column = max(map(len, places))
    for (steps, span, indent), place in zip(rows, places, strict=True):
        text = excerpt(source.slice(span), _TEXT)
        yield f"  {steps:>{width},}  {place:<{column}}  {indent}{text}"
    yield from _slow_for_new_shapes(checked, source)


def _slow_for_new_shapes(checked: Checked, source: Source) -> Iterator[str]:
    """Lines with the clauses that make the first call about a new shape of pods slow."""
    from engine.program.new_shapes import LIMIT, NODES, PODS_ON_NODE, new_shapes  # noqa: PLC0415

    found = list(new_shapes(checked))
    for verb in ("filter", "prioritize"):
        clauses = sorted((each for each in found if each.verb == verb), key=lambda e: -e.times)
        total = sum(each.times for each in clauses)
        if total <= LIMIT:
            continue
        yield (
            f"the first {verb} about pods of a new shape takes up to {total:,} times as long as the"
            f" next one, with {NODES:,} nodes and {PODS_ON_NODE} pods on each"
        )
        width = len(f"{clauses[0].times:,}")
        for each in clauses:
            place = line_and_column(source, each.span)
            yield f"  {each.times:>{width},} times  {place}  {each.clause}"


def line_and_column(source: Source, span: Span) -> str:
    """The line and the column where a span begins: `3:14`."""
    line, column = source.position(span.start)
    return f"{line}:{column}"
