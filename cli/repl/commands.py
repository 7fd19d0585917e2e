"""What there is to talk about: policies, a cluster, the pod and the node at hand, and settings."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal as OneOf

from cli.command import CommandError, make, replace_text
from cli.console import table
from cli.render import counted
from cli.repl import deciding, evaluating, saving
from cli.repl import evaluating as absent
from cli.repl.session import NAME, Files, Session, Told, answer_problem
from cli.world import NamedPod, read_pod
from engine.cache.cluster_file import SUFFIXES
from grammar.diagnostics import nearest
from grammar.parser import parse_file
from grammar.printer import format_file
from grammar.source import Source
from policies.loader import SUFFIX
from policies.validation import Validation

_ALL = "*"
_SWITCH = {"on": True, "off": False}


def load(session: Session, text: str) -> Iterator[Told]:
    """More policy files."""
    paths = _paths(text)
    if not paths:
        raise CommandError("no file is named", "as in `:load shop.policy`")
    named = tuple(dict.fromkeys((*session.files, *paths)))
    yield from loaded(session, session.load(named))


def reload(session: Session, _: str) -> Iterator[Told]:
    """Files and cluster as they are now."""
    if not session.files and session.origin is None:
        raise CommandError("nothing has been read", "`:load` and `:cluster` read something")
    if session.files:
        yield from loaded(session, session.load(session.files))
    if session.origin is not None:
        had_pod = session.pod
        session.open(session.origin)
        if session.pod_file is not None:
            session.pod = NamedPod(*read_pod(session.pod_file))
        yield cluster_summary(session)
        if had_pod is not None and session.pod is None:
            yield f"there is no pod `{had_pod.key}` any more"


def cluster(session: Session, text: str) -> Iterator[Told]:
    """Another cluster, or which one it is."""
    if paths := _paths(text):
        session.open(Files(paths))
    yield cluster_summary(session)


def pod(session: Session, text: str) -> Iterator[Told]:
    """Another pod, by name or by manifest, or which one it is."""
    if text and Path(text).suffix in SUFFIXES:
        session.pod, session.pod_file = NamedPod(*read_pod(Path(text))), Path(text)
    elif text:
        session.pod, session.pod_file = session.some_cluster().pod(text), None
    asked = session.some_pod()
    yield f"pod {asked.key}{f' on {asked.node}, asked about as if it were not' * bool(asked.node)}"


def node(session: Session, text: str) -> Iterator[Told]:
    """Another node, or which one it is."""
    if text == _ALL:
        session.node = None
        yield f"every one of {counted(len(session.node_names), 'node')}"
        return
    if text:
        session.node = session.some_cluster().node(text).name
    yield f"node {session.some_node()}"


def policy(session: Session, text: str) -> Iterator[Told]:
    """What was typed, on the screen or in a file."""
    source = Source(NAME, session.notebook.text)
    if not source.text:
        raise CommandError("nothing has been typed for a policy", 'as in `filter "a" {`')
    typed = format_file(parse_file(source)[0], source)
    if not text:
        yield typed.rstrip()
        return
    file = Path(text)
    if file.suffix != SUFFIX or file.exists():
        reason = "is there already" if file.exists() else "is no policy file"
        raise CommandError(f"`{file}` {reason}", "name a new one, as in `:policy new.policy`")
    make(file)
    replace_text(file, typed)
    yield f"{counted(len(session.notebook.sources), 'policy', 'policies')} in {file}"


def drop(session: Session, text: str) -> Iterator[Told]:
    """Takes back something that was typed."""
    name = text.strip("\"'")
    if name not in session.notebook.names:
        known = ", ".join(f"`{known}`" for known in session.notebook.names)
        raise CommandError(
            f"nothing called `{name}` has been typed", f"there is {known}" if known else ""
        )
    session.note(session.notebook.without(name))
    yield f"dropped {name}"


def set_(session: Session, text: str) -> Iterator[Told]:
    """One of the settings, or all of them as they are."""
    settings, (name, *given) = session.settings, text.split() or [""]
    match name, given:
        case "rows", [number] if number.isdecimal() and int(number):
            settings.rows = int(number)
        case "trace", [("on" | "off") as word]:
            settings.trace = _SWITCH[word]
        case "time", [("on" | "off") as word]:
            settings.time = _SWITCH[word]
        case "", []:
            pass
        case _:
            raise CommandError(
                f"`{text}` is no setting", "there is `rows N`, `trace on|off` and `time on|off`"
            )
    words = {True: "on", False: "off"}
    yield f"rows {settings.rows}, trace {words[settings.trace]}, time {words[settings.time]}"


def loaded(session: Session, validation: Validation) -> Iterator[Told]:
    """How much was read, and the warnings."""
    typed = session.notebook.sources
    files = [f for f in validation.files if f.source not in typed and not f.private]
    policies = sum(len(file.policies) for file in files)
    yield f"{counted(policies, 'policy', 'policies')} in {counted(len(files), 'file')}"
    for file in files:
        yield from (
            answer_problem((d, file.source)) for d in file.diagnostics if d.severity == "warning"
        )


def cluster_summary(session: Session) -> str:
    """How much there is of it, and what is at hand."""
    there = session.some_cluster()
    pods = counted(len(there.pod_keys()), "pod")
    return f"{counted(len(session.node_names), 'node')} and {pods} at {there.now}"


def _paths(text: str) -> list[Path]:
    """File names as a shell takes them: those with spaces in quotes."""
    try:
        return [Path(word).expanduser() for word in shlex.split(text)]
    except ValueError:
        raise CommandError("a quote is open", "close it") from None


# ---- The commands that start with a colon: a table of what each takes, does and completes.

# What an argument is, for completion.
Takes = OneOf["nothing", "expression", "file", "pod", "node", "setting", "command", "typed"]


@dataclass(frozen=True, slots=True)
class Command:
    """`form` is how it is written, `summary` one line, `details` what more there is to know."""

    form: str
    summary: str
    details: str
    takes: Takes
    run: Callable[[Session, str], Iterator[Told]]

    @property
    def name(self) -> str:
        return self.form.split()[0]


def help_(_: Session, text: str) -> Iterator[Told]:
    """All commands, or one."""
    if not text:
        rows = table("command", "does")
        for command in COMMANDS.values():
            rows.add_row(command.form, command.summary)
        yield rows
        yield "\nAn expression shows its value; `let`, `def`, clauses and policies are added."
        yield "A line goes on while something is open. `:help NAME` says more of a command."
        return
    command = find(f":{text.removeprefix(':')}")
    yield f"{command.form}\n  {command.summary}"
    if command.details:
        yield f"  {command.details}"


def leave(session: Session, _: str) -> Iterator[Told]:
    """The last one."""
    session.leaving = True
    return iter(())


def find(name: str) -> Command:
    """A command by its name. Raises CommandError."""
    if name in COMMANDS:
        return COMMANDS[name]
    close = nearest(name, COMMANDS)
    hint = f"a similar command exists: `{close}`" if close else "`:help` lists the commands"
    raise CommandError(f"there is no command `{name}`", hint)


_EVERY_NODE = (
    Command(
        ":load FILE…",
        "reads policy files, besides those that are read",
        "With mistakes in one of them, all stays as it was.",
        "file",
        load,
    ),
    Command(
        ":reload",
        "reads policy files and the cluster again",
        "What was typed stays.",
        "nothing",
        reload,
    ),
    Command(
        ":cluster [SNAPSHOT…]",
        "reads another cluster; without one, says how large it is",
        "A snapshot is what `kubectl get nodes,pods -A -o json` (or yaml) wrote.",
        "file",
        cluster,
    ),
    Command(
        ":pod [POD]",
        "chooses what `pod` is: NAMESPACE/NAME, a name that only one has, or a manifest",
        "A pod that has a node is asked about as if it had none.",
        "pod",
        pod,
    ),
    Command(
        ":node [NODE]",
        "chooses what `node` is; `*` is every node, each with its own value",
        "A cluster of one node has it chosen.",
        "node",
        node,
    ),
    Command(
        ":type EXPR",
        "shows the type of an expression, without a value",
        "Nothing that it reads has to be there.",
        "expression",
        evaluating.type_,
    ),
    Command(
        ":trace EXPR",
        "shows the value of every part of an expression",
        "What was not needed, as behind a decided `&&`, has no value.",
        "expression",
        evaluating.trace,
    ),
    Command(
        ":why [NODE]",
        "says which policies decide about the pod, and why each node passes or fails",
        "With a node, every part of every expression has its value; as `placet explain`.",
        "node",
        deciding.why,
    ),
    Command(
        ":rank [N]",
        "lists the nodes that pass, the best first",
        "`exactly` is what the score, a whole number, is rounded from.",
        "nothing",
        deciding.rank,
    ),
    Command(
        ":analyze",
        "says what stands in the pod's way, and what would help",
        "Clause by clause; as `placet analyze`.",
        "nothing",
        deciding.analyze,
    ),
    Command(
        ":cost [EXPR]",
        "shows the most steps that an expression, or each of the policies, takes for a node",
        "The dearest first, with its dearest parts; as `placet check --cost`.",
        "expression",
        evaluating.cost,
    ),
    Command(
        ":what-if PATH = VALUE",
        "shows which answers would be others with a field of the node or the pod changed",
        'As in `:what-if node.labels["disk"] = "ssd"`; `= absent` takes it away. Nothing stays'
        " changed.",
        "expression",
        deciding.what_if,
    ),
    Command(
        ":missing EXPR",
        "shows which fields and keys that an expression reads are absent, and where",
        "Each is looked up by itself, whether or not the expression would come to it.",
        "expression",
        absent.missing,
    ),
    Command(
        ":save-test FILE",
        "writes a `test` block with what each node answers now",
        "It stands at the end of FILE, for `placet test`. With more than 20 nodes, one speaks for"
        " those that are answered alike.",
        "file",
        saving.save_test,
    ),
    Command(
        ":bench EXPR",
        "measures how long an expression takes, in microseconds per node",
        "Compiled once and evaluated over and over; nodes without a value are left out.",
        "expression",
        evaluating.bench,
    ),
    Command(
        ":set [NAME VALUE]",
        "changes a setting: `rows N` of a table, `trace on`, `time on`",
        "With `trace` an expression shows its parts, with `time` a line how long it took.",
        "setting",
        set_,
    ),
    Command(
        ":policy [FILE]",
        "shows what was typed for the policies, or writes it to a new file",
        "Clauses, `let` and `def` are a cluster policy called `session`, which applies to every"
        " pod beside the others.",
        "file",
        policy,
    ),
    Command(
        ":drop NAME",
        "takes back a clause, a name or a policy that was typed",
        "To change one, type it again.",
        "typed",
        drop,
    ),
    Command(":quit", "leaves, as Ctrl-D does", "", "nothing", leave),
    Command(":help [NAME]", "lists the commands, or says more of one", "", "command", help_),
)
COMMANDS: Mapping[str, Command] = {command.name: command for command in _EVERY_NODE}
