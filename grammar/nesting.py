"""How deep the definitions of a policy nest through each other, found without recursion."""

from __future__ import annotations

from collections.abc import Mapping

from grammar.ast import Call, Expr, Ident
from grammar.clauses import Def, Let
from grammar.limits import MAX_DEPTH
from grammar.reads import children


def too_deep(definitions: Mapping[str, Let | Def]) -> Let | Def | None:
    """The first definition that is more than MAX_DEPTH deep once what it uses is put in."""
    uses = {name: _uses(_body(d), definitions) for name, d in definitions.items()}
    heights: dict[str, int] = {}
    for name in definitions:
        # The path to here: what is on it and comes again is a circle, which another check reports.
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


def _body(definition: Let | Def) -> Expr:
    return definition.value if isinstance(definition, Let) else definition.body


def _uses(body: Expr, names: Mapping[str, object]) -> dict[str, int]:
    """The depth at which each name is used, at most; under the empty name, that of the body."""
    found: dict[str, int] = {"": 0}
    stack = [(body, 1)]
    while stack:
        expr, depth = stack.pop()
        found[""] = max(found[""], depth)
        name = expr.name if isinstance(expr, Ident) else None
        if isinstance(expr, Call) and expr.target is None:
            name = expr.function
        if name is not None and name in names:
            found[name] = max(found.get(name, 0), depth)
        stack.extend((child, depth + 1) for child in children(expr))
    return found
