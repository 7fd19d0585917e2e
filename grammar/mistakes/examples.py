"""Examples: wrong beginnings of items, and what to write where the parser stops in them.

A mistake is found by the state of the parser: a text that stops in the same state as an example,
at the same word, has the same mistake. Each row is one such state. A row beats every other idea.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace

from grammar.messages import plain_words
from grammar.messages.diagnostics import Diagnostic, Fix
from grammar.mistakes.misplaced import STOPS, Misplaced, with_edit
from grammar.tree.clause_parts import LONGEST_WAIT, SHORTEST_WAIT
from grammar.tree.printer import print_length, print_string

# Whether the parser stops in an example as it stopped in the text.
Like = Callable[[str], bool]


@dataclass(frozen=True, slots=True)
class Example:
    """A wrong beginning, whose last word is the one that the parser stops at.

    `0` and `"x"` stand for every number and text, `NAME` for every word. In `instead`, `{0}` is the
    word, `{1}` the one behind it, `{bare0}` without quotes, `{length0}` as a length of time and
    `{domain0}` as a place, and `{key}` what is read of a peer. It takes the place of `taken` words,
    of none before the first one, or below 0 of an expression.
    """

    wrong: str
    instead: str
    hint: str = ""
    taken: int = 1
    message: str = ""
    code: str = ""
    certain: bool = False
    # Whether the hint is an edit.
    edits: bool = True


_NO_STRENGTH = "leave out `{0}`: a gang is always strict"
_GANG, _BIND = 'gang "g" { ', 'bind "b" { '

ROWS = (
    # ---- gangs and bindings
    Example(f"{_GANG}for 0", "at most {length0}", taken=9),
    Example(f'{_GANG}for "x"', "at most {length0}"),
    Example(f"{_GANG}for at least", "most"),
    Example(f"{_GANG}timeout", "for at most {length1}", taken=9),
    Example(f"{_GANG}scheduleTimeoutSeconds", "for at most {length1}", taken=9),
    Example(f"{_GANG}at most", "least", "write `at least`", 1, "a gang has no `at most`", "P0214"),
    Example(f"{_GANG}exactly", "at least", "", 1, "a gang has no `exactly`", "P0214"),
    Example(f"{_GANG}max", "at least", "", 1, "a gang has no `max`", "P0214"),
    Example(f"{_GANG}strict", "", _NO_STRENGTH, 1, "a gang has no `strict`", "P0214"),
    Example(f"{_GANG}at least 8 strict", "", _NO_STRENGTH, 1, "a gang has no `strict`", "P0214"),
    Example(
        f"{_GANG}of pods where",
        "by {key}",
        "write `of pods by {key}`",
        -1,
        "the pods of a gang have the same value, and no condition",
        "P0214",
    ),
    Example(f"{_GANG}mutual", "", "leave out `mutual`", 1, "a gang has no `mutual`", "P0214"),
    Example(
        f"{_GANG}best",
        "",
        "leave out `best effort`: a gang is always strict",
        4,
        "a gang has no `best effort`",
        "P0214",
    ),
    Example(f"{_GANG}missing", "", "leave out `missing`", 2, "a gang has no `missing`", "P0214"),
    Example(f"{_GANG}over", "within"),
    Example(f"{_GANG}per", "within", taken=2),
    Example(f"{_GANG}topologyKey", "within {domain1}", taken=3),
    Example(f"{_GANG}by", "of pods by"),
    Example(f"{_BIND}wait until node.ready }}", "for at most 1m ", "", 0),
    Example(f'{_BIND}wait until node.ready for "x"', "at most {length0}"),
    Example(f"{_BIND}wait until node.ready timeout", "for at most {length1}", taken=9),
    Example(f"{_BIND}wait until node.ready up", "for at most {length2}", taken=9),
    Example(
        'filter "f" { wait', "", "write it in a `bind` clause: only a binding waits", 0, edits=False
    ),
    # ---- heads
    Example("policy p namespace", "in ", "write `in {0} {1}`", 0),
    Example("policy p : in", "", "leave out the `:`"),
    Example('filter "x" strict', "", "leave out `{0}`: what is required always holds"),
    Example(
        'filter "x" priority',
        "",
        "leave out `{0} {1}`: all of these must hold, in any order",
        2,
    ),
    Example('score "x" with', "", "leave out `{0}`"),
    Example('filter "x" = ', "", "leave out the `{0}`", certain=True),
    Example('filter "x" require', "{", "write `{`, and `require` behind it", 0),
)
_OF_PEER = re.compile(r"peer\.[\w.]+(?:\[\"[^\"]*\"\])?")
_LENGTH = re.compile(r"(\d+(?:\.\d+)?)\s*([A-Za-z]*)")
_UNITS = {
    **dict.fromkeys(("", "s", "sec", "secs", "second", "seconds"), 1.0),
    **dict.fromkeys(("m", "min", "mins", "minute", "minutes"), 60.0),
    **dict.fromkeys(("h", "hr", "hrs", "hour", "hours"), 3600.0),
    **dict.fromkeys(("ms", "milliseconds"), 0.001),
}


def ideas(place: Misplaced, like: Like) -> Iterator[Diagnostic]:
    """What to write by the examples that stop where the parser stopped."""
    for row in ROWS:
        if _is_word(row.wrong.split()[-1], place) and like(row.wrong):
            yield _said(row, place)


def _is_word(last: str, place: Misplaced) -> bool:
    """Whether the last word of an example stands for the one that the parser stopped at."""
    kind = {"0": "number", '"x"': "string", "NAME": "word"}.get(last)
    return place.item.text == last if kind is None else place.item.kind == kind


def _said(row: Example, place: Misplaced) -> Diagnostic:
    lexemes, at = place.lexemes, place.at
    last = at + row.taken - 1
    if row.taken < 0:
        last = lexemes.expression_end(at + 1, STOPS | {"within"})
    words = [lexemes[at + n].text for n in range(3)]
    known = {str(n): word for n, word in enumerate(words)} | {"bare0": words[0].strip("\"'")}
    of_peer = _OF_PEER.search(lexemes.slice(at, last))
    known["key"] = of_peer[0] if of_peer is not None else 'peer.labels["job"]'
    for n in range(3):
        first = at + n + (lexemes[at + n].text in (":", "=", "to"))
        if f"{{length{n}}}" in row.instead:
            last, known[f"length{n}"] = _length(place, first)
        if f"{{domain{n}}}" in row.instead:
            last = first
            key = lexemes[first].text.strip("\"'")
            label = f"node.labels[{print_string(key)}]"
            known[f"domain{n}"] = plain_words.DOMAINS.get(key.lower(), label)
    made = _filled(row.instead, known)
    span = lexemes.span(at, last)
    edit = Fix(replace(span, end=span.start) if row.taken == 0 else span, made)
    found = place.unexpected(at, max(at, last))
    if row.message:
        found = replace(
            found, code=row.code, message=row.message, label="", span=lexemes.span(at, at)
        )
    hint = _filled(row.hint, known) if row.hint else None
    if not row.edits:
        return replace(found, hint=hint)
    return with_edit(found, edit, hint, certain=row.certain)


def _filled(text: str, known: Mapping[str, str]) -> str:
    """A text with what its names in braces stand for."""
    return re.sub(r"\{(\w+)\}", lambda name: known[name[1]], text)


def _length(place: Misplaced, at: int) -> tuple[int, str]:
    """The last lexeme of a length of time, and how it is written here; a minute if it is none."""
    last, seconds = seconds_of(place, at)
    if seconds is None:
        return max(place.at, at - 1), "1m"
    return last, print_length(min(max(seconds, SHORTEST_WAIT), LONGEST_WAIT))


def seconds_of(place: Misplaced, at: int) -> tuple[int, float | None]:
    """The last lexeme of a length of time, and its seconds if it is clear how many."""
    lexemes, last = place.lexemes, at
    if lexemes[at].text == "duration" and lexemes[at + 1].text == "(":
        last = lexemes.partner.get(at + 1, at + 1)
        text = lexemes.slice(at + 2, last - 1)
    else:
        is_unit = lexemes[at + 1].text in _UNITS or lexemes.touches(at + 1)
        if lexemes[at].kind == "number" and lexemes[at + 1].kind == "word" and is_unit:
            last = at + 1
        text = lexemes.slice(at, last)
    parts, rest = _LENGTH.findall(text), _LENGTH.sub("", text).strip("\"' ")
    if not parts or rest or any(unit not in _UNITS for _, unit in parts):
        return last, None
    return last, sum(float(number) * _UNITS[unit] for number, unit in parts)
