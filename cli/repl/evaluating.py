"""Expressions: their values on one node or on all of them, their parts, types, costs and speed."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

from rich.table import Table

from cli.command import CommandError
from cli.commands.check import cost_table
from cli.console import table
from cli.explaining.explanation import Written
from cli.explaining.views import traced
from cli.expressions import Evaluator, Expression, Failure
from cli.render import counted
from cli.repl.session import Session, Told, answer_problem
from engine.program.frame import Frame
from grammar.ast import Comprehension, DefCall, Expr, Ident, Index, LetReference, Select
from grammar.checks.costs import LIMIT
from grammar.clauses import Def, Filter, Item, Let, Policy, Score
from grammar.environment import Environment
from grammar.policy_checker import Checked
from grammar.printer import print_expression
from grammar.values.optional import Optional
from grammar.walk import children

_NAMED = 4
# How long a measurement takes at least.
_BENCH_SECONDS = 0.2


def value(session: Session, text: str) -> Iterator[Told]:
    """`value : type`; on every node if the expression reads the node, and none is chosen."""
    expression = session.expression(text)
    if "node" in expression.names and session.node is None:
        yield from _every_node(session, expression)
        return
    with session.looking(expression) as frame:
        found = Evaluator(expression).evaluate(frame)
        if session.settings.trace:
            yield from _parts(session, expression, frame)
        if isinstance(found, Failure):
            yield answer_problem((found.diagnostic, expression.source))
        else:
            yield session.values.typed(found, expression.expr.type)


def type_(session: Session, text: str) -> Iterator[Told]:
    """The type alone, for which nothing has to be there."""
    expression = session.expression(given(text), typed_only=True)
    yield f"{text} : {expression.expr.type}"


def trace(session: Session, text: str) -> Iterator[Told]:
    """Every part with its value."""
    expression = session.expression(given(text))
    if "node" in expression.names:
        session.some_node()
    with session.looking(expression) as frame:
        yield from _parts(session, expression, frame)


def cost(session: Session, text: str) -> Iterator[Told]:
    """Of an expression; without one, of every expression of the policies."""
    if text:
        expression = session.expression(text, typed_only=True)
        policy = Policy("expression", (Score("", 1, expression.expr),))
        yield from cost_table(Checked(policy, expression.environment, ()), expression.source, LIMIT)
        return
    found = [(c, f.source) for f in session.policies.validation.files for c in f.policies]
    costly = [(c, source) for c, source in found if not all(map(_is_definition, c.policy.items))]
    if not costly:
        raise CommandError("there are no policies", "name an expression, as in `:cost node.ready`")
    for checked, source in costly:
        yield from cost_table(checked, source, LIMIT)


def bench(session: Session, text: str) -> Iterator[Told]:
    """How long an evaluation takes, in microseconds a node."""
    expression = session.expression(given(text))
    evaluator = Evaluator(expression)
    with session.looking(expression) as frame:
        nodes: list[object] = [frame.node]
        if "node" in expression.names and session.cluster is not None:
            nodes = list(session.cluster.snapshot().nodes.values())
        able = [node for node in nodes if not isinstance(_at(evaluator, frame, node), Failure)]
        if not able:
            yield answer_problem(
                (_failure(evaluator, frame, nodes[0]).diagnostic, expression.source)
            )
            return
        rounds, started = 0, session.clock()
        while (took := session.clock() - started) < _BENCH_SECONDS or not rounds:
            for node in able:
                _at(evaluator, frame, node)
            rounds += 1
    each = took * 1e6 / (rounds * len(able))
    if "node" not in expression.names:
        yield f"{each:.2f} µs ({counted(rounds, 'time')})"
        return
    yield f"{each:.2f} µs per node ({counted(len(able), 'node')}, {counted(rounds, 'time')})"
    if len(able) < len(nodes):
        yield f"without {counted(len(nodes) - len(able), 'node')} where it has no value"


def _every_node(session: Session, expression: Expression) -> Iterator[Told]:
    evaluator, kind = Evaluator(expression), expression.expr.type
    shown: list[tuple[str, str]] = []
    failure: Failure | None = None
    with session.looking(expression) as frame:
        for name, node in sorted(session.some_cluster().snapshot().nodes.items()):
            found = _at(evaluator, frame, node)
            if isinstance(found, Failure):
                failure = found
                shown.append((name, f"error: {found.error}"))
            else:
                shown.append((name, session.values.line(found, kind)))
    if failure is not None and all(text.startswith("error: ") for _, text in shown):
        yield answer_problem((failure.diagnostic, expression.source))
        return
    rows = session.settings.rows
    yield _listed(shown, f"value : {kind}") if len(shown) <= rows else _grouped(shown, kind, rows)


def _listed(shown: list[tuple[str, str]], head: str) -> Table:
    rows = table("node", head)
    for name, text in shown:
        rows.add_row(name, text)
    return rows


def _grouped(shown: list[tuple[str, str]], kind: object, most: int) -> Table:
    """A row for each value, the most frequent first."""
    by_text: dict[str, list[str]] = defaultdict(list)
    for name, text in shown:
        by_text[text].append(name)
    groups = sorted(by_text.items(), key=lambda group: -len(group[1]))
    rows = table("nodes", f"value : {kind}", "which", right=("nodes",))
    for text, names in groups[:most]:
        more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
        rows.add_row(str(len(names)), text, f"{', '.join(names[:_NAMED])}{more}")
    if (left := len(groups) - most) > 0:
        others = sum(len(names) for _, names in groups[most:])
        rows.add_row(str(others), f"{counted(left, 'other value')}, `:set rows` shows more", "")
    return rows


def _parts(session: Session, expression: Expression, frame: Frame) -> Iterator[Told]:
    written = Written(Filter("", ()), expression.environment, expression.source)
    yield from traced(written, expression.expr, frame, session.values)


def _is_definition(item: Item) -> bool:
    """Whether an item costs nothing by itself."""
    return isinstance(item, Let | Def)


def _at(evaluator: Evaluator, frame: Frame, node: object) -> object | Failure:
    frame.node = node
    return evaluator.evaluate(frame)


def _failure(evaluator: Evaluator, frame: Frame, node: object) -> Failure:
    found = _at(evaluator, frame, node)
    assert isinstance(found, Failure), "what fails once fails twice"
    return found


def given(text: str) -> str:
    """Raises CommandError where there is none."""
    if not text:
        raise CommandError("there is no expression", "as in `:type node.free`")
    return text


# ---- What an expression reads that is not there: of the nodes, on how many, and of the pod.


def missing(session: Session, text: str) -> Iterator[Told]:
    """A row for each field or key that is read and absent somewhere."""
    expression = session.expression(given(text))
    rows = table("reads", "absent", "which", right=("absent",))
    read = _read(expression)
    with session.looking(expression) as frame:
        nodes = [(session.node or "", frame.node)]
        if session.cluster is not None:
            nodes = sorted(session.cluster.snapshot().nodes.items())
        for shown, part in read.items():
            whose = nodes if part.names & {"node"} else [("the pod", frame.node)]
            absent = _absent(part, frame, whose)
            if absent:
                more = f" and {len(absent) - _NAMED} more" if len(absent) > _NAMED else ""
                names = f"{', '.join(absent[:_NAMED])}{more}"
                rows.add_row(shown, f"{len(absent)} of {len(whose)}", names)
    if rows.row_count:
        yield rows
    elif read:
        yield "all that it reads is there"
    else:
        yield "it reads no field that could be absent"


def _absent(part: Expression, frame: Frame, whose: list[tuple[str, object]]) -> list[str]:
    evaluator, absent = Evaluator(part), []
    for name, node in whose:
        frame.node = node
        found = evaluator.evaluate(frame)
        none = isinstance(found, Optional) and not found.present
        if none or (isinstance(found, Failure) and found.missing):
            absent.append(name)
    return absent


def _read(expression: Expression) -> dict[str, Expression]:
    """Every chain of fields and keys, by its text, as an expression of its own."""
    found: dict[str, Expression] = {}
    for part in _chains(expression.expr, expression.environment, frozenset()):
        names = frozenset(_roots(part)) & expression.names
        alone = Expression(expression.source, part, expression.environment, names)
        found.setdefault(_shown(part, expression), alone)
    return found


def _shown(part: Expr, expression: Expression) -> str:
    text = expression.source.slice(part.span)
    return " ".join(text.split()) or print_expression(part)


def _chains(expr: Expr, environment: Environment, own: frozenset[str]) -> Iterator[Expr]:
    """The longest chains that start at a variable, through lets and defs.

    `own` are the names of macros and parameters, of which nobody knows the value here.
    """
    match expr:
        case Select() | Index():
            if not any(name in own for name in _roots(expr)) and _is_chain(expr):
                yield expr
                return
        case LetReference(name):
            yield from _chains(environment.lets[name], environment, own)
            return
        case DefCall(name, args):
            definition = environment.defs[name]
            parameters = frozenset(p.name for p in definition.parameters)
            yield from _chains(definition.body, environment, own | parameters)
            for argument in args:
                yield from _chains(argument, environment, own)
            return
        case Comprehension(_, target, variables, body):
            yield from _chains(target, environment, own)
            for part in body:
                yield from _chains(part, environment, own | frozenset(variables))
            return
        case _:
            pass
    for child in children(expr):
        yield from _chains(child, environment, own)


def _is_chain(expr: Expr) -> bool:
    while isinstance(expr, Select | Index):
        expr = expr.operand
    return isinstance(expr, Ident)


def _roots(expr: Expr) -> Iterator[str]:
    if isinstance(expr, Ident):
        yield expr.name
    for child in children(expr):
        yield from _roots(child)
