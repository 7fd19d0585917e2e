"""Commands: the lines that start with a colon.

First the commands about the session itself: its pod and node, and what was typed. Then the commands
of the command line that are asked about its world, and a table of all, which help and completion
read too.
"""

from __future__ import annotations

import argparse
import shlex
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Literal as OneOf

from cli.command import CommandError, Exit
from cli.console import put, table
from cli.flag_table import add_flags
from cli.render import put_findings
from cli.repl.session import NAME, ReplSession
from cli.world import warn_of_lacks
from engine.cache.cluster_file import SUFFIXES
from engine.cache.pod_manifests import read_pod
from grammar.messages.diagnostics import nearest
from grammar.messages.texts import counted
from grammar.syntax.formatter import format_file
from grammar.syntax.parser import parse_file
from grammar.tree.source import Source
from policies.validation import CheckedFile

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


def _words(text: str) -> Sequence[str]:
    """The words as in a shell: those with spaces stand in quotes. Raises CommandError."""
    try:
        return shlex.split(text)
    except ValueError:
        raise CommandError("a quotation mark is not closed", "close it") from None


# ---- commands of the command line


def _asked(name: str, session: ReplSession, text: str) -> int:
    """A command asked about the world of the session, and its chosen pod."""
    command = session.command(name)
    parser = argparse.ArgumentParser(prog=f":{name}")
    add_flags(parser, command.QUESTION)
    try:
        args = parser.parse_args(_words(text))
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
Takes = OneOf["nothing", "pod", "node", "typed", "flags"]


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
