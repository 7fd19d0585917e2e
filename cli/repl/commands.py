"""Commands: the lines that start with a colon.

First the commands about the session itself: its policies, cluster, pod, node and settings. Then a
table of all commands, which help and completion read too.
"""

from __future__ import annotations

import shlex
from argparse import ArgumentTypeError
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal as OneOf

from cli.command import CommandError, given_path, make, replace_text
from cli.console import table
from cli.repl import evaluation, saved_test, verdicts
from cli.repl.notebook import NAME
from cli.repl.session import ClusterOrigin, ReplSession, Reply
from engine.cache.cluster_file import SUFFIXES
from engine.cache.pod_manifests import read_pod
from grammar.messages.diagnostics import nearest
from grammar.messages.texts import counted
from grammar.syntax.parser import parse_file
from grammar.tree.printer import format_file
from grammar.tree.source import Source
from policies.disk import expanded
from policies.loader import SUFFIX
from policies.recipe_collection import best, listed, recipes, shown
from policies.validation import Validation

_ALL_NODES = "*"


def load(session: ReplSession, text: str) -> Iterator[Reply]:
    paths = _paths(text)
    if not paths:
        raise CommandError("no file is given", "as in `:load shop.policy`")
    files = tuple(dict.fromkeys((*session.files, *paths)))
    yield from loaded(session, session.load(files))


def reload(session: ReplSession, _: str) -> Iterator[Reply]:
    if not session.files and session.origin is None:
        raise CommandError("no files are loaded", "use `:load` or `:cluster` first")
    if session.files:
        yield from loaded(session, session.load(session.files))
    if session.origin is not None:
        before = session.pod
        session.open(session.origin)
        if session.pod_file is not None:
            session.pod = read_pod(session.pod_file)
        yield cluster_summary(session)
        if before is not None and session.pod is None:
            yield f"pod `{before.key}` no longer exists"


def cluster(session: ReplSession, text: str) -> Iterator[Reply]:
    if paths := _paths(text):
        session.open(ClusterOrigin.files(paths))
    yield cluster_summary(session)


def pod(session: ReplSession, text: str) -> Iterator[Reply]:
    if text and Path(text).suffix in SUFFIXES:
        session.pod, session.pod_file = read_pod(Path(text)), Path(text)
    elif text:
        session.pod, session.pod_file = session.required_cluster().pod(text), None
    chosen = session.required_pod()
    place = f" on {chosen.node}, evaluated as if it had no node" if chosen.node else ""
    yield f"pod {chosen.key}{place}"


def node(session: ReplSession, text: str) -> Iterator[Reply]:
    if text == _ALL_NODES:
        session.node = None
        yield f"all of {counted(len(session.node_names), 'node')}"
        return
    if text:
        session.node = session.required_cluster().node(text).name
    yield f"node {session.required_node()}"


def policy(session: ReplSession, text: str) -> Iterator[Reply]:
    source = Source(NAME, session.notebook.text)
    if not source.text:
        raise CommandError("nothing has been typed for a policy", 'as in `filter "a" {`')
    typed = format_file(parse_file(source)[0], source)
    if not text:
        yield from typed.rstrip().split("\n")
        return
    file = Path(text)
    if file.suffix != SUFFIX or file.exists():
        reason = "already exists" if file.exists() else "is not a policy file"
        hint = "give the name of a new file, as in `:policy new.policy`"
        raise CommandError(f"`{file}` {reason}", hint)
    make(file)
    replace_text(file, typed)
    yield f"{counted(len(session.notebook.sources), 'policy', 'policies')} in {file}"


def how(_: ReplSession, text: str) -> Iterator[Reply]:
    if not text:
        yield from listed(recipes())
        return
    yield from shown(*best(text))


def drop(session: ReplSession, text: str) -> Iterator[Reply]:
    name, known = text.strip("\"'"), session.notebook.names
    if name not in known:
        typed = ", ".join(f"`{k}`" for k in known)
        hint = f"the typed names are {typed}" if typed else ""
        raise CommandError(f"nothing called `{name}` has been typed", hint)
    session.use(session.notebook.without(name))
    yield f"dropped {name}"


def set_(session: ReplSession, text: str) -> Iterator[Reply]:
    settings, (name, *given) = session.settings, text.split() or [""]
    match name, given:
        case "rows", [number] if number.isdecimal() and int(number):
            settings.rows = int(number)
        case "trace", [("on" | "off") as word]:
            settings.trace = word == "on"
        case "time", [("on" | "off") as word]:
            settings.time = word == "on"
        case "", []:
            pass
        case _:
            raise CommandError(
                f"`{text}` is not a setting",
                "the settings are `rows N`, `trace on|off` and `time on|off`",
            )
    words = {True: "on", False: "off"}
    yield f"rows {settings.rows}, trace {words[settings.trace]}, time {words[settings.time]}"


def loaded(session: ReplSession, validation: Validation) -> Iterator[Reply]:
    """The number of loaded policies and files, and the warnings about them."""
    typed = session.notebook.sources
    files = [f for f in validation.files if f.source not in typed and not f.private]
    policies = sum(len(file.policies) for file in files)
    yield f"{counted(policies, 'policy', 'policies')} in {counted(len(files), 'file')}"
    for file in files:
        yield from ((d, file.source) for d in file.diagnostics if d.severity == "warning")


def cluster_summary(session: ReplSession) -> str:
    found = session.required_cluster()
    pods = counted(len(found.pod_bodies), "pod")
    lacks = found.lacks(session.policies.needs)
    note = f"\nnote: {lacks}" if lacks else ""
    return f"{counted(len(session.node_names), 'node')} and {pods} at {found.now}{note}"


def _paths(text: str) -> list[Path]:
    """File names as in a shell: names with spaces stand in quotes. Raises CommandError."""
    try:
        return [expanded(given_path(word)) for word in shlex.split(text)]
    except ValueError:
        raise CommandError("a quotation mark is not closed", "close it") from None
    except ArgumentTypeError as error:
        raise CommandError(str(error), "name a file") from None


# ---- the table of all commands

# The kind of an argument, for completion.
Takes = OneOf[
    "nothing", "expression", "file", "pod", "node", "setting", "command", "recipe", "typed"
]


@dataclass(frozen=True, slots=True)
class ReplCommand:
    """A command: its `form` with arguments, a `summary` of one line, and further `details`."""

    form: str
    summary: str
    details: str
    takes: Takes
    run: Callable[[ReplSession, str], Iterator[Reply]]

    @property
    def name(self) -> str:
        return self.form.split()[0]


def help_(_: ReplSession, text: str) -> Iterator[Reply]:
    if not text:
        rows = table("command", "does")
        for command in COMMANDS.values():
            rows.add_row(command.form, command.summary)
        yield rows
        yield ""
        yield "An expression shows its value. `let`, `def`, clauses and policies are added."
        yield "A line continues while a bracket is open. `:help NAME` explains one command."
        return
    command = find(f":{text.removeprefix(':')}")
    yield command.form
    yield f"  {command.summary}"
    if command.details:
        yield f"  {command.details}"


def quit_(session: ReplSession, _: str) -> Iterator[Reply]:
    session.has_ended = True
    return iter(())


def find(name: str) -> ReplCommand:
    """A command by its name. Raises CommandError."""
    if name in COMMANDS:
        return COMMANDS[name]
    close = nearest(name, COMMANDS)
    hint = f"a similar command exists: `{close}`" if close else "`:help` lists the commands"
    raise CommandError(f"there is no command `{name}`", hint)


_ALL = (
    ReplCommand(
        ":load FILE…",
        "loads more policy files",
        "If one of them has an error, nothing changes.",
        "file",
        load,
    ),
    ReplCommand(
        ":reload",
        "reads the policy files and the cluster again",
        "Typed clauses and policies stay.",
        "nothing",
        reload,
    ),
    ReplCommand(
        ":cluster [SNAPSHOT…]",
        "loads another cluster; without a file, shows the size of the current one",
        "A snapshot is the output of `kubectl get nodes,pods,replicasets -A -o json` (or yaml).",
        "file",
        cluster,
    ),
    ReplCommand(
        ":pod [POD]",
        "chooses the pod: NAMESPACE/NAME, a name that only one pod has, or a manifest",
        "A pod that has a node is evaluated as if it had none.",
        "pod",
        pod,
    ),
    ReplCommand(
        ":node [NODE]",
        "chooses the node; `*` means all nodes, each with its own value",
        "In a cluster of one node, this node is chosen.",
        "node",
        node,
    ),
    ReplCommand(
        ":type EXPR",
        "shows the type of an expression without evaluating it",
        "It needs no cluster, pod or node.",
        "expression",
        evaluation.type_,
    ),
    ReplCommand(
        ":trace EXPR",
        "shows the value of every part of an expression",
        "A part that was not evaluated, such as the right side of a decided `&&`, has no value.",
        "expression",
        evaluation.trace,
    ),
    ReplCommand(
        ":why [NODE]",
        "shows which policies apply to the pod, and why each node passes or fails",
        "With a node, shows the value of every part of every expression. Same as `placet explain`.",
        "node",
        verdicts.why,
    ),
    ReplCommand(
        ":rank [N]",
        "lists the nodes that pass, the best first",
        "`exactly` is the score before it is rounded to a whole number.",
        "nothing",
        verdicts.rank,
    ),
    ReplCommand(
        ":analyze",
        "shows what keeps the pod from nodes, and what would help",
        "One row for each clause. Same as `placet analyze`.",
        "nothing",
        verdicts.analyze,
    ),
    ReplCommand(
        ":cost [EXPR]",
        "shows the maximum number of steps per node of an expression, or of every policy",
        "The most expensive parts come first. Same as `placet check --cost`.",
        "expression",
        evaluation.cost,
    ),
    ReplCommand(
        ":what-if PATH = VALUE",
        "shows how the answers change if one field of the node or the pod changes",
        'As in `:what-if node.labels["disk"] = "ssd"`; `= absent` removes the field. The change is'
        " not kept.",
        "expression",
        verdicts.what_if,
    ),
    ReplCommand(
        ":missing EXPR",
        "shows which fields and keys of an expression are absent, and where",
        "Each is looked up separately, even if the evaluation does not reach it.",
        "expression",
        evaluation.missing,
    ),
    ReplCommand(
        ":save-test FILE",
        "writes a `test` block with the current answer for each node",
        "It is added to the end of FILE, for `placet test`. With more than 20 nodes, one stands for"
        " all nodes with the same answer.",
        "file",
        saved_test.save_test,
    ),
    ReplCommand(
        ":bench EXPR",
        "measures how long an expression takes, in microseconds per node",
        "The expression is compiled once and evaluated repeatedly; nodes without a value are"
        " skipped.",
        "expression",
        evaluation.bench,
    ),
    ReplCommand(
        ":set [NAME VALUE]",
        "changes a setting: `rows N` of a table, `trace on`, `time on`",
        "`trace` shows the parts of each expression, `time` shows how long each line took.",
        "setting",
        set_,
    ),
    ReplCommand(
        ":policy [FILE]",
        "shows the typed clauses and policies, or writes them to a new file",
        "Clauses, `let` and `def` form a cluster policy called `session`, which applies to every"
        " pod in addition to the other policies.",
        "file",
        policy,
    ),
    ReplCommand(
        ":how [WORDS]",
        "shows a tested policy for what is wished, as in `:how at most three per zone`",
        "Without words it lists all recipes. Same as `placet how`.",
        "recipe",
        how,
    ),
    ReplCommand(
        ":drop NAME",
        "removes a typed clause, name or policy",
        "To change one, type it again.",
        "typed",
        drop,
    ),
    ReplCommand(":quit", "ends the session, like Ctrl-D", "", "nothing", quit_),
    ReplCommand(":help [NAME]", "lists the commands, or explains one", "", "command", help_),
)
COMMANDS: Mapping[str, ReplCommand] = {command.name: command for command in _ALL}
# What other programs call these commands, alone on a line: also where a `let` has that name.
PLAIN: Mapping[str, str] = {
    "help": ":help",
    "?": ":help",
    "exit": ":quit",
    "quit": ":quit",
}
