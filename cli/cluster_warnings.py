"""Cluster warnings: what policies do not find in a cluster, and what is slow there.

They are about label keys that a policy reads and no node has, about percentages that are 0 of a
workload, and about policies that can be slow in a cluster of this size.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from functools import partial

from engine.cache.cluster_copy import ClusterCopy
from engine.cards.card_functions import with_cards
from engine.objects.codec import ObjectCodec
from engine.offline import question_frame
from grammar.checker.policy_checker import Checked
from grammar.meaning.costs import ClusterFacts
from grammar.meaning.evaluator import evaluate
from grammar.messages.diagnostics import UserError
from grammar.tree.clauses import Share
from grammar.values.errors import EvaluationError
from policies.validation import Validation, in_cluster


class ClusterWarnings:
    """The warnings about one cluster."""

    def __init__(self, cluster: ClusterCopy, codec: ObjectCodec) -> None:
        nodes = cluster.snapshot().nodes
        self._cluster = cluster
        self._codec = codec
        self._nodes = len(nodes)
        self._labels = Counter(k for node in nodes.values() for k in node.metadata.labels or {})

    def added(self, validation: Validation, *, quick: bool = False) -> Validation:
        """The validation with the warnings among its diagnostics.

        If `quick`, without the warnings for which each pod is looked at.
        """
        files = (
            replace(file, policies=tuple(self._warned(c, quick=quick) for c in file.policies))
            for file in validation.files
        )
        return Validation(tuple(files))

    def _warned(self, checked: Checked, *, quick: bool) -> Checked:
        replicas = None if quick else partial(self._replicas, checked)
        size = self._cluster.pods.size
        return in_cluster(checked, ClusterFacts(self._labels, self._nodes, size, replicas))

    def _replicas(self, checked: Checked, clause: Share) -> Mapping[str, int]:
        """The replicas of each workload with a pod that policy and clause select, by name.

        A pod for which that cannot be evaluated is not selected.
        """
        found: dict[str, int] = {}
        for key in sorted(self._cluster.pod_bodies):
            asked = self._cluster.pod(key)
            if checked.policy.namespace not in (None, asked.namespace):
                continue
            with suppress(UserError, EvaluationError):
                read = question_frame(asked, self._cluster, self._codec)
                workload = getattr(read.pod, "workload", None)
                variables = {
                    "pod": read.pod,
                    "namespaceObject": read.namespaceObject,
                    "now": read.now,
                }
                conditions = (checked.policy.selector, clause.when)
                if workload is None or workload.replicas is None:
                    continue
                environment = with_cards(checked.environment)
                if all(c is None or evaluate(c, variables, environment) for c in conditions):
                    found[f"{asked.namespace}/{workload.name}"] = workload.replicas
        return found
