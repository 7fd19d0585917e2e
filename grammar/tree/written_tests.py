"""Written tests: the `test` blocks of a file, and what stands in them.

The same rules as in `grammar.tree.ast` hold.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal as OneOf

from grammar.tree.ast import NO_SPAN, MapLiteral
from grammar.tree.source import Span


@dataclass(frozen=True, slots=True)
class TestNamespace:
    """`namespace "NAME" {…}` in a test."""

    name: str
    body: MapLiteral | None
    span: Span = field(default=NO_SPAN, compare=False)


@dataclass(frozen=True, slots=True)
class TestNode:
    """`node "NAME" {…}` in a test."""

    name: str
    body: MapLiteral | None
    span: Span = field(default=NO_SPAN, compare=False)


@dataclass(frozen=True, slots=True)
class TestPod:
    """`pod "ns/NAME" {…} [on "NODE"]` in a test."""

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
class At:
    """`at "TIME"` in a test: the value of `now`."""

    time: str
    span: Span = field(default=NO_SPAN, compare=False)


@dataclass(frozen=True, slots=True)
class TestData:
    """`data "NAME" {KEY: {COLUMN: VALUE}}` in a test: the rows of a table."""

    name: str
    body: MapLiteral
    span: Span = field(default=NO_SPAN, compare=False)


TestItem = TestNamespace | TestNode | TestPod | Expectation | ClusterFile | At | TestData


@dataclass(frozen=True, slots=True)
class Test:
    """A `test` block."""

    name: str
    items: tuple[TestItem, ...]
    span: Span = field(default=NO_SPAN, compare=False)
    name_span: Span = field(default=NO_SPAN, compare=False)
