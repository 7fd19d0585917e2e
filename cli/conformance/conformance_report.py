"""Report: the results of a run, as text, and for programs as JSON, JUnit and SARIF."""

from __future__ import annotations

import json
import shlex
import xml.etree.ElementTree as ET
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import msgspec

from cli.command import write_text
from cli.conformance.run import CaseResult, ContractResult, Result
from cli.console import Part
from cli.render import sarif_log, xml_text
from cli.version import version
from grammar.messages.texts import escaped, escaped_json

FORMS = ("json", "junit", "sarif")
# The longest request or answer in a document; `--save` writes whole requests.
_SHOWN = 2000
_INDENT = " " * 21
_LEVELS = {"fail": "error", "warn": "warning"}
_ORDER: Sequence[Result] = ("pass", "fail", "warn", "not applicable")


def counts(results: Sequence[ContractResult]) -> str:
    """`39 passed, 0 failed, 0 with warnings, 13 not applicable`."""
    found = Counter(each.result for each in results)
    return (
        f"{found['pass']} passed, {found['fail']} failed, {found['warn']} with warnings, "
        f"{found['not applicable']} not applicable"
    )


def lines(
    result: ContractResult, url: str, paths: Mapping[str, str], saved: Mapping[str, str]
) -> Iterator[Part]:
    """What the text says of one line of the contract; `saved` has the files of requests."""
    yield f"{result.result:<15} {result.id:<4} {result.says}"
    if result.result == "not applicable":
        yield f"{_INDENT}{result.reason}"
    for case in result.cases:
        if case.result in _LEVELS:
            yield f"{_INDENT}{case.name}, about `{case.pod}`: {case.reason}"
            yield f"{_INDENT}= note: {case.why}"
            if file := saved.get(_key(result, case)):
                address = f"{url.rstrip('/')}/{paths[case.verb]}"
                yield f"{_INDENT}= try: {_curl(address, file)}"


def _curl(address: str, file: str) -> str:
    """The command that sends a saved request."""
    header = shlex.quote("Content-Type: application/json")
    return f"curl -sH {header} -d @{shlex.quote(file)} {shlex.quote(address)}"


def save(folder: Path, results: ContractResult) -> dict[str, str]:
    """Writes the requests of cases that did not hold, and returns the files by case."""
    written: dict[str, str] = {}
    for case in results.cases:
        if case.result not in _LEVELS:
            continue
        pod = case.pod.replace("/", "-")
        name = f"{results.id}-{case.name.replace(' ', '-').replace(',', '')}-{pod}.json"
        request = case.request
        text = request if isinstance(request, str) else json.dumps(request, ensure_ascii=False)
        write_text(folder / name, text)
        written[_key(results, case)] = str(folder / name)
    return written


def _key(result: ContractResult, case: CaseResult) -> str:
    return f"{result.id}/{case.name}/{case.pod}"


def document(form: str, results: Sequence[ContractResult], url: str) -> str:
    """The results in one of `FORMS`."""
    if form == "json":
        return escaped_json(msgspec.json.format(msgspec.json.encode(_plain(results, url))).decode())
    if form == "junit":
        return _junit(results, url)
    return escaped_json(json.dumps(_sarif(results, url), ensure_ascii=False, indent=2))


def _plain(results: Sequence[ContractResult], url: str) -> dict[str, object]:
    contracts = []
    for result in results:
        made = msgspec.to_builtins(result)
        for case, each in zip(made["cases"], result.cases, strict=True):
            text = json.dumps(each.request, ensure_ascii=False)
            if len(text) > _SHOWN:
                case["request"] = f"{text[:_SHOWN]}… ({len(text)} characters)"
            if len(each.answer) > _SHOWN:
                case["answer"] = f"{each.answer[:_SHOWN]}… ({len(each.answer)} characters)"
        contracts.append(made)
    found = Counter(each.result for each in results)
    return {
        "url": url,
        "placet": version(),
        "counts": {result: found[result] for result in _ORDER},
        "contracts": contracts,
    }


def _junit(results: Sequence[ContractResult], url: str) -> str:
    root = ET.Element("testsuites", name="placet conformance")
    for result in results:
        cases = result.cases or (CaseResult(result.says, "", result.result, reason=result.reason),)
        failed = sum(case.result == "fail" for case in cases)
        skipped = sum(case.result == "not applicable" for case in cases)
        suite = ET.SubElement(
            root,
            "testsuite",
            name=f"{result.id} {result.says}",
            tests=str(len(cases)),
            failures=str(failed),
            skipped=str(skipped),
            errors="0",
        )
        for case in cases:
            name = f"{case.name} ({escaped(case.pod)})" if case.pod else case.name
            element = ET.SubElement(suite, "testcase", classname=result.id, name=name)
            said = escaped(case.reason)
            if case.result == "not applicable":
                ET.SubElement(element, "skipped", message=said)
            elif case.result == "fail":
                ET.SubElement(element, "failure", message=said).text = f"{case.why}\n{escaped(url)}"
            elif case.result == "warn":
                ET.SubElement(element, "system-out").text = f"warning: {said}\n{case.why}"
    return xml_text(root)


def _sarif(results: Sequence[ContractResult], url: str) -> dict[str, object]:
    """The failures and warnings as a log; their places are the URL."""
    rules = [{"id": each.id, "shortDescription": {"text": each.says}} for each in results]
    place = {"physicalLocation": {"artifactLocation": {"uri": url}}}
    found = [
        {
            "ruleId": result.id,
            "ruleIndex": index,
            "level": _LEVELS[case.result],
            "message": {"text": f"{case.name}: {case.reason}; {case.why}"},
            "locations": [place],
        }
        for index, result in enumerate(results)
        for case in result.cases
        if case.result in _LEVELS
    ]
    return sarif_log(rules, found)
