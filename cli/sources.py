"""Sources: where a command takes its cluster and its policies from.

Files are read if any are given, and then nothing else. Without files it is the cluster of the
kubeconfig, as kubectl chooses it. `--kubeconfig` or `--context` asks the cluster although there are
policy files. The policies of the files then come beside the policies of the cluster, as under
`placet serve`: a file takes the place of an object with the same name.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from cli.command import CommandError, add_context_arguments
from cli.streams import put_line
from cli.world import World, check_data, in_force, policy_files, read_data
from cli.world import read_world as read_files
from engine.cache.cluster_copy import ClusterCopy, ClusterDocuments, DataText, NamedPod
from engine.cache.pod_manifests import DEFAULT_NAMESPACE, POD_TYPES, PodQuery, read_pod
from engine.cards.node_cards import TAKEN
from engine.enforced import EnforcedPolicies
from engine.explanation.explanation import Asker
from engine.objects.codec import ObjectCodec
from engine.objects.request_pod import BYPASS, EARLIER_BYPASS, FORM
from engine.objects.workload_pods import kind_called
from grammar.meaning.schema import Schema, load_schema
from grammar.messages.diagnostics import nearest
from policies.disk import expanded

if TYPE_CHECKING:
    from cli.live import Found, LiveCluster


def add_cluster_arguments(parser: argparse.ArgumentParser, *, live_namespace: bool = True) -> None:
    """The flags that choose a running cluster, as kubectl has them."""
    group = parser.add_argument_group("a running cluster")
    add_context_arguments(
        group, "ask the cluster of this kubeconfig (default: $KUBECONFIG, ~/.kube/config)"
    )
    if live_namespace:
        scope = group.add_mutually_exclusive_group()
        scope.add_argument(
            "-n",
            "--namespace",
            metavar="NAME",
            help="the namespace of the pod (default: that of the context)",
        )
        scope.add_argument(
            "-A", "--all-namespaces", action="store_true", help="the pods of all namespaces"
        )


def is_live(args: argparse.Namespace, files: Sequence[str] = ("cluster", "policies")) -> bool:
    """Whether a command asks a running cluster: no files, or a flag that says so.

    Raises CommandError for a snapshot beside one of these two flags.
    """
    flag = chosen_flag(args)
    if flag is None:
        return not any(getattr(args, name, None) for name in files)
    if getattr(args, "cluster", None):
        raise CommandError(f"--cluster does not work with {flag}", "leave out one of them")
    return True


def chosen_flag(args: argparse.Namespace) -> str | None:
    """The flag that says that a running cluster is asked."""
    if args.kubeconfig is not None:
        return "--kubeconfig"
    return "--context" if args.context is not None else None


def names_cluster() -> bool:
    """Whether the environment names a cluster: a session does without one."""
    if named := os.environ.get("KUBECONFIG"):
        return any(_is_file(file) for file in named.split(os.pathsep) if file)
    in_cluster = "KUBERNETES_SERVICE_HOST" in os.environ
    return in_cluster or _is_file("~/.kube/config")


def _is_file(path: str) -> bool:
    try:
        return expanded(Path(path)).is_file()
    except OSError:
        # One that may not be inspected, such as in a folder of somebody else.
        return False


def require_cluster(args: argparse.Namespace) -> None:
    """Raises CommandError if only policy files are given."""
    if not args.cluster:
        hint = "give --cluster SNAPSHOT, or ask a running cluster with --context NAME"
        raise CommandError("there is no cluster", hint)


@contextmanager
def opened(args: argparse.Namespace) -> Iterator[LiveCluster]:
    """The cluster of the kubeconfig, named on standard error. Raises CommandError."""
    # This import takes as long as all others together.
    from cli.live import opened as connected  # noqa: PLC0415

    with connected(args.kubeconfig, args.context) as live:
        put_line(f"asking `{live.name}` at {live.host}", sys.stderr)
        yield live


class ForbiddenError(CommandError):
    """A forbidden read, without which nothing is decided; `found` is what can be read."""

    def __init__(self, found: Found) -> None:
        lacks = " and ".join(found.lacks)
        hint = "ask an operator of the cluster for these rights, or for a snapshot"
        super().__init__(f"you may not {lacks}", hint)
        self.found = found


def whole(found: Found) -> ClusterDocuments:
    """What was read, if it is enough for decisions. Raises ForbiddenError."""
    if found.documents is None:
        raise ForbiddenError(found)
    return found.documents


@dataclass(frozen=True, slots=True)
class WorldReading:
    """A world that was read, and the rights without which it may be incomplete."""

    world: World
    lacks: tuple[str, ...] = ()


def live_world(live: LiveCluster, args: argparse.Namespace, namespace: str) -> WorldReading:
    """The world of a running cluster, for the pods of a namespace, or of all without one.

    Raises ForbiddenError, and CommandError.
    """
    schema, found = load_schema(), live.read(namespace)
    read = whole(found)
    policies, lacks = live_policies(found, getattr(args, "policies", None), schema)
    codec = ObjectCodec(schema, policies.needs.annotations)
    documents = replace(read, data=live_data(live, args, [policies]))
    return WorldReading(World(schema, codec, documents.cluster(codec), policies), lacks)


def live_data(
    live: LiveCluster, args: argparse.Namespace, sets: Sequence[EnforcedPolicies]
) -> Mapping[str, DataText]:
    """The tables that policies declare: those of the flag, and the others from their sources.

    Warns of those that cannot be read. Raises CommandError.
    """
    given = read_data(args)
    tables = (table for each in sets for table in each.registry.tables.values())
    read, failed = live.data(table for table in tables if table.name not in given)
    check_data(sets, given, read, failed)
    return {**read, **given}


def live_policies(
    found: Found, paths: Sequence[Path] | None, schema: Schema
) -> tuple[EnforcedPolicies, tuple[str, ...]]:
    """The policies of files and of the cluster; and the rights that they lack."""
    sources, objects = policy_files(paths or ())
    policies, lacks = in_force(sources, {**found.policies, **objects}, schema), found.lacks
    if policies.needs.namespaces:
        lacks += found.lacks_namespaces
    if policies.needs.workloads:
        lacks += found.lacks_workloads
    return policies, lacks


@contextmanager
def world_of(args: argparse.Namespace) -> Iterator[tuple[WorldReading, LiveCluster | None]]:
    """The world of the files that are given, or of the cluster of the kubeconfig.

    Raises CommandError.
    """
    if not is_live(args):
        require_cluster(args)
        yield WorldReading(read_files(args)), None
        return
    with opened(args) as live:
        read = live_world(live, args, question_namespace(args, live))
        warn_of(read.lacks)
        yield read, live


def warn_of(lacks: Sequence[str]) -> None:
    for right in lacks:
        text = f"note: you may not {right}, so the answer may lack something"
        put_line(text, sys.stderr)


def question_namespace(args: argparse.Namespace, live: LiveCluster | None) -> str:
    """The namespace of the pods that the command is about; empty for all."""
    if args.all_namespaces:
        return ""
    name = pod_namespace(args)
    if name or live is None:
        return name
    return live.namespace


def pod_namespace(args: argparse.Namespace) -> str:
    """The namespace that is given, with -n or in `NAMESPACE/NAME`; or empty."""
    before, slash, _ = (getattr(args, "pod", None) or "").partition("/")
    if slash and not is_type(before):
        if args.namespace not in (None, before):
            hint = "leave out one of them"
            raise CommandError(f"-n {args.namespace} is not the namespace of `{args.pod}`", hint)
        return before
    return args.namespace or ""


def asked_pod(args: argparse.Namespace, cluster: ClusterCopy, live: LiveCluster | None) -> NamedPod:
    """The pod of a command. Raises CommandError."""
    pod = _pod_of(args, cluster, question_namespace(args, live))
    for given, meant in misspelt_annotations(pod.body):
        text = f"note: the pod has the annotation `{given}`: did you mean `{meant}`?"
        put_line(text, sys.stderr)
    return pod


# The annotations of pods that Placet reads.
_ANNOTATIONS = (BYPASS, FORM, TAKEN)


def misspelt_annotations(body: bytes) -> Iterator[tuple[str, str]]:
    """The annotations that Placet does not know, each with the known annotation that it resembles.

    It may have the name of a known one with the group of another.
    """
    pod = msgspec.json.decode(body)
    by_name = {known.rpartition("/")[2]: known for known in _ANNOTATIONS}
    groups = {known.partition("/")[0] for known in (*_ANNOTATIONS, EARLIER_BYPASS)}
    for key in pod.get("metadata", {}).get("annotations") or {}:
        if key in (*_ANNOTATIONS, EARLIER_BYPASS):
            continue
        group, _, name = key.rpartition("/")
        if nearest(group, groups) and (close := nearest(name, by_name)) is not None:
            yield key, by_name[close]
        elif (whole := nearest(key, _ANNOTATIONS)) is not None:
            yield key, whole


def _pod_of(args: argparse.Namespace, cluster: ClusterCopy, namespace: str) -> NamedPod:
    """The pod of a name, a workload or a file. Raises UserError."""
    given: str | None = args.pod
    if given is None and args.pod_file is None:
        raise CommandError("no pod is given", "give either POD or --pod-file FILE")
    before, slash, name = (given or "").rpartition("/")
    if args.pod_file is not None:
        if given is not None and not (slash and is_type(before)):
            raise CommandError("two pods are given", "give either POD or --pod-file FILE")
        query = PodQuery(given, namespace or DEFAULT_NAMESPACE, cluster.uid)
        return read_pod(args.pod_file, query)
    kind = kind_called(before) if slash else None
    # A namespace may have the name of a type.
    if kind is None or given in cluster.pod_bodies:
        return cluster.pod(name, before if given in cluster.pod_bodies else namespace)
    pod, choice = cluster.pod_of(kind, name, namespace or DEFAULT_NAMESPACE)
    put_line(f"note: {choice}", sys.stderr)
    return pod


def is_type(word: str) -> bool:
    """Whether kubectl takes a word before a `/` for a type of pods or of workloads."""
    return word in POD_TYPES or kind_called(word) is not None


def asker_of(
    args: argparse.Namespace, pod: NamedPod, live: LiveCluster | None
) -> tuple[Asker, list[dict[str, Any]] | str]:
    """What is known beside the pod, and its events, or the right that is missing for these.

    Only a pod of a running cluster has events. Raises UserError.
    """
    if live is None or args.pod_file is not None:
        return Asker(), []
    events = live.events(pod.namespace, pod.name)
    return Asker(is_live=True, events=() if isinstance(events, str) else events), events
