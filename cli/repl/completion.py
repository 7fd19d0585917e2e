"""The pieces of a text that may be unfinished, for colours and for completion."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from typing import Literal as OneOf
from typing import cast

from cli.command import CommandError
from cli.expressions import Evaluator, Expression, Failure
from cli.repl.commands import COMMANDS
from cli.repl.conversation import STARTS
from cli.repl.session import RefusedError, Session
from engine.errors import BadObjectError
from engine.program.frame import Frame
from grammar import checker as macro_types
from grammar import limits
from grammar.checker import Checker
from grammar.environment import Environment
from grammar.parser import accepts, keywords, parse_expression
from grammar.policy_checker import VARIABLES
from grammar.source import Source
from grammar.types import DYN, POISON, Type, agrees
from policies.loader import library_sources

Kind = OneOf["space", "comment", "string", "number", "word", "sign"]

# A string that has no end yet goes to the end of its line, or of the text if it has long quotes.
_TOKEN = re.compile(
    r"(?P<space>\s+)"
    r"|(?P<comment>(?:#|//)[^\n]*)"
    r"|(?P<string>(?:[rR][bB]?|[bB][rR]?)?"
    r'(?:"""(?:\\[\s\S]|(?!""")[\s\S])*(?:"""|\Z)'
    r"|\'\'\'(?:\\[\s\S]|(?!\'\'\')[\s\S])*(?:\'\'\'|\Z)"
    r'|"(?:\\.|[^"\\\n])*(?:"|\\?(?=\n|\Z))'
    r"|'(?:\\.|[^'\\\n])*(?:'|\\?(?=\n|\Z))))"
    r"|(?P<number>\d[\w.]*%?)"
    r"|(?P<word>[A-Za-z_]\w*)"
    r"|(?P<sign>\.\?|&&|\|\||[<>=!]=|\[\?|[\s\S])"
)
_QUOTES = ('"""', "'''", '"', "'")


@dataclass(frozen=True, slots=True)
class Token:
    """A piece and where it starts."""

    kind: Kind
    text: str
    start: int

    @property
    def end(self) -> int:
        return self.start + len(self.text)

    @property
    def quote(self) -> str:
        """The quotes that a string starts with."""
        bare = self.text.lstrip("rRbB")
        return next(q for q in _QUOTES if bare.startswith(q))

    @property
    def open(self) -> bool:
        """Whether it is a string without an end."""
        if self.kind != "string":
            return False
        inside = self.text.lstrip("rRbB").removeprefix(self.quote)
        if not inside.endswith(self.quote):
            return True
        bare = inside.removesuffix(self.quote)
        escapes = len(bare) - len(bare.rstrip("\\"))
        return escapes % 2 == 1 and self.text[0] not in "rR"


def tokens(text: str) -> list[Token]:
    """All of a text: the pieces put together are it again."""
    found = _TOKEN.finditer(text)
    return [Token(cast("Kind", m.lastgroup), m.group(), m.start()) for m in found]


def chain(before: Sequence[Token]) -> str:
    """The operand that ends where these tokens end, as `a.b["c"].d()`; empty if there is none."""
    taken: list[str] = []
    left = list(before)
    operand = True  # whether an operand or its end is to come next, rather than a dot
    while left:
        token = left.pop()
        if operand and token.text in (")", "]"):
            inside = _bracket(left)
            if inside is None:
                break
            taken.append(f"{inside}{token.text}")
            # What is called or indexed stands directly before; a parenthesis may stand alone.
            operand = bool(left) and (left[-1].kind == "word" or left[-1].text in (")", "]"))
        elif operand and token.kind == "word":
            taken.append(token.text)
            operand = False
        elif not operand and token.text in (".", ".?"):
            taken.append(token.text)
            operand = True
        else:
            break
    return "".join(reversed(taken)).lstrip(".?")


def _bracket(left: list[Token]) -> str | None:
    """Takes off all up to the bracket that a closing one closes, which is taken already."""
    depth, taken = 1, list[str]()
    while left:
        token = left.pop()
        taken.append(token.text)
        depth += (token.text in (")", "]", "}")) - (token.text in ("(", "[", "[?", "{"))
        if not depth:
            return "".join(reversed(taken))
    return None


# ---- What names mean at a place in an unfinished text: variables, definitions, and those of
# macros.

# Macros with one variable, by what they go over.
_LIST_MACROS = ("all", "exists", "exists_one", "filter", "map", "sortBy")
_OPTIONAL_MACROS = ("optMap", "optFlatMap")


def type_of(session: Session, operand: str, code: str) -> Type | None:
    """The type of an operand at the end of a text; None where it has none."""
    if not operand:
        return None
    environment = _environment(session, tokens(code))
    found = _checked(operand, environment)
    return None if found in (None, DYN, POISON) else found


def names(session: Session, code: str) -> Iterator[tuple[str, str]]:
    """Whatever an expression may start with, with its type."""
    environment = _environment(session, tokens(code))
    own = [name for name in environment.variables if name not in VARIABLES]
    yield from ((name, str(environment.variables[name])) for name in own)
    yield from ((name, str(value.type)) for name, value in environment.lets.items())
    yield from ((f"{name}(", str(its.result)) for name, its in environment.defs.items())
    yield from ((name, str(type_)) for name, type_ in VARIABLES.items())
    functions = sorted(environment.function_names(member=False))
    yield from ((f"{name}(", "function") for name in ("has", *functions))


def members(session: Session, type_: Type) -> list[str]:
    """The functions and macros that a value of a type has."""
    environment = session.environment
    found = {
        name
        for name in environment.function_names(member=True)
        for overload in environment.overloads(name, member=True)
        if overload.params[0].name != "dyn" and agrees(overload.params[0], type_)
    }
    if type_.name in ("list", "map"):
        found.update(_LIST_MACROS)
    if type_.name == "optional":
        found.update(_OPTIONAL_MACROS)
    return sorted(found)


def _environment(session: Session, pieces: Sequence[Token]) -> Environment:
    """That of the session, with the variables of macros that are open at the end."""
    environment = session.environment
    code = [p for p in pieces if p.kind not in ("space", "comment")]
    for index in _open(code):
        # `operand . macro ( variable ,`
        if index < 3 or index + 2 >= len(code) or code[index - 2].text != ".":
            continue
        macro, variable = code[index - 1].text, code[index + 1]
        if macro not in (*_LIST_MACROS, *_OPTIONAL_MACROS) or code[index + 2].text != ",":
            continue
        target = _checked(chain(code[: index - 2]), environment)
        types = macro_types.variables(macro, target, 1) if target is not None else None
        if types and variable.kind == "word":
            known = {**environment.variables, variable.text: types[0]}
            environment = replace(environment, variables=known)
    return environment


def _open(code: Sequence[Token]) -> list[int]:
    """Where parentheses are that have no end, the outermost first."""
    open_: list[int] = []
    for index, piece in enumerate(code):
        if piece.text in ("(", "[", "[?", "{"):
            open_.append(index)
        elif piece.text in (")", "]", "}") and open_:
            open_.pop()
    return [index for index in open_ if code[index].text == "("]


def _checked(text: str, environment: Environment) -> Type | None:
    source = Source("", text)
    if not text or limits.scan(source) is not None:
        return None
    parsed, _ = parse_expression(source)
    return None if parsed is None else Checker(environment).check(parsed).type


# ---- The keys and texts that an operand comes to in the cluster, on every node or for every pod.

# Who completes waits: so many objects show what there is.
_MOST = 1000


def keys(session: Session, operand: str) -> list[str]:
    """The keys of the maps that it comes to, by name."""
    maps = (found for found in _found(session, operand) if isinstance(found, Mapping))
    return sorted({key for each in maps for key in each if isinstance(key, str)})


def values(session: Session, operand: str) -> list[str]:
    """The texts that it comes to, the most frequent first."""
    texts = Counter(found for found in _found(session, operand) if isinstance(found, str))
    return [text for text, _ in texts.most_common()]


def _found(session: Session, operand: str) -> Iterator[object]:
    if not operand or session.cluster is None:
        return
    try:
        expression = session.expression(operand, typed_only=True)
        evaluator = Evaluator(expression)
        with session.looking(expression) as frame:
            for _ in islice(_each(session, expression, frame), _MOST):
                found = evaluator.evaluate(frame)
                if not isinstance(found, Failure):
                    yield found
    except (RefusedError, CommandError):
        return


def _each(session: Session, expression: Expression, frame: Frame) -> Iterator[None]:
    """The frame with one node after the other, or one pod, or one peer."""
    cluster = session.some_cluster()
    if "node" in expression.names:
        for node in cluster.snapshot().nodes.values():
            frame.node = node
            yield
    elif "pod" in expression.names:
        for body in cluster.pod_bodies():
            try:
                frame.pod, frame.memo = session.codec.pod(body), {}
            except BadObjectError:
                continue
            yield
    elif expression.names & {"peer", "victim"}:
        for peer in cluster.snapshot().pods().values():
            frame.peer = frame.victim = peer
            yield


# ---- What can stand at the end of a text: fields, keys and values, words of the grammar, and
# names.

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
    type_ = type_of(session, operand, code)
    if type_ is None:
        return
    record = session.schema.records.get(type_.name)
    for field in record.fields.values() if record is not None else ():
        yield (f"{field.name}[" if field.parameter else field.name), str(field.type)
    if type_.name == "map":
        yield from ((key, "key") for key in keys(session, operand) if key.isidentifier())
    yield from ((f"{name}(", "function") for name in members(session, type_))


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
        yield from names(session, code)
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
