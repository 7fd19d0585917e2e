"""Completion: the texts that can stand at the end of an unfinished line.

Commands and their arguments, fields and functions by the type of the operand before a dot, keys
and values as the cluster has them, and the words that the grammar accepts.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path

from cli.command import CommandError
from cli.expressions import Evaluator, Expression, Failure
from cli.repl.commands import COMMANDS
from cli.repl.conversation import STARTS
from cli.repl.session import FindingsError, Session
from cli.repl.tokens import CLOSING, OPENING, Token, last_operand, tokens
from engine.errors import BadObjectError
from engine.program.frame import Frame
from grammar import checker as macro_types
from grammar import limits
from grammar.checker import Checker
from grammar.environment import Environment
from grammar.parser import accepts, keywords, parse_expression, parse_file
from grammar.policy_checker import VARIABLES
from grammar.source import Source
from grammar.types import DECLARED, DYN, POISON, Type, agrees
from policies.loader import library_sources

_COMMAND = re.compile(r"\s*(:[^\s]*)\Z")
_ARGUMENT = re.compile(r"\s*(:[^\s]+)\s+")
# Names that the grammar does not distinguish, by the word before them.
_CHOICES = {
    "mode": ("enforce", "audit"),
    "failure": ("fail", "ignore"),
    "missing": ("fail", "pass"),
    "nodes": ("eligible", "selected", "all"),
    "range": ("minmax", "rank"),
}
_SETTINGS = ("rows", "time off", "time on", "trace off", "trace on")
_POLICY = re.compile(r"(?m)^(?:cluster )?policy ([\w-]+|\"[^\"]*\")")

# A text to offer, and its kind or type.
Offer = tuple[str, str]


@dataclass(frozen=True, slots=True)
class Candidate:
    """A text that replaces the line from offset `start`; `note` is its kind or type."""

    text: str
    start: int
    note: str = ""


def complete(session: Session, text: str) -> list[Candidate]:
    """All candidates, in display order; the cursor is at the end of `text`."""
    if command := _COMMAND.match(text):
        names = ((name, "command") for name in COMMANDS)
        return _matching(names, command[1], command.start(1))
    if argument := _ARGUMENT.match(text):
        known = COMMANDS.get(argument[1])
        return _arguments(session, text, argument.end(), known.takes if known else "nothing")
    return _code(session, text, 0)


def _matching(offers: Iterable[Offer], begun: str, start: int) -> list[Candidate]:
    """The offers that continue what is begun, each once."""
    notes: dict[str, str] = {}
    for text, note in offers:
        if text.startswith(begun) and text != begun:
            notes.setdefault(text, note)
    return [Candidate(text, start, note) for text, note in notes.items()]


def _arguments(session: Session, text: str, start: int, takes: str) -> list[Candidate]:
    given = text[start:]
    cluster = session.cluster
    match takes:
        case "expression":
            return _code(session, text, start)
        case "node":
            names = [(name, "node") for name in session.node_names]
        case "pod":
            names = [(key, "pod") for key in cluster.pod_bodies] if cluster is not None else []
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
    return _matching(names, text[start:], start)


def _files(begun: str) -> list[Offer]:
    folder, slash, name = begun.rpartition("/")
    prefix = f"{folder}{slash}"
    try:
        entries = sorted(Path(prefix or ".").expanduser().iterdir())
    except OSError:
        return []
    shown = (e for e in entries if not e.name.startswith(".") or name.startswith("."))
    return [(f"{prefix}{e.name}{'/' if e.is_dir() else ''}", "file") for e in shown]


def _code(session: Session, text: str, offset: int) -> list[Candidate]:
    """The candidates for an expression or a policy that starts at an offset."""
    code = text[offset:]
    found = tokens(code)
    last = found[-1] if found else None
    if last is not None and last.kind in ("comment", "number"):
        return []
    before = [token for token in found if token.kind not in ("space", "comment")]
    if last is not None and last.is_open:
        inside = last.start + last.text.index(last.quote) + len(last.quote)
        offers = _strings(session, before[:-1], last.quote)
        return _matching(offers, code[inside:], offset + inside)
    if last is not None and (last.kind == "string" or last.text in CLOSING):
        # A word that follows without a space would not be a word of its own.
        closes = last.kind == "string" and _is_in_brackets(before)
        return [Candidate("]", offset + len(code), "sign")] if closes else []
    begun = ""
    if last is not None and last.kind == "word":
        begun, before = last.text, before[:-1]
    start = len(code) - len(begun)
    if before and before[-1].text in (".", ".?"):
        offers = _members(session, code, before[:-1])
    else:
        offers = _words(session, code[:start], before, offset)
    return _matching(offers, begun, offset + start)


def _members(session: Session, code: str, before: Sequence[Token]) -> Iterator[Offer]:
    """The fields, keys and functions of the operand before a dot."""
    operand = last_operand(before)
    type_ = _checked(operand, _environment(session, code)) if operand else None
    if type_ is None or type_ in (DYN, POISON):
        return
    record = session.schema.records.get(type_.name)
    for field in record.fields.values() if record is not None else ():
        yield (f"{field.name}[" if field.parameter else field.name), str(field.type)
    if type_.name == "map":
        yield from ((key, "key") for key in _keys(session, operand) if key.isidentifier())
    yield from ((f"{name}(", "function") for name in _functions(session, type_))


def _strings(session: Session, before: Sequence[Token], quote: str) -> Iterator[Offer]:
    """Keys after a bracket, values after a comparison, policies after `use`."""
    if not before:
        return
    sign, rest = before[-1].text, before[:-1]
    found: Iterable[str] = ()
    if sign in ("[", "[?") and (operand := last_operand(rest)):
        found = _keys(session, operand)
    elif sign in ("==", "!="):
        found = _values(session, last_operand(rest))
    elif sign in ("[", ",") and (left := _left_of_list(before)):
        found = _values(session, left)
    elif sign == "use":
        found = _policy_names(session)
    for text in found:
        if "\n" not in text and quote not in text and "\\" not in text:
            yield f"{text}{quote}", "text"


def _left_of_list(before: Sequence[Token]) -> str:
    """The operand before `in [`, followed by any number of strings."""
    left = list(before)
    while left and (left[-1].text == "," or left[-1].kind == "string"):
        left.pop()
    if len(left) > 1 and left[-1].text == "[" and left[-2].text == "in":
        return last_operand(left[:-2])
    return ""


def _policy_names(session: Session) -> list[str]:
    library = (n for s in library_sources() for n in _POLICY.findall(s.text))
    loaded = (checked.policy.name for checked in session.policies.validation.policies)
    return sorted({name.strip('"') for name in (*library, *loaded)})


def _words(session: Session, code: str, before: Sequence[Token], offset: int) -> Iterator[Offer]:
    """The words that the grammar accepts, and names where an expression can start."""
    sets = [accepts(code, start) for start in (STARTS[:1] if offset else STARTS)]
    if code.strip() and any(sets[1:]):
        sets[0] = set()  # a text that can be a clause is not an expression that starts like one
    accepted = set[str]().union(*sets)
    if before and not accepted.isdisjoint({"NAME", "IDENT"}):
        yield from ((word, "word") for word in _CHOICES.get(before[-1].text, ()))
    if "IDENT" in accepted and "NOT" in accepted:
        yield from _names(session, code)
    elif "IDENT" in accepted and before and before[-1].text == ":":
        names = (*map(str, DECLARED), "list(", "map(", *session.schema.records)
        yield from ((name, "type") for name in names)
    elif "IDENT" in accepted:
        yield from _parameters(session, before)
    yield from ((w, "word") for t, w in sorted(keywords().items()) if t in accepted - {"TEST"})


def _parameters(session: Session, before: Sequence[Token]) -> Iterator[Offer]:
    """The parameters of the policy that `use "NAME" (` names, without those that are set."""
    opened = _open_parentheses(before)
    if not opened or opened[-1] < 2 or before[opened[-1] - 2].text != "use":
        return
    name = before[opened[-1] - 1].text.strip("\"'")
    policies = [checked.policy for checked in session.policies.validation.policies]
    for source in library_sources():
        if name == f"library/{Path(source.name).stem}":
            policies += parse_file(source)[0].policies
    given = {token.text for token in before[opened[-1] :]}
    for policy in policies:
        if policy.name == name.removeprefix("library/") or policy.address == name:
            offered = (p for p in policy.parameters if p.name not in given)
            yield from ((f"{p.name}: ", str(p.type)) for p in offered)


# ---- names and types at the end of an unfinished text

# Macros with one variable, by the type that they go over.
_LIST_MACROS = ("all", "exists", "exists_one", "filter", "map", "sortBy")
_OPTIONAL_MACROS = ("optMap", "optFlatMap")


def _names(session: Session, code: str) -> Iterator[Offer]:
    environment = _environment(session, code)
    own = [name for name in environment.variables if name not in VARIABLES]
    yield from ((name, str(environment.variables[name])) for name in own)
    yield from ((name, str(value.type)) for name, value in environment.lets.items())
    yield from ((f"{name}(", str(its.result)) for name, its in environment.defs.items())
    yield from ((name, str(type_)) for name, type_ in VARIABLES.items())
    functions = sorted(environment.function_names(member=False))
    yield from ((f"{name}(", "function") for name in ("has", *functions))


def _functions(session: Session, type_: Type) -> list[str]:
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


def _environment(session: Session, text: str) -> Environment:
    """The environment of the session, with the variables of macros that are open at the end."""
    environment = session.environment
    code = [token for token in tokens(text) if token.kind not in ("space", "comment")]
    for index in _open_parentheses(code):
        # `operand . macro ( variable ,`
        if index < 3 or index + 2 >= len(code) or code[index - 2].text != ".":
            continue
        macro, variable = code[index - 1].text, code[index + 1]
        if macro not in (*_LIST_MACROS, *_OPTIONAL_MACROS) or code[index + 2].text != ",":
            continue
        target = _checked(last_operand(code[: index - 2]), environment)
        types = macro_types.variables(macro, target, 1) if target is not None else None
        if types and variable.kind == "word":
            known = {**environment.variables, variable.text: types[0]}
            environment = replace(environment, variables=known)
    return environment


def _open_parentheses(code: Sequence[Token]) -> list[int]:
    return [index for index in _open_brackets(code) if code[index].text == "("]


def _is_in_brackets(code: Sequence[Token]) -> bool:
    """Whether the innermost open bracket is that of a key or a list."""
    open_ = _open_brackets(code)
    return bool(open_) and code[open_[-1]].text in ("[", "[?")


def _open_brackets(code: Sequence[Token]) -> list[int]:
    open_: list[int] = []
    for index, token in enumerate(code):
        if token.text in OPENING:
            open_.append(index)
        elif token.text in CLOSING and open_:
            open_.pop()
    return open_


def _checked(text: str, environment: Environment) -> Type | None:
    source = Source("", text)
    if not text or limits.scan(source) is not None:
        return None
    parsed, _ = parse_expression(source)
    return None if parsed is None else Checker(environment).check(parsed).type


# ---- keys and values in the cluster

# The number of evaluations for one completion, for which the user waits.
_MAX_SAMPLES = 1000


def _keys(session: Session, operand: str) -> list[str]:
    maps = (found for found in _samples(session, operand) if isinstance(found, Mapping))
    return sorted({key for each in maps for key in each if isinstance(key, str)})


def _values(session: Session, operand: str) -> list[str]:
    texts = Counter(found for found in _samples(session, operand) if isinstance(found, str))
    return [text for text, _ in texts.most_common()]


def _samples(session: Session, operand: str) -> Iterator[object]:
    """The values of an operand on every node, or for every pod or peer."""
    if not operand or session.cluster is None:
        return
    try:
        expression = session.expression(operand, type_only=True)
        evaluator = Evaluator(expression)
        with session.frame(expression) as frame:
            for _ in islice(_vary(session, expression, frame), _MAX_SAMPLES):
                found = evaluator.evaluate(frame)
                if not isinstance(found, Failure):
                    yield found
    except (FindingsError, CommandError):
        return


def _vary(session: Session, expression: Expression, frame: Frame) -> Iterator[None]:
    cluster = session.required_cluster()
    if "node" in expression.names:
        for node in cluster.snapshot().nodes.values():
            frame.node = node
            yield
    elif "pod" in expression.names:
        for body in cluster.pod_bodies.values():
            try:
                frame.pod, frame.memo = session.codec.pod(body), {}
            except BadObjectError:
                continue
            yield
    elif expression.names & {"peer", "victim"}:
        for peer in cluster.snapshot().pods().values():
            frame.peer = frame.victim = peer
            yield
