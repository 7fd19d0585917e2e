"""Session: the state behind the lines of `placet repl`.

A session holds the policies of its files, the typed items, the cluster, and the chosen pod and
node. `placet repl` makes one session and keeps it until the end. A step that fails with UserError
or FindingsError leaves the session as it was.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Protocol

from cli.command import CommandError
from cli.expressions import (
    ONLY_IN_CLAUSES,
    ClusterSamples,
    Expression,
    Subject,
    check,
    data_declared,
    tables_at,
)
from cli.flag_table import Flag
from cli.render import Finding
from cli.sources import AskedCluster
from cli.world import World, sources_of, stored_objects
from engine.cache.cluster_copy import NO_DATA, ClusterCopy, ClusterDocuments, NamedPod
from engine.enforced import enforced
from engine.objects.codec import ObjectCodec
from grammar.meaning.environment import Environment
from grammar.meaning.schema import load_schema
from grammar.syntax.parser import parse_rules
from grammar.tree.ast import NO_SPAN
from grammar.tree.clause_parts import AnyClause
from grammar.tree.clauses import Def, File, ForPods, Item, Let, Policy, Setting, Use
from grammar.tree.data import Count, Group
from grammar.tree.source import Source
from policies.admission import StoredObject
from policies.validation import CheckedFile, Validation, Validator, checked_file

# The name of the policy that typed clauses form.
NAME = "session"
_NO_LINE = Source(NAME, "")
_NO_CLUSTER = "begin with `placet repl --cluster SNAPSHOT`, or with `--kubeconfig FILE`"
_NO_POD = "choose one with `:pod NAMESPACE/NAME`"
# A definition that is typed first is used by later lines.
_UNUSED = "P0303"


class FindingsError(Exception):
    """A text with errors. `findings` are diagnostics, each with its source."""

    def __init__(self, findings: Iterable[Finding]) -> None:
        super().__init__()
        self.findings = tuple(findings)


class WorldCommand(Protocol):
    """A command of `cli.commands` that can be asked about the world of a session.

    QUESTION has the arguments of the question, and not those that name a world.
    """

    QUESTION: Sequence[Flag]

    def ask(self, args: argparse.Namespace, world: World) -> int: ...


@dataclass(frozen=True, slots=True)
class TypedItem:
    """An item of a policy that was typed, in the text of its line."""

    tree: Item
    source: Source

    @property
    def text(self) -> str:
        return self.source.slice(self.tree.span)

    @property
    def name(self) -> str:
        return "for" if isinstance(self.tree, ForPods) else self.tree.name

    @property
    def title(self) -> str:
        """The short form in messages, as `filter "roomy"`; a second one replaces the first."""
        match self.tree:
            case Setting() | ForPods():
                return self.name
            case Use(name):
                return f'use "{name}"'
            case _:
                start, end = self.tree.span.start, self.tree.name_span.end
                return " ".join(self.source.text[start:end].split())


class ReplSession:
    """A session about policy files and the cluster of a source, which `reload` reads.

    `command` finds a command by its name.
    """

    def __init__(
        self,
        command: Callable[[str], WorldCommand],
        files: Sequence[Path] = (),
        source: Callable[[], AbstractContextManager[AskedCluster]] | None = None,
    ) -> None:
        self.command = command
        self.files = files
        self._source = source
        self.typed: Mapping[str, TypedItem] = {}
        self.cluster: ClusterCopy | None = None
        self.pod: NamedPod | None = None
        self.pod_file: Path | None = None
        self.node: str | None = None
        self.has_ended = False
        self.policies = enforced(Validation(()))
        self.codec = ObjectCodec(load_schema())
        self._validator = Validator(load_schema())
        self._sources: tuple[Source, ...] = ()
        self._own = self._checked((), _NO_LINE)
        self._stored: Mapping[str, StoredObject] = {}
        self._documents: ClusterDocuments | None = None
        self._annotations: frozenset[str] = frozenset()
        # The digests of the tables whose rows were read with the cluster.
        self._tables: frozenset[str] = frozenset()

    # ---- policies and the cluster

    def reload(self) -> Sequence[CheckedFile]:
        """Reads the policy files and the cluster, again too; the files.

        The chosen pod and node stay chosen if they still exist. Raises UserError and FindingsError.
        """
        sources = sources_of(self.files)
        documents = None
        if self._source is not None:
            with self._source() as source:
                documents = source.read()
        before = self._sources, self._stored
        objects = documents.policies() if documents is not None else {}
        self._sources, self._stored = sources, stored_objects(objects, load_schema())
        try:
            files = self._adopt(self.typed)
        except FindingsError:
            self._sources, self._stored = before
            raise
        self._documents, self.cluster, self._tables = documents, None, frozenset()
        self.decode()
        names = self.node_names
        self.node = self.node if self.node in names else names[0] if len(names) == 1 else None
        if self.pod_file is None and self.pod is not None:
            cluster, key = self.required_cluster(), self.pod.key
            self.pod = cluster.pod(key) if key in cluster.pod_bodies else None
        return [f for f in files if f.source in sources and not f.private]

    def type(self, line: Source, items: Iterable[TypedItem]) -> Sequence[Finding]:
        """Adds the items of a line; its warnings. Raises FindingsError."""
        typed = {**self.typed, **{item.title: item for item in items}}
        files = self._adopt(typed, line)
        self.decode()
        return [
            (d, file.source)
            for file in files
            if file.source.name == NAME
            for d in file.diagnostics
            if d.severity == "warning" and d.span != NO_SPAN and d.span.start < len(line.text)
        ]

    def drop(self, name: str) -> None:
        """Removes the typed items of a name. Raises UserError and FindingsError."""
        names = sorted({item.name for item in self.typed.values()})
        if name not in names:
            typed = ", ".join(f"`{each}`" for each in names)
            hint = f"the typed names are {typed}" if typed else ""
            raise CommandError(f"nothing called `{name}` has been typed", hint)
        kept = {title: item for title, item in self.typed.items() if item.name != name}
        self._adopt(kept)

    def _adopt(
        self, typed: Mapping[str, TypedItem], line: Source = _NO_LINE
    ) -> Sequence[CheckedFile]:
        """Puts policies in force; the files among them. Raises FindingsError for errors in one."""
        own = self._checked(typed.values(), line)
        # Definitions alone decide nothing, and explanations would still list their policy.
        decides = any(isinstance(item.tree, AnyClause | Use) for item in typed.values())
        objects = [each.checked.file for each in self._stored.values()]
        validation = self._validator.validate(
            self._sources, [*([own] if decides else []), *objects]
        )
        shown = [f for f in validation.files if f.source.name not in self._stored]
        shown += [] if decides else [own]
        errors = [(d, f.source) for f in shown for d in f.diagnostics if d.severity == "error"]
        if errors:
            raise FindingsError(errors)
        self.policies = enforced(validation, self._stored)
        self.typed, self._own = typed, own
        return shown

    def _checked(self, typed: Iterable[TypedItem], line: Source) -> CheckedFile:
        """The policy of typed items. The line comes first, so that its places are as typed."""
        others = (item.text for item in typed if item.source is not line)
        source = Source(NAME, "\n".join([line.text, *others]))
        items, _ = parse_rules(source)
        file = File((Policy(NAME, items, cluster=True),))
        checked = checked_file(source, file, [], load_schema())
        (own,) = checked.policies
        found = tuple(d for d in own.diagnostics if d.code != _UNUSED)
        return replace(checked, policies=(replace(own, diagnostics=found),))

    @property
    def environment(self) -> Environment:
        """The names that a line can read."""
        return self._own.policies[0].environment

    # ---- the cluster

    def decode(self, annotations: frozenset[str] = frozenset()) -> None:
        """Decodes the cluster again, if it lacks annotations of pods, or tables, that are read."""
        wanted = self._annotations | self.policies.needs.annotations | annotations
        tables = self.policies.registry.tables
        if self._source is None or self._documents is None:
            return
        is_known = wanted == self._annotations and tables.keys() <= self._tables
        if self.cluster is not None and is_known:
            return
        if not tables.keys() <= self._tables:
            with self._source() as source:
                rows = source.rows(tables.values())
            self._documents = replace(self._documents, data=rows)
            self._tables = frozenset(tables)
        self._annotations = wanted
        self.codec = ObjectCodec(load_schema(), wanted)
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

    # ---- questions

    def world(self) -> World:
        """Raises CommandError if no cluster is loaded."""
        return World(load_schema(), self.codec, self.required_cluster(), self.policies)

    def expression(self, text: str) -> Expression:
        """Raises FindingsError for errors, and for variables that have no value yet."""
        hidden = {**ONLY_IN_CLAUSES}
        if self.pod is None:
            hidden |= dict.fromkeys(("pod", "namespaceObject"), _NO_POD)
        if self.cluster is None:
            hidden["node"] = _NO_CLUSTER
        expression, found, source = check(text, load_schema(), hidden, self._definitions())
        if expression is None:
            raise FindingsError((d, source) for d in found)
        return expression

    def _definitions(self) -> str:
        kinds = Let | Def | Group | Count
        own = [item.text for item in self.typed.values() if isinstance(item.tree, kinds)]
        return "\n".join([*own, data_declared(self.policies)]).strip()

    def subject(self) -> Subject:
        """What an expression is evaluated on. Raises UserError."""
        data = self.cluster.data if self.cluster is not None else NO_DATA
        tables = tables_at(self.cluster, self.policies, data)
        return Subject(self.cluster, self.codec, self.pod, self.node, tables)

    def samples(self) -> ClusterSamples:
        """The values in the cluster that completion offers."""
        return ClusterSamples(Subject(self.cluster, self.codec), self._definitions())
