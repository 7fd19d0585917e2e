"""Conversation: input lines in, answers out.

A line is a command, an expression, items of a policy, or unfinished. Answers go to standard output,
errors and warnings to standard error.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable
from itertools import chain
from typing import Literal

from cli.command import CommandError, Exit
from cli.console import put
from cli.expressions import put_value, put_values
from cli.render import print_error, put_findings
from cli.repl import commands
from cli.repl.session import NAME, FindingsError, ReplSession, TypedItem
from grammar.messages.diagnostics import UserError
from grammar.syntax.parser import accepts, keywords, parse_rules, scan
from grammar.tree.clauses import Def, Let
from grammar.tree.source import Source
from policies.hints import with_hints


def answer(session: ReplSession, text: str) -> bool:
    """Prints the answer to a text; whether it did not fail.

    A text with an error does not change the session.
    """
    try:
        if "\0" in text:
            raise CommandError("the text contains a NUL character", "remove it")
        return _answered(session, text) == Exit.OK
    except UserError as error:
        print_error(error.message, error.hint)
    except FindingsError as error:
        put_findings(error.findings)
    return False


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
        if text.strip():
            ok = answer(session, text.rstrip("\n")) and ok
            sys.stdout.flush()
        text = ""
        if session.has_ended:
            break
    return ok


def prompt(session: ReplSession) -> str:
    """The chosen pod and node, or `placet`."""
    chosen = [session.pod.key if session.pod is not None else "", session.node or ""]
    return f"{' @ '.join(filter(None, chosen)) or 'placet'}> "


# ---- the meaning of a text

Reading = Literal["nothing", "command", "expression", "rules", "file", "unfinished"]
Start = Literal["expression", "rules", "file"]

_STARTS: tuple[Start, ...] = ("expression", "rules", "file")
_NOTHING = re.compile(r"(?:\s|(?:#|//)[^\n]*(?:\n|\Z))*")
_END = "$END"
_LONG_QUOTES = ('"""', "'''")
_WORD = re.compile(r"[A-Za-z_]\w*")


def reading(text: str) -> Reading:
    """The kind of a text. A text with errors gets the kind that its first word suggests."""
    if _NOTHING.fullmatch(text):
        return "nothing"
    if text.lstrip().startswith(":") or text.strip() in commands.PLAIN:
        return "command"
    if scan(Source("", text)) is not None:
        return _guess(text)
    next_ = {start: accepts(text, start) for start in _STARTS}
    whole = next((start for start in _STARTS if _END in next_[start]), None)
    if whole is not None:
        return whole
    if any(next_.values()) or _in_long_string(text):
        return "unfinished"
    return _guess(text)


def unfinished(text: str) -> bool:
    """Whether a text needs more lines: a bracket is open, or an operand is missing."""
    return reading(text) == "unfinished"


def _guess(text: str) -> Start:
    """The kind that the first word of an unfinished or wrong text suggests."""
    comments = _NOTHING.match(text)
    word = _WORD.search(text, comments.end() if comments else 0)
    if word is None:
        return "expression"
    known = keywords()
    for start in ("file", "rules"):
        if word.group() in {known.get(terminal) for terminal in accepts("", start)}:
            return start
    return "expression"


def _in_long_string(text: str) -> bool:
    return any(
        quotes in text and any(accepts(text + quotes, start) for start in _STARTS)
        for quotes in _LONG_QUOTES
    )


# ---- the answers to each kind


def _answered(session: ReplSession, text: str) -> int:
    kind = reading(text)
    match kind if kind != "unfinished" else _guess(text):
        case "command":
            name, _, rest = text.strip().partition(" ")
            command = commands.find(commands.PLAIN.get(name, name))
            if rest.strip() and command.takes == "nothing":
                raise CommandError(f"`{command.name}` takes no arguments", "")
            return command.run(session, rest.strip())
        case "expression":
            return _value(session, text.strip())
        case "rules":
            return _type(session, Source(NAME, text))
        case "file":
            hint = "write it into a file of the session, or type its clauses"
            raise CommandError("policies and tests cannot be typed", hint)
        case _:
            return Exit.OK


def _value(session: ReplSession, text: str) -> int:
    """As `placet eval`: one row per node if the expression reads the node and none is chosen."""
    expression = session.expression(text)
    session.decode(expression.annotations)
    if "node" in expression.names and session.node is None:
        return put_values(expression, session.subject(), session.required_cluster())
    return put_value(expression, session.subject())


def _type(session: ReplSession, line: Source) -> int:
    trees, found = parse_rules(line)
    if found:
        trees, found = with_hints(lambda: parse_rules(line))
    if errors := [(d, line) for d in found if d.severity == "error"]:
        raise FindingsError(errors)
    items, known = [TypedItem(tree, line) for tree in trees], session.typed
    warnings = session.type(line, items)
    put(_said(session, item, "replaced" if item.title in known else "added") for item in items)
    put_findings(warnings)
    return Exit.OK


def _said(session: ReplSession, item: TypedItem, done: str) -> str:
    match item.tree:
        case Let(name):
            return f"{name} : {session.environment.lets[name].type}"
        case Def(name, parameters, result):
            taken = ", ".join(f"{p.name}: {p.type}" for p in parameters)
            return f"{name}({taken}) : {result}"
        case _:
            return f"{done} {item.title}"
