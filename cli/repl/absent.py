"""What an expression reads that is not there: of the nodes, on how many, and of the pod."""

from __future__ import annotations

from collections.abc import Iterator

from cli.console import table
from cli.expressions import Evaluator, Expression, Failure
from cli.repl.answer import Told
from cli.repl.evaluating import given
from cli.repl.session import Session
from engine.program.frame import Frame
from grammar.ast import Comprehension, DefCall, Expr, Ident, Index, LetReference, Select
from grammar.environment import Environment
from grammar.printer import print_expression
from grammar.reads import children
from grammar.values.optional import Optional

_NAMED = 4


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
            parameters = frozenset(p for p, _ in definition.params)
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
