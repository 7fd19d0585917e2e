"""The label keys of a cluster's nodes, from a snapshot of it, for `placet check --cluster`.

Brings the engine, which a plain check starts without: imported only where it is needed.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from cli.exits import CommandError
from engine.cache.cluster_file import ClusterFileReader
from engine.cache.documents import ClusterFileError
from engine.objects import ObjectCodec
from grammar.checks import labels
from grammar.policy_checker import Checked
from grammar.schema import Schema
from policies.validation import CheckedFile, Validation


@dataclass(frozen=True, slots=True)
class LabelKeys:
    """How many of the nodes have each key, and how many nodes there are."""

    known: Counter[str]
    nodes: int

    def looked_up(self, validation: Validation) -> Validation:
        """With a warning for each key that a policy reads and no node has."""
        return Validation(tuple(self._file(file) for file in validation.files))

    def _file(self, file: CheckedFile) -> CheckedFile:
        return replace(file, policies=tuple(map(self._policy, file.policies)))

    def _policy(self, checked: Checked) -> Checked:
        found = labels.check(checked, self.known, self.nodes)
        return replace(checked, diagnostics=(*checked.diagnostics, *found))


def read(paths: Sequence[Path], schema: Schema) -> LabelKeys:
    """The keys of a snapshot's nodes; raises CommandError for what is no snapshot."""
    try:
        nodes = ClusterFileReader(ObjectCodec(schema)).read(paths).cache.snapshot().nodes
    except ClusterFileError as error:
        raise CommandError(error.message, error.hint) from None
    keys = Counter(key for node in nodes.values() for key in node.metadata.labels or {})
    return LabelKeys(keys, len(nodes))
