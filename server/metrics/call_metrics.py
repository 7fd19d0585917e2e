"""CallMetrics: the metrics of calls by verb, which every call adds to.

They belong to the Metrics of a server and live as long as these. prometheus-client's own counters
take a lock and four calls for each addition, which for all metrics of a call is a twentieth of its
time. So the sums are kept here as numbers, and made into metrics when they are read.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import accumulate

from prometheus_client.metrics_core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    Metric,
)
from prometheus_client.registry import Collector

from server.call import CallRecord
from server.errors import Outcome

# The buckets of kube-scheduler's own latencies, so that both fit into one panel.
BUCKETS = tuple(0.001 * 2**power for power in range(15))
_BOUNDS = (*map(str, BUCKETS), "+Inf")


@dataclass(slots=True)
class _CallSums:
    """What the calls of one verb add up to.

    `ended` has the calls by status and outcome, `lasted` the calls in each bucket of duration.
    """

    ended: Counter[tuple[int, Outcome]] = field(default_factory=Counter)
    lasted: list[int] = field(default_factory=lambda: [0] * len(_BOUNDS))
    seconds: float = 0.0
    last: float = 0.0
    offered: int = 0
    returned: int = 0
    received: int = 0
    sent: int = 0

    def below(self) -> Sequence[int]:
        """The calls that took no longer than the bound of each bucket."""
        return list(accumulate(self.lasted))


class CallMetrics(Collector):
    """The calls of all verbs. `clock` gives Unix seconds.

    The event loop adds, and another thread may read at the same time.
    """

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._verbs: dict[str, _CallSums] = {}

    def ended(self, call: CallRecord, code: int, seconds: float, sent: int) -> None:
        """Takes a call that was answered with this status and so many bytes."""
        sums = self._verbs.get(call.verb)
        if sums is None:
            sums = self._verbs[call.verb] = _CallSums()
        sums.ended[code, call.outcome] += 1
        sums.lasted[bisect_left(BUCKETS, seconds)] += 1
        sums.seconds += seconds
        if call.outcome is Outcome.ANSWERED:
            sums.last = self._clock()
        sums.offered += call.offered
        sums.returned += call.returned
        sums.received += call.received
        sums.sent += sent

    def durations(self) -> Mapping[str, Sequence[tuple[float, float]]]:
        """By verb: the upper bounds in seconds, and the calls that took no longer than each."""
        bounds = (*BUCKETS, float("inf"))
        verbs = self._verbs.copy().items()
        return {verb: list(zip(bounds, sums.below(), strict=True)) for verb, sums in verbs}

    def collect(self) -> Iterable[Metric]:
        requests = CounterMetricFamily(
            "placet_requests_total",
            "[STABLE] Calls, by HTTP status and outcome.",
            labels=["verb", "code", "outcome"],
        )
        seconds = HistogramMetricFamily(
            "placet_request_duration_seconds",
            "[STABLE] Seconds from the headers of a request to its answer; a held bind rests.",
            labels=["verb"],
        )
        last = GaugeMetricFamily(
            "placet_last_request_timestamp_seconds",
            "[BETA] Time of the last answered call; prioritize is not called if one node is left.",
            labels=["verb"],
        )
        offered = _counter("placet_nodes_offered_total", "[BETA] Nodes in requests.")
        returned = _counter(
            "placet_nodes_returned_total",
            "[BETA] Nodes that filter accepted, prioritize scored or preempt kept.",
        )
        received = _counter("placet_request_body_bytes_total", "[ALPHA] Bytes of request bodies.")
        sent = _counter("placet_response_body_bytes_total", "[ALPHA] Bytes of answer bodies.")
        for verb, sums in self._verbs.copy().items():
            for (code, outcome), number in sums.ended.copy().items():
                requests.add_metric([verb, str(code), outcome], number)
            buckets = list(zip(_BOUNDS, sums.below(), strict=True))
            seconds.add_metric([verb], buckets, sums.seconds)
            if sums.last:
                last.add_metric([verb], sums.last)
            if sums.offered:
                offered.add_metric([verb], sums.offered)
                returned.add_metric([verb], sums.returned)
            received.add_metric([verb], sums.received)
            sent.add_metric([verb], sums.sent)
        return [requests, seconds, last, offered, returned, received, sent]


def _counter(name: str, text: str) -> CounterMetricFamily:
    return CounterMetricFamily(name, text, labels=["verb"])
