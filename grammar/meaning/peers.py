"""Peers: what the cache keeps of a pod on a node, and the conditions that are about such pods."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from grammar.meaning.environment import Environment
from grammar.tree import ast
from grammar.tree.clauses import Clause
from grammar.tree.walk import rewritten, walk

Path = tuple[str, ...]
# The paths of `pod` that are known of a pod that is there, and what they are of a peer.
_KEPT: Mapping[Path, Path] = {
    ("metadata", "name"): ("name",),
    ("metadata", "namespace"): ("namespace",),
    ("metadata", "uid"): ("uid",),
    ("metadata", "labels"): ("labels",),
    ("metadata", "annotations"): ("annotations",),
    ("spec", "priority"): ("priority",),
    ("requests",): ("requests",),
    ("limits",): ("limits",),
    ("hostPorts",): ("hostPorts",),
    ("workload", "kind"): ("workload", "kind"),
    ("workload", "name"): ("workload", "name"),
}


def kept(path: Path) -> Path | None:
    """The path of a peer for a path below `pod`; None if the cache does not keep it."""
    for length in (1, 2):
        if (of_peer := _KEPT.get(path[:length])) is not None:
            return (*of_peer, *path[length:])
    return None


def of_peer(expr: ast.Expr, name: str, new: str = "peer") -> ast.Expr:
    """The expression with `peer`, or a new name, in the place of a variable."""

    def change(node: object) -> object:
        if isinstance(node, ast.Ident) and node.name == name:
            return replace(node, name=new)
        return node

    return rewritten(expr, change)


_AMOUNTS = frozenset({"requests", "limits"})


def sum_of(clause: Clause, environment: Environment) -> ast.Expr | None:
    """The part of a requirement that adds up amounts of pods, or the name that stands for it."""
    lets, defs = environment.lets, environment.defs
    # Each name is looked at once inside sums and once outside: definitions may nest like towers.
    seen: set[tuple[str, bool]] = set()

    def inside(expr: ast.Expr, *, summed: bool) -> ast.Expr | None:
        """The first part that adds up amounts; `summed` says that the whole is added up."""
        for part in walk(expr):
            match part:
                case ast.Select(operand, name) if summed and name in _AMOUNTS:
                    if operand.type.name == "Peer":
                        return part
                case ast.Call("sum", target, args) if not summed:
                    added = (target, *args) if target is not None else args
                    if any(inside(each, summed=True) is not None for each in added):
                        return part
                case ast.LetReference(name) | ast.DefCall(name) if (name, summed) not in seen:
                    seen.add((name, summed))
                    body = lets[name] if name in lets else defs[name].body
                    if inside(body, summed=summed) is not None:
                        return part
                case _:
                    pass
        return None

    found = (inside(each, summed=False) for each in clause.requirements)
    return next((each for each in found if each is not None), None)
