"""Conversation: input lines in, answers out.

A line is a command, an expression, items of a policy, whole policies, or unfinished. Replies go to
standard output, errors and warnings to standard error.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import chain
from typing import Literal as OneOf

from rich.table import Table

from cli.command import CommandError
from cli.console import put
from cli.render import error_text, put_problem
from cli.repl import commands, evaluation
from cli.repl.notebook import NAME, item_key, item_title
from cli.repl.session import FindingsError, ReplSession, Reply
from grammar.messages.diagnostics import Diagnostic, Severity, UserError, human
from grammar.syntax import limits
from grammar.syntax.parser import accepts, parse_file, parse_rules
from grammar.tree.clauses import CLAUSE_WORDS, Def, Item, Let
from grammar.tree.source import Source
from policies.hints import with_hints
from policies.validation import Validation, identity

# A definition that is typed first is used by later lines.
_UNUSED = "P0303"


@dataclass(frozen=True, slots=True)
class Answer:
    """The replies to one line, in order; `is_last` after `:quit`."""

    replies: tuple[Reply, ...]
    is_last: bool = False

    @property
    def failed(self) -> bool:
        return any(
            isinstance(reply, UserError)
            or (isinstance(reply, tuple) and reply[0].severity == "error")
            for reply in self.replies
        )


def answer(session: ReplSession, text: str) -> Answer:
    """The answer to a text. A text with an error does not change the session."""
    started, replies = session.clock(), list[Reply]()
    try:
        replies.extend(_replies(session, text))
    except UserError as error:
        replies.append(error)
    except FindingsError as error:
        replies.extend(error.findings)
    if session.settings.time and replies:
        replies.append(f"{(session.clock() - started) * 1000:.1f} ms")
    return Answer(tuple(replies), session.has_ended)


def answer_lines(session: ReplSession, lines: Iterable[str]) -> bool:
    """Prints the answers to lines of a pipe; whether none of them failed.

    A text that spans several lines is answered once it is complete.
    """
    ok, text = True, ""
    for line in chain(lines, [None]):
        if line is not None:
            text += line if line.endswith("\n") else f"{line}\n"
            if unfinished(text):
                continue
        if not text.strip():
            text = ""
            continue
        given = answer(session, text.rstrip("\n"))
        print_replies(given.replies)
        sys.stdout.flush()
        ok, text = ok and not given.failed, ""
        if given.is_last:
            break
    return ok


def print_replies(replies: Iterable[Reply]) -> None:
    """Prints replies in order: errors and warnings to standard error, all else to output."""
    for reply in replies:
        match reply:
            case str() | Table():
                put([reply])
            case UserError():
                _put_problem(error_text(reply.message, reply.hint), "error")
            case diagnostic, source:
                # An error of evaluation has no code.
                text = human(diagnostic, source)
                _put_problem(text, diagnostic.severity)


def _put_problem(text: str, severity: Severity) -> None:
    sys.stdout.flush()
    put_problem(text, severity)


def prompt(session: ReplSession) -> str:
    """The chosen pod and node, or `placet`."""
    chosen = [session.pod.key if session.pod is not None else "", session.node or ""]
    return f"{' @ '.join(filter(None, chosen)) or 'placet'}> "


# ---- the meaning of a text

Reading = OneOf["nothing", "command", "expression", "rules", "file", "unfinished"]
Start = OneOf["expression", "rules", "file"]

STARTS: tuple[Start, ...] = ("expression", "rules", "file")
_NOTHING = re.compile(r"(?:\s|(?:#|//)[^\n]*(?:\n|\Z))*")
_END = "$END"
_LONG_QUOTES = ('"""', "'''")
_FILE_WORDS = frozenset({"policy", "cluster", "test"})
_ITEM_WORDS = frozenset(
    (*CLAUSE_WORDS, *"use description weight mode failure portable for let def".split())
)
_WORD = re.compile(r"[A-Za-z_]\w*")


def reading(text: str) -> Reading:
    """The kind of a text. A text with errors gets the kind that its first word suggests."""
    if _NOTHING.fullmatch(text):
        return "nothing"
    if text.lstrip().startswith(":") or text.strip() in commands.PLAIN:
        return "command"
    if limits.scan(Source("", text)) is not None:
        return _guess(text)
    next_ = {start: accepts(text, start) for start in STARTS}
    whole = next((start for start in STARTS if _END in next_[start]), None)
    if whole is not None:
        return whole
    if any(next_.values()) or _in_long_string(text):
        return "unfinished"
    return _guess(text)


def unfinished(text: str) -> bool:
    """Whether a text needs more lines: a bracket is open, or an operand is missing."""
    kind = reading(text)
    if kind != "command":
        return kind == "unfinished"
    name, _, rest = text.strip().partition(" ")
    known = commands.COMMANDS.get(name)
    if known is None or known.takes != "expression" or not rest.strip():
        return False
    return reading(rest) == "unfinished" and _guess(rest) == "expression"


def _guess(text: str) -> Start:
    """The kind that the first word of an unfinished or wrong text suggests."""
    comments = _NOTHING.match(text)
    word = _WORD.search(text, comments.end() if comments else 0)
    if word is None:
        return "expression"
    if word.group() in _FILE_WORDS:
        return "file"
    return "rules" if word.group() in _ITEM_WORDS else "expression"


def _in_long_string(text: str) -> bool:
    return any(
        quotes in text and any(accepts(text + quotes, start) for start in STARTS)
        for quotes in _LONG_QUOTES
    )


# ---- the replies to each kind


def _replies(session: ReplSession, text: str) -> Iterator[Reply]:
    if "\0" in text:
        raise CommandError("the text contains a NUL character", "remove it")
    kind = reading(text)
    match kind if kind != "unfinished" else _guess(text):
        case "nothing":
            return
        case "command":
            name, _, rest = text.strip().partition(" ")
            yield from commands.find(commands.PLAIN.get(name, name)).run(session, rest.strip())
        case "expression":
            yield from evaluation.value(session, text.strip())
        case "rules":
            yield from _add_items(session, Source(NAME, text))
        case _:
            yield from _add_policies(session, Source(NAME, text))


def _add_items(session: ReplSession, typed: Source) -> Iterator[Reply]:
    items, found = parse_rules(typed)
    if found:
        items, found = with_hints(lambda: parse_rules(typed))
    _raise_errors(found, typed)
    before = session.notebook
    validation = session.use(before.with_items(typed, items))
    for item in items:
        yield _added(session, item, known=item_key(item) in before.items)
    yield from _warnings(session, validation, typed)


def _added(session: ReplSession, item: Item, *, known: bool) -> str:
    match item:
        case Let(name):
            return f"{name} : {session.environment.lets[name].type}"
        case Def(name, parameters, result):
            taken = ", ".join(f"{p.name}: {p.type}" for p in parameters)
            return f"{name}({taken}) : {result}"
        case _:
            return f"{'replaced' if known else 'added'} {item_title(item)}"


def _add_policies(session: ReplSession, typed: Source) -> Iterator[Reply]:
    file, found = parse_file(typed)
    if found:
        file, found = with_hints(lambda: parse_file(typed))
    _raise_errors(found, typed)
    if file.tests:
        raise CommandError(
            "a `test` block runs only in a file",
            "`:save-test FILE` writes one, `placet test` runs it",
        )
    before = session.notebook
    validation = session.use(before.with_policies(typed, file.policies))
    for policy in file.policies:
        known = identity(policy) in before.policies
        yield f"{'replaced' if known else 'added'} policy {policy.address}"
    yield from _warnings(session, validation, typed)


def _raise_errors(found: list[Diagnostic], typed: Source) -> None:
    errors = [(d, typed) for d in found if d.severity == "error"]
    if errors:
        raise FindingsError(errors)


def _warnings(session: ReplSession, validation: Validation, typed: Source) -> Iterator[Reply]:
    notebook = session.notebook
    for found, source in validation.findings():
        diagnostic, where = notebook.as_typed(found, source)
        in_typed = where is typed or (
            source in notebook.policies.values() and source.text == typed.text
        )
        if in_typed and diagnostic.severity == "warning" and diagnostic.code != _UNUSED:
            yield diagnostic, where
