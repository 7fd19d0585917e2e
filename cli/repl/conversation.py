"""Conversation: input lines in, answers out.

A line is a command, an expression, items of a policy, or unfinished. Answers go to standard output,
errors and warnings to standard error. A command starts with a colon. Some commands are about the
session itself, and some of the command line are asked about the world of the session.

A Session holds the policies of its files, the typed items, the cluster, and the chosen pod and
node, until the end of `placet repl`. A step that fails with UserError or FindingsError leaves it as
it was.
"""

from __future__ import annotations

import argparse
import re
import shlex
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Literal

from cli.command import CommandError, Exit, add_flags, module_of
from cli.console import put, table
from cli.expressions import (
    ONLY_IN_CLAUSES,
    ClusterSamples,
    Expression,
    Subject,
    check,
    data_declared,
    put_value,
    tables_at,
)
from cli.render import Finding, print_error, put_findings
from cli.sources import AskedCluster
from cli.world import World, put_notes, sources_of, stored_objects
from engine.cache.cluster_copy import NO_DATA, ClusterCopy, ClusterDocuments, NamedPod
from engine.cache.cluster_file import SUFFIXES
from engine.cache.informers import Needs
from engine.cache.pod_manifests import read_pod
from engine.enforced import enforced, together
from engine.objects.request_pod import ObjectCodec
from grammar.meaning.environment import Environment
from grammar.meaning.schema import load_schema
from grammar.messages.diagnostics import UserError, nearest
from grammar.messages.texts import counted
from grammar.syntax.formatter import format_file
from grammar.syntax.parser import accepts, keywords, parse_file, parse_rules, scan
from grammar.tree.ast import NO_SPAN
from grammar.tree.clause_parts import AnyClause
from grammar.tree.policy import Count, Def, File, ForPods, Group, Item, Let, Policy, Setting, Use
from grammar.tree.source import Source
from policies.admission import StoredObject
from policies.hints import with_hints
from policies.validation import CheckedFile, Validation, Validator, checked_file

# The name of the policy that typed clauses form.
NAME = "session"
_NO_LINE = Source(NAME, "")
_NO_NEEDS = Needs()
_NO_CLUSTER = "begin with `placet repl --cluster SNAPSHOT`, or with `--kubeconfig FILE`"
_NO_POD = "choose one with `:pod NAMESPACE/NAME`"
# A definition that is typed first is used by later lines.
_UNUSED = "P0303"


class FindingsError(Exception):
    """A text with errors. `findings` are diagnostics, each with its source."""

    def __init__(self, findings: Iterable[Finding]) -> None:
        super().__init__()
        self.findings = tuple(findings)


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
    """A session about policy files and the cluster of a source, which `reload` reads."""

    def __init__(
        self,
        files: Sequence[Path] = (),
        source: Callable[[], AbstractContextManager[AskedCluster]] | None = None,
    ) -> None:
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
        self._read: tuple[Sequence[Source], Mapping[str, StoredObject]] = ((), {})
        self._own = self._checked((), _NO_LINE)
        self._documents: ClusterDocuments | None = None
        self._needs = _NO_NEEDS
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
        objects = documents.policies() if documents is not None else {}
        read = sources, stored_objects(objects, load_schema())
        files = self.adopt(self.typed, read=read)
        self._documents, self.cluster, self._tables = documents, None, frozenset()
        self.decode()
        names = self.node_names
        self.node = self.node if self.node in names else names[0] if len(names) == 1 else None
        if self.pod_file is None and self.pod is not None:
            cluster, key = self.required_cluster(), self.pod.key
            self.pod = cluster.pod(key) if key in cluster.pod_bodies else None
        return [f for f in files if f.source in sources and not f.private]

    def adopt(
        self,
        typed: Mapping[str, TypedItem],
        line: Source = _NO_LINE,
        read: tuple[Sequence[Source], Mapping[str, StoredObject]] | None = None,
    ) -> Sequence[CheckedFile]:
        """Puts policies in force; the files among them. Raises FindingsError for errors in one."""
        own = self._checked(typed.values(), line)
        # Definitions alone decide nothing, and explanations would still list their policy.
        decides = any(isinstance(item.tree, AnyClause | Use) for item in typed.values())
        sources, stored = read or self._read
        objects = [each.checked.file for each in stored.values()]
        validation = self._validator.validate(sources, [*([own] if decides else []), *objects])
        shown = [f for f in validation.files if f.source.name not in stored]
        shown += [] if decides else [own]
        errors = [(d, f.source) for f in shown for d in f.diagnostics if d.severity == "error"]
        if errors:
            raise FindingsError(errors)
        self.policies = enforced(validation, stored)
        self.typed, self._own, self._read = typed, own, (sources, stored)
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

    def decode(self, asked: Needs = _NO_NEEDS) -> None:
        """Decodes the cluster again, if it lacks what is read."""
        if self._source is None or self._documents is None:
            return
        needs = together((self._needs, self.policies.needs, asked))
        read, tables = self._documents, self.policies.registry.tables
        if self.cluster is not None and needs == self._needs and tables.keys() <= self._tables:
            return
        if tables or replace(needs, annotations=frozenset()) != _NO_NEEDS:
            with self._source() as source:
                read = replace(read, data=source.rows(tables.values()))
                read = source.completed(read, [needs])
        self._needs, self._tables = needs, frozenset(tables)
        self.codec = ObjectCodec(load_schema(), needs.annotations)
        self.cluster = read.cluster(self.codec)

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
        expression, found, source = check(text, hidden, self._definitions())
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


def answer(session: ReplSession, text: str) -> bool:
    """Prints the answer to a text; whether it did not fail.

    A text with an error does not change the session.
    """
    try:
        if "\0" in text:
            raise CommandError("the text contains a NUL character", "remove it")
        return _answered(session, text) == Exit.OK
    except UserError as error:
        print_error(error.message, error.hint)
    except FindingsError as error:
        put_findings(error.findings)
    return False


def answer_lines(session: ReplSession, lines: Iterable[str]) -> bool:
    """Prints the answers to lines of a pipe; whether none of them failed.

    A text that spans several lines is answered once it is complete.
    """
    ok, text = True, ""
    for line in chain(lines, [None]):
        if line is not None:
            text += line if line.endswith("\n") else f"{line}\n"
            if unfinished(text):
                continue
        if text.strip():
            ok = answer(session, text.rstrip("\n")) and ok
            sys.stdout.flush()
        text = ""
        if session.has_ended:
            break
    return ok


def prompt(session: ReplSession) -> str:
    """The chosen pod and node, or `placet`."""
    chosen = [session.pod.key if session.pod is not None else "", session.node or ""]
    return f"{' @ '.join(filter(None, chosen)) or 'placet'}> "


# ---- the meaning of a text

Reading = Literal["nothing", "command", "expression", "rules", "file", "unfinished"]
Start = Literal["expression", "rules", "file"]

_STARTS: tuple[Start, ...] = ("expression", "rules", "file")
_NOTHING = re.compile(r"(?:\s|(?:#|//)[^\n]*(?:\n|\Z))*")
_END = "$END"
_LONG_QUOTES = ('"""', "'''")
_WORD = re.compile(r"[A-Za-z_]\w*")


def reading(text: str) -> Reading:
    """The kind of a text. A text with errors gets the kind that its first word suggests."""
    if _NOTHING.fullmatch(text):
        return "nothing"
    if text.lstrip().startswith(":") or text.strip() in PLAIN:
        return "command"
    if scan(Source("", text)) is not None:
        return _guess(text)
    next_ = {start: accepts(text, start) for start in _STARTS}
    whole = next((start for start in _STARTS if _END in next_[start]), None)
    if whole is not None:
        return whole
    in_long_string = any(
        quotes in text and any(accepts(text + quotes, start) for start in _STARTS)
        for quotes in _LONG_QUOTES
    )
    if any(next_.values()) or in_long_string:
        return "unfinished"
    return _guess(text)


def unfinished(text: str) -> bool:
    """Whether a text needs more lines: a bracket is open, or an operand is missing."""
    return reading(text) == "unfinished"


def _guess(text: str) -> Start:
    """The kind that the first word of an unfinished or wrong text suggests."""
    comments = _NOTHING.match(text)
    word = _WORD.search(text, comments.end() if comments else 0)
    if word is None:
        return "expression"
    known = keywords()
    for start in ("file", "rules"):
        if word.group() in {known.get(terminal) for terminal in accepts("", start)}:
            return start
    return "expression"


# ---- the answers to each kind


def _answered(session: ReplSession, text: str) -> int:
    kind = reading(text)
    match kind if kind != "unfinished" else _guess(text):
        case "command":
            name, _, rest = text.strip().partition(" ")
            command = find(PLAIN.get(name, name))
            if rest.strip() and command.takes == "nothing":
                raise CommandError(f"`{command.name}` takes no arguments", "")
            return command.run(session, rest.strip())
        case "expression":
            expression = session.expression(text.strip())
            session.decode(expression.needs)
            return put_value(expression, session.subject())
        case "rules":
            return _type(session, Source(NAME, text))
        case "file":
            hint = "write it into a file of the session, or type its clauses"
            raise CommandError("policies and tests cannot be typed", hint)
        case _:
            return Exit.OK


def _type(session: ReplSession, line: Source) -> int:
    trees, found = with_hints(lambda: parse_rules(line))
    if errors := [(d, line) for d in found if d.severity == "error"]:
        raise FindingsError(errors)
    items, known = [TypedItem(tree, line) for tree in trees], session.typed
    files = session.adopt({**known, **{item.title: item for item in items}}, line)
    session.decode()
    put(_said(session, item, "replaced" if item.title in known else "added") for item in items)
    put_findings(
        (each, file.source)
        for file in files
        if file.source.name == NAME
        for each in file.diagnostics
        if each.severity == "warning" and each.span != NO_SPAN and each.span.start < len(line.text)
    )
    return Exit.OK


def _said(session: ReplSession, item: TypedItem, done: str) -> str:
    match item.tree:
        case Let(name):
            return f"{name} : {session.environment.lets[name].type}"
        case Def(name, parameters, result):
            taken = ", ".join(f"{p.name}: {p.type}" for p in parameters)
            return f"{name}({taken}) : {result}"
        case _:
            return f"{done} {item.title}"


# ---- commands about the session itself

_ALL_NODES = "*"


def reload(session: ReplSession, _: str) -> int:
    before = session.pod
    files = session.reload()
    if session.pod_file is not None:
        session.pod = read_pod(session.pod_file)
    put_loaded(session, files)
    if before is not None and session.pod is None:
        put([f"pod `{before.key}` no longer exists"])
    return Exit.OK


def pod(session: ReplSession, text: str) -> int:
    if text and Path(text).suffix in SUFFIXES:
        session.pod, session.pod_file = read_pod(Path(text)), Path(text)
    elif text:
        session.pod, session.pod_file = session.required_cluster().pod(text), None
    chosen = session.required_pod()
    place = f" on {chosen.node}, evaluated as if it had no node" if chosen.node else ""
    put([f"pod {chosen.key}{place}"])
    return Exit.OK


def node(session: ReplSession, text: str) -> int:
    if text == _ALL_NODES:
        session.node = None
    elif text:
        session.node = session.required_cluster().node(text).name
    every = f"all of {counted(len(session.node_names), 'node')}"
    put([every if session.node is None else f"node {session.node}"])
    return Exit.OK


def policy(session: ReplSession, _: str) -> int:
    if not session.typed:
        raise CommandError("nothing has been typed for a policy", 'as in `filter "a" {`')
    items = "".join(f"{item.text}\n" for item in session.typed.values())
    typed = Source(NAME, f"cluster policy {NAME} {{\n{items}}}")
    put(format_file(parse_file(typed)[0], typed).rstrip().split("\n"))
    return Exit.OK


def drop(session: ReplSession, text: str) -> int:
    name, names = text.strip("\"'"), sorted({item.name for item in session.typed.values()})
    if name not in names:
        typed = ", ".join(f"`{each}`" for each in names)
        hint = f"the typed names are {typed}" if typed else ""
        raise CommandError(f"nothing called `{name}` has been typed", hint)
    session.adopt({title: item for title, item in session.typed.items() if item.name != name})
    put([f"dropped {name}"])
    return Exit.OK


def put_loaded(session: ReplSession, files: Sequence[CheckedFile]) -> None:
    """Prints what was loaded: the policies in files, and the cluster.

    Warns of the policies, and says what they lack in the cluster.
    """
    if files:
        policies = sum(len(file.policies) for file in files)
        put([f"{counted(policies, 'policy', 'policies')} in {counted(len(files), 'file')}"])
        found = ((d, file.source) for file in files for d in file.diagnostics)
        put_findings(finding for finding in found if finding[0].severity == "warning")
    if (cluster := session.cluster) is not None:
        pods = counted(len(cluster.pod_bodies), "pod")
        put([f"{counted(len(session.node_names), 'node')} and {pods} at {cluster.now}"])
        put_notes(cluster, session.policies)


# ---- commands of the command line


def _asked(name: str, session: ReplSession, text: str) -> int:
    """A command asked about the world of the session, and its chosen pod. Raises CommandError."""
    command = module_of(name)
    parser = argparse.ArgumentParser(prog=f":{name}", allow_abbrev=False)
    add_flags(parser, command.QUESTION, rare=True)
    try:
        # The words are as in a shell: those with spaces stand in quotes.
        args = parser.parse_args(shlex.split(text))
    except ValueError:
        raise CommandError("a quotation mark is not closed", "close it") from None
    except SystemExit as end:
        return Exit.OK if not end.code else Exit.ERROR
    if "pod" in args:
        # Without a pod it is the chosen one. Beside a pod, a name alone is the node.
        args.namespace, args.all_namespaces = None, False
        has_pod = args.pod_file is not None or session.pod is not None
        if has_pod and getattr(args, "node", "") is None and "/" not in (args.pod or ""):
            args.pod, args.node = None, args.pod
        if args.pod is None and args.pod_file is None:
            args.pod_file = session.pod_file
            args.pod = session.required_pod().key if args.pod_file is None else None
    return command.ask(args, session.world())


# ---- the table of all commands

# The kind of an argument, for completion.
Takes = Literal["nothing", "pod", "node", "typed", "flags"]


@dataclass(frozen=True, slots=True)
class ReplCommand:
    """A command: its `form` with arguments, and a `summary` of one line."""

    form: str
    summary: str
    takes: Takes
    run: Callable[[ReplSession, str], int]

    @property
    def name(self) -> str:
        return self.form.partition(" ")[0]


def help_(_: ReplSession, _text: str) -> int:
    put([table("command", "does", rows=[(each.form, each.summary) for each in COMMANDS.values()])])
    print("\nAn expression shows its value. `let`, `def` and clauses are added.")
    print("A line continues while a bracket is open. `:explain -h` shows the flags of a command.")
    return Exit.OK


def quit_(session: ReplSession, _: str) -> int:
    session.has_ended = True
    return Exit.OK


def find(name: str) -> ReplCommand:
    """A command by its name. Raises CommandError."""
    if name in COMMANDS:
        return COMMANDS[name]
    close = nearest(name, COMMANDS)
    hint = f"a similar command exists: `{close}`" if close else "`:help` lists the commands"
    raise CommandError(f"there is no command `{name}`", hint)


_explain, _check = (partial(_asked, name) for name in ("explain", "check"))
_ALL = (
    ReplCommand(":reload", "reads the policy files and the cluster again", "nothing", reload),
    ReplCommand(":pod [POD]", "chooses the pod, by its name or by a manifest", "pod", pod),
    ReplCommand(":node [NODE]", "chooses the node; `*` means all nodes", "node", node),
    ReplCommand(":explain [POD] [NODE]", "shows why each node passes or fails", "node", _explain),
    ReplCommand(":check", "shows warnings, and what each policy and clause does", "flags", _check),
    ReplCommand(":policy", "shows the typed clauses as a policy", "nothing", policy),
    ReplCommand(":drop NAME", "removes a typed clause or name", "typed", drop),
    ReplCommand(":quit", "ends the session, like Ctrl-D", "nothing", quit_),
    ReplCommand(":help", "lists the commands", "nothing", help_),
)
COMMANDS: Mapping[str, ReplCommand] = {command.name: command for command in _ALL}
# What other programs call these commands, alone on a line: also where a `let` has that name.
PLAIN: Mapping[str, str] = {"help": ":help", "?": ":help", "exit": ":quit", "quit": ":quit"}
