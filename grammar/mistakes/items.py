"""Items: the lines of a text that are one item of a policy, where they cannot be parsed."""

from __future__ import annotations

from itertools import takewhile

from grammar.syntax.lexemes import Lexemes
from grammar.tree.clauses import CLAUSE_WORDS
from grammar.tree.source import Span

_ITEMS = frozenset(CLAUSE_WORDS) | {"for", "let", "def", "use", "mode", "weight", "group", "count"}


def item_at(text: str, offset: int, *, rules: bool) -> Span | None:
    """The lines of the item at an offset, in a policy or in the `rules` of one; None elsewhere."""
    lexemes = Lexemes(text)
    at = lexemes.at(offset)
    if at == len(lexemes.items):
        at -= 1
    around = [] if at < 0 else _open(lexemes, at)
    if not rules and not (around and _is_policy(lexemes, around[0])):
        return None
    floor = -1 if rules else around[0]
    inner = around[0:] if rules else around[1:]
    end = lexemes.partner.get(floor, len(lexemes.items))
    first = inner[0] if inner else at
    while first - 1 > floor and not _begins(lexemes, first, first):
        first = min(first, lexemes.partner.get(first - 1, first)) - 1
    last = first
    while last + 1 < end and not _begins(lexemes, last + 1, first):
        last = max(last + 1, lexemes.partner.get(last + 1, 0))
    return lexemes.span(first, min(last, end - 1))


def _open(lexemes: Lexemes, at: int) -> list[int]:
    """The brackets that are open at a position, outermost first."""
    found: list[int] = []
    opener = lexemes.opener(at)
    while opener is not None:
        found.insert(0, opener)
        opener = lexemes.opener(opener)
    return found


def _is_policy(lexemes: Lexemes, opener: int) -> bool:
    head = (lexemes[n].text for n in range(opener - 1, -1, -1))
    return "policy" in takewhile(lambda text: text not in ("{", "}"), head)


def _begins(lexemes: Lexemes, number: int, first: int) -> bool:
    """Whether an item begins with a lexeme: on a line of its own, not further to the right."""
    text = lexemes.text
    line = text.rfind("\n", 0, lexemes[number].start) + 1
    is_first = not text[line : lexemes[number].start].strip()
    word, following = lexemes[number].text, lexemes[number + 1]
    if word in _ITEMS and following.kind == "string" and number > first:
        return True
    if number == first:
        return is_first
    start = text.rfind("\n", 0, lexemes[first].start) + 1
    indent = lexemes[first].start - start
    is_key = word == "-" or following.text == ":"
    return is_first and not (lexemes[number].start - line > indent or is_key)
