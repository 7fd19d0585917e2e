"""Rule: one mistake of a policy that type-checks, with its code, its examples and how it is found.

A rule belongs to a code of the book of diagnostics, whose section and test are made of its
examples. A rule has no state: one instance looks at every policy.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar, TypeVar

from grammar.checker.policy_checker import Checked
from grammar.meaning.costs import LIMIT, ClusterFacts
from grammar.meaning.environment import Environment
from grammar.meaning.folding import constant
from grammar.meaning.schema import print_as_written
from grammar.meaning.written_out import write_out
from grammar.messages.diagnostics import Diagnostic, Fix, Severity
from grammar.tree import ast
from grammar.tree.clause_parts import WrittenCondition
from grammar.tree.clauses import Clause, ForPods, Policy, of_kind
from grammar.tree.source import Span
from grammar.tree.walk import roots, walk

K = TypeVar("K")


@dataclass(frozen=True, slots=True)
class Tree:
    """A checked policy as rules look at it.

    `policy` has its definitions written out, so that a mistake is the same through a `let`, a
    `def` or a macro. `cost_limit` is the most steps of an expression for one node. `cluster` is
    the one whose facts count; None without a cluster.
    """

    checked: Checked
    policy: Policy
    by_kind: Mapping[type[ast.Expr], Sequence[ast.Expr]]
    cost_limit: int = LIMIT
    cluster: ClusterFacts | None = None

    @property
    def written(self) -> Policy:
        """The policy as it is written."""
        return self.checked.policy

    @property
    def environment(self) -> Environment:
        return self.checked.environment

    def conditions(self) -> Iterator[WrittenCondition]:
        """The conditions of the policy written out, in the order of its items."""
        return conditions(self.policy)

    def clauses(self, kind: type[K]) -> tuple[K, ...]:
        """The clauses of one kind of the policy written out."""
        return of_kind(self.policy.items, kind)

    def shown(self, expr: ast.Expr) -> str:
        """The text of an expression, with its short forms."""
        return print_as_written(expr, self.environment.schema)

    def constant(self, number: float | ast.Expr) -> float | None:
        """The value of a number, or of a constant expression; None for any other expression."""
        return constant(number, self.environment)

    def read_by(self, *exprs: ast.Expr | None) -> set[str]:
        """The names that expressions read, also through definitions."""
        return roots([e for e in exprs if e is not None], self.environment.definitions)


def tree_of(checked: Checked, cost_limit: int = LIMIT, cluster: ClusterFacts | None = None) -> Tree:
    """The tree that all rules share, with its expressions by class."""
    policy = write_out(checked.policy, checked.environment)
    by_kind: dict[type[ast.Expr], list[ast.Expr]] = {}
    for expr in walk(policy):
        by_kind.setdefault(type(expr), []).append(expr)
    return Tree(checked, policy, by_kind, cost_limit, cluster)


def conditions(policy: Policy) -> Iterator[WrittenCondition]:
    """The expressions that must be true for something to happen, in the order of the items."""
    for item in policy.items:
        if isinstance(item, ForPods):
            yield WrittenCondition(item.where, "for")
        elif isinstance(item, Clause):
            yield from item.conditions


class Rule(ABC):
    """One mistake, and where a policy has it.

    The first line of the docstring says what it is. `wrong` and `right` are the items of a policy
    with the mistake and without it, below `head`.
    """

    code: ClassVar[str]
    head: ClassVar[str] = "cluster policy example"
    wrong: ClassVar[str]
    right: ClassVar[str]

    @abstractmethod
    def look(self, tree: Tree) -> Iterator[Diagnostic]:
        """The places of the mistake."""

    def example(self, items: str) -> str:
        """The text of a policy with these items."""
        lines = (f"  {line}" if line else "" for line in items.split("\n"))
        return "\n".join((f"{self.head} {{", *lines, "}", ""))

    def found(
        self,
        message: str,
        span: Span,
        hint: str,
        remedy: Fix | None = None,
        severity: Severity = "warning",
    ) -> Diagnostic:
        return Diagnostic(self.code, severity, message, span, hint=hint, remedy=remedy)

    def instead(self, message: str, span: Span, text: str) -> Diagnostic:
        """The mistake whose remedy is another text in the place of this one."""
        return self.found(message, span, f"write `{text}`", Fix(span, text))


class ExpressionRule(Rule):
    """A mistake of single expressions of these kinds, wherever they are in a policy."""

    kinds: ClassVar[tuple[type[ast.Expr], ...]] = (ast.Binary,)

    def look(self, tree: Tree) -> Iterator[Diagnostic]:
        for kind in self.kinds:
            for expr in tree.by_kind.get(kind, ()):
                yield from self.at(expr, tree)

    @abstractmethod
    def at(self, expr: ast.Expr, tree: Tree) -> Iterator[Diagnostic]:
        """The mistakes of one expression."""
