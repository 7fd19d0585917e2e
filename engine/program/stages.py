"""When a part of a program can be worked out: told by what it reads."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from enum import Enum

from grammar.ast import Comprehension, DefCall, Expr, Ident, LetReference
from grammar.environment import Environment
from grammar.reads import children


class Stage(Enum):
    """How often a part is evaluated. `now` is one value per request, so it belongs to the pod.

    An age, which reads the node and `now`, is RESIDUE: the column holds the timestamp.
    """

    CONSTANT = "once"
    POD = "once per request"
    NODE = "once per version of a node"
    RESIDUE = "once per request and node"


_PER_REQUEST = frozenset({"pod", "namespaceObject", "now"})


@dataclass(frozen=True, slots=True)
class _Needs:
    """The declared names that a part reads, and the local ones that it must be given."""

    roots: frozenset[str] = frozenset()
    local: frozenset[str] = frozenset()
    steps: int = 0


class Stages:
    """The stages of one environment's expressions, each part looked at once."""

    def __init__(self, environment: Environment) -> None:
        self._environment = environment
        self._needs: dict[int, tuple[Expr, _Needs]] = {}
        self._named: dict[str, _Needs] = {}

    def stage(self, expr: Expr, hidden: Collection[str] = ()) -> Stage | None:
        """The stage of a part; None where it depends on a macro's variable or a parameter.

        `hidden` are the variables and parameters around it, which may have a declared name.
        """
        needs = self._of(expr)
        if needs.local or not needs.roots.isdisjoint(hidden):
            return None
        if not needs.roots:
            return Stage.CONSTANT
        if needs.roots <= _PER_REQUEST:
            return Stage.POD
        return Stage.NODE if needs.roots == {"node"} else Stage.RESIDUE

    def steps(self, expr: Expr) -> int:
        """How many nodes the tree below has, `let`s and `def`s included: what keeping it saves."""
        return self._of(expr).steps

    def _of(self, expr: Expr) -> _Needs:
        known = self._needs.get(id(expr))
        # The tree is kept beside its needs, so that an id is not taken over by another one.
        if known is not None and known[0] is expr:
            return known[1]
        needs = self._look(expr)
        self._needs[id(expr)] = (expr, needs)
        return needs

    def _look(self, expr: Expr) -> _Needs:
        match expr:
            case Ident(name):
                if name in self._environment.variables:
                    return _Needs(roots=frozenset({name}), steps=1)
                constant = self._environment.constant(name) is not None
                return _Needs(local=frozenset() if constant else frozenset({name}), steps=1)
            case LetReference(name):
                return self._definition(name, self._environment.lets[name], frozenset())
            case DefCall(name, args):
                known = self._environment.defs[name]
                body = self._definition(name, known.body, frozenset(n for n, _ in known.params))
                return _sum([body, *map(self._of, args)])
            case Comprehension(_, target, variables, body_parts):
                inner = _sum([self._of(p) for p in body_parts])
                hidden = frozenset(variables)
                # A macro is worth its body many times.
                part = _Needs(inner.roots - hidden, inner.local - hidden, 10 * inner.steps)
                return _sum([self._of(target), part])
            case _:
                return _sum([self._of(c) for c in children(expr)])

    def _definition(self, name: str, body: Expr, parameters: frozenset[str]) -> _Needs:
        if name not in self._named:
            inner = self._of(body)
            self._named[name] = _Needs(inner.roots - parameters, frozenset(), inner.steps)
        return self._named[name]


def _sum(parts: list[_Needs]) -> _Needs:
    roots = frozenset[str]().union(*(p.roots for p in parts))
    local = frozenset[str]().union(*(p.local for p in parts))
    return _Needs(roots, local, 1 + sum(p.steps for p in parts))
