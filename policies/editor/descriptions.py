"""Descriptions: what is said to people of a variable, a field, a function or a parameter."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from grammar.meaning.schema import Field
from grammar.tree.clauses import Def
from grammar.tree.printer import print_parameter
from grammar.tree.types import Overload, Type

# The meaning of each variable, and the clauses that can read it.
VARIABLE_MEANINGS = {
    "pod": ("the pod that kube-scheduler asks about", "everywhere but in a domain"),
    "node": ("a candidate node", "filters, scores, binds, shares, domains, bounds"),
    "peer": ("another pod that a clause may count", "`pods where`"),
    "victim": ("a pod that may be evicted", "`protect`"),
    "victims": ("the pods that may be evicted together", "`allow`, `keep`"),
    "namespaceObject": ("the pod's namespace", "everywhere but in a domain"),
    "now": ("the time of the request", "everywhere but in domains and bounds"),
    "domain": ("the value of the domain", "bounds per domain, skews"),
}
_SELF = re.compile(r"\bself\b")


def field_name(field: Field) -> str:
    return f"{field.name}[{field.parameter}]" if field.parameter else field.name


def about_field(field: Field, owner: str) -> list[str]:
    """Its documentation, and what it stands for over the text `owner`."""
    return [text for text in (field.doc, _note(field, owner)) if text]


def _note(field: Field, owner: str) -> str:
    if field.derived is not None:
        return f"= {_SELF.sub(lambda _: owner, field.derived)}"
    return "computed by the engine" if field.native else ""


def absent(field: Field) -> str:
    """The value of a field that the object does not have; empty for a short form."""
    if field.derived is not None:
        return ""
    if field.optional:
        return "missing"
    match field.type.name:
        case "bool":
            return "false"
        case "int" | "double" | "quantity" | "dyn":
            return "0"
        case "string":
            return '""'
        case "timestamp":
            return "year 1"
        case _:
            return "empty"


def signatures(overloads: Iterable[Overload]) -> Iterator[str]:
    """How a function is called: `string.startsWith(string): bool`, each way once."""
    shown: dict[str, None] = {}
    for overload in overloads:
        params = [_plain(p) for p in overload.params]
        receiver = f"{params.pop(0)}." if overload.member else ""
        text = f"{receiver}{overload.name}({', '.join(params)}): {_plain(overload.result)}"
        shown[text] = None
    yield from shown


def _plain(type_: Type) -> str:
    """A type without the brackets of type variables: `list(A)`."""
    return str(type_).replace("<", "").replace(">", "")


def head_of_def(item: Def) -> str:
    """How a `def` begins: `def fits(n: Node): bool`."""
    parameters = ", ".join(map(print_parameter, item.parameters))
    return f"def {item.name}({parameters}): {item.result}"
