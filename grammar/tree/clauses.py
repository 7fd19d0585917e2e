"""Policies, tests and what is beside clauses, as a syntax tree like `grammar.tree.ast`.

What every clause says of itself is in `grammar.tree.clause_parts`, and each kind of clause in
`grammar.clauses`.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Literal as OneOf
from typing import TypeVar

from grammar.tree.ast import NO_SPAN, Expr, Literal, MapLiteral
from grammar.tree.clause_parts import AnyClause, Repair
from grammar.tree.data import Count, Data, Group
from grammar.tree.source import Span
from grammar.tree.types import Type

# ---- tests


@dataclass(frozen=True, slots=True)
class TestObject:
    """An object of a test: `namespace "NAME" {…}`, `node "NAME" {…}` or a pod.

    A pod is `pod "ns/NAME" {…} [on "NODE"]`.
    """

    kind: OneOf["namespace", "node", "pod"]
    name: str
    body: MapLiteral | None
    on: str | None = None
    span: Span = field(default=NO_SPAN, compare=False)


@dataclass(frozen=True, slots=True)
class Expectation:
    """`expect pass NODE`, `expect reject NODE by CLAUSE`, `expect bound NODE`, and so on.

    The text of the clause has to contain the `message`. A score has `op` and `number`: `expect
    score NODE op N`. The `victims` are the pods of `expect evict POD, … on NODE`; `expect evict
    none on NODE` has none.
    """

    kind: OneOf["pass", "reject", "held", "bound", "score", "evict"]
    node: str
    clause: str | None = None
    op: str | None = None
    number: float | None = None
    victims: tuple[str, ...] = ()
    message: str | None = None
    span: Span = field(default=NO_SPAN, compare=False)


@dataclass(frozen=True, slots=True)
class ClusterFile:
    """`cluster "FILE"` in a test: a snapshot; its path is relative to the policy file."""

    path: str
    span: Span = field(default=NO_SPAN, compare=False)


@dataclass(frozen=True, slots=True)
class TestTime:
    """The time of a test, `at "TIME"`: the value of `now`."""

    time: str
    span: Span = field(default=NO_SPAN, compare=False)


@dataclass(frozen=True, slots=True)
class TestData:
    """`data "NAME" {KEY: {COLUMN: VALUE}}` in a test: the rows of a table."""

    name: str
    body: MapLiteral
    span: Span = field(default=NO_SPAN, compare=False)


TestItem = TestObject | Expectation | ClusterFile | TestTime | TestData


@dataclass(frozen=True, slots=True)
class Test:
    """A `test` block."""

    name: str
    items: tuple[TestItem, ...]
    span: Span = field(default=NO_SPAN, compare=False)
    name_span: Span = field(default=NO_SPAN, compare=False)


# ---- policies


@dataclass(frozen=True, slots=True)
class Argument:
    """An argument, `NAME: VALUE`: the value of a parameter of a policy that is used."""

    name: str
    value: Expr
    span: Span = field(default=NO_SPAN, compare=False)


@dataclass(frozen=True, slots=True)
class Use:
    """`use "NAME" (…)`: another policy's clauses, and values for its parameters."""

    name: str
    arguments: tuple[Argument, ...] = ()
    span: Span = field(default=NO_SPAN, compare=False)


@dataclass(frozen=True, slots=True)
class Let:
    """A `let`: a named expression, evaluated wherever its name is used."""

    name: str
    value: Expr
    span: Span = field(default=NO_SPAN, compare=False)
    name_span: Span = field(default=NO_SPAN, compare=False)


@dataclass(frozen=True, slots=True)
class Parameter:
    """A parameter of a `def` or of a policy: its declared type, and the default of a policy's."""

    name: str
    type: Type
    default: Expr | None = None
    type_span: Span = field(default=NO_SPAN, compare=False)
    name_span: Span = field(default=NO_SPAN, compare=False)


@dataclass(frozen=True, slots=True)
class Def:
    """A `def`: a named expression with typed parameters."""

    name: str
    parameters: tuple[Parameter, ...]
    result: Type
    body: Expr
    span: Span = field(default=NO_SPAN, compare=False)
    name_span: Span = field(default=NO_SPAN, compare=False)
    result_span: Span = field(default=NO_SPAN, compare=False)


@dataclass(frozen=True, slots=True)
class Setting:
    """A setting: `description`, `weight`, `mode`, `failure`, `portable` or `repair`, once at most.

    `portable` has no value.
    """

    name: OneOf["description", "weight", "mode", "failure", "portable", "repair"]
    value: str | int | Repair = ""
    span: Span = field(default=NO_SPAN, compare=False)


@dataclass(frozen=True, slots=True)
class ForPods:
    """`for pods where e`: the pods that the policy selects."""

    where: Expr
    span: Span = field(default=NO_SPAN, compare=False)


Item = Setting | ForPods | Let | Def | Use | Data | Group | Count | AnyClause
K = TypeVar("K")


def of_kind(items: Iterable[object], kind: type[K]) -> tuple[K, ...]:
    """The clauses of one kind, or the programs of one, in their order."""
    return tuple(item for item in items if isinstance(item, kind))


@dataclass(frozen=True, slots=True)
class Policy:
    """A policy as written. `namespace` is None for a policy of all namespaces.

    `values` are for parameters of the policies that it uses, where a `use` does not set them. Only
    an object has them.
    """

    name: str
    items: tuple[Item, ...]
    namespace: str | None = None
    cluster: bool = False
    parameters: tuple[Parameter, ...] = ()
    values: tuple[Argument, ...] = ()
    span: Span = field(default=NO_SPAN, compare=False)
    name_span: Span = field(default=NO_SPAN, compare=False)

    @property
    def selector(self) -> Expr | None:
        return next((i.where for i in self.items if isinstance(i, ForPods)), None)

    @property
    def only_used(self) -> bool:
        """Whether it is `for pods where false`: its clauses exist only for `use`."""
        selector = self.selector
        return isinstance(selector, Literal) and selector.value is False

    @property
    def clauses(self) -> tuple[AnyClause, ...]:
        return of_kind(self.items, AnyClause)

    @property
    def address(self) -> str:
        """Its name in messages and metrics: `namespace/name`, or the name alone."""
        return f"{self.namespace}/{self.name}" if self.namespace else self.name

    @property
    def portable(self) -> bool:
        """Whether its clauses may be told to others, as parts of the pod."""
        return any(isinstance(i, Setting) and i.name == "portable" for i in self.items)

    @property
    def repair(self) -> Repair | None:
        """How pods that break its clauses may be evicted; None where they may not."""
        values = (i.value for i in self.items if isinstance(i, Setting))
        return next((value for value in values if isinstance(value, Repair)), None)

    def setting(self, name: str, default: str | int) -> str | int:
        values = (i.value for i in self.items if isinstance(i, Setting) and i.name == name)
        return next((value for value in values if not isinstance(value, Repair)), default)


@dataclass(frozen=True, slots=True)
class File:
    """A file: its policies and tests, in order."""

    blocks: tuple[Policy | Test, ...]

    @property
    def policies(self) -> tuple[Policy, ...]:
        return tuple(b for b in self.blocks if isinstance(b, Policy))

    @property
    def tests(self) -> tuple[Test, ...]:
        return tuple(b for b in self.blocks if isinstance(b, Test))
