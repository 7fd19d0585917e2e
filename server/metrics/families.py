"""Families: the metrics of a server in a table, and samples made into what a scrape reads.

The text of a family begins with its stability, as in Kubernetes' components: an ALPHA metric may
change or go, a BETA metric may get labels, and a STABLE metric stays the same.

INVARIANT: no label holds the name of a pod or a node, and pairs of names from policies are bounded.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Iterable, Mapping, Sequence
from itertools import accumulate

from prometheus_client.metrics_core import Metric

# What each metric counts, by its name and labels. A name with `_total` is that of a counter.
TABLE = {
    # ---- calls
    "placet_requests_total{verb,code,outcome}": "[STABLE] Calls, by HTTP status and outcome.",
    "placet_request_duration_seconds{verb}": (
        "[STABLE] Seconds from the headers of a request to its answer; a held bind rests."
    ),
    "placet_last_request_timestamp_seconds{verb}": (
        "[BETA] Time of the last answered call; prioritize is not called if one node is left."
    ),
    "placet_nodes_offered_total{verb}": "[BETA] Nodes in requests.",
    "placet_nodes_returned_total{verb}": (
        "[BETA] Nodes that filter accepted, prioritize scored or preempt kept."
    ),
    "placet_request_body_bytes_total{verb}": "[ALPHA] Bytes of request bodies.",
    "placet_response_body_bytes_total{verb}": "[ALPHA] Bytes of answer bodies.",
    "placet_requests_in_flight{verb}": "[BETA] Calls in progress.",
    "placet_full_node_requests_total{verb}": (
        "[ALPHA] Requests of kube-scheduler with whole nodes, which make its own scores wrong."
    ),
    "placet_sampled_requests_total": (
        "[ALPHA] Requests with as many nodes as kube-scheduler samples."
    ),
    # ---- decisions
    "placet_rejections_total{policy,clause}": "[BETA] Rejected nodes.",
    "placet_held_back_nodes_total{policy,clause}": (
        "[ALPHA] Nodes that the clauses allow and that were left to other pods that wait."
    ),
    "placet_audit_rejections_total{policy,clause}": (
        "[ALPHA] Nodes that a policy in audit mode would have rejected."
    ),
    "placet_evaluation_errors_total{policy,clause}": (
        "[BETA] Calls in which a clause could not be evaluated."
    ),
    "placet_policy_conflicts_total{winner,loser}": (
        "[ALPHA] Calls in which two policies selected the pod and one of them was not applied."
    ),
    "placet_expensive_policies_total{policy}": (
        "[BETA] Calls without a decision because a policy took too much time."
    ),
    "placet_policy_seconds_total{policy}": (
        "[ALPHA] Processor time charged to a policy, of calls that took it more than 0.1 ms."
    ),
    "placet_background_gave_up_total{work}": (
        "[ALPHA] Pieces of work that nobody waits for and that took too long."
    ),
    "placet_bypasses_total": (
        "[BETA] Filter calls for pods that bypass all policies by their annotation."
    ),
    "placet_victims_offered_total": "[ALPHA] Victims in preempt requests, on all their nodes.",
    "placet_victims_returned_total": "[ALPHA] Victims in preempt answers, on all their nodes.",
    "placet_scores": "[ALPHA] Scores of asked nodes, 0 to 10.",
    # ---- the server
    "placet_build_info{version}": "[STABLE] Always 1.",
    "placet_admissions_total{verb,operation,allowed}": (
        "[ALPHA] Objects reviewed by the admission webhooks."
    ),
    "placet_connections_refused_total{reason}": (
        "[ALPHA] Connections that were not let in or were closed, by reason."
    ),
    "placet_bodies_held_bytes": "[ALPHA] Bytes of request bodies and of unsent answers in memory.",
    "placet_body_budget_bytes": (
        "[ALPHA] The most bytes of bodies and of unsent answers: --body-budget."
    ),
    "placet_http_timeout_seconds": (
        "[BETA] The httpTimeout of kube-scheduler, as Placet was told: --http-timeout."
    ),
    "placet_max_in_flight": "[ALPHA] The most calls of kube-scheduler at once: --max-in-flight.",
    "placet_cache_new_pod_lag_seconds": (
        "[ALPHA] Seconds from the creation of a pod, in whole seconds, to its first event."
    ),
    "placet_tls_certificate_expiry_timestamp_seconds{file}": (
        "[BETA] Time at which the certificate for new connections expires."
    ),
    "placet_tls_handshake_failures_total": "[ALPHA] Failed TLS handshakes.",
    "placet_api_failing{work,cause}": (
        "[BETA] What cannot be done with the API server now, and why."
    ),
    "placet_task_restarts_total{task}": (
        "[ALPHA] Background tasks that failed and were started again."
    ),
    # ---- the status of a replica
    "placet_ready": "[STABLE] Whether /readyz passes.",
    "placet_leader": "[STABLE] Whether this replica holds the Lease.",
    "placet_policies{state}": "[BETA] Policies, by state.",
    "placet_pods_in_flight": "[BETA] Pods that may be on their way to a node.",
    "placet_pods_in_flight_oldest_seconds": (
        "[BETA] Seconds for which one of them has been on its way, 0 without any."
    ),
    "placet_rejected_pods{policy}": (
        "[BETA] Pods that filter offered no node last, and that wait, by the policy that "
        "rejected most of the nodes."
    ),
    "placet_requeues_total": "[BETA] Pods that kube-scheduler was told to try again.",
    "placet_requeue_results_total{result}": (
        "[ALPHA] Answers about requeued pods: a node was offered, or none again."
    ),
    "placet_pods_beyond_bounds{policy}": (
        "[ALPHA] Pods beyond the bounds of a share, which drift and rollouts leave."
    ),
    "placet_cache_objects{resource}": "[BETA] Objects in the cache.",
    "placet_cache_synced{resource}": "[BETA] Whether all objects were seen once.",
    "placet_cache_last_event_age_seconds{resource}": (
        "[BETA] Seconds since the last sign of the watch; bookmarks arrive each minute."
    ),
    "placet_cache_unreadable_objects_total{resource}": "[ALPHA] Objects that could not be decoded.",
    "placet_cache_watch_failures_total{resource,reason}": (
        "[ALPHA] Lists and watches that failed, by reason."
    ),
    "placet_cache_relists_total{resource,reason}": "[ALPHA] Complete lists, by reason.",
}


class Buckets:
    """The buckets of a histogram: numbers up to each of `bounds`, and beyond the last one."""

    __slots__ = ("bounds", "counts", "total")

    def __init__(self, bounds: Sequence[float]) -> None:
        self.bounds = bounds
        self.counts = [0] * (len(bounds) + 1)
        self.total = 0.0

    def add(self, value: float, number: int = 1) -> None:
        self.counts[bisect_left(self.bounds, value)] += number
        self.total += value * number

    def below(self) -> Sequence[tuple[float, int]]:
        """By each bound, and by infinity: the numbers that are not greater."""
        return list(zip((*self.bounds, math.inf), accumulate(self.counts), strict=True))


# The name of a metric, its labels, and its value.
Sample = tuple[str, Sequence[str], float | Buckets]


def families(samples: Iterable[Sample], rows: Mapping[str, tuple[str, str]]) -> Iterable[Metric]:
    """The families of some samples, by the rows of all metrics."""
    found: dict[str, Metric] = {}
    for name, values, value in samples:
        key, text = rows[name]
        labels = dict(
            zip(key[len(name) + 1 : -1].split(","), values, strict=True) if values else ()
        )
        if name not in found:
            kind = "counter" if name.endswith("_total") else "gauge"
            kind = "histogram" if isinstance(value, Buckets) else kind
            found[name] = Metric(name.removesuffix("_total"), text, kind)
        family = found[name]
        if not isinstance(value, Buckets):
            family.add_sample(name, labels, value)
            continue
        for bound, number in value.below():
            le = "+Inf" if bound == math.inf else str(bound)
            family.add_sample(f"{name}_bucket", {**labels, "le": le}, number)
        family.add_sample(f"{name}_count", labels, sum(value.counts))
        family.add_sample(f"{name}_sum", labels, value.total)
    return found.values()
