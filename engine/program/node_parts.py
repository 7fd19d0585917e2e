"""Node parts: the single values that expressions read of a node, such as one label or one amount.

Nodes with equal values of the parts of a clause are alike to it (`engine.program.columns`).
"""

from __future__ import annotations

from collections.abc import Iterable

from engine.program.compiler import Compiler
from engine.program.frame import Evaluate
from grammar.tree import ast
from grammar.tree.printer import print_expression
from grammar.tree.walk import children

_OF_NODE = frozenset({"node"})
# The types whose values tell nodes apart.
_VALUES = frozenset({"string", "bool", "int", "double", "quantity", "duration", "timestamp"})


def node_parts(compiler: Compiler, exprs: Iterable[ast.Expr]) -> tuple[Evaluate, ...] | None:
    """The closures of the largest parts that are single values; None if more of a node is read."""
    parts = _Parts(compiler)
    return parts.compiled() if parts.add_all(exprs, frozenset()) else None


class _Parts:
    """The parts that are found; `hidden` are the variables and parameters around an expression."""

    def __init__(self, compiler: Compiler) -> None:
        self._compiler = compiler
        self._stages = compiler.stages
        self._environment = compiler.environment
        self._by_text: dict[str, ast.Expr] = {}

    def compiled(self) -> tuple[Evaluate, ...]:
        return tuple(map(self._compiler.compile, self._by_text.values()))

    def add_all(self, exprs: Iterable[ast.Expr], hidden: frozenset[str]) -> bool:
        """Adds those of expressions; whether they read nothing else of a node."""
        return all(self._add(each, hidden) for each in exprs)

    def _add(self, expr: ast.Expr, hidden: frozenset[str]) -> bool:
        if not _OF_NODE.isdisjoint(hidden):
            return False
        if (roots := self._stages.roots(expr)).isdisjoint(_OF_NODE):
            return True
        is_local = self._stages.is_local(expr) or not roots.isdisjoint(hidden)
        if not is_local and roots == _OF_NODE and expr.type.name in _VALUES:
            self._by_text[print_expression(expr)] = expr
            return True
        match expr:
            case ast.Ident():
                return False
            case ast.LetReference(name):
                return self._add(self._environment.lets[name], frozenset())
            case ast.DefCall(name, args):
                known = self._environment.defs[name]
                parameters = frozenset(p.name for p in known.parameters)
                return self._add(known.body, parameters) and self.add_all(args, hidden)
            case ast.Comprehension(_, target, variables, body):
                inner = hidden.union(variables)
                return self._add(target, hidden) and self.add_all(body, inner)
            case _:
                return self.add_all(children(expr), hidden)
