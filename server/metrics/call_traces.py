"""CallTraces: a span for each call, by OpenTelemetry, in the trace of its pod.

kube-scheduler sends no context of a trace, so the id of the trace is the uid of the pod: the calls
of all verbs and of all replicas about a pod are spans of one trace. A call without a uid has a
trace of its own. A running server keeps one CallTraces if it is told to.

Importing this module needs the packages of the extra `traces`.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from hashlib import blake2b
from uuid import UUID

import numpy as np
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExporter
from opentelemetry.sdk.trace.id_generator import RandomIdGenerator
from opentelemetry.sdk.trace.sampling import ALWAYS_ON
from opentelemetry.trace import SpanKind, Status, StatusCode

from engine.decision.journal import DecisionRecord, RecordedVerdicts
from engine.decision.verdict import Feasible, HeldBack
from grammar.messages.texts import counted
from server.call import CallRecord, log_entry
from server.errors import Outcome

# Seconds for sending a batch. At the end of the server nobody waits longer.
_EXPORT_SECONDS = 5.0
# Of the clauses that rejected nodes, a span names the first.
_MOST_CLAUSES = 20

# The last decision about a pod, by its namespace and name.
Find = Callable[[str, str], DecisionRecord | None]


def exporter(url: str) -> SpanExporter:
    """What sends spans as OTLP over HTTP. OTEL_EXPORTER_OTLP_HEADERS and the like hold too."""
    return OTLPSpanExporter(endpoint=url, timeout=_EXPORT_SECONDS)


class CallTraces:
    """The traces of calls: a thread sends the spans, and drops those beyond its queue."""

    def __init__(
        self, sender: SpanExporter, ratio: float, find: Find, version: str, replica: str
    ) -> None:
        """A part `ratio` of pods, 0 to 1, has spans."""
        self._ratio = ratio
        self._find = find
        self._ids = _Ids()
        names = {
            "service.name": "placet",
            "service.version": version,
            "service.instance.id": replica,
        }
        self._provider = TracerProvider(ALWAYS_ON, Resource.create(names), id_generator=self._ids)
        self._provider.add_span_processor(BatchSpanProcessor(sender))
        self._tracer = self._provider.get_tracer("placet")

    def ended(self, call: CallRecord, code: int, seconds: float, ended: float) -> None:
        """Takes a call that was answered at a time of the monotonic clock."""
        uid = call.pod_uid
        if not _is_sampled(uid or f"{call.arrived}", self._ratio):
            return
        fields = log_entry(call, code, seconds).fields
        namespace, _, name = str(fields.get("pod", "")).partition("/")
        self._ids.trace = _trace_id(uid) if uid else None
        lasted = round((ended - call.arrived) * 1e9)
        # The clock of a span is that of the day.
        end = time.time_ns() - max(0, round((time.monotonic() - ended) * 1e9))
        span = self._tracer.start_span(
            call.verb,
            kind=SpanKind.SERVER,
            attributes={f"placet.{key}": value for key, value in fields.items() if key != "pod"},
            start_time=end - lasted,
        )
        span.set_attribute("http.response.status_code", code)
        if name:
            span.set_attribute("k8s.namespace.name", namespace)
            span.set_attribute("k8s.pod.name", name)
            span.set_attribute("k8s.pod.uid", uid)
        record = self._find(namespace, name)
        if record is not None and record.uid == uid:
            if record.policies.governing is not None:
                span.set_attribute("placet.policy", record.policies.governing)
            if call.verb == "filter" and record.answered is not None:
                span.set_attribute("placet.rejections", _rejections(record.answered))
        if call.outcome is not Outcome.ANSWERED:
            span.set_status(Status(StatusCode.ERROR, call.error))
        span.end(end)

    def close(self) -> None:
        """Sends what is left, for a few seconds at most."""
        self._provider.shutdown()


class _Ids(RandomIdGenerator):
    """Random ids, but for the trace that is set for the next span."""

    def __init__(self) -> None:
        self.trace: int | None = None

    def generate_trace_id(self) -> int:
        return super().generate_trace_id() if self.trace is None else self.trace


def _trace_id(uid: str) -> int:
    """The number of a uid, which both have 128 bits; a hash of what is no UUID."""
    try:
        return UUID(uid).int
    except ValueError:
        return int.from_bytes(_digest(uid, 16))


def _is_sampled(text: str, ratio: float) -> bool:
    """Whether a part of all texts has this one: all calls of a pod are sampled, or none."""
    return int.from_bytes(_digest(text, 8)) < ratio * 2**64


def _digest(text: str, size: int) -> bytes:
    return blake2b(text.encode(errors="surrogatepass"), digest_size=size).digest()


def _rejections(answered: RecordedVerdicts) -> list[str]:
    """`policy: clause: 12 nodes` for each reason."""
    counts = np.bincount(answered.codes, minlength=len(answered.verdicts)).tolist()
    return [
        f"{verdict.policy}: {verdict.clause}: {counted(nodes, 'node')}"
        for nodes, verdict in zip(counts, answered.verdicts, strict=True)
        if nodes and not isinstance(verdict, Feasible | HeldBack)
    ][:_MOST_CLAUSES]
