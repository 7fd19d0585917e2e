"""The edits of diagnostics put into a text: those that touch each other wait for the next pass."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from grammar.diagnostics import Diagnostic
from grammar.source import Source

# One mistake can hide others of its clause; more passes than this mean that edits chase each other.
MAX_PASSES = 20


@dataclass(frozen=True, slots=True)
class Mended:
    """A mended text, and each diagnostic that went into it with the text that it was found in."""

    source: Source
    applied: tuple[tuple[Diagnostic, Source], ...]


def mend(source: Source, look: Callable[[Source], Iterable[Diagnostic]]) -> Mended:
    """Applies every edit that `look` finds, looks again, and so on until there is none left."""
    applied: list[tuple[Diagnostic, Source]] = []
    seen = {source.text}
    for _ in range(MAX_PASSES):
        text, used = apply(source.text, look(source))
        if text in seen:
            break
        seen.add(text)
        applied.extend((diagnostic, source) for diagnostic in used)
        source = Source(source.name, text)
    return Mended(source, tuple(applied))


def apply(text: str, found: Iterable[Diagnostic]) -> tuple[str, list[Diagnostic]]:
    """The text after one pass, and the diagnostics whose edits are in it.

    Of edits that overlap the first in the text is made.
    """
    edits = [(d.fix, d) for d in found if d.fix is not None]
    edits.sort(key=lambda edit: (edit[0].span.start, edit[0].span.end))
    parts: list[str] = []
    used: list[Diagnostic] = []
    done = 0
    for fix, diagnostic in edits:
        # Two edits at one place are one mistake said twice, or contradict each other.
        if fix.span.start < done or (used and fix == used[-1].fix):
            continue
        parts += [text[done : fix.span.start], fix.text]
        done = fix.span.end
        used.append(diagnostic)
    return "".join([*parts, text[done:]]), used
