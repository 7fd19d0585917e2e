"""What somebody typed: a command, an expression, parts of a policy, or something unfinished."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable, Iterator
from itertools import chain
from typing import Literal as OneOf

from cli.command import CommandError
from cli.console import put
from cli.render import coloured, wants_colour
from cli.repl import commands, evaluating
from cli.repl.session import (
    NAME,
    Answer,
    AnswerProblem,
    Notebook,
    RefusedError,
    Session,
    Told,
    answer_problem,
    complaint,
    key,
    told,
)
from grammar import limits
from grammar.clauses import Def, Item, Let
from grammar.diagnostics import Diagnostic
from grammar.parser import accepts, parse_file, parse_rules
from grammar.source import Source
from policies.validation import Validation, identity

Reading = OneOf["nothing", "command", "expression", "rules", "file", "unfinished"]
Start = OneOf["expression", "rules", "file"]

STARTS: tuple[Start, ...] = ("expression", "rules", "file")
_NOTHING = re.compile(r"(?:\s|(?:#|//)[^\n]*(?:\n|\Z))*")
_END = "$END"
_LONG_QUOTES = ('"""', "'''")
_BLOCKS = frozenset({"policy", "cluster", "test"})
_ITEMS = frozenset(
    (
        "use description weight mode failure for let def filter score share spread limit"
        " preempt bind"
    ).split()
)
_WORD = re.compile(r"[A-Za-z_]\w*")


def reading(text: str) -> Reading:
    """How to take a text. A wrong one is what it looks most like, so that its mistake is told."""
    if _NOTHING.fullmatch(text):
        return "nothing"
    if text.lstrip().startswith(":"):
        return "command"
    if limits.scan(Source("", text)) is not None:
        return look(text)
    next_ = {start: accepts(text, start) for start in STARTS}
    whole = next((start for start in STARTS if _END in next_[start]), None)
    if whole is not None:
        return whole
    if any(next_.values()) or _in_long_string(text):
        return "unfinished"
    return look(text)


def look(text: str) -> Start:
    """What an unfinished or a wrong text starts like."""
    first = next((m.group() for m in _WORD.finditer(_without_comments(text))), "")
    if first in _BLOCKS:
        return "file"
    return "rules" if first in _ITEMS else "expression"


def _without_comments(text: str) -> str:
    match = _NOTHING.match(text)
    return text[match.end() :] if match else text


def _in_long_string(text: str) -> bool:
    """Whether a string that may go over several lines has no end yet."""
    return any(
        quotes in text and any(accepts(text + quotes, start) for start in STARTS)
        for quotes in _LONG_QUOTES
    )


# ---- One line after another: what each means, and what it is answered with.

# A definition that nothing uses yet is why one types it.
_UNUSED = "P0303"


def take(session: Session, text: str) -> Answer:
    """Answers a text. The session changes only by what is answered without an error."""
    started, said = session.clock(), list[Told]()
    try:
        said.extend(_answer(session, text))
    except CommandError as error:
        said.append(complaint(error.message, error.hint))
    except RefusedError as error:
        said.extend(error.problems)
    if session.settings.time and said:
        said.append(f"{(session.clock() - started) * 1000:.1f} ms")
    return Answer(tuple(said), session.leaving)


def prompt_of(session: Session) -> str:
    """The pod and the node that are chosen, or our name."""
    place = [session.pod.key if session.pod is not None else "", session.node or ""]
    return f"{' @ '.join(filter(None, place)) or 'placet'}> "


def unfinished(text: str) -> bool:
    """Whether a text may go on: something is open, or an operator lacks its other side."""
    kind = reading(text)
    if kind != "command":
        return kind == "unfinished"
    name, _, rest = text.strip().partition(" ")
    known = commands.COMMANDS.get(name)
    if known is None or known.takes != "expression" or not rest.strip():
        return False
    return reading(rest) == "unfinished" and look(rest) == "expression"


def _answer(session: Session, text: str) -> Iterator[Told]:
    if "\0" in text:
        raise CommandError("there is a NUL character in it", "take it out")
    kind = reading(text)
    match kind if kind != "unfinished" else look(text):
        case "nothing":
            return
        case "command":
            name, _, rest = text.strip().partition(" ")
            yield from commands.find(name).run(session, rest.strip())
        case "expression":
            yield from evaluating.value(session, text.strip())
        case "rules":
            yield from _items(session, Source(NAME, text))
        case _:
            yield from _policies(session, Source(NAME, text))


def _items(session: Session, typed: Source) -> Iterator[Told]:
    """Takes parts of a policy into the session's own."""
    items, found = parse_rules(typed)
    _stop(found, typed)
    before = session.notebook
    validation = session.note(before.with_items(typed, items))
    for item in items:
        yield _noted(session, item, known=key(item) in before.items)
    yield from _warnings(session.notebook, validation, typed)


def _noted(session: Session, item: Item, *, known: bool) -> str:
    match item:
        case Let(name):
            return f"{name} : {session.environment.lets[name].type}"
        case Def(name, parameters, result):
            taken = ", ".join(f"{p.name}: {p.type}" for p in parameters)
            return f"{name}({taken}) : {result}"
        case _:
            return f"{'replaced' if known else 'added'} {told(item)}"


def _policies(session: Session, typed: Source) -> Iterator[Told]:
    """Takes whole policies in."""
    file, found = parse_file(typed)
    _stop(found, typed)
    if file.tests:
        raise CommandError(
            "tests are run from files", "`:save-test FILE` writes one, `placet test` runs it"
        )
    before = session.notebook
    validation = session.note(before.with_policies(typed, file.policies))
    for policy in file.policies:
        known = identity(policy) in before.policies
        yield f"{'replaced' if known else 'added'} policy {policy.address}"
    yield from _warnings(session.notebook, validation, typed)


def _stop(found: list[Diagnostic], typed: Source) -> None:
    errors = [(d, typed) for d in found if d.severity == "error"]
    if errors:
        raise RefusedError(errors)


def _warnings(notebook: Notebook, validation: Validation, typed: Source) -> Iterator[Told]:
    """Those about what was typed just now."""
    for found, source in validation.findings():
        diagnostic, where = notebook.as_typed(found, source)
        here = where is typed or (
            source in notebook.policies.values() and source.text == typed.text
        )
        if here and diagnostic.severity == "warning" and diagnostic.code != _UNUSED:
            yield answer_problem((diagnostic, where))


# ---- Where answers go: what was asked for to standard output, what is wrong to standard error.


def tell(told: Iterable[Told]) -> None:
    """Prints in the order of telling."""
    for part in told:
        if isinstance(part, AnswerProblem):
            colour = wants_colour(sys.stderr)
            sys.stdout.flush()
            text = coloured(part.text, part.severity) if colour else part.text
            print(text, file=sys.stderr, flush=True)
        else:
            put([part])


def answer_all(session: Session, lines: Iterable[str]) -> bool:
    """Answers lines that nobody types, each as soon as it is whole; whether none of them failed."""
    well, text = True, ""
    for line in chain(lines, [None]):
        if line is not None:
            text += line if line.endswith("\n") else f"{line}\n"
            if unfinished(text):
                continue
        if not text.strip():
            text = ""
            continue
        answer = take(session, text.rstrip("\n"))
        _tell(answer)
        well, text = well and not answer.failed, ""
        if answer.leave:
            break
    return well


def _tell(answer: Answer) -> None:
    tell(answer.told)
    sys.stdout.flush()
