"""Simulations: what a running server can be asked about pods that are not there yet."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any

import msgspec
from msgspec import Meta

from engine.simulation.what_if import NodesToAdd

# The most nodes of a question that go, and the pods of it.
MOST_DRAINED, MOST_PODS = 100, 1000
_Name = Annotated[str, Meta(min_length=1, max_length=512)]


class SimulationQuestion(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A simulation of pods that are placed in turn, by the policies in force, on the cluster now.

    `pods` are pods and workloads, as a text in YAML or JSON or as a list of objects. `namespace` is
    that of objects without one. Without `pods` they are those that leave drained nodes, or, if no
    node is drained, those of the cluster that wait: of the namespace, or of all if it is empty.
    `drain` names nodes, which take no pods. `weight` is that of the extender in kube-scheduler's
    configuration. `pluginScores` says whether kube-scheduler's own score counts.
    """

    pods: str | list[dict[str, Any]] | None = None
    namespace: Annotated[str, Meta(max_length=63)] = ""
    addNodes: Annotated[Sequence[NodesToAdd], Meta(max_length=20)] = ()
    drain: Annotated[Sequence[_Name], Meta(max_length=MOST_DRAINED)] = ()
    weight: Annotated[int, Meta(ge=1, lt=2**31)] = 1
    pluginScores: bool = True
