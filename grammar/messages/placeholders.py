"""Placeholders: what other programs fill into a text, and what to do about each of them here.

Helm, Go, shells, Terraform and Jinja fill in `{{ .Values.zone }}`, `${ZONE}`, `$(POOL)` and
`<% x %>` before anybody reads the text. Here nobody does: what others shall set is a parameter.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

PLACEHOLDER = re.compile(
    r"\{\{-?\s*(?P<braces>[^{}\n]*?)\s*-?\}\}|\$\{(?P<shell>[^{}\n]*)\}|\$\((?P<make>\w+)\)"
    r"|\$(?P<plain>[A-Za-z_]\w*)|<%[=-]?(?P<page>[^%\n]*)%>|\{%-?(?P<block>[^%{}\n]*)%\}"
)
# A text that only says what to write in its place.
_STAND_IN = re.compile(r"(?:<[A-Za-z][\w .-]*>|%[A-Z_]+%|__[A-Z_]+__|@[A-Z_]+@)\Z")
OWN = frozenset({"pod", "node", "now", "peer", "namespaceObject", "data"})
_CONTROL = frozenset(
    "if else end range with define include template block endif for endfor".split()
)
_NUMBERS = frozenset({"weight", "most", "least", "exactly"})
_LITERAL = re.compile(r"`([^`\n]*\$\{[^`\n]*)`")
PATH = re.compile(r"\.?[A-Za-z_][\w.]*")


def placeholders(text: str) -> Iterator[tuple[str, str]]:
    """Each placeholder in a text, and the hint at what to do about it."""
    for found in PLACEHOLDER.finditer(text):
        yield found[0], hint_of(next(filter(None, found.groups()), ""))
    if _STAND_IN.match(text):
        yield text, "write the value that it stands for"


def hint_of(inner: str, kind: str = "string") -> str:
    """What to do about a placeholder, by what is in it."""
    if inner.startswith("/*"):
        return "leave it out: a comment stands behind `#`"
    words = PATH.findall(inner.partition(":-")[0])
    paths = [w for w in words if "." in w] or [w for w in words if w not in _CONTROL]
    if not paths:
        return "fill it in before: nothing here reads templates"
    path = re.sub(
        r"^(?:request\.object|object|input)\.(?:metadata\.(?=labels|annotations|name))?",
        "pod.",
        paths[0].lstrip("."),
    )
    if path.partition(".")[0] in OWN:
        return f"write `{path}`, without quotes or braces around it"
    name = path.rpartition(".")[2].lower()
    default = "…" if kind == "int" else '"…"'
    return (
        "fill it in before, or declare a parameter behind the name of the policy,"
        f" `({name}: {kind} = {default})`, and write `{name}`"
    )
