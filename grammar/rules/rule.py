"""Rule: a mistake of a policy that type-checks, with its code and the way to find it.

A rule belongs to a code of the book of diagnostics, whose section has an example of the mistake.
What it looks at is a `Tree`: a mistake is the same through a `let` and a `def`, so each name has
its expression in its place. Every part keeps the span at which somebody wrote it, and what a call
comes to has the span of the call. What would become too large stays as it is.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeVar

from grammar.checker.policy_checker import Checked
from grammar.meaning.constants import constant
from grammar.meaning.environment import ClusterFacts, Environment
from grammar.meaning.schema import print_as_written
from grammar.messages.diagnostics import Diagnostic, Fix, Severity
from grammar.tree import ast
from grammar.tree.clause_parts import AnyClause, WrittenCondition
from grammar.tree.policy import Def, ForPods, Let, Policy, of_kind
from grammar.tree.source import Span
from grammar.tree.types import STRING
from grammar.tree.walk import rewritten, roots, walk

K = TypeVar("K")


@dataclass(frozen=True, slots=True)
class Tree:
    """The tree of a checked policy as rules look at it.

    `policy` has its definitions written out, so that a mistake is the same through a `let`
    or a `def`. `cluster` is the one whose facts count; None without a cluster.
    """

    checked: Checked
    policy: Policy
    by_kind: Mapping[type[ast.Expr], Sequence[ast.Expr]]
    cluster: ClusterFacts | None = None

    @property
    def written(self) -> Policy:
        """The policy as it is written."""
        return self.checked.policy

    @property
    def environment(self) -> Environment:
        return self.checked.environment

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


def tree_of(checked: Checked, cluster: ClusterFacts | None = None) -> Tree:
    """The tree that all rules share, with its expressions by class."""
    policy = write_out(checked.policy, checked.environment)
    by_kind: dict[type[ast.Expr], list[ast.Expr]] = {}
    for expr in walk(policy):
        by_kind.setdefault(type(expr), []).append(expr)
    return Tree(checked, policy, by_kind, cluster)


def conditions(policy: Policy) -> Iterator[WrittenCondition]:
    """The expressions that must be true for something to happen, in the order of the items."""
    for item in policy.items:
        if isinstance(item, ForPods):
            yield WrittenCondition(item.where, "for")
        elif isinstance(item, AnyClause):
            yield from item.conditions


@dataclass(frozen=True, slots=True)
class Rule:
    """A rule: one mistake, which `line` says, and where a policy has it."""

    code: str
    line: str
    look: Callable[[Tree], Iterator[Diagnostic]]


def rule(code: str) -> Callable[[Callable[[Tree], Iterator[Diagnostic]]], Rule]:
    """Makes a rule of what finds a mistake; the first line of its docstring says the mistake."""

    def made(find: Callable[[Tree], Iterator[Diagnostic]]) -> Rule:
        def look(tree: Tree) -> Iterator[Diagnostic]:
            return (replace(found, code=code) for found in find(tree))

        return Rule(code, (find.__doc__ or "").partition("\n")[0], look)

    return made


def on(
    code: str, *kinds: type[ast.Expr]
) -> Callable[[Callable[[Any, Tree], Iterator[Diagnostic]]], Rule]:
    """Makes a rule of what finds a mistake of a single expression of these kinds, anywhere."""

    def made(find: Callable[[Any, Tree], Iterator[Diagnostic]]) -> Rule:
        def look(tree: Tree) -> Iterator[Diagnostic]:
            for kind in kinds:
                for expr in tree.by_kind.get(kind, ()):
                    yield from find(expr, tree)

        look.__doc__ = find.__doc__
        return rule(code)(look)

    return made


def finding(
    message: str,
    span: Span,
    hint: str | None,
    remedy: Fix | None = None,
    severity: Severity = "warning",
) -> Diagnostic:
    """A mistake; its rule gives it the code."""
    return Diagnostic("", severity, message, span, hint=hint, remedy=remedy)


def instead(message: str, span: Span, text: str) -> Diagnostic:
    """The mistake whose remedy is another text in the place of this one."""
    return finding(message, span, f"write `{text}`", Fix(span, text))


# ---- definitions written out

# The most nodes of one expression that is written out, and of all expressions of a policy. Without
# a limit, definitions that use each other could come to billions of nodes.
_MOST_OF_ONE = 5_000
_MOST_OF_ALL = 50_000


class _KeptError(Exception):
    """Kept as it is: an expression that is too large, or in which a macro hides a name."""


def write_out(policy: Policy, environment: Environment) -> Policy:
    """The policy with the definitions written out; its own items, and nothing of its `use`s.

    The definitions are left out, unless some expression still needs them.
    """
    writer = _Writer(environment)

    def change(node: object) -> object:
        return writer.whole(node) if isinstance(node, ast.Expr) else node

    definitions = tuple(i for i in policy.items if isinstance(i, Let | Def))
    items = tuple(
        rewritten(item, change) if any(map(_is_written_out, walk(item))) else item
        for item in policy.items
        if not isinstance(item, Let | Def)
    )
    is_needed = any(isinstance(e, ast.LetReference | ast.DefCall) for e in walk(items))
    return replace(policy, items=items + definitions if is_needed else items)


def _is_written_out(expr: ast.Expr) -> bool:
    match expr:
        case ast.LetReference() | ast.DefCall():
            return True
        case ast.Select(operand, name):
            return operand.type.name == "map" and not name.isidentifier()
        case _:
            return False


class _Writer:
    """Writes out the expressions of one policy."""

    def __init__(self, environment: Environment) -> None:
        self._environment = environment
        self._left_of_all = _MOST_OF_ALL
        self._left = 0

    def whole(self, expr: ast.Expr) -> ast.Expr:
        """A whole expression written out, always a new node."""
        if not any(map(_is_written_out, walk(expr))):
            return replace(expr)
        self._left = before = min(_MOST_OF_ONE, self._left_of_all)
        try:
            return self._of(expr, {})
        except _KeptError:
            return replace(expr)
        finally:
            self._left_of_all -= before - self._left

    def _take(self, nodes: int) -> None:
        if nodes > self._left:
            self._left = 0
            raise _KeptError
        self._left -= nodes

    def _of(self, expr: ast.Expr, names: Mapping[str, ast.Expr]) -> ast.Expr:
        """The expression with `names` of local variables replaced by what they stand for."""

        def change(node: object) -> object:
            self._take(isinstance(node, ast.Expr))
            match node:
                case ast.LetReference(name):
                    return self._of(self._environment.lets[name], {})
                case ast.DefCall():
                    return self._call(node, names)
                case ast.Ident(name, absolute=False) if name in names:
                    self._take(sum(1 for _ in walk(names[name])))
                    return names[name]
                case ast.Comprehension(_, target, variables, bodies) if names:
                    free = {name: value for name, value in names.items() if name not in variables}
                    read = {e.name for e in walk(tuple(free.values())) if isinstance(e, ast.Ident)}
                    if not read.isdisjoint(variables):
                        raise _KeptError
                    made = tuple(self._of(part, free) for part in bodies)
                    return replace(node, target=self._of(target, names), body=made)
                case ast.Select(operand, name) if _is_written_out(node):
                    key = ast.Literal(name, STRING, span=node.name_span)
                    inner = self._of(operand, names)
                    return ast.Index(inner, key, node.optional, span=node.span, type=node.type)
                case _:
                    return node

        return rewritten(expr, change)

    def _call(self, expr: ast.DefCall, names: Mapping[str, ast.Expr]) -> ast.Expr:
        known = self._environment.defs[expr.name]
        values = [self._of(a, names) for a in expr.args]
        body = self._of(
            known.body, dict(zip((p.name for p in known.parameters), values, strict=False))
        )
        if not expr.args:
            return body
        # The call alone can be corrected for what is in its body.
        self._take(sum(1 for _ in walk(body)))
        return rewritten(body, lambda node: expr.span if node == body.span else node)
