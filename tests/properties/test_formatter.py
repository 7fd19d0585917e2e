"""Formatting keeps the meaning: parse(format(t)) == parse(t), and twice is once."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from grammar.syntax.parser import parse_file
from grammar.tree.printer import format_file
from grammar.tree.source import Source
from tests.properties import strategies
from tests.support.examples import examples

_counts = st.sampled_from(
    (
        'share "c{}" {{ of replicas on nodes where {} at most 40% strict }}',
        'share "c{}" {{ of placed pods where true on nodes where {} exactly 3 strict }}',
        'limit "c{}" {{ all pods where {} per domain node.zone at most 1 best effort weight 2 }}',
        'limit "c{}" {{ pods where {} per node at most 1 strict mutual }}',
        'limit "c{}" {{ used nodes where {} at most 1 strict }}',
        'spread "c{}" {{ pods where {} over node.zone skew at most 1 min domains 2 strict }}',
        'preempt "c{}" {{ protect victim where {} allow when true keep 1 by size(victims) }}',
        'gang "c{}" when {} {{ of pods by peer.labels["job"] at least 8 for at most 90s }}',
        'bind "c{}" {{ wait until {} for at most 30m30s }}',
        'bind "c{}" when {} {{ require true missing pass detail "{{node.name}} \\" {{{{}}}}" }}',
    )
)


@st.composite
def files(draw: st.DrawFn) -> str:
    """Policies with every kind of clause, and comments between them."""
    blocks = [draw(strategies.policies(f"p{i}")) for i in range(draw(st.integers(0, 2)))]
    clauses = [
        draw(_counts).format(i, draw(strategies.conditions)) for i in range(draw(st.integers(0, 3)))
    ]
    inside = draw(st.sampled_from(("\n", " # why\n", "\n\n  // why\n  # more\n")))
    blocks.append(f"policy q in namespace 'shop' {{{inside}{inside.join(clauses)}{inside}}}")
    blocks.append('test "t" { node "n" {"labels": {"a": "b"}} pod "s/p" on "n" expect pass "n" }')
    return draw(st.sampled_from(("\n", "\n# between\n", "\n\n\n"))).join(blocks)


@settings(max_examples=examples(150), deadline=None)
@given(files())
def test_formatting_keeps_the_tree_and_the_comments(text: str) -> None:
    """Every comment is still there, once."""
    source = Source("t", text)
    file, found = parse_file(source)
    assert not found, found
    formatted = format_file(file, source)
    again = Source("t", formatted)
    same, mistakes = parse_file(again)
    assert not mistakes, (formatted, mistakes)
    assert same == file
    assert format_file(same, again) == formatted
    for word in ("why", "more", "between"):
        assert formatted.count(f"# {word}") == text.count(f" {word}\n")
