"""Sources: where a command takes its cluster and its policies from.

Files are read if any are given, and then nothing else. Without files it is the cluster of the
kubeconfig, as kubectl chooses it. `--kubeconfig` or `--context` asks the cluster although there are
policy files. The policies of the files then come beside the policies of the cluster, as under
`placet serve`: a file takes the place of an object with the same name.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import msgspec

from cli.command import CommandError
from cli.render import put_problem
from cli.streams import put_line
from cli.world import (
    Found,
    World,
    in_force,
    put_notes,
    put_useless,
    read_data,
    sources_of,
)
from engine.cache.cluster_copy import (
    ClusterCopy,
    ClusterDocuments,
    DataText,
    NamedPod,
    read_documents,
)
from engine.cache.informers import Needs
from engine.cache.pod_manifests import DEFAULT_NAMESPACE, POD_TYPES, PodQuery, read_pod
from engine.cards.node_cards import TAKEN
from engine.cluster.connection_configuration import SERVICE_ACCOUNT, find
from engine.enforced import EnforcedPolicies, together
from engine.errors import ClusterConfigurationError
from engine.objects.request_pod import BYPASS, FORM
from engine.objects.workload_pods import kind_called
from engine.program.tables import TableSpec
from grammar.meaning.schema import load_schema
from grammar.messages.diagnostics import nearest
from grammar.messages.texts import LINES, escaped
from policies.manifest_text import GROUP

if TYPE_CHECKING:
    from cli.live import LiveCluster


def is_live(args: argparse.Namespace) -> bool:
    """Whether a command asks a running cluster: no files, or a flag that says so.

    Raises CommandError for a snapshot beside one of these two flags.
    """
    flag = chosen_flag(args)
    if flag is None:
        return not any(getattr(args, name, None) for name in ("cluster", "policies", "diff"))
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
    try:
        find(None, None, SERVICE_ACCOUNT)
    except ClusterConfigurationError:
        return False
    return True


@dataclass(frozen=True, slots=True)
class AskedCluster:
    """The asked cluster and its policies: the files of the flags, or a running cluster."""

    args: argparse.Namespace
    live: LiveCluster | None = None

    @property
    def name(self) -> str:
        return self.live.name if self.live is not None else " ".join(map(str, self.args.cluster))

    def read(self, namespace: str = "") -> ClusterDocuments:
        """The cluster, for the pods of a namespace, or of all without one.

        Says which rights are missing. Raises UserError.
        """
        found = self._found(namespace)
        warn_of(found.lacking(Needs()))
        return found.documents

    def rows(self, tables: Iterable[TableSpec]) -> Mapping[str, DataText]:
        """The rows of tables: those of the flag, and of a running cluster those of their sources.

        Warns of tables without rows. Raises CommandError.
        """
        given = read_data(self.args)
        lacking = [table for table in tables if table.name not in given]
        read, failed = self.live.data(lacking) if self.live is not None and lacking else ({}, {})
        nothing = "what reads it finds nothing"
        without = {t.name: failed.get(t.digest, nothing) for t in lacking if t.digest not in read}
        for name, why in sorted(without.items()):
            rows = f'warning: `data "{name}"` has no rows here: {why}'
            hint = f"  = help: give its rows with `--data {name}=FILE`"
            put_problem(escaped(f"{rows}\n{hint}", LINES), "warning")
        return {**read, **given}

    def data(self, sets: Iterable[EnforcedPolicies]) -> Mapping[str, DataText]:
        """The rows of the tables of policies. Raises CommandError."""
        tables = [table for each in sets for table in each.registry.tables.values()]
        read_data(self.args, {table.name for table in tables})
        return self.rows(tables)

    def completed(self, read: ClusterDocuments, needs: Iterable[Needs]) -> ClusterDocuments:
        """The cluster with what only some policies read of a running one. Raises CommandError."""
        return read if self.live is None else self.live.completed(read, together(needs))

    def policies(self, cluster: ClusterDocuments) -> Mapping[str, bytes]:
        """The policies of the cluster. Raises CommandError if there are none at all."""
        objects = cluster.policies()
        if self.live is None and not self.args.policies and not objects:
            hint = "give --policies PATH, or a snapshot that has policies too"
            raise CommandError("there are no policies", hint)
        return objects

    def world(self, namespace: str = "") -> World:
        """The cluster with its policies, and those of the flag beside them.

        Prints the errors of policies that are not in force. Raises ForbiddenError and UserError.
        """
        found, paths = self._found(namespace), self.args.policies
        read = found.documents
        policies = in_force(sources_of(paths), self.policies(read), load_schema())
        read = self.completed(replace(read, data=self.data([policies])), [policies.needs])
        world = World.of(read, policies)
        put_useless(world)
        if self.live is None:
            put_notes(world.cluster, policies)
        else:
            warn_of(found.lacking(policies.needs))
        return world

    def _found(self, namespace: str) -> Found:
        if self.live is not None:
            return self.live.read(namespace)
        return Found(read_documents(self.args.cluster))


@contextmanager
def source_of(args: argparse.Namespace) -> Iterator[AskedCluster]:
    """The files that are given, or the cluster of the kubeconfig, named on standard error.

    Raises CommandError.
    """
    if is_live(args):
        # This import takes as long as all others together.
        from cli.live import opened  # noqa: PLC0415

        with opened(args.kubeconfig, args.context) as live:
            put_line(f"asking `{live.name}` at {live.host}", sys.stderr)
            yield AskedCluster(args, live)
    elif args.cluster:
        yield AskedCluster(args)
    else:
        hint = "give --cluster SNAPSHOT, or ask a running cluster with --context NAME"
        raise CommandError("there is no cluster", hint)


def warn_of(lacks: Sequence[str]) -> None:
    for right in lacks:
        text = f"note: you may not {right}, so the answer may lack something"
        put_line(text, sys.stderr)


def question_namespace(args: argparse.Namespace, live: LiveCluster | None) -> str:
    """The namespace of the pods that the command is about; empty for all."""
    if args.all_namespaces:
        return ""
    return pod_namespace(args) or (live.namespace if live is not None else "")


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
    """The annotations that Placet does not know, each with the known one that it resembles."""
    known = {known: known for known in _ANNOTATIONS}
    forms = known | {f"{GROUP}/{each.rpartition('/')[2]}": each for each in known}
    for key in msgspec.json.decode(body).get("metadata", {}).get("annotations") or {}:
        close = key if key in forms else nearest(key, forms)
        if key not in known and close is not None:
            yield key, forms[close]


def _pod_of(args: argparse.Namespace, cluster: ClusterCopy, namespace: str) -> NamedPod:
    """The pod of a name, a workload or a file. Raises UserError."""
    given: str | None = args.pod
    if given is None and args.pod_file is None:
        raise CommandError("no pod is given", "give either POD or --pod-file FILE")
    before, slash, name = (given or "").rpartition("/")
    if args.pod_file is not None:
        if given is not None and not (slash and is_type(before)):
            raise CommandError("two pods are given", "give either POD or --pod-file FILE")
        where = namespace or DEFAULT_NAMESPACE
        query = PodQuery(given, where, cluster.uid, cluster.defaults)
        return read_pod(args.pod_file, query)
    kind = kind_called(before) if slash else None
    # A namespace may have the name of a type.
    if kind is None or given in cluster.pod_bodies:
        return cluster.pod(name, before if given in cluster.pod_bodies else namespace)
    pod, texts = cluster.pod_of(kind, name, namespace or DEFAULT_NAMESPACE)
    for text in texts:
        put_line(f"note: {text}", sys.stderr)
    return pod


def is_type(word: str) -> bool:
    """Whether kubectl takes a word before a `/` for a type of pods or of workloads."""
    return word in POD_TYPES or kind_called(word) is not None
