"""Inputs: the cluster and the pods of a simulation, read from files.

The files are what kubectl wrote. They are read once; `prepare` makes a simulation from them for
each set of policies.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path

import msgspec

from cli.command import CommandError, unreadable
from engine.cache.cluster_copy import ClusterDocuments
from engine.cache.cluster_file import ClusterFileError, documents, workload_uids
from engine.cache.pod_manifests import DEFAULT_NAMESPACE
from engine.enforced import EnforcedPolicies
from engine.objects.codec import ObjectCodec
from engine.objects.workload_pods import KnownUid
from engine.simulation.cycle import SimulationOptions
from engine.simulation.pod_list import PodList, PodReader, hint, pods_in
from engine.simulation.preparation import Prepared, prepared
from engine.simulation.what_if import NO_CHANGE, NodesToAdd, WhatIf
from engine.work import finished
from grammar.meaning.schema import Schema


@dataclass(frozen=True, slots=True)
class Inputs:
    """The documents of the cluster and the pods to schedule: all that policies do not change.

    `change` is what else is asked about: nodes that come, and nodes that go.
    """

    cluster: ClusterDocuments
    pods: PodList | None
    change: WhatIf = NO_CHANGE


def what_if(
    added: Iterable[NodesToAdd], drained: Sequence[str], cluster: ClusterDocuments
) -> WhatIf:
    """The nodes that come and go. Raises UserError."""
    pods = cluster.bodies("Pod") if drained else {}
    return WhatIf([with_manifest(each) for each in added], drained, pods)


def with_manifest(each: NodesToAdd) -> NodesToAdd:
    """With the manifest of the node, if the template is a file. Raises UserError."""
    file = Path(each.template)
    try:
        if not file.is_file():
            return each
    except OSError as error:
        raise unreadable(str(file), error, "check the path") from None
    read = list(documents(file))
    if len(read) != 1:
        raise CommandError(f"`{file}` has {len(read)} objects", "give a file with one node")
    return replace(each, body=bytes(read[0]))


def pending_pods(cluster: ClusterDocuments, namespace: str, name: str) -> PodList:
    """The pending pods of a running cluster, of one namespace or of all.

    `name` is that of the cluster. Raises CommandError without any.
    """
    reader = PodReader(Path(name))
    for key, body in cluster.bodies("Pod").items():
        pod = msgspec.json.decode(body)
        is_here = namespace in ("", key.partition("/")[0])
        if is_here and not (pod.get("spec") or {}).get("nodeName"):
            reader.add({**pod, "kind": "Pod"})
    if not reader.bodies:
        where = f"in the namespace `{namespace}`" if namespace else "in any namespace"
        hint = "give the pods with --pods FILE, or other namespaces with -n or -A"
        raise CommandError(f"no pod is pending {where} of `{name}`", hint)
    return reader.read()


def prepare(
    inputs: Inputs, read: EnforcedPolicies, schema: Schema, options: SimulationOptions
) -> Prepared:
    """A simulation with a cluster of its own, because it changes the cluster.

    Raises UserError for an invalid snapshot and invalid pods.
    """
    codec = ObjectCodec(schema, read.needs.annotations)
    cluster = inputs.cluster.cluster(codec)
    return finished(prepared(cluster, codec, read.registry, inputs.pods, options, inputs.change))


# ---- pods to schedule


def read_pods(file: Path, cluster: ClusterDocuments, namespace: str = DEFAULT_NAMESPACE) -> PodList:
    """The pods of a file that have not ended, as they were before they had a node.

    `namespace` is that of objects without one. Raises UserError.
    """
    try:
        return pods_in(list(documents(file)), PodReader(file, namespace), _uids(cluster))
    except ClusterFileError as error:
        raise ClusterFileError(error.message, error.hint or hint(file)) from None


def _uids(cluster: ClusterDocuments) -> KnownUid:
    """The uids of the workloads of a cluster, which is read when the first is asked for."""
    every = cache(lambda: workload_uids([document for _, document in cluster.contents]))
    return lambda kind, key: every().get((kind, key))
