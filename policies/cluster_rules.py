"""Cluster rules: what a policy does not find in one cluster, and what is slow there.

The label keys that no node has, the percentages that are 0 of a workload, and the time of a call.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from grammar.checker.policy_checker import Checked
from grammar.checks.clause_numbers import vanishing_percentages_of
from grammar.checks.costs import with_estimates
from grammar.checks.references import unknown_labels
from grammar.meaning.costs import ClusterSize
from grammar.tree.clauses import Share


@dataclass(frozen=True, slots=True)
class ClusterFacts:
    """One cluster: the number of nodes by label key, of all nodes, and its size.

    `replicas` gives the replicas of each workload that a share is about, by name; None leaves out
    what is found by them.
    """

    labels: Mapping[str, int]
    nodes: int
    size: ClusterSize
    replicas: Callable[[Share], Mapping[str, int]] | None


def warned(checked: Checked, cluster: ClusterFacts) -> Checked:
    """The policy with the warnings that follow from the cluster among its diagnostics."""
    found = [*unknown_labels(checked, cluster.labels, cluster.nodes)]
    if not checked.broken and cluster.replicas is not None:
        found += vanishing_percentages_of(checked, cluster.replicas)
    # What the nodes say of a label is more than what Kubernetes says of it.
    spans = [each.span for each in found]
    known = (
        each
        for each in checked.diagnostics
        if each.code != "P0346"
        or not any(s.start <= each.span.end and each.span.start <= s.end for s in spans)
    )
    return with_estimates(replace(checked, diagnostics=(*known, *found)), cluster.size)
