"""Random mutants: small changes of expressions and statements, drawn from what counts and leads.

A mutant is drawn from a seed and belongs to the tree as it is. Each kind of change is one that a
programmer makes by mistake: another comparison, a condition the other way round, a statement that
is missing. Texts for people are left alone, because no nemesis reads them.
"""

from __future__ import annotations

import ast
import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from random import Random

# The files, and the tests that know most of each folder.
FILES: Mapping[str, Sequence[str]] = {
    "engine/counting/*.py": ["tests/engine/counting", "tests/engine/decision"],
    "engine/cache/cache.py": ["tests/engine/cache", "tests/engine/counting"],
    "engine/cache/reflector.py": ["tests/engine/cache"],
    "engine/cache/store.py": ["tests/engine/cache"],
    "engine/cache/tallies.py": ["tests/engine/cache", "tests/engine/counting"],
    "engine/cluster/lease.py": ["tests/engine/cluster"],
    "engine/cluster/binding.py": ["tests/engine/cluster"],
    "engine/gangs/*.py": ["tests/engine/gangs"],
}
_COMPARISONS: Mapping[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
}
_OPERATORS: Mapping[type[ast.operator], type[ast.operator]] = {
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.BitAnd: ast.BitOr,
    ast.BitOr: ast.BitAnd,
}
# An inner function is one of its own.
_LEFT_OUT = (ast.JoinedStr, ast.Assert, ast.Raise, ast.FunctionDef, ast.AsyncFunctionDef)
# What is called for people.
_UNSEEN = ("say", "_tell", "_report", "occurred", "warning", "info")


@dataclass(frozen=True, slots=True)
class RandomMutant:
    """A change of a part of a file, which is at an offset of its bytes."""

    file: str
    line: int
    start: int
    before: str
    after: str
    tests: Sequence[str]

    @property
    def name(self) -> str:
        return f"{self.file}:{self.line}: `{self.before}` becomes `{self.after}`"

    def apply(self, tree: Path) -> None:
        """Plant it in a copy of the tree."""
        file = tree / self.file
        text, before = file.read_bytes(), self.before.encode()
        assert text[self.start : self.start + len(before)] == before, self.name
        rest = text[self.start + len(before) :]
        file.write_bytes(text[: self.start] + self.after.encode() + rest)


def drawn(tree: Path, seed: int, number: int) -> list[RandomMutant]:
    """So many mutants of a tree; more only add some."""
    every = [
        each
        for pattern, tests in FILES.items()
        for file in sorted(tree.glob(pattern))
        for each in _of_file(file, f"{file.relative_to(tree)}", _own_first(tree, file, tests))
    ]
    Random(seed).shuffle(every)
    return every[:number]


def _own_first(tree: Path, file: Path, tests: Sequence[str]) -> Sequence[str]:
    """The tests of a file before all others of these folders: most mutants end there."""
    own = (f"{folder}/test_{file.stem}.py" for folder in tests)
    return [*(each for each in own if (tree / each).exists()), *tests]


def _of_file(file: Path, name: str, tests: Sequence[str]) -> Iterator[RandomMutant]:
    text = file.read_bytes()
    starts = [0, *itertools.accumulate(map(len, text.splitlines(keepends=True)))]
    for node in _code(ast.parse(text)):
        for changed in _changes(node):
            assert isinstance(node, (ast.expr, ast.stmt))
            start = starts[node.lineno - 1] + node.col_offset
            end = starts[(node.end_lineno or 0) - 1] + (node.end_col_offset or 0)
            # Whatever it is a part of, it stays one part.
            after = changed if isinstance(node, ast.stmt) else f"({changed})"
            yield RandomMutant(name, node.lineno, start, text[start:end].decode(), after, tests)


def _code(module: ast.AST) -> Iterator[ast.AST]:
    """The parts of functions that decide something: no annotations, and no texts."""
    for function in ast.walk(module):
        if isinstance(function, (ast.FunctionDef, ast.AsyncFunctionDef)):
            for statement in function.body:
                yield from _parts(statement)


def _parts(node: ast.AST) -> Iterator[ast.AST]:
    if isinstance(node, _LEFT_OUT):
        return
    yield node
    for child in ast.iter_child_nodes(node):
        if not (isinstance(node, ast.AnnAssign) and child is node.annotation):
            yield from _parts(child)


def _changes(node: ast.AST) -> Iterator[str]:
    match node:
        case ast.Compare(left=left, ops=[op], comparators=[right]) if type(op) in _COMPARISONS:
            yield ast.unparse(ast.Compare(left, [_COMPARISONS[type(op)]()], [right]))
        case ast.BoolOp(op=op, values=values):
            yield ast.unparse(
                ast.BoolOp(ast.Or() if isinstance(op, ast.And) else ast.And(), values)
            )
        case ast.UnaryOp(op=ast.Not(), operand=operand):
            yield ast.unparse(operand)
        case ast.BinOp(left=left, op=op, right=right) if type(op) in _OPERATORS:
            yield ast.unparse(ast.BinOp(left, _OPERATORS[type(op)](), right))
        case ast.Constant(value=bool(value)):
            yield f"{not value}"
        case ast.Constant(value=int(value)):
            yield f"{value + 1}"
        case ast.IfExp(test=test, body=body, orelse=orelse):
            yield ast.unparse(ast.IfExp(test, orelse, body))
        case ast.Expr(value=ast.Call(func=func)) if _name(func) not in _UNSEEN:
            yield "pass"
        case ast.AugAssign(op=op) if type(op) in _OPERATORS:
            changed = ast.AugAssign(node.target, _OPERATORS[type(op)](), node.value)
            yield ast.unparse(changed)
        case _:
            pass


def _name(func: ast.expr) -> str:
    return func.attr if isinstance(func, ast.Attribute) else getattr(func, "id", "")
