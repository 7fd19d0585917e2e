"""Misplaced parts: parts of a clause before its block, in another clause, or in none.

`grammar.syntax.wishes` asks here with the words of an item.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from grammar.messages import habits
from grammar.tree.clauses import CLAUSE_WORDS

_TEXT = re.compile(r'"(?:\\.|[^"\\])*"')
_BRACKETS = re.compile(r"\([^()]*\)|\[[^\[\]]*\]|\{[^{}]*\}")
_CLAUSE = re.compile(r'(?P<name>[a-z]+ "[^"]*")(?P<head>[^{]*)\{(?P<body>.*)\}\s*\Z')
_PART = re.compile(
    r"(?<![\w.])(?:(?P<head>weight|when)"
    r"|message|detail|require|value|range|missing|per|over|skew|within|strict"
    r"|exactly|at (?:most|least)|of (?:replicas|revision|placed|(?:all )?pods)"
    r"|(?:all )?pods where|on nodes|best effort(?: weight)?|soft|hard|required|preferred)(?!\w)"
)


_NAME_INSIDE = re.compile(
    r"([a-z]+) \{ ?name ?[:=]? ?(?:\"([^\"]*)\"|'([^']*)'|([\w.-]+))[,;]? (?=[a-z])"
)


def named_outside(text: str) -> str:
    """`filter { name: "x" require … }` with the name before the block."""
    found = _NAME_INSIDE.match(text)
    if found is None or found[1] not in CLAUSE_WORDS:
        return text
    name = next(filter(None, found.groups()[1:]), "x")
    return f'{found[1]} "{name}" {{ {text[found.end() :]}'


def misplaced(text: str) -> Iterator[str]:
    """`filter "x" message "no" { … }` and `score "x" { weight 10 value … }`."""
    found = _CLAUSE.match(_without_texts(text))
    if found is None:
        return
    name, head, body = (text[slice(*found.span(part))] for part in ("name", "head", "body"))
    own, moved_in = _divided(head)
    moved_out, rest = _divided(body)
    if moved_in or moved_out:
        # The weight stands before the condition.
        heads = sorted([*own, *moved_out], key=lambda part: part.startswith("when"))
        yield f"{' '.join([name, *heads])} {{ {' '.join([*rest, *moved_in])} }}"


_STRENGTHS = ("soft", "hard", "required", "preferred")
# The part that tells which clause is meant.
_KINDS = {
    "skew": "spread",
    "on nodes": "share",
    "per": "limit",
    "value": "score",
    "range": "score",
    "require": "filter",
}


def loose(text: str) -> Iterator[str]:
    """`require node.ready` in no clause, and `limit "x" { skew at most 1 over node.zone }`."""
    masked = _without_texts(text)
    clause = _CLAUSE.match(masked)
    parts = [m[0] for m in _PART.finditer(masked)]
    kind = next((kind for part, kind in _KINDS.items() if part in parts), None)
    word = text.partition(" ")[0]
    is_clause = clause is not None and word in CLAUSE_WORDS
    if kind in (None, word) or not (is_clause or word in ("require", "value")):
        return
    name, head, body = 'x "x"', "", text
    if clause is not None:
        name, head, body = (text[slice(*clause.span(part))] for part in ("name", "head", "body"))
    head = head.strip()
    if kind == "score" and "weight" not in head:
        head = f"weight 10 {head}"
    if kind in ("spread", "share", "limit") and not {"strict", "best effort"} & set(parts):
        body = f"{body.strip()} strict"
    yield " ".join(f"{kind} {name.partition(' ')[2]} {head} {{ {body} }}".split())


def _divided(text: str) -> tuple[list[str], list[str]]:
    """The parts of a text that belong into the head of a clause, and those of its block."""
    masked = _without_texts(text)
    while (shorter := _BRACKETS.sub(lambda m: "_" * len(m[0]), masked)) != masked:
        masked = shorter
    starts = list(_PART.finditer(masked))
    ends = [*(m.start() for m in starts), len(text)]
    of_head: list[str] = []
    of_block = [text[: ends[0]].strip(" ,;")]
    for found, end in zip(starts, ends[1:], strict=True):
        part = re.sub(r"\A(\w+)\s*[:=]\s*", r"\1 ", text[found.start() : end].strip(" ,;"))
        row = habits.find(habits.PARTS, part) if part in _STRENGTHS else None
        (of_head if found["head"] else of_block).append(part if row is None else row.here)
    return of_head, list(filter(None, of_block))


def _without_texts(text: str) -> str:
    return _TEXT.sub(lambda m: f'"{"_" * (len(m[0]) - 2)}"', text)
