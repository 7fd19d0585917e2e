"""Kind: what the language knows of a kind of clause, as a table of the parts that it is made of.

The builder, the formatter and the checker of policies ask the kind. What all clauses have, such as
a `when`, is theirs. In `policy.lark` the rule of a kind has the name of its word.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import KW_ONLY, dataclass, replace
from typing import Any, Protocol

from grammar.clauses.reading import Child, ReadPart, collect, expr_of, head_of, span_of
from grammar.messages.catalogue import ParseError
from grammar.messages.diagnostics import Diagnostic
from grammar.tree.ast import Expr
from grammar.tree.clause_parts import AnyClause
from grammar.tree.policy import Count, Group, Policy
from grammar.tree.source import Span
from grammar.tree.types import BOOL, Type
from grammar.tree.walk import Definitions

# ---- the checker

Names = frozenset[str]


class KnownNames(Protocol):
    """The names that a policy reads, as kinds of clauses ask for them."""

    @property
    def variables(self) -> Mapping[str, Type]: ...
    @property
    def lets(self) -> Mapping[str, Expr]: ...
    @property
    def groups(self) -> Mapping[str, Group]: ...
    @property
    def counts(self) -> Mapping[str, Count]: ...
    @property
    def definitions(self) -> Definitions: ...


class ClauseChecker(Protocol):
    """The checker of a policy, as kinds of clauses ask it. What is wrong goes to `found`."""

    policy: Policy
    found: list[Diagnostic]

    @property
    def schema(self) -> object: ...
    @property
    def environment(self) -> KnownNames: ...

    def check(
        self, expr: Expr, wanted: Type | None, allowed: Names, where: str, **own: Type
    ) -> Expr:
        """The checked expression, which may read the allowed names, and its own variables."""

    def coerce(self, expr: Expr, wanted: Type) -> Expr:
        """The expression with its constants converted to a type."""

    def constant(self, expr: Expr) -> object:
        """The value of a constant expression; None for any other."""


# ---- parts

# Words, an expression behind them, and the place in the text.
Line = tuple[str, Expr | None, Span | None]
# What gives the checked value of a part.
Check = Callable[[Any, ClauseChecker], Any]


@dataclass(frozen=True, slots=True)
class ClausePart:
    """A part of a clause: how a rule of the grammar is read, written as lines, and checked.

    Its value is for the field with the rule's name, or values are for `fields`. In messages the
    part is its `word`, else the words of the rule's name. `needed` is what to write if nothing is
    there; `absent` is the line for a None.
    """

    rule: str
    read: Callable[[list[Child]], Any]
    lines: Callable[..., Iterable[Line]]
    check: Check | None = None
    _: KW_ONLY
    word: str = ""
    fields: tuple[str, ...] = ()
    needed: str = ""
    repeats: bool = False
    in_head: bool = False
    absent: str = ""

    @property
    def called(self) -> str:
        return self.word or self.rule.replace("_", " ")

    @property
    def names(self) -> tuple[str, ...]:
        return self.fields or (self.rule,)

    def build(self, c: list[Child]) -> ReadPart:
        return ReadPart(self.called, self.read(c), span_of(c), self.names, self.repeats)


def expression(rule: str, check: Check | None = None, words: str = "", **more: Any) -> ClausePart:
    """A part that is an expression behind words."""
    return ClausePart(rule, expr_of, lambda e: [(f"{words or rule} ", e, e.span)], check, **more)


def condition(
    rule: str, allowed: Names, words: str = "", where: str = "", **more: Any
) -> ClausePart:
    """A part that is true or false, and may read the allowed names."""
    where = where or f"`{rule}`"
    return expression(rule, lambda e, by: by.check(e, BOOL, allowed, where), words, **more)


# ---- kinds


@dataclass(frozen=True, slots=True)
class ClauseKind:
    """A kind of clause: the maker of a node, a shape as an example, and parts in canonical order.

    In messages a clause is `called` so. `when` has the names that a `when` may read. `check` gives
    the checked clause where its parts are checked; `mistake` is an error of the clause as written.
    A kind with parts that repeat may be `wide`: it stays on one line if that is short. `joined`
    gives the values by field where what is read belongs to what was read before.
    """

    make: Callable[..., AnyClause]
    called: str
    shape: str
    when: Names
    parts: tuple[ClausePart, ...]
    check: Callable[[Any, ClauseChecker], AnyClause] = lambda clause, _: clause
    mistake: Callable[[Any], Diagnostic | None] = lambda _: None
    wide: bool = False
    joined: Callable[[dict[str, Any]], dict[str, Any]] = lambda given: given

    @property
    def repeats(self) -> bool:
        return not self.wide and any(part.repeats for part in self.parts)

    def build(self, c: list[Child]) -> AnyClause:
        """The clause of what the parser has read."""
        needs = {part.called: part.needed for part in self.parts if part.needed}
        clause = self.make(**head_of(c), **self.joined(collect(c, self.called, needs)))
        if (wrong := self.mistake(clause)) is not None:
            raise ParseError(wrong)
        return clause

    def lines(self, clause: AnyClause, *, in_head: bool = False) -> Iterator[Line]:
        """The lines of its parts; `in_head` of the parts before the brace."""
        for part in self.parts:
            values = [getattr(clause, name) for name in part.names]
            if part.in_head is not in_head:
                continue
            if part.repeats:
                yield from (line for each in values[0] for line in part.lines(each))
            elif values != [None]:
                yield from part.lines(*values)
            elif part.absent:
                yield part.absent, None, None

    def checked(self, clause: AnyClause, by: ClauseChecker) -> AnyClause:
        """The checked clause."""
        given: dict[str, Any] = {}
        for part in self.parts:
            check, name = part.check, part.names[0]
            if check is not None and (value := getattr(clause, name)) is not None:
                many = part.repeats
                given[name] = tuple([check(v, by) for v in value]) if many else check(value, by)
        return self.check(replace(clause, **given), by)
