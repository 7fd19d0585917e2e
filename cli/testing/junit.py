"""The results as JUnit XML, which CI services show."""

from __future__ import annotations

import re
from collections.abc import Sequence
from xml.etree import ElementTree as ET

from cli.testing.collection import Suite
from cli.testing.complaint import shown
from cli.testing.trial import Result
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
