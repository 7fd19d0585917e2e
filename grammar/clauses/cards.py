"""Cards: the cards of a node, such as GPUs, of which a pod takes some, or a part of one."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import KW_ONLY, dataclass, replace

from grammar.clauses import parts, reading
from grammar.clauses.kind import ClauseChecker, ClauseKind, ClausePart, Line, expression
from grammar.clauses.reading import Child
from grammar.messages import catalogue
from grammar.tree.ast import Expr, Literal, MapLiteral
from grammar.tree.clause_parts import ClauseThatRejects, Pick, SchedulerNeed
from grammar.tree.printer import print_expression, print_string
from grammar.tree.source import Span
from grammar.tree.types import INT, STRING, Type, agrees, list_of, map_of
from grammar.values.object_names import is_qualified

# The variable with what is known of cards beside the node, in policies with a `cards` clause.
FACTS = "cardFacts"
# The variable of `pick`, and its type.
CARD, CARD_TYPE = "card", Type("Card")


@dataclass(frozen=True, slots=True)
class Cards(ClauseThatRejects):
    """Cards of nodes, of which a pod takes some, or a part of one.

    `on` are the amounts of each card, or of one of `count` alike ones. The pod takes the amounts
    `take` of so many cards as `number` says, or of one. Without a `pick` the first cards with room
    are taken. `index` is the annotation for their numbers, `writes` are others.
    """

    on: Expr
    take: Expr
    _: KW_ONLY
    count: Expr | None = None
    number: Expr | None = None
    index: str | None = None
    pick: Pick | None = None
    writes: MapLiteral | None = None
    scheduler_needs = frozenset[SchedulerNeed]({"binding with cards"})

    def read(self, *, chosen: bool) -> tuple[object, ...]:
        """The parts that its cards are written out with, or those that a pod would take."""
        cards = self.on, self.count
        return (*cards, self.take, self.number, self.pick) if chosen else cards


def _read_amounts(c: list[Child]) -> tuple[Expr | None, Expr]:
    """`[number of] amounts`."""
    *number, amounts = reading.nodes(c)
    return (number[0] if number else None), amounts


def _amounts(rule: str, needed: str, *fields: str) -> ClausePart:
    """A part that is `[number of] amounts`, behind the words of its rule."""
    words = rule.replace("_", " ")

    def lines(number: Expr | None, amounts: Expr) -> Iterator[Line]:
        if number is None:
            yield f"{words} ", amounts, amounts.span
        else:
            span = Span(number.span.start, amounts.span.end)
            yield f"{words} {print_expression(number)} of ", amounts, span

    return ClausePart(rule, _read_amounts, lines, fields=fields, needed=needed)


def _checked_pick(pick: Pick, by: ClauseChecker) -> Pick:
    allowed, where = parts.PLACE | {CARD, FACTS}, "`pick`"
    order = by.check(pick.by, None, allowed, where, card=CARD_TYPE)
    if order.type.name not in parts.NUMBERS:
        by.found.append(catalogue.wrong_type(order.type, "a number to order by", order.span))
    return replace(pick, by=order)


def _checked_writes(writes: MapLiteral, by: ClauseChecker) -> MapLiteral:
    entries = []
    for entry in writes.entries:
        key = entry.key
        if isinstance(key, Literal) and isinstance(key.value, str):
            _check_key(key.value, key.span, by)
        else:
            by.found.append(catalogue.bad_annotation("…", "is not a text", key.span))
        value = by.check(entry.value, STRING, parts.PLACE, "`write`")
        entries.append(replace(entry, key=replace(key, type=STRING), value=value))
    return replace(writes, entries=tuple(entries), type=map_of(STRING, STRING))


def _check_key(key: str, span: Span, by: ClauseChecker) -> None:
    """An error for the key of an annotation that cannot be written."""
    prefix = key.rpartition("/")[0]
    if prefix == "placet.dev" or prefix.endswith((".placet.dev", "kubernetes.io")):
        by.found.append(catalogue.bad_annotation(key, "is a key that others write", span))
    elif not is_qualified(key):
        by.found.append(catalogue.bad_annotation(key, "is not the key of an annotation", span))


def _checked(cards: Cards, by: ClauseChecker) -> Cards:
    if by.policy.namespace is not None:
        by.found.append(catalogue.cards_of_namespace(cards.name_span))
    of_node, of_pod = "`on node`", "`take`"
    count, number, amounts = cards.count, cards.number, map_of(STRING, INT)
    on = by.check(cards.on, None, parts.NODE, of_node)
    if not agrees(list_of(amounts) if count is None else amounts, on.type):
        expected = "the amounts of a card" if count is not None else "a list of cards"
        hint = 'write `4 of {"milli": 1000}`, or a list such as `[{"milli": 1000}]`'
        by.found.append(catalogue.wrong_type(on.type, expected, on.span, hint))
    if count is not None:
        count = by.check(count, INT, parts.NODE, of_node)
    if number is not None:
        number = by.check(number, INT, parts.LASTING, of_pod)
    take = by.check(cards.take, amounts, parts.LASTING, of_pod)
    if cards.index is not None:
        _check_key(cards.index, cards.name_span, by)
    return replace(cards, on=on, count=count, number=number, take=take)


_SOME_CARDS = '`on node 4 of {"milli": 1000}`, or a list of cards'

CARDS = ClauseKind(
    Cards,
    "the cards clause",
    'cards "x" { on node 2 of {"milli": 1000} take {"milli": 500} }',
    parts.POD,
    (
        _amounts("on_node", _SOME_CARDS, "count", "on"),
        _amounts("take", '`take 1 of {"milli": 500}`', "number", "take"),
        ClausePart(
            "index_in",
            lambda c: reading.text_of(reading.string_of(c)),
            lambda key: [(f"index {print_string(key)}", None, None)],
            word="index",
            fields=("index",),
        ),
        ClausePart(
            "pick",
            lambda c: Pick("least" if reading.has(c, "LEAST") else "most", reading.expr_of(c)),
            lambda pick: [(f"pick {pick.order} ", pick.by, pick.by.span)],
            _checked_pick,
        ),
        expression("write", _checked_writes, fields=("writes",)),
    ),
    _checked,
)
