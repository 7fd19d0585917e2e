"""Whatever the names and verdicts: answers are complete, disjoint, a subset, and JSON."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence

import msgspec
from hypothesis import example, given
from hypothesis import strategies as st

from engine.decision.preemption import Victims
from engine.decision.verdict import Decision, Feasible, Rejected, decision
from server.errors import RequestError
from server.verbs.bind import decode_binding
from server.verbs.filter import NameFragments, spelled
from server.verbs.preempt import decode_preemption, encode_preemption
from server.verbs.prioritize import encode_priorities
from server.wire import ExtenderArgs, decode_args, pod_key
from tests.support.scheduler_side import read_filter, read_scores

# JSON cannot carry a lone surrogate as UTF-8, and so no request can name a node so.
texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
names = st.lists(texts | st.sampled_from(["a", "b", "c"]), max_size=12)
verdicts = st.one_of(
    st.just(Feasible()),
    st.builds(Rejected, texts, texts, texts, st.booleans()),
    st.builds(Rejected, texts, texts, texts, error=texts),
)
json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | texts,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3),
    max_leaves=6,
)
objects = st.dictionaries(texts, json_values, max_size=3)


def judged(draw: st.DataObject, unique: Sequence[str]) -> Decision:
    return decision(draw.draw(st.lists(verdicts, min_size=len(unique), max_size=len(unique))))


def answered(args: ExtenderArgs, decided: Decision, *, resolvable: bool) -> bytes:
    return NameFragments().filter(args, decided, resolvable_rejections=resolvable)[0]


@given(names, st.booleans(), st.data())
def test_names_mode(offered: list[str], resolvable: bool, data: st.DataObject) -> None:
    """C19, C21, C22, C24."""
    args = decode_args(msgspec.json.encode({"Pod": {}, "Nodes": None, "NodeNames": offered}))
    answer = read_filter(answered(args, judged(data, args.names), resolvable=resolvable), offered)
    parts = [*answer.feasible, *answer.failed, *answer.unresolvable]
    assert len(parts) == len(set(parts))
    assert set(parts) == set(offered)
    assert resolvable or not answer.failed


@given(names, st.data())
def test_verdicts_decide(offered: list[str], data: st.DataObject) -> None:
    """A node is accepted if and only if it is feasible, and otherwise has the verdict's reason."""
    args = decode_args(msgspec.json.encode({"Pod": {}, "NodeNames": offered}))
    judgement = judged(data, args.names)
    resolvable = data.draw(st.booleans())
    answer = read_filter(answered(args, judgement, resolvable=resolvable), offered)
    failed = {**answer.failed, **answer.unresolvable}
    # Of a name that came twice the first counts.
    firsts = dict(reversed(list(zip(args.names, judgement, strict=True))))
    for name, verdict in firsts.items():
        if isinstance(verdict, Feasible):
            assert name in answer.feasible
        else:
            assert failed[name] == spelled(verdict.reason)
            kept = isinstance(verdict, Rejected) and verdict.resolvable
            assert kept or name not in answer.failed


@given(st.dictionaries(texts.filter(bool), objects, max_size=8), st.data())
def test_full_node_mode(offered: dict[str, dict[str, object]], data: st.DataObject) -> None:
    """C20: a subset of the bytes that came, in their order."""
    nodes = [{**more, "metadata": {"name": name, "labels": {}}} for name, more in offered.items()]
    request = {"Pod": {}, "Nodes": {"metadata": {}, "items": nodes}, "NodeNames": None}
    args = decode_args(msgspec.json.encode(request))
    judgement = judged(data, args.names)
    answer = answered(args, judgement, resolvable=False)
    accepted = [
        node
        for node, verdict in zip(nodes, judgement, strict=True)
        if isinstance(verdict, Feasible)
    ]
    read = read_filter(answer, None)
    assert read.feasible == accepted
    assert all(msgspec.json.encode(node) in answer for node in accepted)
    kept = {node["metadata"]["name"] for node in read.feasible}
    assert kept | read.unresolvable.keys() == set(offered)
    assert kept.isdisjoint(read.unresolvable)


@given(st.dictionaries(texts, st.integers(0, 10), max_size=12))
def test_scores(scores: dict[str, int]) -> None:
    """C25-C27: every host once, with its own score."""
    answer = encode_priorities(list(scores), list(scores.values()))
    assert read_scores(answer) == scores
    assert [host["Host"] for host in json.loads(answer)] == list(scores)


candidates = st.dictionaries(
    texts,
    st.builds(Victims, st.lists(texts.filter(bool), max_size=4), st.integers(0, 5)),
    max_size=5,
)


@given(candidates, st.booleans())
def test_victims(expected: dict[str, Victims], whole: bool) -> None:
    """C36, C39, C41: either kind of request, the same answer, in order, without a null."""
    wire = {
        node: {
            "Pods": [{"metadata": {"uid": u}} if whole else {"UID": u} for u in found.uids],
            "NumPDBViolations": found.pdb_violations,
        }
        for node, found in expected.items()
    }
    key = "NodeNameToVictims" if whole else "NodeNameToMetaVictims"
    decoded = decode_preemption(msgspec.json.encode({"Pod": {}, key: wire})).victims
    assert list(decoded.items()) == list(expected.items())
    answer = json.loads(encode_preemption(decoded))["NodeNameToMetaVictims"]
    assert list(answer) == list(expected)
    for node, found in expected.items():
        assert [pod["UID"] for pod in answer[node]["Pods"]] == list(found.uids)
        assert answer[node]["NumPDBViolations"] == found.pdb_violations


# ---- whatever a body holds: it is understood, or refused with one sentence


KEYS = (
    "Pod Nodes NodeNames items metadata name uid Pods UID NumPDBViolations Node PodName PodUID "
    "PodNamespace NodeNameToVictims NodeNameToMetaVictims"
).split()
DECODERS: tuple[Callable[[bytes], object], ...] = (decode_args, decode_preemption, decode_binding)

any_case = st.sampled_from(KEYS).flatmap(
    lambda key: st.sampled_from((key, key, key.lower(), key.upper(), key.swapcase()))
)
scalars = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=4)
values = st.recursive(
    scalars,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(any_case, inner, max_size=4),
    max_leaves=12,
)
# NaN and Infinity among them, which are no JSON although Python writes them.
near_requests = st.dictionaries(any_case, values, max_size=5).map(lambda v: json.dumps(v).encode())
cut = st.builds(lambda body, end: body[:end], near_requests, st.integers(0, 200))


@given(st.binary(max_size=64) | near_requests | cut | values.map(lambda v: json.dumps(v).encode()))
@example(b"{" * 5000)
@example(b'{"Pod":{},"Nodes":{"items":[' + b"[" * 5000)
def test_bodies_are_understood_or_refused(body: bytes) -> None:
    for decode in DECODERS:
        try:
            decode(body)
        except RequestError as error:
            text = str(error)
            assert text.startswith(("the request", "the `"))
            assert not text.endswith(".")
            assert "\n" not in text


@given(st.binary(max_size=32) | near_requests)
def test_any_pod_can_be_logged(body: bytes) -> None:
    assert isinstance(pod_key(body), str)
