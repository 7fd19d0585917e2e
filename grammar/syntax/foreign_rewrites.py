"""Foreign rewrites: what becomes a clause by other signs, or in another order, alone.

A table of patterns, each with what stands in their place. `grammar.syntax.foreign_clauses` asks
here with the words of an item. What needs more than a pattern has a reader there, or in the files
that it names.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

# A pattern, and what stands for it.
_REWRITES: tuple[tuple[re.Pattern[str], str | Callable[[re.Match[str]], str]], ...] = (
    # `some i; pod.spec.containers[i].image == "a"` of Rego: `i` is any place of the list.
    (
        re.compile(r"\bsome\s+(\w+)\s*[;,]?\s*([\w.]+)\[\1\](\S*\s*(?:[=!<>]=?|in)\s*\S+)"),
        r"\2.exists(x, x\3)",
    ),
    # `… with input as pod` of Rego, which says what is known here.
    (
        re.compile(r"\s+with\s+(?:input|data)[\w.]*\s+as\s+[\w.]+(?=\s*\}|\s*\Z)"),
        "",
    ),
    # `dedicated=gpu:NoSchedule`, a taint as kubectl writes it.
    (
        re.compile(r"[\"']?\b([\w./-]+)=([\w.-]+):(NoSchedule|NoExecute|PreferNoSchedule)\b[\"']?"),
        r'node.spec.taints.exists(t, t.key == "\1" && t.value == "\2" && t.effect == "\3")',
    ),
    # `assert node.ready, "not ready"` of Python
    (
        re.compile(r"\Aassert ([^{}]+?)(?:, (\"[^\"]*\"))?\Z"),
        lambda m: f'filter "assert" {{ require {m[1]}{f" message {m[2]}" if m[2] else ""} }}',
    ),
    # `score "x" { top 3 by a }` and `order by a`
    (
        re.compile(
            r"\A(score \"[^\"]*\"[^{}]*\{) ?(?:(?:order|rank|sort|top \d+) )?by ([^{}]+?)"
            r"(?: desc\w*)? ?\}\Z"
        ),
        r"\1 value \2 range minmax }",
    ),
    # `limit "x" { distinct node.zone }`
    (
        re.compile(r"\A(limit \"[^\"]*\" \{) ?distinct (node\.[\w.]+(?:\[[^\]]*\])?) ?\}\Z"),
        r"\1 per domain \2 at most 1 strict }",
    ),
    # `new Date()` of JavaScript
    (re.compile(r"\bnew Date\(\)"), "now"),
    # `variables.spot = a`
    (re.compile(r"\Avariables\.(\w+) ?:?= ?([^{}]+)\Z"), r"let \1 = \2"),
    # `on failure ignore`, which is a part of the policy.
    (re.compile(r"\Aon[ _]?(?:failure|error)s? ?:? ?(ignore|fail)\Z"), r"failure \1"),
    # `filter "x" { z := node.zone require z == "a" }`: a name stands before the clause.
    (
        re.compile(
            r"\A(.*?)\{\s*(?:(?:let|var|const|local)\s+)?([A-Za-z_]\w*)\s*:?=\s*(.+?)[;,]?"
            r"\s+(?=(?:require|value)\b(?!\s*=))"
        ),
        r"let \2 = \3 \1{ ",
    ),
    # `filter "x" if a require b` and `filter "x" when a then b`, without a block.
    (
        re.compile(
            r'\A(filter "[^"]*") (?:only )?(?:if|when) ([^{}]+?) (?:then )?(?:require |(?<=then ))'
            r"([^{}]+)\Z"
        ),
        r"\1 when \2 { require \3 }",
    ),
    # `filter out a`
    (re.compile(r"\Afilter out ([^{}]+)\Z"), r'filter "out" { require !(\1) }'),
    # `if a { require b }`, with a block or without one.
    (
        re.compile(r"\A(?:if|when)\s+([^{}]+?)\s*\{?\s*(require\b[^{}]*?) ?\}?\Z"),
        r'filter "rule" when \1 { \2 }',
    ),
    # `filter node.ready` and `score node.usage["cpu"]`, without a name and a block.
    (re.compile(r"\Afilter ((?:node|pod)\.[^{}]+)\Z"), r'filter "rule" { require \1 }'),
    (
        re.compile(r"\Ascore (node\.[^{}]+)\Z"),
        r'score "rule" weight 10 { value \1 range minmax }',
    ),
    (re.compile(r"\Ascore (node\.[^{}]+)\Z"), r'score "rule" weight 10 { value \1 }'),
    # `value a range 0 to 1` and `value a between 0 and 1`
    (
        re.compile(
            r"\A(score \"[^\"]*\"[^{}]*\{ ?value [^{}]+?),? (?:range|between|from|in)(?: from)?"
            r" [\[(]?(-?[\d.]+|\"[^\"]*\"),? ?(?:to|and|-|until|\.\.|,) ?"
            r"(-?[\d.]+|\"[^\"]*\")[\])]? ?\}\Z"
        ),
        r"\1 range \2 .. \3 }",
    ),
    # `limit "x" { count by (zone) at most 3 }` of PromQL
    (re.compile(r"(\A(?:limit|share|spread) .*?)\bcount by ?\(?([\w.]+)\)?"), r"\1per \2"),
    # `value a inverted`
    (
        re.compile(
            r"\A(score \"[^\"]*\" weight )(\d+)([^{}]*\{ ?value [^{}]+?),?"
            r" (?:inverted|reversed?|negated) ?\}\Z"
        ),
        r"\1-\2\3 range minmax }",
    ),
)


def rewritten(text: str) -> Iterator[str]:
    """What a text is by the table."""
    for pattern, made in _REWRITES:
        if pattern.search(text) is not None:
            yield pattern.sub(made, text, count=1)


OF_ITEMS: tuple[Callable[[str], Iterator[str]], ...] = (rewritten,)
