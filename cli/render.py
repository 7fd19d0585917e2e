"""What a terminal, an editor, a script and a CI service each want to see of diagnostics."""

from __future__ import annotations

import json
import os
import re
import sys
from collections.abc import Iterable, Iterator, Sequence
from typing import TextIO

from grammar.diagnostics import Diagnostic, human, plain
from grammar.source import Source

Finding = tuple[Diagnostic, Source]

FORMATS = ("human", "plain", "json", "github")

_BOLD, _RED, _YELLOW, _BLUE, _CYAN, _RESET = (f"\x1b[{n}m" for n in (1, 31, 33, 34, 36, 0))
_SEVERITY_COLOURS = {"error": _RED, "warning": _YELLOW}
_GUTTER = re.compile(r"^( *\d* *)(\||-->|=)(.*)$")


def wants_colour(stream: TextIO) -> bool:
    """Whether to colour what goes there: a terminal, unless NO_COLOR is set (no-color.org)."""
    return stream.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


def render(findings: Sequence[Finding], form: str, *, colour: bool = False) -> Iterator[str]:
    """The findings in one of FORMATS: plain and github a line each, human several, json one."""
    match form:
        case "plain":
            yield from (plain(*finding) for finding in findings)
        case "human":
            for diagnostic, source in findings:
                text = human(diagnostic, source)
                yield coloured(text, diagnostic.severity) if colour else text
                yield ""
        case "github":
            yield from (_annotation(*finding) for finding in findings)
        case _:
            yield json.dumps({"diagnostics": [_as_json(*f) for f in findings]}, ensure_ascii=False)


def summary(findings: Iterable[Finding], policies: int, files: int) -> str:
    """How much of what: `2 errors, 1 warning in 3 files`, or that all is well."""
    severities = [diagnostic.severity for diagnostic, _ in findings]
    counts = [counted(severities.count(s), s) for s in ("error", "warning") if s in severities]
    if counts:
        return f"{', '.join(counts)} in {counted(files, 'file')}"
    return f"{counted(policies, 'policy', 'policies')} in {counted(files, 'file')}: all is well"


def print_error(message: str, hint: str) -> None:
    """An error that is about no text, and what to do about it."""
    kind = f"{_BOLD}{_RED}error{_RESET}" if wants_colour(sys.stderr) else "error"
    print(error_text(message, hint, kind), file=sys.stderr)


def error_text(message: str, hint: str, kind: str = "error") -> str:
    """The same as a text."""
    return f"{kind}: {message}\n  = help: {hint}" if hint else f"{kind}: {message}"


def counted(number: int, one: str, many: str = "") -> str:
    """`1 file`, `2 files`."""
    return f"{number} {one if number == 1 else many or one + 's'}"


def coloured(text: str, severity: str) -> str:
    """The rows of `human`: the head by severity, carets too, line numbers and arrows in blue."""
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


def _annotation(diagnostic: Diagnostic, source: Source) -> str:
    """A workflow command of GitHub Actions, which shows it beside the line."""
    line, column = source.position(diagnostic.span.start)
    end_line, end_column = source.position(diagnostic.span.end)
    place = {"file": source.name, "line": line, "endLine": end_line}
    if line == end_line:  # columns of a longer stretch are ignored there
        place |= {"col": column, "endColumn": end_column}
    properties = ",".join(f"{k}={_escaped(str(v), property_=True)}" for k, v in place.items())
    hint = f" ({diagnostic.hint})" if diagnostic.hint else ""
    message = _escaped(f"{diagnostic.message}{hint}")
    return f"::{diagnostic.severity} {properties},title={diagnostic.code}::{message}"


def _escaped(text: str, *, property_: bool = False) -> str:
    text = text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")
    return text.replace(":", "%3A").replace(",", "%2C") if property_ else text


def _as_json(diagnostic: Diagnostic, source: Source) -> dict[str, object]:
    line, column = source.position(diagnostic.span.start)
    end_line, end_column = source.position(diagnostic.span.end)
    found: dict[str, object] = {
        "file": source.name,
        "line": line,
        "column": column,
        "endLine": end_line,
        "endColumn": end_column,
        "severity": diagnostic.severity,
        "code": diagnostic.code,
        "message": diagnostic.message,
        "hint": diagnostic.hint,
        "notes": list(diagnostic.notes),
    }
    if diagnostic.fix is not None:
        start = source.position(diagnostic.fix.span.start)
        end = source.position(diagnostic.fix.span.end)
        found["fix"] = {
            "line": start[0],
            "column": start[1],
            "endLine": end[0],
            "endColumn": end[1],
            "text": diagnostic.fix.text,
        }
    return found
