"""Conversation: input lines in, answers out.

A line is a command, an expression, items of a policy, or unfinished. Answers go to standard output,
errors and warnings to standard error. A command starts with a colon. Some commands are about the
session itself, and some of the command line are asked about the world of the session.
"""

from __future__ import annotations

import argparse
import re
import shlex
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Literal

from cli.command import CommandError, Exit
from cli.console import put, table
from cli.expressions import put_value, put_values
from cli.flag_table import add_flags
from cli.render import print_error, put_findings
from cli.repl.session import NAME, FindingsError, ReplSession, TypedItem
from cli.world import warn_of_lacks
from engine.cache.cluster_file import SUFFIXES
from engine.cache.pod_manifests import read_pod
from grammar.messages.diagnostics import UserError, nearest
from grammar.messages.texts import counted
from grammar.syntax.formatter import format_file
from grammar.syntax.parser import accepts, keywords, parse_file, parse_rules, scan
from grammar.tree.clauses import Def, Let
from grammar.tree.source import Source
from policies.hints import with_hints
from policies.validation import CheckedFile


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
            # As `placet eval`: a row per node if the expression reads the node and none is chosen.
            expression = session.expression(text.strip())
            session.decode(expression.annotations)
            if "node" in expression.names and session.node is None:
                return put_values(expression, session.subject(), session.required_cluster())
            return put_value(expression, session.subject())
        case "rules":
            return _type(session, Source(NAME, text))
        case "file":
            hint = "write it into a file of the session, or type its clauses"
            raise CommandError("policies and tests cannot be typed", hint)
        case _:
            return Exit.OK


def _type(session: ReplSession, line: Source) -> int:
    trees, found = parse_rules(line)
    if found:
        trees, found = with_hints(lambda: parse_rules(line))
    if errors := [(d, line) for d in found if d.severity == "error"]:
        raise FindingsError(errors)
    items, known = [TypedItem(tree, line) for tree in trees], session.typed
    warnings = session.type(line, items)
    put(_said(session, item, "replaced" if item.title in known else "added") for item in items)
    put_findings(warnings)
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
    put_loaded(session.reload())
    if session.pod_file is not None:
        session.pod = read_pod(session.pod_file)
    if session.cluster is not None:
        put_cluster(session)
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
    name = text.strip("\"'")
    session.drop(name)
    put([f"dropped {name}"])
    return Exit.OK


def put_loaded(files: Sequence[CheckedFile]) -> None:
    """Prints the number of policies in files, and the warnings about them."""
    if not files:
        return
    policies = sum(len(file.policies) for file in files)
    put([f"{counted(policies, 'policy', 'policies')} in {counted(len(files), 'file')}"])
    found = ((d, file.source) for file in files for d in file.diagnostics)
    put_findings(finding for finding in found if finding[0].severity == "warning")


def put_cluster(session: ReplSession) -> None:
    """Prints the size and the time of the cluster, and which objects policies lack there."""
    found = session.required_cluster()
    pods = counted(len(found.pod_bodies), "pod")
    put([f"{counted(len(session.node_names), 'node')} and {pods} at {found.now}"])
    warn_of_lacks(found, session.policies)


# ---- commands of the command line


def _asked(name: str, session: ReplSession, text: str) -> int:
    """A command asked about the world of the session, and its chosen pod. Raises CommandError."""
    command = session.command(name)
    parser = argparse.ArgumentParser(prog=f":{name}")
    add_flags(parser, command.QUESTION)
    try:
        # The words are as in a shell: those with spaces stand in quotes.
        args = parser.parse_args(shlex.split(text))
    except ValueError:
        raise CommandError("a quotation mark is not closed", "close it") from None
    except SystemExit as end:
        return Exit.OK if not end.code else Exit.ERROR
    if "pod" in args:
        _choose_pod(session, args)
    return command.ask(args, session.world())


def _choose_pod(session: ReplSession, args: argparse.Namespace) -> None:
    """Without a pod it is the chosen one. Beside a pod, a name alone is the node."""
    args.namespace, args.all_namespaces = None, False
    has_pod = args.pod_file is not None or session.pod is not None
    if has_pod and getattr(args, "node", "") is None and "/" not in (args.pod or ""):
        args.pod, args.node = None, args.pod
    if args.pod is None and args.pod_file is None:
        args.pod, args.pod_file = session.required_pod().key, session.pod_file
        if args.pod_file is not None:
            args.pod = None


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
    rows = table("command", "does")
    for command in COMMANDS.values():
        rows.add_row(command.form, command.summary)
    put(
        [
            rows,
            "",
            "An expression shows its value. `let`, `def` and clauses are added.",
            "A line continues while a bracket is open. `:explain -h` shows the flags of a command.",
        ]
    )
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


def _question(form: str, summary: str, takes: Takes) -> ReplCommand:
    """A command that `_asked` finds by its name."""
    name = form.partition(" ")[0].removeprefix(":")
    return ReplCommand(form, summary, takes, partial(_asked, name))


_ALL = (
    ReplCommand(":reload", "reads the policy files and the cluster again", "nothing", reload),
    ReplCommand(":pod [POD]", "chooses the pod, by its name or by a manifest", "pod", pod),
    ReplCommand(":node [NODE]", "chooses the node; `*` means all nodes", "node", node),
    _question(":explain [POD] [NODE]", "shows why each node passes or fails", "node"),
    _question(":analyze [POD]", "shows what keeps a pod from nodes, and what would help", "pod"),
    _question(":check", "shows warnings, and what each policy and clause does", "flags"),
    ReplCommand(":policy", "shows the typed clauses as a policy", "nothing", policy),
    ReplCommand(":drop NAME", "removes a typed clause or name", "typed", drop),
    ReplCommand(":quit", "ends the session, like Ctrl-D", "nothing", quit_),
    ReplCommand(":help", "lists the commands", "nothing", help_),
)
COMMANDS: Mapping[str, ReplCommand] = {command.name: command for command in _ALL}
# What other programs call these commands, alone on a line: also where a `let` has that name.
PLAIN: Mapping[str, str] = {"help": ":help", "?": ":help", "exit": ":quit", "quit": ":quit"}
