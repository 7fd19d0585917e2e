"""Cluster rules: what the rules find in a policy of one cluster, beside its own diagnostics."""

from __future__ import annotations

from dataclasses import replace

from grammar import rules
from grammar.checker.policy_checker import Checked
from grammar.meaning.costs import ClusterFacts, ClusterSize


def warned(checked: Checked, cluster: ClusterFacts) -> Checked:
    """The policy with the warnings that follow from the cluster among its diagnostics."""
    found = rules.run_in_cluster(checked, cluster)
    # What the nodes say of a label is more than what Kubernetes says of it.
    spans = [each.span for each in found if each.code != "P0402"]
    known = (
        each
        for each in checked.diagnostics
        if each.code != "P0346"
        or not any(s.start <= each.span.end and each.span.start <= s.end for s in spans)
    )
    return replace(checked, diagnostics=(*known, *found))


def timed(checked: Checked, size: ClusterSize) -> Checked:
    """The policy with a warning if it can be slow in a cluster of this size."""
    found = tuple(rules.slow(checked, size))
    return replace(checked, diagnostics=(*checked.diagnostics, *found)) if found else checked
