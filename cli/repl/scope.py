"""What names mean at a place in an unfinished text: variables, definitions, and those of macros."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from cli.repl.session import Session
from cli.repl.tokens import Token, chain, tokens
from grammar import limits, macro_types
from grammar.checker import Checker
from grammar.environment import Environment
from grammar.inference import agrees
from grammar.parser import parse_expression
from grammar.policy_checker import VARIABLES
from grammar.source import Source
from grammar.types import DYN, POISON, Type

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
