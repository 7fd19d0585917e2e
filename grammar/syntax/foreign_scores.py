"""Foreign scores: weights and orders that other languages write elsewhere, as a score.

`grammar.syntax.foreign_clauses` asks here with the words of an item.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

_LOWER = (
    r"(?:low|small|less|few|cheap|short|young)er|less|least|min(?:imi[sz]e|imum)?|asc(?:ending)?"
    r"|lowest|smallest"
)
_HIGHER = (
    r"(?:high|larg|bigg|great|long|old)er|more|most|max(?:imi[sz]e|imum)?|desc(?:ending)?"
    r"|highest|largest"
)


def _directions(text: str) -> Iterator[str]:
    """`score "x" { value a lower is better }` and `minimize a`: the order is the sign."""
    found = re.fullmatch(
        r"(score \"[^\"]*\")(?: weight (\d+))?((?: when [^{}]+?)?) ?\{ ?(?:value )?"
        rf"(?:(?P<first>{_LOWER}|{_HIGHER}) )?(?P<read>[^{{}}]+?)"
        rf"(?:,? (?:order )?(?:by )?(?P<last>{_LOWER}|{_HIGHER})"
        r"(?: (?:is )?(?:better|preferred|first))?)? ?\}",
        text,
    )
    if found is None or not (found["first"] or found["last"]):
        return
    word = found["first"] or found["last"]
    sign = "-" if re.fullmatch(_LOWER, word) else ""
    head = f"{found[1]} weight {sign}{found[2] or 10}{found[3]}"
    yield f"{head} {{ value {found['read']} range minmax }}"


def _penalties(text: str) -> Iterator[str]:
    """`score "x" weight 10 { penalize a }`: what is not wished for has a negative weight."""
    found = re.fullmatch(
        r"(score \"[^\"]*\")(?: weight (\d+))? ?\{ ?(?:value )?"
        r"(?:penali[sz]e|punish|discourage|dislike) ([^{}]+?) ?\}",
        text,
    )
    if found is not None:
        yield f"{found[1]} weight -{found[2] or 10} {{ value {found[3]} }}"


def _soft_filters(text: str) -> Iterator[str]:
    """`filter "x" best effort weight 10 { require … }`, which is a score."""
    found = re.match(r'filter ("(?:\\.|[^"\\])*")(.*?)\{(.*?)\}\s*\Z', text)
    if found is None:
        return
    outer = re.search(
        r"(?:best effort|preferred|soft)?\s*weight\s+(\d+)|best effort|preferred|soft", found[2]
    )
    inner = re.search(r"\s*(?:best effort(?:\s+weight\s+(\d+))?|preferred|soft)\s*", found[3])
    if outer is None and inner is None:
        return
    chosen = outer or inner
    weight = (chosen[1] if chosen is not None and chosen[1] else None) or "10"
    condition = found[3] if inner is None else found[3][: inner.start()] + found[3][inner.end() :]
    condition = re.sub(r"^\s*require\b", "", condition)
    yield f"score {found[1]} weight {weight} {{ value {condition.strip()} }}"


OF_ITEMS: tuple[Callable[[str], Iterator[str]], ...] = (
    _directions,
    _penalties,
    _soft_filters,
)
