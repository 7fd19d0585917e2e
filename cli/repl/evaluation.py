"""Evaluation: the replies about an expression: value, type, parts, cost, speed, absent fields."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

from rich.table import Table

from cli.command import CommandError
from cli.console import table
from cli.explanation.layout import trace_rows
from cli.render import cost_table
from cli.repl.expressions import Evaluator, Expression, Failure
from cli.repl.session import ReplSession, Reply
from engine.explanation.explanation import traced_expression
from engine.explanation.written import Written
from engine.program.frame import Frame
from grammar.checker.policy_checker import Checked
from grammar.checks.costs import LIMIT
from grammar.meaning.environment import Environment
from grammar.messages.texts import counted, named
from grammar.tree.ast import Comprehension, DefCall, Expr, Ident, Index, LetReference, Select
from grammar.tree.clauses import Def, Filter, Let, Policy, Score
from grammar.tree.groups import Count, Group
from grammar.tree.printer import print_expression
from grammar.tree.types import Type
from grammar.tree.walk import children
from grammar.values.errors import MissingError
from grammar.values.optional import Optional

# Node names in one cell of a table.
_MAX_NAMES = 4
# The minimum duration of a measurement.
_BENCH_SECONDS = 0.2


def value(session: ReplSession, text: str) -> Iterator[Reply]:
    """`value : type`; one row per node if the expression reads the node and none is chosen."""
    expression = session.expression(text)
    if "node" in expression.names and session.node is None:
        yield _on_all_nodes(session, expression)
        return
    with session.frame(expression) as frame:
        found = Evaluator(expression).evaluate(frame)
        if session.settings.trace:
            yield from _parts(session, expression, frame)
        if isinstance(found, Failure):
            yield found.diagnostic, expression.source
        else:
            yield session.values.typed(found, expression.expr.type)


def type_(session: ReplSession, text: str) -> Iterator[Reply]:
    expression = session.expression(required(text), type_only=True)
    yield f"{text} : {expression.expr.type}"


def trace(session: ReplSession, text: str) -> Iterator[Reply]:
    expression = session.expression(required(text))
    if "node" in expression.names:
        session.required_node()
    with session.frame(expression) as frame:
        yield from _parts(session, expression, frame)


def cost(session: ReplSession, text: str) -> Iterator[Reply]:
    if text:
        expression = session.expression(text, type_only=True)
        policy = Policy("expression", (Score("", 1, expression.expr),))
        yield from cost_table(Checked(policy, expression.environment, ()), expression.source, LIMIT)
        return
    # Definitions cost nothing by themselves.
    found = [
        (checked, file.source)
        for file in session.policies.texts
        for checked in file.policies
        if not all(isinstance(item, Let | Def | Group | Count) for item in checked.policy.items)
    ]
    if not found:
        hint = "load some, or give an expression, as in `:cost node.ready`"
        raise CommandError("no policies are loaded", hint)
    for checked, source in found:
        yield from cost_table(checked, source, LIMIT)


def bench(session: ReplSession, text: str) -> Iterator[Reply]:
    expression = session.expression(required(text))
    evaluator = Evaluator(expression)
    with session.frame(expression) as frame:
        nodes: list[object] = [frame.node]
        if "node" in expression.names and session.cluster is not None:
            nodes = list(session.cluster.snapshot().nodes.values())
        found = [(node, _on_node(evaluator, frame, node)) for node in nodes]
        able = [node for node, value in found if not isinstance(value, Failure)]
        if not able:
            failure = found[0][1]
            assert isinstance(failure, Failure), "no node has a value"
            yield failure.diagnostic, expression.source
            return
        rounds, started = 0, session.clock()
        while (took := session.clock() - started) < _BENCH_SECONDS or not rounds:
            for node in able:
                _on_node(evaluator, frame, node)
            rounds += 1
    each = took * 1e6 / (rounds * len(able))
    if "node" not in expression.names:
        yield f"{each:.2f} µs ({counted(rounds, 'time')})"
        return
    yield f"{each:.2f} µs per node ({counted(len(able), 'node')}, {counted(rounds, 'time')})"
    if len(able) < len(nodes):
        yield f"without {counted(len(nodes) - len(able), 'node')} where it has no value"


def required(text: str) -> str:
    """Raises CommandError for an empty text."""
    if not text:
        raise CommandError("no expression is given", "as in `:type node.free`")
    return text


def _on_all_nodes(session: ReplSession, expression: Expression) -> Reply:
    """A table of the values, or the failure if no node has a value."""
    evaluator, type_ = Evaluator(expression), expression.expr.type
    shown: list[tuple[str, str]] = []
    failures: list[Failure] = []
    with session.frame(expression) as frame:
        for name, node in sorted(session.required_cluster().snapshot().nodes.items()):
            found = _on_node(evaluator, frame, node)
            if isinstance(found, Failure):
                failures.append(found)
                shown.append((name, f"error: {found.error}"))
            else:
                shown.append((name, session.values.line(found, type_)))
    if failures and len(failures) == len(shown):
        return failures[-1].diagnostic, expression.source
    if len(shown) > session.settings.rows:
        return _grouped(shown, type_, session.settings.rows)
    rows = table("node", f"value : {type_}")
    for name, text in shown:
        rows.add_row(name, text)
    return rows


def _grouped(shown: list[tuple[str, str]], type_: Type, limit: int) -> Table:
    names_of: dict[str, list[str]] = defaultdict(list)
    for name, text in shown:
        names_of[text].append(name)
    groups = sorted(names_of.items(), key=lambda group: -len(group[1]))
    rows = table("nodes", f"value : {type_}", "which", right=("nodes",))
    for text, names in groups[:limit]:
        rows.add_row(str(len(names)), text, named(names, _MAX_NAMES))
    if (left := len(groups) - limit) > 0:
        others = sum(len(names) for _, names in groups[limit:])
        rows.add_row(str(others), f"{counted(left, 'other value')}, `:set rows` shows more", "")
    return rows


def _parts(session: ReplSession, expression: Expression, frame: Frame) -> Iterator[Reply]:
    written = Written(Filter("", ()), expression.environment, expression.source)
    shown = written.traced(expression.expr, frame)
    yield from trace_rows(traced_expression("value", shown, session.values))


def _on_node(evaluator: Evaluator, frame: Frame, node: object) -> object | Failure:
    frame.node = node
    return evaluator.evaluate(frame)


# ---- fields and keys that are absent


def missing(session: ReplSession, text: str) -> Iterator[Reply]:
    """A row for each field or key that the expression reads and that is absent somewhere."""
    expression = session.expression(required(text))
    rows = table("reads", "absent", "which", right=("absent",))
    reads = _reads(expression)
    with session.frame(expression) as frame:
        nodes = [(session.node or "", frame.node)]
        if session.cluster is not None:
            nodes = sorted(session.cluster.snapshot().nodes.items())
        for shown, part in reads.items():
            objects = nodes if "node" in part.names else [("the pod", frame.node)]
            if absent := _absent(part, frame, objects):
                rows.add_row(shown, f"{len(absent)} of {len(objects)}", named(absent, _MAX_NAMES))
    if rows.row_count:
        yield rows
    elif reads:
        yield "nothing that it reads is absent"
    else:
        yield "it reads no field that can be absent"


def _absent(part: Expression, frame: Frame, objects: list[tuple[str, object]]) -> list[str]:
    evaluator, absent = Evaluator(part), []
    for name, node in objects:
        found = _on_node(evaluator, frame, node)
        empty = isinstance(found, Optional) and not found.present
        if empty or (isinstance(found, Failure) and isinstance(found.error, MissingError)):
            absent.append(name)
    return absent


def _reads(expression: Expression) -> dict[str, Expression]:
    """Every chain of fields and keys by its text, as an expression of its own."""
    found: dict[str, Expression] = {}
    for part in _chains(expression.expr, expression.environment, frozenset()):
        text = " ".join(expression.source.slice(part.span).split()) or print_expression(part)
        names = frozenset(_roots(part)) & expression.names
        found.setdefault(text, Expression(expression.source, part, expression.environment, names))
    return found


def _chains(expr: Expr, environment: Environment, bound: frozenset[str]) -> Iterator[Expr]:
    """The longest chains that start at a variable, through lets and defs.

    `bound` are the variables of macros and parameters: they have no value outside of them.
    """
    match expr:
        case Select() | Index() if _is_chain(expr) and not bound & set(_roots(expr)):
            yield expr
        case LetReference(name):
            yield from _chains(environment.lets[name], environment, bound)
        case DefCall(name, args):
            definition = environment.defs[name]
            parameters = frozenset(p.name for p in definition.parameters)
            yield from _chains(definition.body, environment, bound | parameters)
            for argument in args:
                yield from _chains(argument, environment, bound)
        case Comprehension(_, target, variables, body):
            yield from _chains(target, environment, bound)
            for part in body:
                yield from _chains(part, environment, bound | frozenset(variables))
        case _:
            for child in children(expr):
                yield from _chains(child, environment, bound)


def _is_chain(expr: Expr) -> bool:
    while isinstance(expr, Select | Index):
        expr = expr.operand
    return isinstance(expr, Ident)


def _roots(expr: Expr) -> Iterator[str]:
    if isinstance(expr, Ident):
        yield expr.name
    for child in children(expr):
        yield from _roots(child)
