"""Pod values: what the clauses of a rule read of a pod. Pods with the same values are alike to it.

A rule such as `pod.name != "zz" && node.labels["pool"] == pod.labels["pool"]` has two parts that
read only the pod. The result on a node depends on the values of these two parts, and on nothing
else of the pod.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Mapping

from engine.program.compiler import Compiler
from engine.program.frame import Evaluate, Frame
from grammar.tree import ast
from grammar.tree.walk import children
from grammar.values.errors import EvaluationError
from grammar.values.quantity import Quantity
from grammar.values.time import Duration, Timestamp

_OF_THE_POD = frozenset({"pod", "namespaceObject"})
_PLAIN = frozenset({str, bool, int, type(None), Duration, Timestamp})
# Values that are equal may be written in different ways: `1` and `1000m`, `0.0` and `-0.0`.
_WRITTEN = frozenset({float, Quantity})
# The items of lists and maps in all values of a clause.
_MOST_ITEMS = 256


class PodParts:
    """The largest parts of expressions that read the pod, or its namespace, and nothing else."""

    def __init__(self, compiler: Compiler) -> None:
        self._compiler = compiler

    def compiled(self, exprs: Iterable[ast.Expr]) -> tuple[Evaluate, ...]:
        found: list[ast.Expr] = []
        for expr in exprs:
            found += [part for part in self._parts(expr, frozenset()) if part not in found]
        return tuple(map(self._compiler.compile, found))

    def _parts(self, expr: ast.Expr, hidden: frozenset[str]) -> Iterator[ast.Expr]:
        """`hidden` are the variables and parameters around the expression."""
        stages, environment = self._compiler.stages, self._compiler.environment
        reads = stages.roots(expr)
        if reads.isdisjoint(_OF_THE_POD):
            return
        if reads <= _OF_THE_POD and not stages.is_local(expr) and reads.isdisjoint(hidden):
            yield expr
            return
        match expr:
            case ast.LetReference(name):
                yield from self._parts(environment.lets[name], frozenset())
            case ast.DefCall(name, args):
                known = environment.defs[name]
                yield from self._parts(known.body, frozenset(p.name for p in known.parameters))
                for arg in args:
                    yield from self._parts(arg, hidden)
            case ast.Comprehension(_, target, variables, body):
                yield from self._parts(target, hidden)
                for part in body:
                    yield from self._parts(part, hidden.union(variables))
            case _:
                for child in children(expr):
                    yield from self._parts(child, hidden)


def pod_values(parts: Iterable[Evaluate], frame: Frame) -> Hashable | None:
    """The values of parts, for a comparison; None where they cannot be compared.

    Raises what the frame's `check` raises.
    """
    room = [_MOST_ITEMS]
    found: list[Hashable] = []
    for part in parts:
        try:
            value = part(frame)
        except EvaluationError as error:
            found.append((error.__class__, str(error)))
            continue
        try:
            found.append(_comparable(value, room))
        except TypeError:
            return None
    return tuple(found)


def _comparable(value: object, room: list[int]) -> Hashable:
    """A value of which another type is another value. Raises TypeError if it is too large."""
    if value.__class__ in _PLAIN:
        return value.__class__, value
    if value.__class__ in _WRITTEN:
        return value.__class__, str(value)
    if not isinstance(value, Mapping | list | tuple):
        raise TypeError
    room[0] -= len(value)
    if room[0] < 0:
        raise TypeError
    if isinstance(value, Mapping):
        items = value.items()
        return dict, frozenset((_comparable(k, room), _comparable(v, room)) for k, v in items)
    return list, tuple(_comparable(each, room) for each in value)
