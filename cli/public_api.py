"""Public API of Placet: policies and a cluster from files, and questions about pods.

`import placet` gives what `__all__` lists, by `cli.package`. These names keep their meaning within
a major version (docs/python.md); all others are private.
"""

from __future__ import annotations

import time
from argparse import ArgumentTypeError
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any

import msgspec

from cli.command import given_path
from cli.simulation import prepare, read_pods, what_if
from cli.world import World, decided, explained, validated
from engine.cache.cluster_copy import NamedPod, read_documents
from engine.cache.pod_manifests import PodQuery, read_pod
from engine.decision.verdict import Feasible
from engine.enforced import EnforcedPolicies, enforced
from engine.engine import Engine
from engine.offline import offline_engine
from engine.simulation.cycle import SimulationOptions
from engine.simulation.result import result
from engine.simulation.what_if import NodesToAdd
from grammar.meaning.added_functions import function
from grammar.meaning.schema import load_schema
from grammar.messages.diagnostics import UserError as Error

__all__ = ["Error", "Placet", "function"]

# Questions of programs have time; a server's have as long as kube-scheduler waits.
_SECONDS = 300.0
_NONE: Mapping[str, int] = MappingProxyType({})


class Placet:
    """Placet with policies that decide about the pods of a cluster, both read from files.

    `policies` are files and folders of policies or manifests; `cluster` files and folders that
    `kubectl get nodes,pods,replicasets -A -o json` writes. Raises Error, with a `message` and a
    `hint`, for what cannot be read and for policies that are not valid.
    """

    def __init__(
        self,
        *,
        cluster: str | Path | Iterable[str | Path],
        policies: str | Path | Iterable[str | Path],
    ) -> None:
        self._cluster = _paths(cluster)
        in_force = _in_force(_paths(policies))
        self._read = World.of(read_documents(self._cluster), in_force)

    def filter(self, pod: str | Path) -> dict[str, str | None]:
        """Why the pod may not run on each node, as kube-scheduler is told; None where it may.

        The pod is `namespace/name` in the cluster, or the Path of a manifest of a pod or workload.
        """
        asked, names = self._pod(pod), self._names()
        with self._read.cluster.asking(asked):
            decision = self._engine().filter(asked.body, names, None, _deadline())
        return {
            name: None if isinstance(verdict, Feasible) else verdict.reason
            for name, verdict in zip(names, decision, strict=True)
        }

    def score(self, pod: str | Path) -> dict[str, int]:
        """The points of each node, 0 to 10, whether it is feasible or not; none without a score."""
        asked, names = self._pod(pod), self._names()
        with self._read.cluster.asking(asked):
            scores = self._engine().prioritize(asked.body, names, None, _deadline())
        return {} if scores is None else dict(zip(names, scores, strict=True))

    def explain(self, pod: str | Path, node: str | None = None) -> dict[str, Any]:
        """What `placet explain POD [NODE] -o json` prints, as plain values."""
        found = explained(self._read, self._pod(pod), node=node)
        return _plain(decided(found))

    def simulate(
        self,
        pods: str | Path | None = None,
        *,
        add_nodes: Mapping[str, int] = _NONE,
        drain: Iterable[str] = (),
    ) -> dict[str, Any]:
        """What `placet simulate --pods FILE -o json` prints, as plain values.

        First so many nodes come like each template of `add_nodes`, and the nodes of `drain` are
        drained, whose pods come before those of the file.
        """
        read, drained = read_documents(self._cluster), list(drain)
        if pods is None and not drained:
            raise Error("no pods are asked about", "give a file of pods, or nodes to drain")
        asked = read_pods(Path(pods), read) if pods is not None else None
        change = what_if((NodesToAdd(*each) for each in add_nodes.items()), drained, read)
        run = prepare(read, self._read.policies, asked, SimulationOptions(), change)
        notes = asked.notes if asked is not None else ()
        return _plain(result(run.simulation, run.changed, notes))

    def _engine(self) -> Engine:
        read = self._read
        return offline_engine(read.policies.registry, read.cluster, read.codec)

    def _names(self) -> Sequence[str]:
        return sorted(self._read.cluster.snapshot().nodes)

    def _pod(self, pod: str | Path) -> NamedPod:
        if isinstance(pod, Path):
            cluster = self._read.cluster
            return read_pod(pod, PodQuery(known=cluster.uid, defaults=cluster.defaults))
        namespace, _, name = pod.rpartition("/")
        return self._read.cluster.pod(name, namespace)


def _paths(given: str | Path | Iterable[str | Path]) -> Sequence[Path]:
    """The paths. Raises Error for one that is none."""
    texts = map(str, [given] if isinstance(given, str | Path) else given)
    try:
        return [*map(given_path, texts)]
    except ArgumentTypeError as error:
        raise Error(str(error), "name a file or a folder") from None


def _in_force(paths: Sequence[Path]) -> EnforcedPolicies:
    """The compiled policies. Raises Error, with the place of the first mistake."""
    validation, errors = validated(paths, load_schema())
    if errors:
        found, source = errors[0]
        line, column = source.position(found.span.start)
        more = f", and {len(errors) - 1} more" if errors[1:] else ""
        text = f"{source.name}:{line}:{column}: {found.message}{more}"
        raise Error(text, found.hint or "`placet check` shows it")
    return enforced(validation)


def _deadline() -> float:
    return time.monotonic() + _SECONDS


def _plain(answer: msgspec.Struct) -> dict[str, Any]:
    """The JSON of an answer, as plain values."""
    made: dict[str, Any] = msgspec.json.decode(msgspec.json.encode(answer))
    return made
