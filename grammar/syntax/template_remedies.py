"""Template remedies: what a placeholder of another program means where an expression must stand.

Helm, Go, shells, Terraform and Jinja fill in `{{ .Values.zone }}`, `${ZONE}`, `$(POOL)` and
`<% x %>` before anybody reads the text. Here nobody does: what others shall set is a parameter.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

from grammar.messages import catalogue
from grammar.messages.diagnostics import Diagnostic, Fix
from grammar.messages.texts import filled, template_of
from grammar.syntax.unexpected import STOPS, Misplaced, with_edit
from grammar.tree.printer import print_string
from grammar.tree.source import Span

_PLACEHOLDER = re.compile(
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
_PATH = re.compile(r"\.?[A-Za-z_][\w.]*")


def placeholders(text: str) -> Iterator[tuple[str, str]]:
    """Each placeholder in a text, and the hint at what to do about it."""
    for found in _PLACEHOLDER.finditer(text):
        yield found[0], _hint(next(filter(None, found.groups()), ""))
    if _STAND_IN.match(text):
        yield text, "write the value that it stands for"


def _hint(inner: str, kind: str = "string") -> str:
    """What to do about a placeholder, by what is in it."""
    if inner.startswith("/*"):
        return "leave it out: a comment stands behind `#`"
    words = _PATH.findall(inner.partition(":-")[0])
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


class TemplateRemedies(Misplaced):
    """Looks at an error at, or in, a placeholder."""

    @property
    def ideas(self) -> tuple[Callable[[], Diagnostic | None], ...]:
        """In the order in which they are asked."""
        return (self._literal, self._placeholder, self._joined)

    def _literal(self) -> Diagnostic | None:
        """`no place for ${pod.name}` between backticks, as in JavaScript."""
        found = _LITERAL.match(self.source.text, self.item.start)
        if found is None:
            return None
        parts = re.split(r"\$\{([^{}]*)\}", found[1])
        if self.previous.text in ("message", "detail"):
            made = print_string("".join(f"{{{p}}}" if n % 2 else p for n, p in enumerate(parts)))
        else:
            made = " + ".join(p if n % 2 else print_string(p) for n, p in enumerate(parts) if p)
        span = Span(*found.span())
        return with_edit(catalogue.unexpected(found[0], (), span), Fix(span, made))

    def _joined(self) -> Diagnostic | None:
        """`message "no place for " + pod.name`, whose expressions stand in braces here."""
        lexemes, at = self.lexemes, self.at
        is_text = lexemes[at - 2].text in ("message", "detail") and self.previous.kind == "string"
        if is_text and self.item.text == "." and lexemes[at + 1].text == "format":
            closer = lexemes.partner.get(at + 2, at + 2)
            values = (v.strip() for v in lexemes.slice(at + 3, closer - 1).split(","))
            edit = Fix(lexemes.span(at - 1, closer), filled(self.previous.text, values))
            return with_edit(self.unexpected(at, at + 1), edit)
        if self.item.text != "+" or not is_text:
            return None
        end = lexemes.expression_end(at + 1, STOPS)
        made, first = template_of(lexemes.slice(at - 1, end)), at - 1
        if "{node" in made and lexemes[at - 2].text == "message":
            # A message says the same of all nodes.
            made, first = f"detail {made}", at - 2
        return with_edit(self.unexpected(at, at), Fix(lexemes.span(first, end), made))

    def _placeholder(self) -> Diagnostic | None:
        """`{{ .Values.zone }}` and `${ZONE}` outside of a text."""
        text, at = self.source.text, self.item.start
        start = text.rfind("\n", 0, at) + 1
        line = text[start:].partition("\n")[0]
        for found in _PLACEHOLDER.finditer(line):
            first = start + found.start()
            inner = next(filter(None, found.groups()), "")
            root = _PATH.match(inner.strip())
            is_own = root is not None and root[0].strip(".").partition(".")[0] in OWN
            if is_own or not first <= at < start + found.end():
                continue
            before = self.lexemes[self.lexemes.at(first) - 1].text
            kind = "int" if before in _NUMBERS else "string"
            span = Span(first, start + found.end())
            return catalogue.placeholder(found[0], span, _hint(inner, kind))
        return None
