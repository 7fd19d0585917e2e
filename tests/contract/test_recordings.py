"""Recordings of kube-scheduler 1.36 in both modes: every call gets an answer that it can use."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec
import pytest
from msgspec import Raw

from engine.decision.verdict import Verdict
from server import wire
from server.verbs import preempt
from tests.support.scheduler_side import read_filter, read_scores, read_victims
from tests.support.served import Answer, Parts, TableDecider, rejected, serving

RECORDINGS = sorted((Path(__file__).parent / "recordings").rglob("*.json"))
FILTER_KEYS = ["Nodes", "NodeNames", "FailedNodes", "FailedAndUnresolvableNodes", "Error"]


class _Items(msgspec.Struct):
    items: list[Raw]


class _FullNodes(msgspec.Struct, rename="pascal"):
    nodes: _Items


@dataclass(frozen=True)
class Recording:
    """One call: `body` as kube-scheduler encoded it, and what the recorder answered."""

    verb: str
    headers: dict[str, str]
    request: dict[str, Any]
    response: Any

    @property
    def body(self) -> bytes:
        return json.dumps(self.request, separators=(",", ":"), ensure_ascii=False).encode()

    @property
    def full_nodes(self) -> bool:
        return self.request.get("Nodes") is not None

    @property
    def names(self) -> list[str]:
        if not self.full_nodes:
            return list(self.request["NodeNames"])
        return [node["metadata"]["name"] for node in self.request["Nodes"]["items"]]

    async def replay(self, decider: TableDecider) -> Answer:
        """Sends it with its own headers, except that of the length, which has its own blanks."""
        headers = {k: v for k, v in self.headers.items() if k != "Content-Length"}
        async with serving(Parts(decider)) as served:
            return await served.post(f"/api/scheduler/{self.verb}", self.body, headers)


def recorded(*verbs: str, modes: tuple[str, ...] = ("cache", "full")) -> pytest.MarkDecorator:
    """Runs a test with each recording of these verbs in these modes."""
    found = [
        path
        for path in RECORDINGS
        if path.parent.name in modes and path.stem.rpartition("-")[2] in verbs
    ]
    return pytest.mark.parametrize("recording", found, ids=lambda path: path.stem, indirect=True)


@pytest.fixture
def recording(request: pytest.FixtureRequest) -> Recording:
    path: Path = request.param
    values = json.loads(path.read_text("utf-8"))
    verb = values["path"].rpartition("/")[2]
    return Recording(verb, values["headers"], values["request"], values["response"])


def test_every_verb_was_recorded_in_both_modes() -> None:
    calls = {(path.parent.name, path.stem.rpartition("-")[2]) for path in RECORDINGS}
    verbs = ("filter", "prioritize", "preempt", "bind")
    assert calls == {(mode, verb) for mode in ("cache", "full") for verb in verbs}


@recorded("filter", "prioritize", "preempt", "bind")
def test_requests_are_as_the_contract_says(recording: Recording) -> None:
    """C1, C5, C6: no length is missing, keys are capitalised, the other side is null."""
    assert recording.headers["Content-Type"] == "application/json"
    assert recording.headers["User-Agent"].startswith("Go-http-client/")
    assert int(recording.headers["Content-Length"]) > 0
    assert all(key[0].isupper() for key in recording.request)
    if recording.verb in ("filter", "prioritize"):
        sides = [recording.request["Nodes"], recording.request["NodeNames"]]
        assert sides.count(None) == 1


@recorded("filter")
@pytest.mark.parametrize("rejects", [0, 1, 2], ids=["none", "every second", "all"])
async def test_filter(rejects: int, recording: Recording) -> None:
    """C18-C24: the answer is of the request's kind and says something of each node, once."""
    names = recording.names
    wanted = {0: [], 1: names[::2], 2: names}[rejects]
    verdicts: dict[str, Verdict] = {name: rejected("no ssd") for name in wanted}
    answer = await recording.replay(TableDecider(verdicts))
    assert list(answer.json) == FILTER_KEYS
    filtered = read_filter(answer.body, None if recording.full_nodes else names)
    kept = [name for name in names if name not in verdicts]
    if recording.full_nodes:
        nodes = recording.request["Nodes"]["items"]
        assert filtered.feasible == [n for n in nodes if n["metadata"]["name"] in kept]
    else:
        assert filtered.feasible == kept
    assert filtered.unresolvable == dict.fromkeys(wanted, "no ssd")
    assert filtered.failed == {}


@recorded("filter")
async def test_filter_as_the_recorder_answered(recording: Recording) -> None:
    """The recorder let every node pass, and kube-scheduler went on."""
    answer = (await recording.replay(TableDecider())).json
    for key in ("Nodes", "NodeNames"):
        assert answer[key] == recording.response.get(key)


@recorded("filter", modes=("full",))
async def test_full_nodes_come_back_byte_for_byte(recording: Recording) -> None:
    """C20: whatever the answer loses is lost to kube-scheduler's own scores."""
    answer = await recording.replay(TableDecider())
    sent = msgspec.json.decode(recording.body, type=_FullNodes).nodes.items
    received = msgspec.json.decode(answer.body, type=_FullNodes).nodes.items
    assert [bytes(node) for node in received] == [bytes(node) for node in sent]


@recorded("prioritize")
async def test_prioritize(recording: Recording) -> None:
    """C25-C27: every host once, as an integer."""
    scores = {name: number % 11 for number, name in enumerate(recording.names)}
    answer = await recording.replay(TableDecider(scores=scores))
    assert read_scores(answer.body) == scores
    assert [host["Host"] for host in answer.json] == recording.names


@recorded("preempt")
async def test_preempt(recording: Recording) -> None:
    """C36-C41: the answer that the recorder gave, and with which kube-scheduler evicted."""
    answer = await recording.replay(TableDecider())
    assert answer.json == recording.response
    nodes = recording.response["NodeNameToMetaVictims"]
    assert list(answer.json["NodeNameToMetaVictims"]) == list(nodes)
    known = {node: {pod["UID"] for pod in found["Pods"]} for node, found in nodes.items()}
    kept = read_victims(answer.status, answer.body, known)
    assert {node: set(uids) for node, uids in kept.items()} == known


@recorded("bind")
async def test_bind(recording: Recording) -> None:
    """C44: no success without a binding."""
    answer = await recording.replay(TableDecider())
    assert answer.status == 200
    assert answer.json.keys() == {"Error"}
    assert answer.json["Error"]


@recorded("filter", "prioritize", "preempt")
async def test_the_case_of_keys_does_not_matter(recording: Recording) -> None:
    """C5: the answer to lower case is the same."""
    decider = TableDecider(scores=dict.fromkeys("ab", 1))
    lower = {key.lower(): value for key, value in recording.request.items()}
    respelled = Recording(recording.verb, recording.headers, lower, recording.response)
    assert await body_of(respelled, decider) == await body_of(recording, decider)


async def body_of(recording: Recording, decider: TableDecider) -> bytes:
    return (await recording.replay(decider)).body


@recorded("filter", "prioritize")
def test_nothing_is_lost_in_decoding(recording: Recording) -> None:
    args = wire.decode_args(recording.body)
    assert json.loads(args.pod) == recording.request["Pod"]
    assert list(args.names) == recording.names
    if recording.full_nodes:
        assert [json.loads(node) for node in args.nodes or ()] == recording.request["Nodes"][
            "items"
        ]


@recorded("preempt")
def test_an_answer_to_preempt_reads_back(recording: Recording) -> None:
    args = preempt.decode_preemption(recording.body)
    answer = json.loads(preempt.encode_preemption(args.victims))
    again = preempt.decode_preemption(msgspec.json.encode({"Pod": {}, **answer}))
    assert again.victims == args.victims
