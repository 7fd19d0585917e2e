"""Definitions: what names of a policy stand for, and how deep they are with those that they use.

Whatever goes through a policy recurses, so a depth that is too great is an error before anything
else is looked at.
"""

from __future__ import annotations

from collections.abc import Mapping

from grammar.syntax.limits import MAX_DEPTH
from grammar.tree.ast import Call, Expr, Ident, Select
from grammar.tree.clauses import Def, Let
from grammar.tree.groups import Count, Group
from grammar.tree.walk import children

# What an expression uses by its name.
Definition = Let | Def | Group | Count


def too_deep(definitions: Mapping[str, Definition]) -> Definition | None:
    """The first definition whose depth, with the definitions it uses, is above MAX_DEPTH.

    This is a loop without recursion.
    """
    uses = {name: _uses(d, definitions) for name, d in definitions.items()}
    heights: dict[str, int] = {}
    for name in definitions:
        # A name that is on the path again is a circle, which another check reports.
        path = [name]
        on_path = {name}
        while path:
            top = path[-1]
            todo = next((u for u in uses[top] if u and u not in heights and u not in on_path), None)
            if todo is not None:
                path.append(todo)
                on_path.add(todo)
                if len(path) > MAX_DEPTH:
                    return definitions[name]
                continue
            own = uses[top]
            heights[top] = max(own.get("", 0), *(d + heights.get(u, 0) for u, d in own.items()))
            if heights[top] > MAX_DEPTH:
                return definitions[top]
            on_path.discard(path.pop())
    return None


def _uses(definition: Definition, names: Mapping[str, object]) -> dict[str, int]:
    """The greatest depth at which each name is used; under the empty name, that of the body."""
    found: dict[str, int] = {"": 0}
    stack = [(body, 1) for body in children(definition)]
    while stack:
        expr, depth = stack.pop()
        found[""] = max(found[""], depth)
        if (name := name_used(expr)) in names:
            found[name] = max(found.get(name, 0), depth)
        stack.extend((child, depth + 1) for child in children(expr))
    return found


def name_used(expr: Expr) -> str:
    """The name or function of an unchecked expression, which may be a definition; or empty."""
    match expr:
        case Ident(name) | Call(name, None):
            return name
        case _:
            return ""


def reads_cards(expr: Expr) -> bool:
    """Whether an unchecked expression may be written out with the parts of a `cards` clause."""
    match expr:
        case Select(name="cards" | "chosen") | Call("fragmentation", None):
            return True
        case _:
            return False
