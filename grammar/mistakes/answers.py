"""Answers: the helper of the parser and the checker, while somebody looks for hints."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from typing import Any

from grammar.meaning.environment import Environment
from grammar.messages.diagnostics import Diagnostic
from grammar.messages.helping import Leads
from grammar.mistakes import syntax_mistakes
from grammar.mistakes.names import weight_in_words
from grammar.mistakes.places import in_place
from grammar.mistakes.type_mistakes import Remedies, number_in_quotes, number_of_text
from grammar.tree.ast import Expr
from grammar.tree.source import Source, Span
from grammar.tree.types import Type

# What a part of a clause asks.
_OF_CLAUSES: Mapping[str, Callable[..., Diagnostic]] = {
    "a name in another place": in_place,
    "a number in quotes": number_in_quotes,
    "a score of a text": number_of_text,
    "a weight in words": weight_in_words,
}


class Answers:
    """Answers about the mistakes of one text."""

    def unexpected(
        self,
        source: Source,
        span: Span,
        accepted: AbstractSet[str],
        leads: Leads,
        like: Callable[[str], bool],
    ) -> Diagnostic | None:
        return syntax_mistakes.unexpected(source, span, accepted, leads, like)

    def built(self, found: Diagnostic, source: Source, leads: Leads) -> Diagnostic:
        return syntax_mistakes.built(found, source, leads)

    def expression(
        self,
        environment: Environment,
        names: Mapping[str, Type],
        around: Sequence[Expr],
        kind: Callable[[Expr], Type],
    ) -> Remedies:
        return Remedies(environment, names, around, kind)

    def clause(self, question: str, found: Diagnostic, *about: Any) -> Diagnostic:
        return _OF_CLAUSES[question](found, *about)
