"""A simulation from files: the same cluster and the same pods, under one set of policies or two."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from cli.exits import CommandError
from cli.objects import PodBodies
from cli.simulating import openb
from cli.simulating.pods import PodFile, read_pods
from cli.world import Cluster, engine, read_policies
from engine.cache.cluster_file import ClusterFileReader
from engine.cache.documents import ClusterFileError, documents, files_of
from engine.errors import BadObjectError
from engine.objects import ObjectCodec
from engine.simulation.cycle import Simulation, Waiting, waiting
from grammar.schema import Schema


@dataclass(frozen=True, slots=True)
class Inputs:
    """What does not depend on policies: the cluster's documents, each with its file, and pods."""

    files: Sequence[Path]
    contents: Sequence[tuple[Path, bytes]]
    pods: PodFile


def read_inputs(cluster: Sequence[Path], pods: Path) -> Inputs:
    """Raises CommandError for files that cannot be read."""
    try:
        files = files_of(cluster)
        contents = [(file, document) for file in files for document in _documents(file)]
    except ClusterFileError as error:
        raise CommandError(error.message, error.hint) from None
    return Inputs(files, contents, read_pods(pods))


def prepare(inputs: Inputs, policies: Sequence[Path], schema: Schema, weight: int) -> Simulation:
    """Everything made anew: a simulation changes the cluster that it looks at.

    Raises CommandError for a snapshot that is none, pods that are none, and policies with errors.
    """
    read = read_policies(policies, schema)
    codec = ObjectCodec(schema, read.needs.annotations)
    try:
        reading = ClusterFileReader(codec).take(inputs.files, inputs.contents)
    except ClusterFileError as error:
        raise CommandError(error.message, error.hint) from None
    cluster = Cluster(reading.cache, PodBodies(()), inputs.files)
    decides = engine(read.registry, cluster, codec)
    return Simulation(decides, reading.cache, _waiting(inputs.pods, codec), weight=weight)


def _documents(file: Path) -> Sequence[bytes]:
    return [openb.nodes(file)] if openb.is_trace(file) else list(documents(file))


def _waiting(pods: PodFile, codec: ObjectCodec) -> Sequence[Waiting]:
    found = []
    for key, body in pods.bodies.items():
        try:
            found.append(waiting(body, codec))
        except BadObjectError as error:
            message = f"pod `{key}` in `{pods.file}` cannot be read: {error}"
            raise CommandError(message, "mend the pod") from None
    return found
