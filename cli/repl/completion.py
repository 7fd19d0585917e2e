"""What can stand at the end of a text: fields, keys and values, words of the grammar, and names."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from cli.repl import scope
from cli.repl.commands import COMMANDS
from cli.repl.reading import STARTS
from cli.repl.samples import keys, values
from cli.repl.session import Session
from cli.repl.tokens import Token, chain, tokens
from grammar.parser import accepts, keywords
from policies.loader import library_sources

_COMMAND = re.compile(r"\s*(:[^\s]*)\Z")
_ARGUMENT = re.compile(r"\s*(:[^\s]+)\s+")
# Names that the grammar does not tell apart, by the word before them.
_CHOICES = {
    "mode": ("enforce", "audit"),
    "failure": ("fail", "ignore"),
    "missing": ("fail", "pass"),
    "range": ("minmax", "rank"),
}
_SETTINGS = ("rows", "time off", "time on", "trace off", "trace on")
_POLICY = re.compile(r"(?m)^(?:cluster )?policy ([\w-]+|\"[^\"]*\")")


@dataclass(frozen=True, slots=True)
class Candidate:
    """A text that can take the place of what is behind `start`, and what it is."""

    text: str
    start: int
    note: str = ""


def complete(session: Session, text: str) -> list[Candidate]:
    """All that fits, in the order of showing; `text` ends where the cursor is."""
    if command := _COMMAND.match(text):
        names = ((name, "command") for name in COMMANDS)
        return list(_fitting(names, command[1], command.start(1)))
    if argument := _ARGUMENT.match(text):
        known = COMMANDS.get(argument[1])
        return _arguments(session, text, argument.end(), known.takes if known else "nothing")
    return _code(session, text, 0)


def _arguments(session: Session, text: str, start: int, takes: str) -> list[Candidate]:
    given = text[start:]
    cluster = session.cluster
    match takes:
        case "expression":
            return _code(session, text, start)
        case "node":
            names = [(name, "node") for name in session.node_names]
        case "pod":
            names = [(key, "pod") for key in cluster.pod_keys()] if cluster is not None else []
            names += _files(given)
        case "file":
            start += len(given) - len(given.split(" ")[-1])
            names = _files(text[start:])
        case "setting":
            names = [(setting, "setting") for setting in _SETTINGS]
        case "command":
            names = [(name.removeprefix(":"), "command") for name in COMMANDS]
        case "typed":
            names = [(name, "typed") for name in session.notebook.names]
        case _:
            names = []
    return list(_fitting(names, text[start:], start))


def _files(begun: str) -> list[tuple[str, str]]:
    """What is in the folder that a path has come to."""
    folder, _, name = begun.rpartition("/")
    there = Path(f"{folder}/" if "/" in begun else ".").expanduser()
    try:
        entries = sorted(there.iterdir())
    except OSError:
        return []
    prefix = f"{folder}/" if "/" in begun else ""
    shown = (e for e in entries if not e.name.startswith(".") or name.startswith("."))
    return [(f"{prefix}{e.name}{'/' if e.is_dir() else ''}", "file") for e in shown]


def _code(session: Session, text: str, offset: int) -> list[Candidate]:
    """The end of an expression or of a policy, which starts at an offset."""
    code = text[offset:]
    pieces = tokens(code)
    last = pieces[-1] if pieces else None
    if last is not None and last.kind in ("comment", "number"):
        return []
    before = [p for p in pieces if p.kind not in ("space", "comment")]
    if last is not None and last.open:
        found = list(_strings(session, before[:-1], last))
        inside = last.start + last.text.index(last.quote) + len(last.quote)
        return list(_fitting(found, code[inside:], offset + inside))
    begun = ""
    if last is not None and last.kind == "word":
        begun, before = last.text, before[:-1]
    start = len(code) - len(begun)
    if before and before[-1].text in (".", ".?"):
        found = list(_members(session, code, before[:-1]))
    else:
        found = list(_words(session, code[:start], before, offset))
    return list(_fitting(found, begun, offset + start))


def _members(session: Session, code: str, before: Sequence[Token]) -> Iterator[tuple[str, str]]:
    """The fields, keys and functions of what stands before a dot."""
    operand = chain(before)
    type_ = scope.type_of(session, operand, code)
    if type_ is None:
        return
    record = session.schema.records.get(type_.name)
    for field in record.fields.values() if record is not None else ():
        yield (f"{field.name}[" if field.parameter else field.name), str(field.type)
    if type_.name == "map":
        yield from ((key, "key") for key in keys(session, operand) if key.isidentifier())
    yield from ((f"{name}(", "function") for name in scope.members(session, type_))


def _strings(session: Session, before: Sequence[Token], last: Token) -> Iterator[tuple[str, str]]:
    """A key behind a bracket, a value behind a comparison, a policy behind `use`."""
    if not before:
        return
    sign, rest = before[-1].text, before[:-1]
    found: Iterable[str] = ()
    if sign in ("[", "[?") and (operand := chain(rest)):
        found = keys(session, operand)
    elif sign in ("==", "!="):
        found = values(session, chain(rest))
    elif sign in ("[", ",") and (left := _of_list(before)):
        found = values(session, left)
    elif sign == "use":
        found = _policy_names(session)
    for text in found:
        if "\n" not in text and last.quote not in text and "\\" not in text:
            yield f"{text}{last.quote}", "text"


def _of_list(before: Sequence[Token]) -> str:
    """The left side of `in [`, of whose list some strings may be there."""
    left = list(before)
    while left and (left[-1].text == "," or left[-1].kind == "string"):
        left.pop()
    if len(left) > 1 and left[-1].text == "[" and left[-2].text == "in":
        return chain(left[:-2])
    return ""


def _words(
    session: Session, code: str, before: Sequence[Token], offset: int
) -> Iterator[tuple[str, str]]:
    """The words that the grammar has for this place, and names where an expression starts."""
    ways = [accepts(code, start) for start in (STARTS[:1] if offset else STARTS)]
    if code.strip() and any(ways[1:]):
        ways[0] = set()  # what could be a clause is not meant as a name like the clause's word
    accepted = set[str]().union(*ways)
    if "NAME" in accepted and before:
        yield from ((word, "word") for word in _CHOICES.get(before[-1].text, ()))
    if "IDENT" in accepted and "NOT" in accepted:
        yield from scope.names(session, code)
    yield from ((w, "word") for t, w in sorted(keywords().items()) if t in accepted - {"TEST"})


def _policy_names(session: Session) -> list[str]:
    shipped = (n for s in library_sources() for n in _POLICY.findall(s.text))
    loaded = (checked.policy.name for checked in session.policies.validation.policies)
    return sorted({name.strip('"') for name in (*shipped, *loaded)})


def _fitting(names: Iterable[tuple[str, str]], begun: str, start: int) -> Iterator[Candidate]:
    """Each text once, those that are what is there already left out."""
    seen: set[str] = set()
    for text, note in names:
        if text.startswith(begun) and text != begun and text not in seen:
            seen.add(text)
            yield Candidate(text, start, note)
