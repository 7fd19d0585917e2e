"""CallTraces: the spans of calls, and which of them share a trace."""

from __future__ import annotations

import time
from uuid import UUID

import numpy as np
import pytest
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import SpanKind, StatusCode

from engine.cluster.binding import Binding
from engine.decision.journal import (
    ConcernedPolicies,
    DecisionRecord,
    RecordedNodes,
    RecordedVerdicts,
)
from engine.decision.verdict import FEASIBLE
from grammar.values.time import Timestamp
from server.call import CallRecord
from server.errors import Outcome
from server.metrics.call_traces import CallTraces
from tests.support.served import rejected

UID = "0b29ef4d-6a42-4b7a-9b2f-3d1c9a7e5f00"


def pod(uid: str) -> bytes:
    return b'{"metadata": {"name": "web-1", "namespace": "shop", "uid": "%b"}}' % uid.encode()


POD = pod(UID)
URL = "http://127.0.0.1:4318/v1/traces"


def record() -> DecisionRecord:
    """A decision about three nodes, two of which were rejected."""
    nodes = RecordedNodes(None, named=("a", "b", "c"))
    found = DecisionRecord("shop", "web-1", UID, Timestamp.now(), 1, 1, 3)
    found.policies = ConcernedPolicies("shop/web")
    codes = np.array([0, 1, 1], np.int16)
    found.answered = RecordedVerdicts(nodes, codes, (FEASIBLE, rejected("no ssd")))
    return found


class Traced:
    """The spans that a CallTraces makes of calls."""

    def __init__(self, ratio: float = 1.0, found: DecisionRecord | None = None) -> None:
        self._found = found
        self._kept = InMemorySpanExporter()
        self.traces = CallTraces(self._kept, ratio, self._find, "1.2.3", "placet-0")

    def _find(self, namespace: str, name: str) -> DecisionRecord | None:
        return self._found if (namespace, name) == ("shop", "web-1") else None

    def spans(self, *calls: CallRecord) -> list[ReadableSpan]:
        now = time.monotonic()
        for call in calls:
            call.arrived = now - 0.25
            self.traces.ended(call, 200, 0.25, now)
        # Closing sends what waits.
        self.traces.close()
        return list(self._kept.get_finished_spans())


def test_a_span_says_what_the_log_says() -> None:
    call = CallRecord("filter", 0.0, pod=POD, offered=3, returned=1)
    [span] = Traced(found=record()).spans(call)
    assert (span.name, span.kind) == ("filter", SpanKind.SERVER)
    assert dict(span.attributes or {}) == {
        "placet.verb": "filter",
        "placet.mode": "names",
        "placet.offered": 3,
        "placet.returned": 1,
        "placet.code": 200,
        "placet.outcome": "answered",
        "placet.seconds": 0.25,
        "http.response.status_code": 200,
        "k8s.namespace.name": "shop",
        "k8s.pod.name": "web-1",
        "k8s.pod.uid": UID,
        "placet.policy": "shop/web",
        "placet.rejections": ("shop/web: ssd: 2 nodes",),
    }
    assert span.status.status_code is StatusCode.UNSET
    named = span.resource.attributes
    assert (named["service.name"], named["service.version"]) == ("placet", "1.2.3")
    assert named["service.instance.id"] == "placet-0"


def test_a_span_is_as_long_as_its_call_and_ends_now() -> None:
    [span] = Traced(found=record()).spans(CallRecord("filter", 0.0, pod=POD))
    assert span.start_time is not None
    assert span.end_time is not None
    assert (span.end_time - span.start_time) / 1e9 == pytest.approx(0.25, abs=1e-6)
    assert abs(time.time_ns() - span.end_time) < 60e9


def test_the_calls_about_a_pod_share_the_trace_of_its_uid() -> None:
    calls = [CallRecord(verb, 0.0, pod=POD) for verb in ("filter", "prioritize", "preempt")]
    bind = CallRecord("bind", 0.0, binds=Binding("shop", "web-1", UID, "a"))
    spans = Traced(found=record()).spans(*calls, bind)
    assert [span.name for span in spans] == ["filter", "prioritize", "preempt", "bind"]
    assert {span.context.trace_id for span in spans if span.context} == {UUID(UID).int}
    assert len({span.context.span_id for span in spans if span.context}) == 4
    assert dict(spans[-1].attributes or {})["placet.node"] == "a"


def test_a_call_about_no_pod_has_a_trace_of_its_own() -> None:
    unread = CallRecord("filter", 0.0, pod=b"[")
    spans = Traced().spans(unread, CallRecord("validate", 0.0))
    assert len({span.context.trace_id for span in spans if span.context}) == 2


def test_a_decision_about_an_earlier_pod_of_that_name_is_not_told() -> None:
    [span] = Traced(found=record()).spans(CallRecord("filter", 0.0, pod=pod("another")))
    assert "placet.policy" not in (span.attributes or {})


def test_a_uid_that_is_no_uuid_gives_the_same_trace_each_time() -> None:
    calls = [CallRecord(verb, 0.0, pod=pod("static")) for verb in ("filter", "prioritize")]
    spans = Traced().spans(*calls)
    assert len({span.context.trace_id for span in spans if span.context}) == 1


def test_a_call_that_failed_is_an_error_with_its_text() -> None:
    call = CallRecord("filter", 0.0, outcome=Outcome.OVERLOADED, error="too many calls at once")
    [span] = Traced().spans(call)
    assert span.status.status_code is StatusCode.ERROR
    assert span.status.description == "too many calls at once"


def test_a_part_of_the_pods_has_spans_and_each_pod_all_or_none() -> None:
    kept = 0
    for number in range(100):
        uid = str(UUID(int=number))
        bind = CallRecord("bind", 0.0, binds=Binding("shop", "web-1", uid, "a"))
        spans = Traced(0.25).spans(CallRecord("filter", 0.0, pod=pod(uid)), bind)
        assert len(spans) in (0, 2)
        kept += bool(spans)
    assert 10 < kept < 45


def test_no_part_means_no_span() -> None:
    assert Traced(0.0, record()).spans(CallRecord("filter", 0.0, pod=POD)) == []
