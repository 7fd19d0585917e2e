"""Session: the state behind the lines of `placet repl`.

It holds the loaded policies, the notebook of typed ones, the cluster, and the pod and node that
were chosen. `placet repl` makes one and keeps it until it ends. A step that fails with CommandError
or FindingsError leaves the session as it was.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, replace
from pathlib import Path

from cli.command import CommandError
from cli.console import Part
from cli.render import Finding
from cli.repl.expressions import Expression, check
from cli.repl.notebook import Notebook
from cli.world import World, decided, explained, in_force
from engine.cache.cluster_copy import (
    NO_DATA,
    ClusterCopy,
    ClusterDocuments,
    DataText,
    NamedPod,
    read_documents,
)
from engine.enforced import enforced
from engine.explanation.document import PodExplanation
from engine.explanation.written import Values
from engine.objects.codec import ObjectCodec
from engine.offline import give_groups, question_frame
from engine.program.frame import Frame
from engine.program.tables import TableSpec
from grammar.checker.policy_checker import VARIABLES
from grammar.meaning.environment import Environment
from grammar.meaning.schema import load_schema
from grammar.messages.diagnostics import UserError
from grammar.tree.source import Source
from policies.loader import load
from policies.validation import Validation, Validator, identity

# One part of the answer to a line: a text, a table, a diagnostic with its source, or an error that
# is about no text.
Reply = Part | Finding | UserError

_CLAUSES_ONLY = "use it in `preempt` and `pods where`, in a policy"
_BOUNDS_ONLY = "use it in the bound of a limit per domain or a spread, in a policy"
_NO_CLUSTER = "load one with `:cluster SNAPSHOT`, or begin with `placet repl --kubeconfig FILE`"
_NO_POD = "choose one with `:pod NAMESPACE/NAME`"
_NO_NODE = "choose one with `:node NAME`"


class FindingsError(Exception):
    """A text with errors. `findings` are diagnostics, each with its source."""

    def __init__(self, findings: Iterable[Finding]) -> None:
        super().__init__()
        self.findings = tuple(findings)


@dataclass(frozen=True, slots=True)
class ClusterOrigin:
    """The place of a snapshot, which `read` reads again and again; it raises CommandError.

    `paths` are its files; empty for a running cluster. `rows` reads the sources of tables, and
    gives the rows by digest.
    """

    paths: Sequence[Path]
    read: Callable[[], ClusterDocuments]
    rows: Callable[[Sequence[TableSpec]], Mapping[str, DataText]] = lambda _: NO_DATA

    @classmethod
    def files(cls, paths: Sequence[Path], data: Mapping[str, DataText] = NO_DATA) -> ClusterOrigin:
        return cls(paths, lambda: replace(read_documents(paths), data=data))


@dataclass(slots=True)
class ReplSettings:
    """The values of `:set`: rows of a table, and whether a line shows its parts and its time."""

    rows: int = 20
    trace: bool = False
    time: bool = False


class ReplSession:
    """A session without policies, cluster, pod and node at first.

    `clock` gives seconds; it measures how long lines and evaluations take.
    """

    def __init__(self, clock: Callable[[], float] = time.perf_counter) -> None:
        self.clock = clock
        self.schema = load_schema()
        self.values = Values(self.schema)
        self.settings = ReplSettings()
        self.notebook = Notebook()
        self.files: tuple[Path, ...] = ()
        self.origin: ClusterOrigin | None = None
        self.cluster: ClusterCopy | None = None
        self.pod: NamedPod | None = None
        self.pod_file: Path | None = None
        self.node: str | None = None
        self.has_ended = False
        self.environment = Environment(VARIABLES, schema=self.schema, uniform_literals=True)
        self.policies = enforced(Validation(()))
        self.codec = ObjectCodec(self.schema)
        self._validator = Validator(self.schema)
        self._sources: tuple[Source, ...] = ()
        self._objects: Mapping[str, bytes] = {}
        self._documents: ClusterDocuments | None = None
        self._annotations: frozenset[str] = frozenset()
        # The digests of the tables whose sources were read with the cluster.
        self._tables: frozenset[str] = frozenset()

    def load(self, paths: Sequence[Path]) -> Validation:
        """Reads policy files, again too. Raises CommandError and FindingsError."""
        loaded = load(paths)
        for problem in loaded.problems:
            raise CommandError(problem.message, problem.hint)
        validation = self._adopt(loaded.sources, self.notebook)
        self._read_tables()
        self.files = tuple(paths)
        return validation

    def use(self, notebook: Notebook) -> Validation:
        """Replaces the notebook. Raises FindingsError for one with errors."""
        validation = self._adopt(self._sources, notebook)
        self._read_tables()
        return validation

    def _adopt(self, sources: tuple[Source, ...], notebook: Notebook) -> Validation:
        validation = self._validator.validate([*sources, *notebook.sources])
        errors = [(d, source) for d, source in validation.findings() if d.severity == "error"]
        if errors:
            raise FindingsError(notebook.as_typed(*finding) for finding in errors)
        typed = next((f for f in validation.files if f.source == notebook.session_policy), None)
        own = typed.policies if typed is not None else ()
        # A policy `session` of names alone decides nothing, and explanations would still list it.
        unused = [c for c in own if not c.policy.clauses and not c.uses]
        self.policies = in_force(
            [*sources, *notebook.sources],
            self._objects,
            self.schema,
            [identity(checked.policy) for checked in unused],
        )
        bare = Environment(VARIABLES, schema=self.schema, uniform_literals=True)
        self.environment = own[0].environment if own else bare
        self._sources, self.notebook = sources, notebook
        self._keep(self.policies.needs.annotations)
        return validation

    def open(self, origin: ClusterOrigin) -> None:
        """Reads a cluster, again too. Raises CommandError.

        The chosen pod and node stay chosen if they still exist.
        """
        documents = origin.read()
        cluster = documents.cluster(self.codec)
        if (objects := documents.policies()) != self._objects:
            before, self._objects = self._objects, objects
            try:
                self._adopt(self._sources, self.notebook)
            except FindingsError:
                self._objects = before
                raise
            cluster = documents.cluster(self.codec)
        self.origin, self._documents, self.cluster = origin, documents, cluster
        self._tables = frozenset()
        self._read_tables()
        names = self.node_names
        self.node = self.node if self.node in names else names[0] if len(names) == 1 else None
        if self.pod_file is None and self.pod is not None and self.pod.key in cluster.pod_bodies:
            self.pod = cluster.pod(self.pod.key)
        elif self.pod_file is None:
            self.pod = None

    def _keep(self, annotations: frozenset[str]) -> None:
        """Decodes the cluster again if it lacks some of these annotations of pods."""
        if annotations <= self._annotations:
            return
        self._annotations |= annotations
        self.codec = ObjectCodec(self.schema, self._annotations)
        if self._documents is not None:
            self.cluster = self._documents.cluster(self.codec)

    def _read_tables(self) -> None:
        """Reads the sources of tables that policies declare since the cluster was read."""
        found = self.policies.registry.tables
        if self.origin is None or self._documents is None or found.keys() <= self._tables:
            return
        rows = self.origin.rows([found[digest] for digest in found.keys() - self._tables])
        self._tables |= found.keys()
        if not rows:
            return
        self._documents = replace(self._documents, data={**rows, **self._documents.data})
        self.cluster = self._documents.cluster(self.codec)

    @property
    def node_names(self) -> Sequence[str]:
        return sorted(self.cluster.snapshot().table.rows) if self.cluster is not None else ()

    def required_cluster(self) -> ClusterCopy:
        """Raises CommandError if no cluster is loaded."""
        if self.cluster is None:
            raise CommandError("no cluster is loaded", _NO_CLUSTER)
        return self.cluster

    def required_pod(self) -> NamedPod:
        """Raises CommandError if no pod is chosen."""
        if self.pod is None:
            raise CommandError("no pod is chosen", _NO_POD)
        return self.pod

    def required_node(self) -> str:
        """Raises CommandError if no node is chosen."""
        if self.node is None:
            raise CommandError("no node is chosen", _NO_NODE)
        return self.node

    def world(self) -> World:
        """Raises CommandError if no cluster is loaded."""
        return World(self.schema, self.codec, self.required_cluster(), self.policies)

    def expression(self, text: str, *, type_only: bool = False) -> Expression:
        """Raises FindingsError for errors, and for variables that have no value yet.

        With `type_only` variables need no value.
        """
        hidden = {} if type_only else self._hidden()
        expression, found, source = check(text, self.schema, hidden, self.notebook.definitions)
        if expression is None:
            raise FindingsError((d, source) for d in found)
        return expression

    def _hidden(self) -> dict[str, str]:
        """The variables that have no value yet, each with a hint."""
        hidden = dict.fromkeys(("peer", "victim", "victims"), _CLAUSES_ONLY)
        hidden["domain"] = _BOUNDS_ONLY
        if self.pod is None:
            hidden |= dict.fromkeys(("pod", "namespaceObject"), _NO_POD)
        if self.cluster is None:
            hidden["node"] = _NO_CLUSTER
        return hidden

    @contextmanager
    def frame(self, expression: Expression) -> Iterator[Frame]:
        """The values that an expression reads, with the chosen pod and node.

        Raises CommandError.
        """
        self._keep(expression.annotations)
        cluster, pod = self.cluster, self.pod
        with cluster.asking(pod) if cluster is not None and pod is not None else nullcontext():
            values = question_frame(pod, cluster, self.codec, expression.definitions)
            if self.node is not None and cluster is not None:
                values.node = cluster.node(self.node)
            if cluster is not None and pod is None:
                give_groups(values, expression.environment, cluster)
            yield values

    def explained(self, node: str | None = None, *, every_node: bool = False) -> PodExplanation:
        """The decisions of the policies about the chosen pod. Raises UserError."""
        world, pod = self.world(), self.required_pod()
        return decided(explained(world, pod, node=node, every_node=every_node))
