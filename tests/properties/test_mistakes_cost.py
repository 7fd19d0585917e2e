"""Mistakes: whatever is wrong in a text, its check ends soon and tells of errors, not of faults."""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from typing import TypeVar

from hypothesis import given
from hypothesis import strategies as st

from grammar.meaning.schema import load_schema
from grammar.messages.diagnostics import Helper, helped
from grammar.mistakes import syntax_mistakes
from grammar.mistakes.type_mistakes import Remedies
from grammar.syntax.parser import MAX_BYTES, parse_file
from grammar.tree.source import Source
from policies.loader import library_sources
from policies.validation import check_source, checked_file
from tests.support.rows import rows

T = TypeVar("T")
SCHEMA = load_schema()
TEXTS = [source.text for source in library_sources()]
_WORD = re.compile(r"\w+|\s+|[^\w\s]")
# What people write by mistake, or to do harm.
_STRAY = st.sampled_from(
    [
        *"{ } ( ) [ ] = : ; , . .. _ __ ' @ $ ` ? ?. .? & && || // /* */ --- ``` {{ }}".split(),
        *"0 1 1e9 5m 1h30m 40% 0x 1_0 node pod peer node._ pod._ x is is_ isReady a.b.c".split(),
        *"policy test use filter score share limit spread gang cards preempt for let def".split(),
        *"count group mode weight require value at per where strict missing and not".split(),
        "\n",
        *'é"\\',
    ]
)


def fails(question: str, answer: Callable[..., T], found: list[str]) -> Callable[..., T]:
    """The answer, which notes that it failed."""

    def ask(*about: object) -> T:
        try:
            return answer(*about)
        except Exception as error:
            found.append(f"{question}: {error!r}")
            raise

    return ask


def faults(text: str) -> list[str]:
    """What fails while the hints of a text are looked for, which its check would hide."""
    found: list[str] = []
    helper = Helper(
        fails("unexpected", syntax_mistakes.unexpected, found),
        fails("built", syntax_mistakes.built, found),
        Remedies,
    )
    source = Source("a.policy", text)
    with helped(helper):
        checked_file(source, *parse_file(source), SCHEMA)
    return found


@st.composite
def mutants(draw: st.DrawFn) -> str:
    """A policy of the library with a few words left out, changed, moved or added."""
    words = _WORD.findall(draw(st.sampled_from(TEXTS)))
    for _ in range(draw(st.integers(1, 4))):
        at = draw(st.integers(0, len(words) - 1))
        match draw(st.integers(0, 3)):
            case 0:
                del words[at : at + draw(st.integers(1, 3))]
            case 1:
                words[at] = draw(_STRAY)
            case 2:
                words.insert(at, draw(_STRAY))
            case _:
                words[at:at] = words[(other := draw(st.integers(0, len(words) - 1))) : other + 5]
        words = words or [" "]
    return "".join(words)


@given(mutants())
def test_a_mutant_has_diagnostics_and_no_faults(text: str) -> None:
    assert faults(text) == []
    check_source(Source("a.policy", text), SCHEMA)


def whole(line: str, head: str = "  for pods where true\n", most: int = 40_000) -> str:
    """A policy with a line again and again, each with its number for `#`."""
    lines, size = [f"policy a {{\n{head}"], 0
    while size < most:
        lines.append(line.replace("#", str(len(lines))) + "\n")
        size += len(lines[-1])
    return "".join([*lines, "}\n"])


GOOD = '  filter "f#" { require node.ready }'
LARGE = {
    "unknown names": whole("  let aa# = zz#"),
    "similar names": whole("  let name# = nome#"),
    "fields": whole('  filter "f#" { require node._ }'),
    "types": whole('  filter "f#" { require node.name == # && node.free["cpu"] > true }'),
    "wrong lines": whole("  def f#(x: int) = f1(x) + f1(x)"),
    "wrong lines behind good ones": whole(GOOD)[:-2] + whole("  def g#(x: int) = x", "", 600)[11:],
    "signs": whole('  filter "f#" { require node.ready; };'),
    "prose": whole("  pods of team # should go to nodes in zone b and never to spot", most=20_000),
    "policies": "".join(f"policy p{n} {{ for pods whre x }}\n" for n in range(1_000)),
    "calls": f'policy a {{ filter "f" {{ require {"size(" * 90}x{")" * 90} > 0 }} }}',
    "a word": "a" * 60_000,
    "quotes": "policy a {\n" + "\"x' " * 12_000,
}


@rows("text", LARGE)
def test_many_mistakes_cost_bounded_time(text: str) -> None:
    """Not a multiple of what they cost alone, for each of them."""
    assert len(text) <= MAX_BYTES
    began = time.process_time()
    found = check_source(Source("a.policy", text), SCHEMA)
    assert any(d.severity == "error" for d in found.diagnostics)
    assert time.process_time() - began < 20  # at most 4 on a quiet machine


def test_a_trial_does_not_try() -> None:
    """An answer is made without help; what cannot be answered is told plainly."""
    asked: list[str] = []

    def unexpected(*about: object) -> None:
        asked.append("asked")
        parse_file(Source("b.policy", "policy b { fr }"))
        raise IndexError

    helper = Helper(unexpected, syntax_mistakes.built, Remedies)
    with helped(helper):
        _, found = parse_file(Source("a.policy", "policy a { fr }"))
    assert asked == ["asked"]
    assert [d.code for d in found] == ["P0001"]
