"""The commands that start with a colon: a table of what each takes, does and completes."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Literal as OneOf

from cli.console import table
from cli.exits import CommandError
from cli.repl import absent, deciding, evaluating, loading, saving
from cli.repl.answer import Told
from cli.repl.session import Session
from grammar.diagnostics import nearest

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


_ALL = (
    Command(
        ":load FILE…",
        "reads policy files, besides those that are read",
        "With mistakes in one of them, all stays as it was.",
        "file",
        loading.load,
    ),
    Command(
        ":reload",
        "reads policy files and the cluster again",
        "What was typed stays.",
        "nothing",
        loading.reload,
    ),
    Command(
        ":cluster [SNAPSHOT…]",
        "reads another cluster; without one, says how large it is",
        "A snapshot is what `kubectl get nodes,pods -A -o json` (or yaml) wrote.",
        "file",
        loading.cluster,
    ),
    Command(
        ":pod [POD]",
        "chooses what `pod` is: NAMESPACE/NAME, a name that only one has, or a manifest",
        "A pod that has a node is asked about as if it had none.",
        "pod",
        loading.pod,
    ),
    Command(
        ":node [NODE]",
        "chooses what `node` is; `*` is every node, each with its own value",
        "A cluster of one node has it chosen.",
        "node",
        loading.node,
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
        loading.set_,
    ),
    Command(
        ":policy [FILE]",
        "shows what was typed for the policies, or writes it to a new file",
        "Clauses, `let` and `def` are a cluster policy called `session`, which applies to every"
        " pod beside the others.",
        "file",
        loading.policy,
    ),
    Command(
        ":drop NAME",
        "takes back a clause, a name or a policy that was typed",
        "To change one, type it again.",
        "typed",
        loading.drop,
    ),
    Command(":quit", "leaves, as Ctrl-D does", "", "nothing", leave),
    Command(":help [NAME]", "lists the commands, or says more of one", "", "command", help_),
)
COMMANDS: Mapping[str, Command] = {command.name: command for command in _ALL}
