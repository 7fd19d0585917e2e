"""Diagnostics: problems in a text, their rendering, similar names, and automatic fixes.

The parser and the checker only say what is wrong, and ask a helper what to write instead. Nobody
answers unless `helped` is entered, so a text without a mistake needs no answers. An answer costs
bounded time: it is made without help, and one that fails or comes too late leaves the plain error.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from collections.abc import Set as AbstractSet
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from dataclasses import dataclass, replace
from difflib import get_close_matches
from itertools import islice
from typing import Any, TypedDict, TypeVar
from typing import Literal as OneOf

from grammar.messages.texts import escaped
from grammar.tree.source import Source, Span

T = TypeVar("T")
# The most characters that are looked through or parsed again for the answers about one text: a
# second or two. An answer about an expression counts as so many.
_MOST_CHARACTERS, OF_EXPRESSION = 1_000_000, 500

Severity = OneOf["error", "warning"]


class UserError(Exception):
    """What a user is told in place of a result: one sentence, and a hint, which may be empty."""

    def __init__(self, message: str, hint: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint


@dataclass(frozen=True, slots=True)
class Fix:
    """A fix: `text` replaces the text of the span."""

    span: Span
    text: str


@dataclass(frozen=True, slots=True)
class Diagnostic:
    """A diagnostic is a problem in a text.

    `code` is stable and documented. `label` stands beside the caret; `notes` add facts. `remedy` is
    the edit that the hint describes, and `fix` is one that is certain: nothing else can be meant.
    `other_hint` is the hint for a text in which that edit leads nowhere.
    """

    code: str
    severity: Severity
    message: str
    span: Span
    label: str = ""
    hint: str | None = None
    fix: Fix | None = None
    notes: tuple[str, ...] = ()
    remedy: Fix | None = None
    other_hint: str | None = None

    @property
    def is_of_parser(self) -> bool:
        """Whether the text could not be parsed, so that nothing was checked where it stands."""
        return self.code.startswith("P00") or self.code == "P0140"

    @property
    def kind(self) -> str:
        """`error[P0101]`, or `error` without a code."""
        return f"{self.severity}[{self.code}]" if self.code else self.severity


def either(conditions: Iterable[str], *, denied: bool = False) -> str:
    """The condition that one of several is true, or that none is, for the place of one."""
    made = [*conditions]
    joined = " || ".join(made)
    is_call = len(made) == 1 and joined.endswith(")") and " " not in joined.partition("(")[0]
    joined = joined if is_call or (len(made) == 1 and not denied) else f"({joined})"
    return f"!{joined}" if denied else joined


def nearest(name: str, candidates: Iterable[str]) -> str | None:
    """The candidate that is most similar to `name`, or None."""
    return next(iter(nearest_two(name, candidates)), None)


def nearest_two(name: str, candidates: Iterable[str]) -> list[str]:
    """At most two candidates that are similar to `name`, the most similar one first."""
    # At most 50 candidates, sorted, for the comparison, which takes a thousand times longer.
    ends = name[:1].lower(), name[-1:].lower()
    most = 5 + len(name) // 2
    found = (
        c
        for c in sorted(candidates)
        if abs(len(c) - len(name)) <= most
        and (c[:1].lower() == ends[0] or c[-1:].lower() == ends[1])
    )
    pool = list(islice(found, 50))
    if folded := [c for c in pool if c.lower() == name.lower()]:
        return folded[:2]
    # In a short name, two letters in the wrong order are half of it.
    swapped = {
        name[:at] + name[at + 1] + name[at] + name[at + 2 :] for at in range(len(name) - 1)
    } - {name}
    return [c for c in pool if c in swapped][:2] or get_close_matches(name, pool, 2, 0.77)


def plain(diagnostic: Diagnostic, source: Source) -> str:
    """`file:line:column: severity[code]: message (hint)`, one line."""
    line, column = source.position(diagnostic.span.start)
    hint = f" ({diagnostic.hint})" if diagnostic.hint else ""
    where = f"{source.name}:{line}:{column}"
    return escaped(f"{where}: {diagnostic.kind}: {diagnostic.message}{hint}")


# The most characters of a line before and behind the begin of a span.
_MOST_BESIDE = 400


def human(diagnostic: Diagnostic, source: Source) -> str:
    """Several lines: the message, the line of text, carets under the span, and the hint."""
    line, column = source.position(diagnostic.span.start)
    end_line, end_column = source.position(diagnostic.span.end)
    text = source.line(line)
    end = end_column - 1 if end_line == line else len(text)
    # Of a long line only what is around the begin of the span is shown.
    first, last = max(0, column - 1 - _MOST_BESIDE), column - 1 + _MOST_BESIDE
    end = min(end, last)
    before, marked, after = (
        escaped(part, "\t")
        for part in (text[first : column - 1], text[column - 1 : end], text[end:last])
    )
    before, after = "…" * (first > 0) + before, after + "…" * (last < len(text))
    # Tabs keep their width only if the caret line repeats them.
    lead = "".join("\t" if c == "\t" else " " for c in before)
    gutter = " " * len(str(line))
    rows = [
        f"{diagnostic.kind}: {diagnostic.message}",
        f"{gutter}--> {source.name}:{line}:{column}",
        f"{gutter} |",
        f"{line} | {before}{marked}{after}",
        f"{gutter} | {lead}{'^' * max(1, len(marked))} {diagnostic.label}".rstrip(),
    ]
    if diagnostic.hint:
        rows.append(f"{gutter} = help: {diagnostic.hint}")
    rows.extend(f"{gutter} = note: {note}" for note in diagnostic.notes)
    return "\n".join(escaped(row, "\t") for row in rows)


# An error can hide others in its clause, so fixes need several passes. More than these never end.
MAX_PASSES = 20


@dataclass(frozen=True, slots=True)
class Mended:
    """A mended text, and the applied diagnostics, each with its text."""

    source: Source
    applied: tuple[tuple[Diagnostic, Source], ...]


def mend(source: Source, look: Callable[[Source], Iterable[Diagnostic]]) -> Mended:
    """Applies the fixes that `look` finds, and repeats this until there are none left."""
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
    """The text after one pass, and the diagnostics whose fixes are in it.

    Of overlapping fixes, only the first in the text is applied.
    """
    edits = [(d.fix, d) for d in found if d.fix is not None]
    edits.sort(key=lambda edit: (edit[0].span.start, edit[0].span.end))
    parts: list[str] = []
    used: list[Diagnostic] = []
    done = 0
    for fix, diagnostic in edits:
        # Two fixes of one span repeat or contradict each other.
        if fix.span.start < done or (used and fix == used[-1].fix):
            continue
        parts += [text[done : fix.span.start], fix.text]
        done = fix.span.end
        used.append(diagnostic)
    return "".join([*parts, text[done:]]), used


SIMILAR = "a similar name exists"


class Similar(TypedDict, total=False):
    """A similar name: the hint and the fix of a diagnostic."""

    hint: str
    fix: Fix | None


def similar(name: str, candidates: Iterable[str], span: Span) -> Similar:
    """A hint if a candidate is similar to the name, and a fix if only one is."""
    close = nearest_two(name, candidates)
    if not close:
        return {}
    fix = Fix(span, close[0]) if len(close) == 1 else None
    return {"hint": f"{SIMILAR}: `{close[0]}`", "fix": fix}


@dataclass(frozen=True, slots=True)
class Remedy:
    """A remedy is what to write at a span, with its hint. Nobody doubts a certain remedy."""

    span: Span
    text: str
    hint: str = ""
    certain: bool = False
    # Whether the text alone is all that is to be written.
    whole: bool = True

    def on(self, found: Diagnostic) -> Diagnostic:
        """The diagnostic with this remedy in place of its own hint."""
        edit = Fix(self.span, self.text) if self.whole else None
        fix = edit if self.certain else None
        hint = self.hint or f"write `{self.text.strip()}`"
        return replace(found, hint=hint, remedy=edit, fix=fix, other_hint=found.hint)


# Whether an edit leads further into the text.
Leads = Callable[[Fix], bool]


@dataclass(slots=True)
class Helper:
    """A helper answers about the mistakes of one text: what to write in their place."""

    # The error for what stands at a span of a source, where the terminals are accepted instead.
    unexpected: Callable[[Source, Span, AbstractSet[str], Leads], Diagnostic | None]
    # The error that ended the parse of an item of a source.
    built: Callable[[Diagnostic, Source, Leads], Diagnostic]
    # Who answers about an expression: the environment, the names, what is around it, and the types.
    expression: Callable[..., Any]
    left: int = _MOST_CHARACTERS

    def affords(self, characters: int) -> bool:
        """Whether so many more characters may be looked through."""
        self.left -= characters
        return self.left >= 0


_HELPER: ContextVar[Helper | None] = ContextVar("helper", default=None)


def answered(found: T, characters: int, ask: Callable[[Helper], T]) -> T:
    """What the helper answers in place of what was found, for a look at so many characters."""
    asked = _HELPER.get()
    if asked is None or not asked.affords(characters):
        return found
    with helped(None):
        return tried(lambda: ask(asked), found)


def tried(work: Callable[[], T], otherwise: T) -> T:
    """What some work for a hint gives; a fault of it hides no error."""
    with suppress(Exception):
        return work()
    return otherwise


@contextmanager
def helped(by: Helper | None) -> Iterator[None]:
    """While this is entered, what is found wrong gets its hints, or none."""
    token = _HELPER.set(by)
    try:
        yield
    finally:
        _HELPER.reset(token)
