"""Wishes: the clause that says what an author wants, where the text means nothing in the language.

Where an item of a policy has an error that no other remedy explains, its words can still tell what
is wished: how many pods, per what, on which nodes, beside whom. Each reader here looks for one kind
of wish and writes whole clauses with the author's own words. Who asks tries them before they show
one. What other languages write for clauses is in `grammar.syntax.foreign_clauses`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

from grammar.syntax import foreign_clauses, wish_conditions
from grammar.syntax.lexemes import Lexemes
from grammar.syntax.misplaced_parts import loose, misplaced, named_outside
from grammar.syntax.unexpected import ITEMS
from grammar.syntax.wish_parts import pods_of
from grammar.syntax.wish_readers import READERS
from grammar.syntax.wish_sentences import by_subject, of_kind, reserved, restated, with_subject
from grammar.syntax.wish_words import PLACES, find, says_all
from grammar.tree.clauses import CLAUSE_WORDS
from grammar.tree.source import Span

_TEXT = re.compile(r'"(?:\\.|[^"\\])*"')
_PLAIN = re.compile(r"[{}:\[\],]|(?<=\s)-(?=\s)")
# Clauses in which parts of other languages have remedies of their own.
_WITH_PARTS = ("spread ", "gang ", "share ")
# A block behind one of these is a set, or an object of YAML.
_WITHIN = ("in", "-", "[", ",", ":")
# Words that continue a condition on the next line.
_JOINS = frozenset("and or not in is like between else then when unless if matches where".split())
# Clauses whose keyword says nothing of what is wished.
_SILENT = frozenset({"bind", "filter", "score", "limit", "share", "rule", "constraint"})


_NOT = re.compile(
    r"\bnot\s+(?:on|in|at|beside|next|near|with|together|alongside|close|spot|windows|linux|arm)\b"
)


_EACH_PLACE = rf"for (?:(?:each|every|all|any) )?{PLACES}s?\b"


@dataclass(frozen=True, slots=True)
class WishedItem:
    """The item of a policy that has an error: its place, and its words on one line."""

    span: Span
    text: str
    in_policy: bool = True

    @property
    def negates_words(self) -> bool:
        """Whether a `not` here is one of plain words, such as `not on spot`."""
        return _NOT.search(self.text) is not None

    @property
    def is_clause(self) -> bool:
        """Whether a clause of the language begins here."""
        word, _, rest = self.text.partition(" ")
        named = {"use", *CLAUSE_WORDS}
        return word in ITEMS and (word not in named or rest.startswith('"'))


def item_at(text: str, offset: int, *, rules: bool = False) -> WishedItem | None:
    """The item around an offset; None where it is not clear what the item is.

    `rules` says that the items of the text stand in no block of a policy.
    """
    lexemes = Lexemes(text)
    if not lexemes.items:
        return None
    at = min(lexemes.at(offset), len(lexemes.items) - 1)
    opener = next((n for n in _open(lexemes, at) if lexemes[n].text == "{"), None)
    if opener is None or not _is_policy(lexemes, opener):
        first, last = _line(lexemes, at if opener is None else opener, deeper=rules)
        return WishedItem(lexemes.span(first, last), _plain(lexemes, first, last), rules)
    end = lexemes.partner.get(opener, len(lexemes.items))
    starts = [opener + 1]
    number = opener + 1
    while number < end:
        if number > starts[-1] and _begins_item(lexemes, number, starts[-1]):
            starts.append(number)
        closer = lexemes.partner.get(number)
        if lexemes[number].opens and closer is not None and closer < end:
            ends_block = lexemes[number].text == "{" and lexemes[number - 1].text not in _WITHIN
            number = closer + 1
            number += lexemes[number].text == ";"
            if ends_block and number < end and lexemes[number].text not in ("else", "&&", "||"):
                starts.append(number)
            continue
        number += 1
    first = max((s for s in starts if s <= at), default=opener + 1)
    last = min((s for s in starts if s > at), default=end) - 1
    if last < first:
        return None
    return WishedItem(lexemes.span(first, last), _plain(lexemes, first, last), in_policy=True)


def _is_policy(lexemes: Lexemes, opener: int) -> bool:
    """Whether a brace opens a policy: its head is behind the last block."""
    for number in range(opener - 1, max(-1, opener - 40), -1):
        if lexemes[number].text == "policy":
            return True
        if lexemes[number].text in ("{", "}"):
            return False
    return False


def _open(lexemes: Lexemes, at: int) -> list[int]:
    """The brackets that are open at a lexeme, outermost first."""
    stack: list[int] = []
    for number in range(at + 1):
        if lexemes[number].opens:
            stack.append(number)
        elif lexemes[number].closes and number < at and stack:
            stack.pop()
    return stack


def _line(lexemes: Lexemes, at: int, *, deeper: bool) -> tuple[int, int]:
    """The words around one that stand outside of policies: a line, with the block behind it.

    `deeper` is for YAML, of which the lines that are indented below belong to it.
    """
    text = lexemes.text
    start = text.rfind("\n", 0, lexemes[at].start) + 1
    first = lexemes.at(start)
    last = first
    while last + 1 < len(lexemes.items):
        last = max(last, lexemes.partner.get(last, last))
        between = text[lexemes[last].end : lexemes[last + 1].start]
        indent = len(between) - between.rfind("\n") - 1
        if "\n" in between and not (deeper and indent > lexemes[first].start - start):
            break
        last += 1
    return first, max(last, lexemes.partner.get(last, last))


def _begins_item(lexemes: Lexemes, number: int, first: int) -> bool:
    """Whether a word begins an item: at the start of a line, or a clause with its name.

    `first` is where the item before it begins.
    """
    item = lexemes[number]
    if item.kind != "word" or lexemes[number - 1].text in (".", ".?", ":"):
        return False
    before = lexemes.text[lexemes[number - 1].end : item.start]
    is_key = lexemes[number + 1].text == ":"
    is_item = item.text in ITEMS and not is_key
    if "\n" in before and (is_item or _is_line(lexemes, number, first)):
        return True
    return item.text in CLAUSE_WORDS and lexemes[number + 1].kind == "string"


def _is_line(lexemes: Lexemes, number: int, first: int) -> bool:
    """Whether a line of words is one of its own: not further to the right than the one before."""
    text, item, before = lexemes.text, lexemes[number], lexemes[number - 1]
    is_whole = before.kind in ("word", "string", "number") or before.closes
    # A key behind another one belongs to it.
    is_yaml = lexemes[first].text not in ITEMS or lexemes[first + 1].text == ":"
    is_key = lexemes[number + 1].text in (":", "=") and is_yaml
    is_key = is_key or item.text.isupper()
    if not is_whole or is_key or item.text in _JOINS:
        return False
    start = text.rfind("\n", 0, before.start) + 1
    indent = lexemes[lexemes.at(start)].start - start
    return item.start - text.rfind("\n", 0, item.start) - 1 <= indent


def _plain(lexemes: Lexemes, first: int, last: int) -> str:
    """Lexemes on one line, without comments."""
    parts: list[str] = []
    for number in range(first, last + 1):
        gap = "" if number == first or lexemes.touches(number) else " "
        parts.append(gap + lexemes[number].text)
    return "".join(parts)


# ---- readers of wishes


def foreign(item: WishedItem) -> Iterator[str]:
    """The clauses for a block of another language, the likeliest first."""
    if _holds_policy(item):
        return
    item = replace(item, text=named_outside(item.text))
    is_counting = item.is_clause and item.text.startswith(_WITH_PARTS)
    body = "" if is_counting else _body(item.text)
    yield from _named(item, foreign_clauses.clauses(item.text, body))


def wished(item: WishedItem) -> Iterator[str]:
    """The clauses for a wish in plain words, the likeliest first."""
    if _holds_policy(item) or (not item.in_policy and "{" in item.text):
        return
    if "{{" in item.text or "{%" in item.text:
        # A template.
        return
    if re.fullmatch(r"(?:priority|order|precedence)\s*[:=]\s*\d+", item.text):
        # A setting of the policy.
        return
    written, item = item.text, replace(item, text=named_outside(item.text))
    # What stands in a text of several words is no wish.
    body = _TEXT.sub(lambda m: '""' if " " in m[0] else m[0], _body(item.text))
    # Without the signs of YAML, if they stand in the way.
    made = _heard(body) or _heard(_PLAIN.sub(" ", body))
    if item.is_clause:
        made = [*misplaced(item.text), *made]
        made = made if written == item.text else [item.text, *made]
    if item.is_clause and item.text.startswith(_WITH_PARTS):
        made = [*foreign_clauses.clauses(item.text, _body(item.text)), *made]
    made += loose(item.text)
    word = item.text.partition(" ")[0]
    if word == "for" and not re.match(_EACH_PLACE, item.text):
        where = pods_of(item.text)
        made = [f"for pods where {where.replace('peer.', 'pod.')}"] if where is not None else []
    elif word == "bind":
        made = [re.sub(r"\Afilter\b", word, clause) for clause in made]
    elif word in ("preempt", "gang") and item.is_clause:
        # Nothing else is like these.
        made = [clause for clause in made if clause.startswith(f"{word} ")]
    # What is written in a score is a score first; in a filter any condition is written.
    others = "score " if word == "filter" else ""
    made.sort(key=lambda c: c.startswith(others) if others else not c.startswith(f"{word} "))
    yield from _named(item, made)


def in_words(item: WishedItem) -> Iterator[str]:
    """The clause for an item that is a condition in plain words, from its first to its last."""
    if item.in_policy and not _holds_policy(item):
        yield from _named(item, wish_conditions.filters(_body(item.text)))


def _heard(body: str) -> list[str]:
    """The clauses for a wish, and for the rest of a sentence those about its subject."""
    # A weight is given to the clause that is made.
    body = restated(re.sub(r"(?<!effort)\s+weight\s*[:=]?\s*\d+\s*\Z", "", body))
    made = [*reserved(body), *(c for read in READERS for c in read(body))]
    for condition, rest in by_subject(body):
        about = [with_subject(condition, c) for read in READERS for c in read(rest)]
        told = condition.partition(".")[2]
        # What says nothing of the subject is not what is wished.
        made = [c for c in made if told in c or not c.startswith(("filter ", "score "))]
        made = [*filter(None, about), *made]
    if find(r"\b(?:all|any|every|across)\s+(?:the\s+)?(?:namespaces?|pods)\b", body):
        made = [re.sub(r"(?<!all )pods where", "all pods where", clause) for clause in made]
        every = r'(\Alimit "[^"]*" \{)(?!.*(?:pods where|/ 100))'
        made = [re.sub(every, r"\1 all pods where true", clause) for clause in made]
    named = [_on_nodes(body, of_kind(body, clause)) for clause in made]
    return [clause for clause in named if says_all(body, clause)]


def _on_nodes(body: str, clause: str) -> str:
    """A limit on the nodes alone that a wish names: `3 per node where node.labels["a"] == "b"`."""
    found = re.search(r"\bwhere\s+(node\.[^{}]+?)(?=\s+(?:strict|best|per|at)\b|\s*\Z)", body)
    if found is None or not clause.startswith("limit ") or "node.labels" in clause:
        return clause
    whole = re.sub(r" (strict|best effort)", rf" on nodes where {found[1]} \1", clause, count=1)
    return next(foreign_clauses.pods_on_nodes(whole), clause)


def _holds_policy(item: WishedItem) -> bool:
    """Whether there are whole clauses or policies in the text: then one of them is wrong."""
    if re.match(rf"(?:if|when)\b|{_EACH_PLACE}", item.text):
        # They say when the clauses apply.
        return False
    head = rf'\b(?:{"|".join(CLAUSE_WORDS)})\s+"(?:\\.|[^"\\])*"\s*(?:weight|when|\{{)'
    begins = 1 if item.in_policy else 0
    return find(head, item.text[begins:]) is not None or (
        not item.in_policy and re.search(r"\bpolicy\b", item.text) is not None
    )


def _named(item: WishedItem, made: Iterable[str]) -> Iterator[str]:
    """The clauses with the name that the item has, and inside of a policy."""
    name = re.match(r'(?!resource|variable)[a-z-]+ ("(?:\\.|[^"\\])*")', item.text)
    for clause in made:
        named = clause
        condition = re.fullmatch(r'filter "[^"]*" \{ require (.+) \}', clause)
        if item.text.startswith("score ") and condition is not None:
            # A condition in a score is its value.
            weight = re.search(r"\bweight (-?\d+)", item.text)
            named = f'score "x" weight {weight[1] if weight else 10} {{ value {condition[1]} }}'
        own = re.search(r"\bweight (\d+)", item.text)
        if own is not None and "best effort weight 10" in named:
            named = named.replace("best effort weight 10", f"best effort weight {own[1]}")
        elif own is not None and "strict" not in item.text and not named.startswith("score "):
            named = re.sub(r"\bstrict\b", f"best effort weight {own[1]}", named)
        elif own is not None and named.startswith("score "):
            # The author's own weight stays, with the sign of the clause.
            named = re.sub(r"\bweight (-?)\d+", rf"weight \g<1>{own[1]}", named, count=1)
        if name is not None and named.split(" ", 1)[0] in CLAUSE_WORDS:
            head, _, rest = named.partition('"')
            named = f"{head}{name[1]}{rest.partition(chr(34))[2]}"
        yield named if item.in_policy else f"cluster policy example {{ {named} }}"


def _body(text: str) -> str:
    """The words of an item without the clause around them: its keyword, name and braces."""
    whole = re.match(r'[\w-]+ "(?:\\.|[^"\\])*"\s*(?:weight \d+\s*)?\{(.*)\}\s*\Z', text)
    inner = whole[1] if whole is not None else text
    inner = re.sub(r"^\s*(?:require|value|must|rule|constraint|ensure)\b", "", inner).strip()
    head = text.split(" ", 1)[0]
    return f"{head} {inner}" if whole is not None and head not in _SILENT else inner
