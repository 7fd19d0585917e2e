"""Syntax mistakes: what is meant by the word that the parser stopped at.

The first idea whose edit leads the parser further is the answer. An edit is certain if nothing else
can be meant; `--fix` makes only certain edits.

What others write that is no lexeme here is told by regular expressions: patterns between slashes,
comments, times and numbers with signs in them, queries of Prometheus, and placeholders. Helm, Go,
shells, Terraform and Jinja fill in `{{ .Values.zone }}`, `${ZONE}`, `$(POOL)` and `<% x %>` before
anybody reads the text. Here nobody does.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, replace

from grammar.clauses import CLAUSES_ARE
from grammar.messages import catalogue, habits
from grammar.messages.diagnostics import Diagnostic, Fix, Leads, Remedy, nearest, nearest_two
from grammar.mistakes.misplaced import ITEMS, Misplaced
from grammar.mistakes.rewrites import ROWS, WrittenPart, rewritten
from grammar.syntax.parser import Lexemes
from grammar.tree.source import Source, Span

_OWN = frozenset({"pod", "node", "now", "peer", "namespaceObject", "data"})
_BEGINS_OWN = re.compile(rf"[^\w.]*\.?(?:{'|'.join(_OWN)})\b")
# The characters before the error, and behind it, in which a foreign text is looked for.
_MOST_BEFORE, _MOST_BEHIND = 2_000, 500


@dataclass(frozen=True, slots=True)
class ForeignText:
    """A foreign text by a regular expression; only what is in its group `cut` is replaced."""

    wrong: str
    instead: str
    hint: str = ""


_READ = r"(?P<a>[a-z]\w*(?:\.\w+|\[[^\]\n]*\])*)"
_SLASHED = r"/(?P<e>(?:\\.|[^/\n\\])+)/[gu]*(?![a-z])"
_IS_COMMENT = "write a comment behind `#` or `//`, up to the end of the line"
TEXTS = (
    ForeignText(
        rf"{_READ}\s*(?P<n>!?)(?:[=~]+|like|matches|regexp)\s*{_SLASHED}",
        "{n}{a}.matches({e:text})",
    ),
    ForeignText(rf"{_SLASHED}\.(?:test|match|exec)\({_READ}\)", "{a}.matches({e:text})"),
    ForeignText(rf"(?<=[(,]){_SLASHED}", "{e:text}"),
    ForeignText(rf"{_READ}\s*//\s*(?P<o>\"[^\"\n]*\")", "{a:optional}.orValue({o})"),
    ForeignText(r"[\w)\]]\s*(?P<cut>//)\s*[\d(a-z]", "/", "write `/`: `//` begins a comment"),
    ForeignText(r"\d+(?:_\d+)+", "{all:digits_alone}"),
    ForeignText(r"(?<![\w.\"'])[A-Za-z]+(?:-[A-Za-z]+)*-\d\w*", '"{all}"'),
    ForeignText(r"(?P<cut>\?\.)\w+\.(?:orValue|value|hasValue)\b", ".?"),
    ForeignText(r"[a-z]\w*(?:[.?]+\w+|\?*\.?\[[^\]\n]*\])+", "{all:unmarked}"),
    ForeignText(r"/\*[\s\S]*?\*/", "", _IS_COMMENT),
    ForeignText(r"\{\{-?\s*\.?(?P<a>(?:node|pod)\b[^{}\n]*?)\s*-?\}\}", "{a}"),
    ForeignText(r"---+|```+\w*", "", "leave it out: policies and tests stand one behind another"),
)
_QUERY = re.compile(
    r"\b(?:avg|sum|max|min|count|topk|bottomk|quantile|stddev)\s*(?:by|without)\s*\("
    r"|(?<=[\w)}])\[\d+[smhd](?::\d*[smhd]?)?\]"
    r"|(?<![\w.\"])[a-z]\w*\{\s*[a-z]\w*\s*(?:=~?|!=|!~)\s*\""
    r"|(?<![\w.\"])(?:kube|node|container|machine|kubelet|DCGM_FI)_\w+\s*(?:[{\[(<>]|==)"
)


def of_texts(place: Misplaced) -> Iterator[Diagnostic]:
    """What the regular expressions find around the place where the parser stopped."""
    text, stop = place.source.text, place.item.start or len(place.source.text)
    start = max(text.rfind("\n", 0, stop) + 1, stop - _MOST_BEFORE)
    yield from _of_others(place, text[start : stop + _MOST_BEHIND].partition("\n")[0], start)
    start = text.rfind("\n", 0, max(0, text.rfind("{", 0, place.previous.end))) + 1
    start = max(start, stop - _MOST_BEFORE)
    for row in TEXTS:
        for found in re.compile(row.wrong).finditer(text, start, stop + _MOST_BEHIND):
            if found.start() > stop:
                break
            cut = "cut" if "cut" in found.groupdict() else 0
            span = Span(*found.span(cut))
            parts = {name: WrittenPart(part) for name, part in found.groupdict("").items()}
            try:
                made = row.instead.format_map(parts | {"all": WrittenPart(found[0])})
            except ValueError:
                continue
            wrong = catalogue.unexpected(found[cut], span)
            yield Remedy(span, made, row.hint).on(wrong)


def _of_others(place: Misplaced, line: str, start: int) -> Iterator[Diagnostic]:
    """A query of Prometheus, or a placeholder of another program, in the line of the error."""
    at = place.item.start
    query = None if re.match(r"\s*(?:limit|spread|share)\b", line) else _QUERY.search(line)
    if query is not None and place.item.kind != "end":
        said = query[0].rstrip(" {[(<>=") or query[0]
        begin = start + query.start()
        wrong = catalogue.unexpected(said, Span(begin, begin + len(said)))
        yield replace(wrong, hint=habits.OF_PROMETHEUS)
    for found in re.finditer(habits.PLACEHOLDER, line):
        span = Span(start + found.start(), start + found.end())
        if span.start <= at < span.end and not _BEGINS_OWN.match(found[0]):
            yield catalogue.placeholder(found[0], span)


# The rows that are asked before everything else, in their order.
_FIRST = "lacking items_of_lists amounts operators heads signs names bounds".split()
_SIGNS = {";": "lines need no `;`", "`": 'write a text between `"`'} | dict.fromkeys(
    "\u201c\u201d\u2018\u2019", "write straight quotes"
)
# Terminals that are no words of the language.
_NO_WORDS = frozenset(
    "NAME IDENT STRING SIGNED INT PERCENT AMOUNT RELOP LBRACE RBRACE EQUAL LPAR RPAR RSQB COLON"
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
    place = Misplaced(source, span, accepted)
    yield from rewritten(place, ROWS["old"])
    yield from of_texts(place)
    yield from rewritten(place, (row for name in _FIRST for row in ROWS[name]))
    if (said := place.unclosed()) is not None:
        yield said
    yield from _clause(place)
    found = source.slice(span)
    if not found:
        return
    if place.previous.text == "not":
        yield from rewritten(place, ROWS["negations"])
    # What reads an object is no word with a slip: another one is lacking before it.
    is_read = found in _OWN and place.lexemes[place.at + 1].text in (".", ".?")
    if not is_read and (close := nearest_two(found, words)) and close[0] != found:
        written = Fix(span, close[0])
        hint, fix = f"did you mean `{close[0]}`?", written if len(close) == 1 else None
        said = catalogue.unexpected(found, span, hint=hint, fix=fix)
        yield replace(said, remedy=written)
    yield from rewritten(place, ROWS["parts"])
    if found in _SIGNS:
        yield catalogue.bad_character(found, span, _SIGNS[found])


def _clause(place: Misplaced) -> Iterator[Diagnostic]:
    """A word where a clause must start: the clause that is meant, or which clauses there are."""
    lexemes, at, word = place.lexemes, place.at, place.item.text
    if place.item.kind != "word" or not {"FILTER", "SCORE", "LET"} <= place.accepted:
        return
    if place.behind and lexemes[at + 1].kind != "string":
        return
    found = catalogue.unknown_clause(word, lexemes.span(at, at))
    if word in ("policy", "cluster") and lexemes.opener(at) is None:
        hint = f"leave out the `{word} … {{` and its `}}`: the object is the policy"
        yield replace(found, hint=hint)
    if (close := nearest(word, ITEMS)) is not None and not place.behind:
        hint = f"did you mean `{close}`?"
        from_list = sorted(n for n in ITEMS if nearest(word, (n,)))
        if lexemes[at + 1].text in (":", "=", "-"):
            yield replace(found, hint=hint)
        else:
            yield Remedy(lexemes.span(at, at), close, hint, len(from_list) == 1).on(found)
    why = habits.NEEDLESS_ITEMS.get(word)
    is_told = why in (habits.OF_MANIFESTS, habits.REQUESTED)
    # A sentence about them is another thing.
    if why is not None and not (is_told and lexemes[at + 1].kind == "word"):
        yield replace(found, hint=f"leave it out: {why}")
    yield from rewritten(place, ROWS["clauses"])
    yield replace(found, hint=CLAUSES_ARE)


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
        return Remedy(found.span, made, f"write `has({made})`").on(found)
    if found.code != "P0007" or word not in _RESERVED:
        return found
    lexemes = Lexemes(source.text)
    at = lexemes.at(found.span.start)
    before = [lexemes[n].text for n in range(max(0, at - 3), at)]
    if word == "namespace" and before[-2:] == ["pods", "where"] and before[0] != "for":
        return replace(found, hint="write `peer.namespace`, and `all pods where` for other ones")
    if word == "namespace" and lexemes[at + 1].text == ".":
        return Remedy(found.span, "namespaceObject").on(found)
    if word == "var" and lexemes[at + 1].text == "." and lexemes[at + 2].kind == "word":
        name = lexemes[at + 2].text
        declared = f'({name}: string = "…")'
        hint = f"write `{name}`, and `{declared}` behind the name of the policy"
        return replace(found, hint=hint)
    if word == "function":
        place = Misplaced(source, found.span, frozenset())
        for said in rewritten(place, ROWS["items_of_lists"]):
            if said.remedy is not None:
                return Remedy(said.remedy.span, said.remedy.text).on(found)
    return replace(found, hint=f"write {_RESERVED[word]}")
