"""Syntax mistakes: what is meant by the word that the parser stopped at.

The first idea whose edit leads the parser further is the answer. An edit is certain if nothing else
can be meant; `--fix` makes only certain edits.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from collections.abc import Set as AbstractSet
from dataclasses import replace

from grammar.messages import catalogue
from grammar.messages.diagnostics import Diagnostic, Fix, nearest, only_nearest
from grammar.messages.helping import Leads
from grammar.mistakes import rewrite_rows as rows
from grammar.mistakes.brackets import BracketRemedies
from grammar.mistakes.clauses import ClauseRemedies
from grammar.mistakes.misplaced import Misplaced, with_edit
from grammar.mistakes.rewrites import rewritten
from grammar.syntax.lexemes import Lexemes
from grammar.tree.source import Source, Span

# Rows and code in the order in which they are asked.
_ROWS = (
    rows.GANGS,
    rows.LACKING,
    rows.ITEMS_OF_LISTS,
    rows.AMOUNTS,
    rows.OPERATORS,
    rows.HEADS,
    rows.SIGNS,
    rows.NAMES,
    rows.BOUNDS,
)
# The word `not` followed only by spaces, and an operand that no operator follows.
_NEGATION = re.compile(r"(?<![\w.])not[ \t]+\Z")
_OPERAND = re.compile(
    r"[A-Za-z_][\w.]*+(?:\[[^\[\]\n]*\]|\([^()\n]*\)|\.\w+)*+[ \t]*+(?![ \t=!<>+*/%\-?.\[(]|in\b)"
)
_SIGNS = {";": "lines need no `;`", "`": 'write a text between `"`'} | dict.fromkeys(
    "\u201c\u201d\u2018\u2019", "write straight quotes"
)
# Terminals that are no words of the language.
_NO_WORDS = frozenset(
    "NAME IDENT STRING SIGNED INT PERCENT LENGTH RELOP LBRACE RBRACE EQUAL LPAR RPAR RSQB COLON"
    " COMMA QUOTED FLOAT UINT BYTES TRUE FALSE NULL NOT".split()
)
# A key of labels or annotations that is written like a field.
_KEY = re.compile(r"([\w.]+\.(?:labels|annotations))\.([\w./-]+)")
_RESERVED = {
    "if": "`condition ? value : other`, or `when` behind the name of a clause",
    "for": "`list.all(x, …)`, `list.exists(x, …)` or `list.map(x, …)`",
    "function": "`def name(x: TYPE): TYPE = …`, and in a macro `x, …`",
    "var": "`let name = …`",
    "const": "`let name = …`",
    "return": "the value alone",
    "while": "a macro such as `list.all(x, …)`",
    "import": '`use "name"`',
    "else": "`condition ? value : other`",
    "namespace": "`pod.namespace`",
}


def unexpected(
    source: Source, span: Span, accepted: AbstractSet[str], leads: Leads
) -> Diagnostic | None:
    """The error for what stands at a span, where the terminals are accepted; None without a hint.

    An empty span is the end of the text.
    """
    for said in _ideas(source, span, accepted):
        edit = said.fix or said.remedy
        # Another bracket can be lacking in the same place.
        if edit is None or said.code == "P0140" or leads(edit):
            return said
    return None


def _ideas(source: Source, span: Span, accepted: AbstractSet[str]) -> Iterator[Diagnostic]:
    words = tuple(t.lower() for t in accepted if t.isalpha() and t not in _NO_WORDS)
    place = Misplaced(source, span, accepted, words)
    yield from rows.of_texts(place)
    yield from rewritten(place, (row for some in _ROWS for row in some))
    for kind in (BracketRemedies, ClauseRemedies):
        for idea in kind(source, span, accepted, words).ideas:
            if (said := idea()) is not None:
                yield said
    found = source.slice(span)
    if not found:
        return
    if (negation := _NEGATION.search(source.text, 0, span.start)) is not None:
        yield _not(source, Span(negation.start(), span.start))
    if (close := nearest(found, words)) is not None and close != found:
        fix = Fix(span, close) if only_nearest(found, words) else None
        said = catalogue.unexpected(found, (), span, hint=f"did you mean `{close}`?", fix=fix)
        yield replace(said, remedy=Fix(span, close))
    yield from rewritten(place, rows.PARTS)
    if found in "&|" and place.behind:
        yield catalogue.bad_character(found, span, f"conditions have `{found * 2}` between them")
    elif found in _SIGNS:
        yield catalogue.bad_character(found, span, _SIGNS[found])


def _not(source: Source, span: Span) -> Diagnostic:
    """The error for `not x`. `not x == y` has two meanings, so it has no fix."""
    sure = _OPERAND.match(source.text, span.end) is not None
    fix = Fix(span, "!") if sure else None
    word = Span(span.start, span.start + len("not"))
    return catalogue.unexpected("not", (), word, hint="write `!`", fix=fix)


def built(found: Diagnostic, source: Source, leads: Leads) -> Diagnostic:
    """The error that ended the parse of an item, with what to write in its place."""
    said = _built(found, source)
    edit = said.fix or said.remedy
    if edit is None or leads(edit):
        return said
    return found if said is not found else replace(found, hint=None, fix=None, remedy=None)


def _built(found: Diagnostic, source: Source) -> Diagnostic:
    word = source.slice(found.span)
    if found.code == "P0008" and (key := _KEY.fullmatch(word)) is not None:
        made = f'{key[1]}["{key[2]}"]'
        return with_edit(found, Fix(found.span, made), f"write `has({made})`")
    if found.code != "P0007" or word not in _RESERVED:
        return found
    lexemes = Lexemes(source.text)
    at = lexemes.at(found.span.start)
    before = [lexemes[n].text for n in range(max(0, at - 3), at)]
    if word == "namespace" and before[-2:] == ["pods", "where"] and before[0] != "for":
        return replace(found, hint="write `peer.namespace`, and `all pods where` for other ones")
    if word == "namespace" and lexemes[at + 1].text == ".":
        return with_edit(found, Fix(found.span, "namespaceObject"))
    if word == "var" and lexemes[at + 1].text == "." and lexemes[at + 2].kind == "word":
        name = lexemes[at + 2].text
        declared = f'({name}: string = "…")'
        hint = f"write `{name}`, and `{declared}` behind the name of the policy"
        return replace(found, hint=hint)
    if word == "function":
        place = Misplaced(source, found.span, frozenset(), ())
        for said in rewritten(place, rows.ITEMS_OF_LISTS):
            if said.remedy is not None:
                return with_edit(found, said.remedy)
    return replace(found, hint=f"write {_RESERVED[word]}")
