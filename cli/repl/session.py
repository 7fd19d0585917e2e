"""The state of a conversation: policies, what was typed, a cluster, the pod and node at hand."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from cli.exits import CommandError
from cli.explaining import Explanation, explain
from cli.expressions import Expression, check
from cli.repl.answer import RefusedError
from cli.repl.notebook import Notebook
from cli.repl.origin import Origin
from cli.values import Values
from cli.world import AskedPod, Cluster, Documents, World, compiled, frame
from engine.objects import ObjectCodec
from engine.program.frame import Frame
from grammar.environment import Environment
from grammar.policy_checker import VARIABLES
from grammar.schema import load_schema
from grammar.source import Source
from policies.loader import load
from policies.validation import Validation, Validator

_OF_CLAUSES = "it is for `preempt` and `pods where`, in a policy"
_NO_CLUSTER = "read one with `:cluster SNAPSHOT`"
_NO_POD = "choose one with `:pod NAMESPACE/NAME`"
_NO_NODE = "choose one with `:node NAME`"


@dataclass(slots=True)
class Settings:
    """What `:set` sets: rows of a table, and whether each line shows its parts and its time."""

    rows: int = 20
    trace: bool = False
    time: bool = False


class Session:
    """Starts with nothing. What cannot be done leaves it as it was.

    `clock` gives seconds, for what says how long something took.
    """

    def __init__(self, clock: Callable[[], float] = time.perf_counter) -> None:
        self.clock = clock
        self.schema = load_schema()
        self.values = Values(self.schema)
        self.settings = Settings()
        self.notebook = Notebook()
        self.files: tuple[Path, ...] = ()
        self.origin: Origin | None = None
        self.pod: AskedPod | None = None
        self.pod_file: Path | None = None
        self.node: str | None = None
        self.leaving = False
        self.environment = Environment(VARIABLES, schema=self.schema)
        self.policies = compiled(Validation(()), ())
        self._validator = Validator(self.schema)
        self._sources: tuple[Source, ...] = ()
        self._documents: Documents | None = None
        self._annotations: frozenset[str] = frozenset()
        self.cluster: Cluster | None = None
        self.codec = ObjectCodec(self.schema)

    # ---- what there is

    def some_cluster(self) -> Cluster:
        """Raises CommandError where none has been read."""
        if self.cluster is None:
            raise CommandError("there is no cluster", _NO_CLUSTER)
        return self.cluster

    def some_pod(self) -> AskedPod:
        """Raises CommandError where none has been chosen."""
        if self.pod is None:
            raise CommandError("no pod is chosen", _NO_POD)
        return self.pod

    def some_node(self) -> str:
        """Raises CommandError where none has been chosen."""
        if self.node is None:
            raise CommandError("no node is chosen", _NO_NODE)
        return self.node

    def world(self) -> World:
        """Raises CommandError without a cluster."""
        return World(self.schema, self.codec, self.some_cluster(), self.policies)

    @property
    def node_names(self) -> Sequence[str]:
        return sorted(self.cluster.snapshot().table.places) if self.cluster is not None else ()

    # ---- policies

    def load(self, paths: Sequence[Path]) -> Validation:
        """Reads policy files, for the first time or again. Raises CommandError and RefusedError."""
        loaded = load(paths)
        for problem in loaded.problems:
            raise CommandError(problem.message, problem.hint)
        validation = self._adopt(loaded.sources, self.notebook)
        self.files = tuple(paths)
        return validation

    def note(self, notebook: Notebook) -> Validation:
        """Takes what was typed for the policies. Raises RefusedError."""
        return self._adopt(self._sources, notebook)

    def _adopt(self, sources: tuple[Source, ...], notebook: Notebook) -> Validation:
        validation = self._validator.validate([*sources, *notebook.sources])
        findings = validation.findings()
        errors = [(d, source) for d, source in findings if d.severity == "error"]
        if errors:
            raise RefusedError(notebook.as_typed(*finding) for finding in errors)
        typed = next((f for f in validation.files if f.source == notebook.own), None)
        own = typed.policies if typed is not None else ()
        # Names alone decide nothing: without clauses it would only be in the way.
        silent = [c for c in own if not c.policy.clauses and not c.uses]
        self.policies = compiled(validation, [c for c in validation.policies if c not in silent])
        bare = Environment(VARIABLES, schema=self.schema)
        self.environment = own[0].environment if own else bare
        self._sources, self.notebook = sources, notebook
        self._keep(self.policies.needs.annotations)
        return validation

    # ---- the cluster

    def open(self, origin: Origin) -> None:
        """Reads a cluster, for the first time or again. Raises CommandError.

        The pod and the node stay chosen if they are still there.
        """
        documents = origin.read()
        cluster = documents.cluster(self.codec)
        self.origin, self._documents, self.cluster = origin, documents, cluster
        names = self.node_names
        self.node = self.node if self.node in names else names[0] if len(names) == 1 else None
        if self.pod_file is None and self.pod is not None and self.pod.key in cluster.pod_keys():
            self.pod = cluster.pod(self.pod.key)
        elif self.pod_file is None:
            self.pod = None

    def _keep(self, annotations: frozenset[str]) -> None:
        """Has the cluster keep these annotations of pods too, which means to decode it again."""
        if annotations <= self._annotations:
            return
        self._annotations |= annotations
        self.codec = ObjectCodec(self.schema, self._annotations)
        if self._documents is not None:
            self.cluster = self._documents.cluster(self.codec)

    # ---- asking

    def expression(self, text: str, *, typed_only: bool = False) -> Expression:
        """Raises RefusedError for one with mistakes, or that reads what is not there.

        With `typed_only` nothing has to be there.
        """
        hidden = {} if typed_only else self._hidden()
        found = check(text, self.schema, hidden, self.notebook.definitions)
        if found[0] is None:
            raise RefusedError((d, found[2]) for d in found[1])
        return found[0]

    @contextmanager
    def looking(self, expression: Expression) -> Iterator[Frame]:
        """What the expression reads, with the node that is chosen. Raises CommandError."""
        self._keep(expression.annotations)
        cluster, pod = self.cluster, self.pod
        if cluster is None or pod is None:
            yield self._frame()
            return
        with cluster.asking(pod):
            yield self._frame()

    @contextmanager
    def explained(self) -> Iterator[tuple[World, Explanation]]:
        """What the policies make of the pod that is chosen. Raises CommandError."""
        world, pod = self.world(), self.some_pod()
        with world.cluster.asking(pod):
            yield world, explain(world, pod)

    def _frame(self) -> Frame:
        read = frame(self.pod, self.cluster, self.codec)
        if self.node is not None and self.cluster is not None:
            read.node = self.cluster.node(self.node)
        return read

    def _hidden(self) -> dict[str, str]:
        hidden = dict.fromkeys(("peer", "victim", "victims"), _OF_CLAUSES)
        if self.pod is None:
            hidden |= dict.fromkeys(("pod", "namespaceObject"), _NO_POD)
        if self.cluster is None:
            hidden["node"] = _NO_CLUSTER
        return hidden
