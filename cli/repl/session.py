"""What a line is answered with: lines and tables, and what is wrong, in the order of telling."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Protocol

from cli.command import CommandError
from cli.console import Part
from cli.explaining.explanation import Explanation, explain
from cli.expressions import Expression, Values, check
from cli.render import Finding, error_text
from cli.world import Cluster, Documents, NamedPod, World, compiled, frame, read_documents
from engine.objects.codec import ObjectCodec
from engine.program.frame import Frame
from grammar.clauses import Def, Filter, ForPods, Item, Let, Policy, Setting, Use
from grammar.diagnostics import Diagnostic, Severity, human
from grammar.environment import Environment
from grammar.policy_checker import VARIABLES
from grammar.schema import load_schema
from grammar.source import Source, Span
from policies.loader import load
from policies.validation import Identity, Validation, Validator, identity


@dataclass(frozen=True, slots=True)
class AnswerProblem:
    """Something that is wrong, as `placet check` would say it: a sentence, carets, a hint."""

    text: str
    severity: Severity = "error"


Told = Part | AnswerProblem


@dataclass(frozen=True, slots=True)
class Answer:
    """All of one answer; `leave` says that it was the last one."""

    told: tuple[Told, ...]
    leave: bool = False

    @property
    def failed(self) -> bool:
        return any(
            isinstance(told, AnswerProblem) and told.severity == "error" for told in self.told
        )


class RefusedError(Exception):
    """A text with mistakes: what was asked for is not done."""

    def __init__(self, findings: Iterable[Finding]) -> None:
        super().__init__()
        self.problems = tuple(answer_problem(finding) for finding in findings)


def answer_problem(finding: Finding) -> AnswerProblem:
    """A diagnostic in its text. What was found while evaluating has no code."""
    diagnostic, source = finding
    text = human(diagnostic, source).replace(f"{diagnostic.severity}[]", diagnostic.severity, 1)
    return AnswerProblem(text, diagnostic.severity)


def complaint(message: str, hint: str) -> AnswerProblem:
    """An error that is about no text."""
    return AnswerProblem(error_text(message, hint))


# ---- Where a session's cluster is read from, once now and again when asked to.


class Origin(Protocol):
    """Something that a snapshot can be read from, again and again.

    `paths` are its files; a cluster that is asked itself has none.
    """

    @property
    def paths(self) -> Sequence[Path]: ...

    def read(self) -> Documents:
        """Raises CommandError."""


class Files:
    """What kubectl wrote."""

    def __init__(self, paths: Sequence[Path]) -> None:
        self.paths = tuple(paths)

    def read(self) -> Documents:
        return read_documents(self.paths)


# ---- What was typed to stay: the items of the session's own policy, and policies beside it.

NAME = "session"
_HEAD, _INDENT, _FOOT = f"cluster policy {NAME} {{\n", "  ", "}\n"
# What an item must not share with another of its policy: of two, the later replaces the first.
Key = tuple[str, str]


@dataclass(frozen=True, slots=True)
class NotebookEntry:
    """An item as it was typed. `typed` is the text that it was in, `start` where in that."""

    text: str
    typed: Source
    start: int
    definition: bool


@dataclass(frozen=True, slots=True)
class Notebook:
    """Immutable: whatever does not hold together with it can be left out again."""

    items: Mapping[Key, NotebookEntry] = field(default_factory=dict)
    policies: Mapping[Identity, Source] = field(default_factory=dict)

    def with_items(self, typed: Source, items: Iterable[Item]) -> Notebook:
        added = {
            key(i): NotebookEntry(
                typed.slice(i.span), typed, i.span.start, isinstance(i, Let | Def)
            )
            for i in items
        }
        return replace(self, items={**self.items, **added})

    def with_policies(self, typed: Source, policies: Iterable[Policy]) -> Notebook:
        added = {identity(p): Source(NAME, _alone(typed.text, p.span)) for p in policies}
        return replace(self, policies={**self.policies, **added})

    def without(self, name: str) -> Notebook:
        """Without all that is called so."""
        return Notebook(
            {k: v for k, v in self.items.items() if k[1] != name},
            {i: s for i, s in self.policies.items() if i[-1] != name},
        )

    @property
    def names(self) -> list[str]:
        """What `without` can leave out."""
        return sorted({k[1] for k in self.items} | {i[-1] for i in self.policies})

    @property
    def own(self) -> Source | None:
        """The session's own policy, if there is anything in it."""
        if not self.items:
            return None
        lines = (f"{_INDENT}{entry.text}\n" for entry in self.items.values())
        return Source(NAME, f"{_HEAD}{''.join(lines)}{_FOOT}")

    @property
    def sources(self) -> tuple[Source, ...]:
        own = self.own
        return (*([own] if own is not None else []), *self.policies.values())

    @property
    def text(self) -> str:
        """All of it, as a policy file would have it."""
        policies = (f"{source.text.strip()}\n" for source in self.policies.values())
        own = self.own
        return "\n".join((*([own.text] if own is not None else []), *policies))

    @property
    def definitions(self) -> str:
        """Every `let` and `def`, for expressions to use."""
        return "\n".join(entry.text for entry in self.items.values() if entry.definition)

    def as_typed(self, found: Diagnostic, source: Source) -> tuple[Diagnostic, Source]:
        """A finding about the session's own policy, at the place where it was typed."""
        if source != self.own:
            return found, source
        for at, entry in self._places():
            if at <= found.span.start < at + len(entry.text):
                by = entry.start - at
                span = Span(found.span.start + by, found.span.end + by)
                return replace(found, span=span, fix=None), entry.typed
        return found, source

    def _places(self) -> Iterator[tuple[int, NotebookEntry]]:
        """Where each item is in the text of the policy."""
        at = len(_HEAD)
        for entry in self.items.values():
            yield at + len(_INDENT), entry
            at += len(_INDENT) + len(entry.text) + 1


def key(item: Item) -> Key:
    match item:
        case Let(name) | Def(name):
            return "name", name
        case Use(name):
            return "use", name
        case Setting(name):
            return "setting", name
        case ForPods():
            return "setting", "for"
        case _:
            return "clause", item.name


def told(item: Item) -> str:
    """How an item is spoken of."""
    match item:
        case Setting(name, value):
            return f"{name} {value}"
        case ForPods():
            return "for"
        case Let(name) | Def(name):
            return name
        case Filter(name, at_bind=True):
            return f'bind "{name}"'
        case _:
            return f'{type(item).__name__.lower()} "{item.name}"'


def _alone(text: str, span: Span) -> str:
    """The text with everything outside of the span blank, so that places stay what they are."""
    before, after = (re.sub(r"[^\n]", " ", t) for t in (text[: span.start], text[span.end :]))
    return f"{before}{text[span.start : span.end]}{after}"


# ---- The state of a conversation: policies, what was typed, a cluster, the pod and node at hand.

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
        self.pod: NamedPod | None = None
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

    def some_pod(self) -> NamedPod:
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
        return sorted(self.cluster.snapshot().table.rows) if self.cluster is not None else ()

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
