"""Macro types: the types of the variables of each macro, and of its value.

The checker and completion ask for them. They are functions of types alone.
"""

from __future__ import annotations

from grammar.tree.groups import is_group
from grammar.tree.types import BOOL, DYN, INT, Type, list_of, map_of, optional_of

# The macros whose last argument is a condition.
TESTS = frozenset({"all", "exists", "exists_one", "existsOne", "filter"})
MACROS = TESTS | {"map", "sortBy"}
# The items of a group of nodes.
NODE = Type("Node")
_OPTIONAL = frozenset({"optMap", "optFlatMap"})


def inside(found: Type) -> Type:
    """The type inside an optional; any other type as it is."""
    return found.args[0] if found.name == "optional" else found


def variables(macro: str, target: Type, count: int) -> tuple[Type, ...] | None:
    """The types of a macro's variables; None if the macro does not accept the target."""
    if macro == "cel.bind":
        return (target,)
    if macro in _OPTIONAL:
        return (inside(target),) if target.name in ("optional", "dyn", "error") else None
    if is_group(target):
        return (INT, NODE)[-count:]
    match target:
        case Type("list", (item,)):
            return (INT, item)[-count:]
        case Type("map", args):
            return args[:count]
        case Type("dyn" | "error"):
            return (DYN,) * count
        case _:
            return None


def result(macro: str, target: Type, kinds: tuple[Type, ...], made: Type) -> Type | None:
    """The type of a macro whose body has the type `made`; None if `made` must be an optional."""
    match macro:
        case "all" | "exists" | "exists_one" | "existsOne":
            return BOOL
        case "map" | "transformList":
            return list_of(made)
        case "filter":
            return list_of(kinds[0])
        case "sortBy":
            return list_of(kinds[0]) if is_group(target) else target
        case "transformMap":
            return map_of(kinds[0], made)
        case "transformMapEntry":
            return made if made.name == "map" else map_of(DYN, DYN)
        case "optMap":
            return optional_of(made)
        case "optFlatMap":
            return made if made.name in ("optional", "dyn", "error") else None
        case _:  # cel.bind
            return made
