"""The verbs over HTTP: calls of the decider, and the answers for its results and errors."""

from __future__ import annotations

import json
import logging
import time

import msgspec
import pytest

from engine.decision.verdict import Decision, Scores
from engine.errors import BadObjectError, DeadlineExceededError, EngineError, NotSyncedError
from server.settings import Settings
from server.verbs.bind import encode_binding
from server.verbs.filter import encode_filter_error
from tests.server.conftest import Serve
from tests.support.rows import rows
from tests.support.scheduler_side import ExtenderFailedError, read_filter, read_scores
from tests.support.served import (
    POD,
    RefusingBinder,
    TableDecider,
    names_request,
    nodes_request,
    rejected,
)

KEYS = ["Nodes", "NodeNames", "FailedNodes", "FailedAndUnresolvableNodes", "Error"]
REJECTING = {"b": rejected("full", resolvable=True), "c": rejected("no ssd")}
ENGINE_ERRORS = {
    "not_synced": NotSyncedError("the view of the cluster is not complete yet"),
    "deadline": DeadlineExceededError("the decision took longer than the request may"),
    "bad_object": BadObjectError("the pod is not an object"),
    "undecided": EngineError("rejected too often in a row"),
}


class ShortDecider(TableDecider):
    """A decider whose answers lack the last node."""

    def filter(self, *args: object) -> Decision:
        decided = super().filter(*args)  # type: ignore[arg-type]
        return Decision(decided.codes[:-1], decided.verdicts)

    def prioritize(self, *args: object) -> Scores:
        scores = super().prioritize(*args)  # type: ignore[arg-type]
        assert scores is not None
        return Scores(scores.points[:-1])


async def test_the_decider_gets_the_request_as_it_came(serve: Serve) -> None:
    decider = TableDecider()
    served = await serve(decider=decider)
    await served.post("/filter", names_request("a", "b"))
    await served.post("/prioritize", nodes_request("a"))
    names, nodes = decider.calls
    assert (names.verb, list(names.names), names.nodes) == ("filter", ["a", "b"], None)
    assert json.loads(names.pod) == POD
    assert (nodes.verb, nodes.names) == ("prioritize", ["a"])
    assert nodes.nodes == [b'{"metadata":{"name":"a"},"status":{}}']


async def test_the_deadline_leaves_time_for_the_answer(serve: Serve) -> None:
    """C2."""
    decider = TableDecider()
    served = await serve(decider=decider, settings=Settings(http_timeout=10.0))
    before = time.monotonic()
    await served.post("/filter", names_request("a"))
    after = time.monotonic()
    assert before + 8.0 <= decider.calls[0].deadline <= after + 8.0


async def test_filter_answers_in_the_mode_of_the_request(serve: Serve) -> None:
    """C21, C24."""
    served = await serve(decider=TableDecider(verdicts=REJECTING))
    unresolvable = {"b": "full", "c": "no ssd"}
    names = (await served.post("/filter", names_request("a", "b", "c", "d"))).json
    assert list(names) == KEYS
    assert list(names.values()) == [None, ["a", "d"], {}, unresolvable, ""]
    nodes = (await served.post("/filter", nodes_request("a", "b", "c", "d"))).json
    assert [node["metadata"]["name"] for node in nodes["Nodes"]["items"]] == ["a", "d"]
    assert list(nodes.values())[1:] == [None, {}, unresolvable, ""]


async def test_a_single_node(serve: Serve) -> None:
    """C13, C29: kube-scheduler filters a nominated node alone; prioritize may not follow."""
    decider = TableDecider(verdicts=REJECTING)
    served = await serve(decider=decider)
    assert (await served.post("/filter", names_request("b"))).json["NodeNames"] == []
    assert (await served.post("/filter", names_request("a"))).json["NodeNames"] == ["a"]


async def test_no_text_is_the_format_of_an_event(serve: Serve) -> None:
    """C23: of `40% full` kube-scheduler would make `40%!f(MISSING)ull`."""
    decider = TableDecider(verdicts={"a": rejected("40% full, 7 % free")})
    answer = (await (await serve(decider=decider)).post("/filter", names_request("a"))).json
    assert answer["FailedAndUnresolvableNodes"] == {"a": "40 percent full, 7 percent free"}
    assert b"at 5 percent" in encode_filter_error("at 5%")
    assert b"at 5 percent" in encode_binding("at 5%")


async def test_equal_requests_have_equal_answers(serve: Serve) -> None:
    """C23, C47: if a reason changes, kube-scheduler tries the pod again at once."""
    served = await serve(decider=TableDecider(verdicts=REJECTING))
    answers = {(await served.post("/filter", names_request("b", "c"))).body for _ in range(3)}
    assert len(answers) == 1


async def test_resolvable_rejections_only_on_request(serve: Serve) -> None:
    """C48."""
    settings = Settings(resolvable_rejections=True)
    served = await serve(decider=TableDecider(verdicts=REJECTING), settings=settings)
    answer = (await served.post("/filter", names_request("a", "b", "c"))).json
    assert answer["FailedNodes"] == {"b": "full"}
    assert answer["FailedAndUnresolvableNodes"] == {"c": "no ssd"}


async def test_every_host_is_scored_once(serve: Serve) -> None:
    """C25-C27."""
    served = await serve(decider=TableDecider(scores={"a": 10, "b": 0}))
    answer = await served.post("/prioritize", names_request("b", "a", "b"))
    assert answer.body == b'[{"Host":"b","Score":0},{"Host":"a","Score":10}]'
    assert read_scores(answer.body) == {"a": 10, "b": 0}
    nodes = await served.post("/prioritize", nodes_request("a", "b"))
    assert read_scores(nodes.body) == {"a": 10, "b": 0}


async def test_without_scores_the_answer_is_empty(serve: Serve) -> None:
    """C25."""
    served = await serve(decider=TableDecider(scores=None))
    assert (await served.post("/prioritize", names_request("a"))).body == b"[]"


@pytest.mark.parametrize("outcome", ENGINE_ERRORS)
async def test_no_decision_is_an_error_and_no_rejection(outcome: str, serve: Serve) -> None:
    """C18, C30: the pod is tried again with backoff, and nothing is evicted for it."""
    error = ENGINE_ERRORS[outcome]
    served = await serve(decider=TableDecider(error=error))
    for request in (names_request("a"), nodes_request("a")):
        answer = await served.post("/filter", request)
        assert answer.status == 200
        assert list(answer.json.values()) == [None, None, {}, {}, f"placet: {error}"]
        with pytest.raises(ExtenderFailedError, match=str(error)):
            read_filter(answer.body, ["a"])
    assert served.calls("filter", outcome) == 2


@pytest.mark.parametrize("outcome", ENGINE_ERRORS)
async def test_no_scores_because_of_an_error(
    outcome: str, serve: Serve, caplog: pytest.LogCaptureFixture
) -> None:
    """C28: kube-scheduler ignores it, so it is counted and logged."""
    served = await serve(decider=TableDecider(error=ENGINE_ERRORS[outcome]))
    answer = await served.post("/prioritize", names_request("a"))
    assert (answer.status, answer.body) == (200, b"[]")
    assert served.calls("prioritize", outcome) == 1
    (line,) = caplog.messages
    assert f'outcome="{outcome}"' in line
    assert str(ENGINE_ERRORS[outcome]) in line


@pytest.mark.parametrize(
    "decider",
    [
        TableDecider(error=KeyError("a secret")),
        TableDecider(error=RecursionError()),
        ShortDecider(scores={"a": 1}),
    ],
    ids=["exception", "recursion", "wrong length"],
)
async def test_an_internal_error_is_an_answer(
    decider: TableDecider, serve: Serve, caplog: pytest.LogCaptureFixture
) -> None:
    """C3: kube-scheduler would drop the text of a status 500."""
    served = await serve(decider=decider)
    filtered = await served.post("/filter", names_request("a", "b"))
    assert filtered.status == 200
    assert filtered.json["Error"].startswith("placet: internal error")
    assert "secret" not in filtered.json["Error"]
    scored = await served.post("/prioritize", names_request("a", "b"))
    assert (scored.status, scored.body) == (200, b"[]")
    assert len([record for record in caplog.records if record.exc_info]) == 2


@pytest.mark.parametrize("mode", ["meta", "whole"])
async def test_preempt_keeps_every_candidate(mode: str, serve: Serve) -> None:
    """C36, C41."""
    pods = [{"UID": "u2"}, {"UID": "u1"}]
    whole = [{"metadata": {"uid": "u2"}}, {"metadata": {"uid": "u1"}}]
    request = {
        "Pod": POD,
        "NodeNameToVictims": {"n2": {"Pods": whole, "NumPDBViolations": 1}},
        "NodeNameToMetaVictims": None,
    }
    if mode == "meta":
        request["NodeNameToVictims"] = None
        request["NodeNameToMetaVictims"] = {"n2": {"Pods": pods, "NumPDBViolations": 1}}
    answer = await (await serve()).post("/preempt", request)
    expected = {"NodeNameToMetaVictims": {"n2": {"Pods": pods, "NumPDBViolations": 1}}}
    assert (answer.status, answer.json) == (200, expected)


BINDING = {"PodName": "p", "PodNamespace": "d", "PodUID": "u", "Node": "n"}


@pytest.mark.parametrize("path", ["/bind", "/api/scheduler/bind/"])
async def test_bind_does_not_exist_unless_it_is_asked_for(
    path: str, serve: Serve, caplog: pytest.LogCaptureFixture
) -> None:
    """Each call is counted, and the first one is in the log."""
    caplog.set_level(logging.INFO, "placet")
    served = await serve(binder=None)
    for _ in range(3):
        answer = await served.post(path, BINDING)
        assert answer.status == 200
        text = answer.json["Error"]
        assert text == (
            "placet: this server binds no pods: start `placet serve` with --bind, or remove"
            " `bindVerb` from kube-scheduler's configuration"
        )
    assert served.calls("bind", "unsupported") == 3
    (line,) = caplog.messages
    assert line == f'{text} verb="bind"'


@pytest.mark.parametrize(
    ("field", "name", "kind"),
    [
        ("PodNamespace", "../../../../api/v1/nodes/n?x=", "namespace"),
        ("PodNamespace", "a.b", "namespace"),
        ("PodName", "../../../nodes/n?x=", "pod"),
        ("PodName", "..", "pod"),
        ("PodName", "p/binding", "pod"),
        ("PodName", "p%2f", "pod"),
        ("PodName", "p\n", "pod"),
        ("PodName", "P", "pod"),
        ("Node", "n#", "node"),
        ("Node", "n" * 254, "node"),
    ],
)
async def test_bind_takes_only_names_of_objects(
    serve: Serve, field: str, name: str, kind: str
) -> None:
    binder = RefusingBinder("it was asked")
    served = await serve(binder=binder)
    answer = await served.post("/bind", {**BINDING, field: name})
    assert answer.status == 200
    assert answer.json["Error"].endswith(f"` is not the name of a {kind}")


async def test_a_refused_binding_is_counted_and_logged(
    serve: Serve, caplog: pytest.LogCaptureFixture
) -> None:
    served = await serve(binder=RefusingBinder("the pod is gone"))
    answer = await served.post("/bind", BINDING)
    assert (answer.status, answer.json) == (200, {"Error": "placet: the pod is gone"})
    assert served.calls("bind", "refused") == 1
    (line,) = caplog.messages
    assert 'pod="d/p" node="n"' in line
    assert line.endswith('err="placet: the pod is gone"')


async def test_a_refusal_without_a_text_is_no_success(serve: Serve) -> None:
    """C44: the message of a `bind` clause may be empty, and an empty `Error` means bound."""
    answer = await (await serve(binder=RefusingBinder(""))).post("/bind", BINDING)
    assert answer.json == {"Error": "placet: no reason is given"}


BAD_BODIES = {
    "empty": b"",
    "no json": b"hello",
    "cut off": b'{"Pod":{"metadata":{}},"NodeN',
    "null": b"null",
    "no pod": msgspec.json.encode({"NodeNames": ["a"]}),
    "no nodes": msgspec.json.encode({"Pod": {}, "Nodes": None, "NodeNames": None}),
    "no items": msgspec.json.encode({"Pod": {}, "Nodes": {"metadata": {}}}),
    "not a number": b'{"Pod":{"spec":{"priority":NaN}},"NodeNames":["a"],"PodName":NaN}',
    "deep": b'{"Pod":' + b'{"a":' * 200_000,
    "wide": b"[" * 1_000_000,
}


@rows("body", BAD_BODIES)
async def test_bad_requests_are_answered(body: bytes, serve: Serve) -> None:
    """C3, C37: 200 with `Error` where there is such a field, 400 where there is none."""
    served = await serve(decider=TableDecider(scores={"a": 1}))
    for _ in range(2):
        filtered = await served.post("/filter", body)
        assert filtered.status == 200
        assert list(filtered.json) == KEYS
        assert filtered.json["Error"]
        scored = await served.post("/prioritize", body)
        assert (scored.status, scored.body) == (200, b"[]")
        bound = await served.post("/bind", body)
        assert bound.status == 200
        assert bound.json["Error"]
        preempted = await served.post("/preempt", body)
        assert preempted.status == 400
        assert preempted.text.startswith("placet: the request ")
    good = await served.post("/filter", names_request("a"))
    assert good.json["NodeNames"] == ["a"]
    assert served.calls("filter", "bad_request") == 2


@pytest.mark.parametrize("encoding", ["gzip", "deflate", "br", "zstd", "gzip, identity"])
@pytest.mark.parametrize("verb", ["filter", "prioritize", "preempt", "bind"])
async def test_compressed_bodies_are_refused(verb: str, encoding: str, serve: Serve) -> None:
    served = await serve()
    answer = await served.post(f"/{verb}", b"\x1f\x8b garbage", {"Content-Encoding": encoding})
    assert answer.status == 415
    assert answer.text == "the body must not be compressed\n"
    assert served.calls(verb, "encoded_body", 415) == 1


async def test_identity_is_not_compression(serve: Serve) -> None:
    served = await serve()
    headers = {"Content-Encoding": "Identity", "Content-Type": "text/plain"}
    answer = await served.post("/filter", names_request("a"), headers)
    assert answer.json["NodeNames"] == ["a"]


async def test_answers_are_not_compressed(serve: Serve) -> None:
    """Compressing takes longer than sending over loopback."""
    headers = {"Accept-Encoding": "gzip"}
    answer = await (await serve()).post("/filter", names_request("a"), headers)
    assert "Content-Encoding" not in answer.headers
    assert answer.headers["Content-Type"] == "application/json"
