"""Formatting keeps the meaning: parse(format(t)) == parse(t), and twice is once."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from grammar.syntax.formatter import format_file
from grammar.syntax.parser import Lexemes, parse_file
from grammar.tree.source import Source
from policies.loader import library_sources
from tests.properties import strategies
from tests.support.books import examples

_counts = st.sampled_from(
    (
        'share "c{}" {{ of replicas on nodes where {} at most 40% strict }}',
        'share "c{}" {{ placed pods where true on nodes where {} exactly 3 strict }}',
        'limit "c{}" {{ all pods where {} per zone at most 1 weight 2 }}',
        'limit "c{}" {{ pods where {} per node at most 1 strict mutual }}',
        'limit "c{}" {{ used node where {} at most 1 strict }}',
        'spread "c{}" {{ pods where {} over node.zone at least 2 skew at most 1 strict }}',
        'preempt "c{}" {{ protect pods where {} require true pick 1 least size(victims) }}',
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
    formatted = _formatted(text)
    for word in ("why", "more", "between"):
        assert formatted.count(f"# {word}") == text.count(f" {word}\n")


_HEAD = (
    'cluster policy p (a: int = (1), b: list(int) = ([2])) { weight 3 use "a" (x: 1) '
    'def f(x: int): bool = x > 1 data "d" { from metrics every 30s columns { a: int } } '
    'filter "f" { require pod.name == r"\\" && a > 1 } }'
)
_TEXTS = (_HEAD, *(source.text for source in library_sources()))


@st.composite
def commented(draw: st.DrawFn) -> tuple[str, int]:
    """A policy with comments between any of its words, and their number."""
    text = draw(st.sampled_from(_TEXTS))
    # A name such as `avoid-hot-nodes` is one word, and several lexemes.
    starts = [i.start for i in Lexemes(text).items if not text[i.start - 1 : i.start].strip()]
    places = sorted(draw(st.lists(st.sampled_from(starts), min_size=1, max_size=4)))
    forms = st.sampled_from((" # c{}!\n", "\n# c{}!\n", "\n\n# c{}!\n", " // c{}!\n"))
    parts = [text[a:b] for a, b in zip((0, *places), (*places, len(text)), strict=True)]
    for number in range(len(places)):
        parts[number] += draw(forms).format(number)
    return "".join(parts), len(places)


@settings(max_examples=examples(150), deadline=None)
@given(commented())
def test_comments_at_any_place_are_kept(given_text: tuple[str, int]) -> None:
    text, number = given_text
    formatted = _formatted(text)
    assert [formatted.count(f"c{n}!") for n in range(number)] == [1] * number


_tiny = st.builds(lambda zeros, n: f"0.{'0' * zeros}{n}", st.integers(0, 40), st.integers(1, 99))
_large = st.builds(
    lambda n, zeros, point: f"{n}{'0' * zeros}{point}",
    st.integers(1, 99999),
    st.integers(0, 40),
    st.sampled_from(("", ".0", ".5")),
)
_doubles = st.floats(allow_nan=False, allow_infinity=False, min_value=0).map(repr)
_percents = st.builds(
    lambda n, text: f"{n}.{text}", st.integers(0, 99), st.from_regex(r"[0-9]{1,30}", fullmatch=True)
)
_lengths = st.builds(
    lambda m, s, text: f"{m}m{s}.{text}s",
    st.integers(0, 58),
    st.integers(1, 59),
    st.from_regex(r"[0-9]{1,12}", fullmatch=True),
)


@settings(max_examples=examples(150), deadline=None)
@given(_tiny | _large, _tiny | _large, _percents, _lengths, _doubles)
def test_numbers_of_every_size_are_kept(
    weight: str, number: str, percent: str, length: str, double: str
) -> None:
    _formatted(
        f"""cluster policy p {{
  score "a" weight -{weight} {{ value {double} range 0 .. {double} missing {number} }}
  share "b" {{ of replicas on nodes where true at least {percent}1% weight {weight} }}
  bind "c" {{ wait until true for at most {length} }}
}}
test "t" {{ expect score "n" <= {number} }}"""
    )


def _formatted(text: str) -> str:
    """The formatted text, which has the same tree, and which another run does not change."""
    source = Source("t", text)
    file, found = parse_file(source)
    assert not found, found
    formatted = format_file(file, source)
    again = Source("t", formatted)
    same, mistakes = parse_file(again)
    assert not mistakes, (formatted, mistakes)
    assert same == file
    assert format_file(same, again) == formatted
    return formatted
