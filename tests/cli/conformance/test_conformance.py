"""`placet conformance`: an extender that keeps the contract passes, and each defect is found."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from aiohttp import web
from pytest_aiohttp import AiohttpServer

from cli.command import CommandError
from cli.conformance.api_server import stand_in_api
from cli.conformance.exchange import Caller, Verb, contracts, decoded, own_cluster, read_cluster
from cli.conformance.run import EXPECTATIONS, Conformance, ContractResult, counts
from cli.main import main
from cli.render import render
from tests.cli.conformance.stub_extender import (
    Defect,
    StubExtender,
    after,
    changed,
    counting,
    each_candidate,
    each_score,
    errors_are,
    one_by_one_only,
    refusing_above,
    unknown_nodes_are,
    with_status,
    without_fields,
)

VERBS: Sequence[Verb] = ("filter", "prioritize", "preempt", "bind")
ROOT = Path(__file__).parents[3]


async def held(
    aiohttp_server: AiohttpServer,
    *,
    names: bool,
    only: Sequence[str] = (),
    verbs: Sequence[Verb] = VERBS,
    defects: Mapping[str, Defect] | None = None,
) -> dict[str, ContractResult]:
    """The results by line of the contract, of an extender with these defects."""
    cluster = own_cluster()
    async with stand_in_api(cluster) as api, aiohttp.ClientSession() as session:
        server = await aiohttp_server(StubExtender(api.url, **(defects or {})).app())
        url = str(server.make_url("")).rstrip("/")
        caller = Caller(session, url, dict(zip(verbs, verbs, strict=True)), 5.0, None)
        run = Conformance(caller, cluster, api, names=names, idle_seconds=0.05, seen_seconds=0)
        return {each.id: each async for each in run.results(only, lambda _: None)}


def faulty(results: dict[str, ContractResult]) -> dict[str, str]:
    """What did not hold, and how badly."""
    return {each.id: each.result for each in results.values() if each.result in ("fail", "warn")}


@pytest.mark.parametrize("names", [True, False], ids=["names", "objects"])
async def test_a_good_extender_passes(aiohttp_server: AiohttpServer, names: bool) -> None:
    results = await held(aiohttp_server, names=names)
    assert faulty(results) == {}
    assert sum(each.result == "pass" for each in results.values()) >= 35


DEFECTS: Sequence[tuple[str, str, bool, dict[str, Defect]]] = (
    ("C1", "fail", True, {"filter": with_status(307)}),
    ("C1", "fail", True, {"filter": with_status(500)}),
    ("C1", "fail", True, {"prioritize": with_status(200, "")}),
    ("C3", "fail", True, {"filter": unknown_nodes_are(404)}),
    ("C4", "fail", True, {"filter": after(1, '{"NodeNames":[]} {}')}),
    ("C7", "fail", False, {"filter": refusing_above(10 << 20)}),
    ("C9", "warn", True, {"filter": changed(Error="the pod asks for nothing")}),
    ("C12", "warn", True, {"filter": one_by_one_only}),
    ("C19", "fail", True, {"filter": changed(NodeNames=["another"])}),
    ("C20", "fail", False, {"filter": changed(Nodes={"items": [{"metadata": {"name": "new"}}]})}),
    ("C20", "warn", False, {"filter": without_fields}),
    ("C21", "fail", True, {"filter": changed(NodeNames=None)}),
    ("C22", "warn", True, {"filter": changed(FailedAndUnresolvableNodes={})}),
    ("C22", "fail", True, {"filter": changed(FailedNodes={"conformance-1": "odd"})}),
    ("C23", "warn", True, {"filter": changed(FailedAndUnresolvableNodes={"conformance-1": ""})}),
    ("C24", "warn", True, {"filter": changed(FailedAndUnresolvableNodes={"who": "it is odd"})}),
    ("C1", "fail", True, {"prioritize": lambda _, __: {"Host": "x"}}),
    ("C1", "fail", True, {"prioritize": each_score(float)}),
    ("C25", "warn", True, {"prioritize": lambda _, __: [{"Host": "who", "Score": 1}]}),
    ("C4", "fail", True, {"bind": changed(Error=False)}),
    ("C27", "fail", True, {"prioritize": each_score(lambda score: score + 100)}),
    ("C36", "fail", True, {"preempt": lambda _, __: {"NodeNameToVictims": {}}}),
    ("C37", "fail", True, {"preempt": changed(Error="no")}),
    ("C38", "fail", True, {"preempt": each_candidate(lambda _: {"Pods": [{"UID": "who"}]})}),
    ("C39", "fail", True, {"preempt": each_candidate(lambda _: None)}),
    ("C40", "fail", True, {"preempt": each_candidate(lambda each: each | {"Pods": []})}),
    ("C41", "fail", True, {"preempt": each_candidate(lambda e: e | {"NumPDBViolations": 7})}),
    ("C3", "warn", True, {"bind": errors_are(500)}),
    ("C44", "fail", True, {"bind": changed(Error="")}),
    ("C44", "fail", True, {"bind": changed(Error="busy")}),
    ("C47", "fail", True, {"filter": counting()}),
    ("C48", "warn", True, {"filter": changed(FailedNodes={"conformance-1": "it is odd"})}),
    ("C51", "warn", True, {"prioritize": lambda _, answer: answer[1:]}),
)


@pytest.mark.parametrize(
    ("line", "result", "names", "defects"),
    DEFECTS,
    ids=[f"{d[0]}-{n}" for n, d in enumerate(DEFECTS)],
)
async def test_a_defect_is_found(
    aiohttp_server: AiohttpServer,
    line: str,
    result: str,
    names: bool,
    defects: dict[str, Defect],
) -> None:
    found = await held(aiohttp_server, names=names, only=[line], defects=defects)
    assert faulty(found) == {line: result}
    findings = [each for each, _ in found[line].findings]
    assert findings
    assert all(each.message.partition(": ")[2] and all(each.notes) for each in findings)


@pytest.mark.parametrize(
    ("verb", "answer", "malformed"),
    [
        ("filter", '{"nodenames": null, "Other": 1, "error": null}', ""),
        ("filter", '{"NodeNames": {}}', "`NodeNames` is an object in place of an array"),
        ("filter", '{"nodeNames": ["a", 1]}', "`nodeNames[1]` is an integer in place of a text"),
        ("filter", '{"FailedNodes": []}', "`FailedNodes` is an array in place of an object"),
        (
            "filter",
            '{"FailedAndUnresolvableNodes": {"a.b": true}}',
            "`FailedAndUnresolvableNodes.a.b` is a boolean in place of a text",
        ),
        ("filter", '{"Nodes": []}', "`Nodes` is an array in place of an object"),
        (
            "filter",
            '{"Nodes": {"items": [{"metadata": {"labels": {"a": 1}}}]}}',
            "`Nodes.items[0].metadata.labels.a` is an integer in place of a text",
        ),
        ("filter", "[]", "the answer is an array in place of an object"),
        ("prioritize", "null", ""),
        ("prioritize", '[null, {"host": "a", "score": 5}]', ""),
        (
            "prioritize",
            '[{"Host": "a", "Score": 5.0}]',
            "`[0].Score` is a number that is no integer in place of an integer",
        ),
        ("prioritize", '[{"Host": 7}]', "`[0].Host` is an integer in place of a text"),
        (
            "preempt",
            '{"NodeNameToMetaVictims": {"n": {"Pods": [null, {"UID": 1}]}}}',
            "`NodeNameToMetaVictims.n.Pods[1].UID` is an integer in place of a text",
        ),
        ("bind", '{"Error": {}}', "`Error` is an object in place of a text"),
        ("prioritize", '[{"Score": 9223372036854775807}]', ""),
        (
            "prioritize",
            '[{"Score": 9223372036854775808}]',
            "`[0].Score` is an integer of more than 64 bits",
        ),
        ("filter", '{"Nodes": {"kind": 3}}', "`Nodes.kind` is an integer in place of a text"),
        ("filter", '{"Nodes": {"items": [{"status": {"capacity": {"cpu": 4, "a": 1.5}}}]}}', ""),
        (
            "filter",
            '{"Nodes": {"items": [{"status": {"allocatable": []}}]}}',
            "`Nodes.items[0].status.allocatable` is an array in place of an object",
        ),
        (
            "filter",
            '{"Nodes": {"items": [{"status": {"allocatable": {"cpu": {}}}}]}}',
            "`Nodes.items[0].status.allocatable.cpu` is an object in place of a quantity",
        ),
        (
            "filter",
            '{"Nodes": {"items": [{"spec": {"unschedulable": "true"}}]}}',
            "`Nodes.items[0].spec.unschedulable` is a text in place of a boolean",
        ),
    ],
)
def test_answers_are_decoded_by_the_types_of_go(verb: str, answer: str, malformed: str) -> None:
    assert decoded(verb, answer.encode())[1] == malformed


async def test_a_rejected_stranger_is_not_taken_for_an_accepted_one(
    aiohttp_server: AiohttpServer,
) -> None:
    """kube-scheduler fails the attempt for the one, and does not look at the other."""
    defects = {"filter": changed(FailedAndUnresolvableNodes={"who": "it is odd"})}
    found = await held(aiohttp_server, names=True, only=["C19", "C24"], defects=defects)
    assert faulty(found) == {"C24": "warn"}


async def test_a_verb_without_answers_is_told_once(aiohttp_server: AiohttpServer) -> None:
    found = await held(aiohttp_server, names=True, defects={"filter": with_status(404)})
    assert faulty(found) == {"C1": "fail"}
    assert found["C19"].reason == "`filter` is not answered, see C1"
    assert found["C26"].result == "pass"


async def test_a_verb_that_is_not_asked_does_not_apply(aiohttp_server: AiohttpServer) -> None:
    found = await held(aiohttp_server, names=True, only=["C26"], verbs=["filter"])
    assert found["C26"].result == "not applicable"
    assert found["C26"].reason == "`prioritize` is not asked"


def test_every_line_of_the_contract_has_cases_or_a_reason() -> None:
    page = (ROOT / "docs/extender.md").read_text("utf-8")
    lines = sorted(set(re.findall(r"^- \*\*(C\d+)\*\*", page, re.MULTILINE)))
    known = {each.id: each for each in contracts()}
    assert len(lines) == page.count("\n- **C"), "a number stands twice"
    assert set(lines) - {"C52", "C54", "C55"} == known.keys()
    assert all(bool(each.cases) != bool(each.not_applicable) for each in known.values())


def test_every_expectation_is_used_and_every_name_is_one() -> None:
    named = {name for each in contracts() for case in each.cases for name in case.expect}
    assert named | {"answered"} == EXPECTATIONS.keys()


async def test_documents(aiohttp_server: AiohttpServer) -> None:
    found = await held(
        aiohttp_server,
        names=True,
        only=["C16", "C21", "C26"],
        defects={"filter": changed(NodeNames=None)},
    )
    results = list(found.values())
    assert counts(results) == "1 passed, 1 failed, 0 with warnings, 1 not applicable"
    (finding,) = (each for result in results for each in result.findings)
    assert (finding[0].code, finding[0].severity) == ("C21", "error")
    assert str(finding[1]).endswith(": filter about default/pending")
    sarif = json.loads("".join(render([finding], "sarif")))
    assert [each["ruleId"] for each in sarif["runs"][0]["results"]] == ["C21"]
    junit = "".join(render([], "junit", (c for each in results for c in each.cases)))
    assert junit.count("<failure") == 1
    assert junit.count("<skipped") == 1


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["127.0.0.1:1"], "`127.0.0.1:1` is not a URL"),
        (["http://127.0.0.1:1"], "nothing answers at `http://127.0.0.1:1`"),
        (
            ["http://127.0.0.1:1", "--start", "no-such-program"],
            "`no-such-program` cannot be started",
        ),
    ],
)
def test_what_cannot_be_asked(
    arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["conformance", *arguments]) == 2
    assert message in capsys.readouterr().err


async def test_some_lines_of_a_server_that_answers_nothing_are_no_success(
    aiohttp_server: AiohttpServer,
) -> None:
    server = await aiohttp_server(web.Application())
    url = str(server.make_url(""))
    assert await asyncio.to_thread(main, ["conformance", url, "--only", "C21"]) == 1


@pytest.mark.parametrize("text", ["[]", "42", '{"kind": "List", "items": [null]}'])
def test_a_file_that_is_no_cluster(
    text: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "c.json"
    file.write_text(text, encoding="utf-8")
    assert main(["conformance", "http://127.0.0.1:1", "--cluster", str(file)]) == 2
    assert f"`{file}` is not a cluster file" in capsys.readouterr().err


def test_what_files_lack_is_that_of_the_kit(tmp_path: Path) -> None:
    file, own = tmp_path / "pod.json", own_cluster()
    asked = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a"}, "spec": {}}
    file.write_text(json.dumps(asked), encoding="utf-8")
    found = read_cluster([file])
    assert [pod["metadata"]["name"] for pod in found.pods] == ["a"]
    assert (found.nodes, found.bound) == (own.nodes, own.bound)
    file.write_text('{"kind": "List", "items": []}', encoding="utf-8")
    with pytest.raises(CommandError, match="have no nodes and no pods"):
        read_cluster([file])


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--verbs", "filtr"], "there is no verb `filtr`: a similar one exists: `filter`"),
        (["--only", "C-9"], "there is no line `C-9`: they are C1 to C51"),
    ],
)
def test_arguments_that_are_wrong(
    arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit):
        main(["conformance", "http://127.0.0.1:1", *arguments])
    assert message in capsys.readouterr().err


async def test_the_stand_in_shows_new_pods_to_watches() -> None:
    async with stand_in_api(own_cluster()) as api, aiohttp.ClientSession() as session:
        query = "watch=true&sendInitialEvents=true"
        async with session.get(f"{api.url}/api/v1/pods?{query}") as watch:
            lines: list[Any] = [json.loads(await watch.content.readline()) for _ in range(5)]
            assert [each["type"] for each in lines] == ["ADDED"] * 4 + ["BOOKMARK"]
            pod = {"metadata": {"name": "new", "namespace": "default", "uid": "1"}, "spec": {}}
            api.add("pods", pod)
            assert json.loads(await watch.content.readline())["object"]["metadata"]["name"] == "new"
        async with session.get(f"{api.url}/apis/x/v1/namespaces/a/things/b") as response:
            assert response.status == web.HTTPNotFound.status_code
