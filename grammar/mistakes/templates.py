"""Templates: what a placeholder of another program means where an expression must stand.

Helm, Go, shells, Terraform and Jinja fill in `{{ .Values.zone }}`, `${ZONE}`, `$(POOL)` and
`<% x %>` before anybody reads the text. Here nobody does: what others shall set is a parameter.
"""

from __future__ import annotations

from collections.abc import Callable

from grammar.messages import catalogue
from grammar.messages.diagnostics import Diagnostic, Fix
from grammar.messages.placeholders import OWN, PATH, PLACEHOLDER, hint_of
from grammar.messages.texts import filled, template_of
from grammar.mistakes.misplaced import STOPS, Misplaced, with_edit
from grammar.tree.source import Span


class TemplateRemedies(Misplaced):
    """Looks at an error at, or in, a placeholder."""

    @property
    def ideas(self) -> tuple[Callable[[], Diagnostic | None], ...]:
        """In the order in which they are asked."""
        return (self._placeholder, self._joined)

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
        for found in PLACEHOLDER.finditer(line):
            first = start + found.start()
            inner = next(filter(None, found.groups()), "")
            root = PATH.match(inner.strip())
            is_own = root is not None and root[0].strip(".").partition(".")[0] in OWN
            if is_own or not first <= at < start + found.end():
                continue
            before = self.lexemes[self.lexemes.at(first) - 1].text
            kind = "int" if before in ("weight", "most", "least", "exactly") else "string"
            span = Span(first, start + found.end())
            return catalogue.placeholder(found[0], span, hint_of(inner, kind))
        return None
