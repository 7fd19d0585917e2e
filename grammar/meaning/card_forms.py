"""Cards forms: what a `cards` clause means, written out in the language itself.

`node.cards["gpu"]`, `node.chosen["gpu"]` and `fragmentation("gpu")` stand for expressions over the
parts of the clause. So everything that works on expressions works on cards, too. The functions in
these expressions are declared here. Their values come from the engine, which knows cards.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from grammar.clauses.cards import CARD, CARD_TYPE, FACTS, Cards
from grammar.meaning.schema import written_out
from grammar.tree import ast
from grammar.tree.source import Span
from grammar.tree.types import (
    DOUBLE,
    INT,
    QUANTITY,
    STRING,
    Overload,
    Type,
    Work,
    function,
    list_of,
    map_of,
)
from grammar.values.errors import EvaluationError
from grammar.values.sizes import Size

# ---- types and functions

FACTS_TYPE, NEED_TYPE = Type("CardFacts"), Type("CardNeed")
_CARDS = list_of(CARD_TYPE)
_AMOUNTS = map_of(STRING, INT)
_BEST = (_CARDS, NEED_TYPE, QUANTITY, FACTS_TYPE, STRING)


def _unknown(*_: object) -> object:
    """The value of a function where no engine has given it one."""
    raise EvaluationError("cards of nodes are not known here")


def _declared(
    name: str, params: tuple[Type, ...], result: Type, work: Work | None = None
) -> Overload:
    return function(f"cards.{name}", params, result, _unknown, work)


def _each(cards: Sequence[Any] | Size, *_: Any) -> int:
    return 8 * len(cards)


# Only policies with a `cards` clause have these, which the clause is written out with.
DECLARED: tuple[Overload, ...] = (
    _declared(
        "of",
        (STRING, list_of(_AMOUNTS), list_of(Type("Peer")), FACTS_TYPE),
        _CARDS,
        lambda _, capacities, pods, __: 16 * (len(capacities) + len(pods)),
    ),
    _declared("alike", (INT, _AMOUNTS), list_of(_AMOUNTS)),
    _declared("fitting", (_CARDS, _AMOUNTS), _CARDS, _each),
    _declared("first", (_CARDS, INT), _CARDS),
    _declared("spare", (_CARDS, _AMOUNTS, INT), INT, _each),
    _declared("byFragmentation", _BEST, _CARDS, _each),
    _declared("bestFragmentation", _BEST, DOUBLE, _each),
    _declared("need", (INT, _AMOUNTS, QUANTITY), NEED_TYPE),
    _declared(
        "fragmentation",
        (_CARDS, _CARDS, NEED_TYPE, QUANTITY, FACTS_TYPE, STRING),
        DOUBLE,
        lambda cards, *_: 32 * len(cards),
    ),
)

# ---- forms


def _form(text: str, clause: Cards, node: ast.Expr, span: Span, **more: ast.Expr) -> ast.Expr:
    """A form with the parts of a clause, of a node and of the pod in the place of their names."""
    names = {
        "NAME": ast.Literal(clause.name, STRING, span=span),
        "TAKE": clause.take,
        "NUMBER": number(clause, span),
        "NODE": node,
        "POD": ast.Ident("pod", False, span=span),
        "FACTS": ast.Ident(FACTS, True, span=span),
    }
    if "CARDS" in text:
        names["CARDS"] = cards(clause, node, span)
    return written_out(text, names | more, span)


def number(clause: Cards, span: Span) -> ast.Expr:
    """The number of cards that the pod takes."""
    return clause.number or written_out("1", {}, span)


def cards(clause: Cards, node: ast.Expr, span: Span) -> ast.Expr:
    """The cards of a node, as a list."""
    on = clause.on
    if clause.count is not None:
        on = written_out("cards.alike(COUNT, EACH)", {"COUNT": clause.count, "EACH": on}, span)
    return _form("cards.of(NAME, ON, NODE.pods, FACTS)", clause, node, span, ON=on)


def room(clause: Cards, node: ast.Expr, span: Span) -> ast.Expr:
    """Whether as many cards of a node have room as the pod takes."""
    return _form("cards.fitting(CARDS, TAKE).size() >= NUMBER", clause, node, span)


def spare(clause: Cards, node: ast.Expr, span: Span) -> ast.Expr:
    """How much others may take of the cards of a node while the pod still has room."""
    return _form("cards.spare(CARDS, TAKE, NUMBER)", clause, node, span)


def chosen(clause: Cards, node: ast.Expr, span: Span) -> ast.Expr:
    """The cards of a node that the pod would take, in the order in which they are chosen."""
    if _picks_by_fragmentation(clause):
        return _form(f"cards.byFragmentation(CARDS, {_NEED})", clause, node, span)
    fitting = _form("cards.fitting(CARDS, TAKE)", clause, node, span)
    if clause.pick is not None:
        by = clause.pick.by
        if clause.pick.order == "most":
            by = ast.Unary("-", by, span=by.span)
        fitting = ast.Comprehension("sortBy", fitting, (CARD,), (by,), span=span)
    return _form("cards.first(FITTING, NUMBER)", clause, node, span, FITTING=fitting)


def fragmentation(clause: Cards, node: ast.Expr, card: ast.Expr | None, span: Span) -> ast.Expr:
    """By how much the idle cards of a node are less fragmented once the pod takes some.

    It takes the card, or the cards that it would choose if there is none.
    """
    if card is None and _picks_by_fragmentation(clause):
        return _form(f"cards.bestFragmentation(CARDS, {_NEED})", clause, node, span)
    taken = chosen(clause, node, span)
    if card is not None:
        taken = ast.ListLiteral((card,), (), span=span)
    text = f"cards.fragmentation(CARDS, TAKEN, {_NEED})"
    return _form(text, clause, node, span, TAKEN=taken)


# What the pod needs, which is one value for all nodes, and what is known of a node.
_NEED = 'cards.need(NUMBER, TAKE, POD.requests["cpu"]), NODE.free["cpu"], FACTS, NAME'


def _picks_by_fragmentation(clause: Cards) -> bool:
    """Whether the card is picked by nothing but the clause's own fragmentation, the greatest first.

    That is common, and it is worked out for all cards of a node at once.
    """
    if clause.pick is None or clause.pick.order != "most":
        return False
    match clause.pick.by:
        case ast.Call("fragmentation", None, (ast.Literal(name),)):
            return bool(name == clause.name)
        case ast.Call("cards.fragmentation", None, (*_, ast.Literal(name))):
            return bool(name == clause.name)
        case _:
            return False
