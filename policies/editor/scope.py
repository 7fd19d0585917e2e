"""Scope: the names that an expression can use at the end of an unfinished text, and their types."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from grammar.checker import expression_checker as macro_types
from grammar.checker.expression_checker import Checker
from grammar.meaning.environment import Environment
from grammar.syntax import limits
from grammar.syntax.parser import parse_expression
from grammar.tree.source import Source, Span
from grammar.tree.types import Type, agrees
from policies.editor.tokens import ColouredToken, last_operand, open_brackets

# Macros by their variables: macros over lists and maps with one variable, macros that also take a
# key or an index before the item, and macros over optionals.
LIST_MACROS = ("all", "exists", "exists_one", "filter", "map", "sortBy")
PAIR_MACROS = (
    *("all", "exists", "exists_one", "existsOne"),
    *("transformList", "transformMap", "transformMapEntry"),
)
OPTIONAL_MACROS = ("optMap", "optFlatMap")


@dataclass(frozen=True, slots=True)
class MacroVariable:
    """A variable of a macro that is not closed, with its place among the tokens' offsets."""

    name: str
    type: Type
    span: Span


def macro_variables(
    code: Sequence[ColouredToken], environment: Environment
) -> tuple[Environment, Mapping[str, MacroVariable]]:
    """The environment with the variables of macros that are open at the end of some tokens.

    `code` are tokens without spaces and comments. An inner variable hides an outer one.
    """
    found: dict[str, MacroVariable] = {}
    for index in open_brackets(code):
        # `operand . macro ( variable ,`
        if code[index].text != "(" or index < 3 or code[index - 2].text != ".":
            continue
        macro, named = code[index - 1].text, _named(code[index + 1 :])
        if macro not in (*LIST_MACROS, *PAIR_MACROS, *OPTIONAL_MACROS) or not named:
            continue
        target = type_of(last_operand(code[: index - 2]), environment)
        count = min(len(named), 2 if macro in PAIR_MACROS else 1)
        types = macro_types.variables(macro, target, count) if target is not None else None
        for token, type_ in zip(named, types or (), strict=False):
            span = Span(token.start, token.start + len(token.text))
            found[token.text] = MacroVariable(token.text, type_, span)
            known = {**environment.variables, token.text: type_}
            environment = replace(environment, variables=known)
    return environment, found


def _named(code: Sequence[ColouredToken]) -> list[ColouredToken]:
    """The words at the start of some tokens, each with a comma after it."""
    found: list[ColouredToken] = []
    for word, comma in zip(code[::2], code[1::2], strict=False):
        if word.kind != "word" or comma.text != ",":
            break
        found.append(word)
    return found


def type_of(text: str, environment: Environment) -> Type | None:
    """The type of an expression; None for a text that is none."""
    source = Source("", text)
    if not text or limits.scan(source) is not None:
        return None
    parsed, _ = parse_expression(source)
    return None if parsed is None else Checker(environment).check(parsed).type


def member_functions(environment: Environment, type_: Type) -> list[str]:
    """The functions and macros that can follow the dot after a value of a type."""
    found = {
        name
        for name in environment.function_names(member=True)
        for overload in environment.overloads(name, member=True)
        if overload.params[0].name != "dyn" and agrees(overload.params[0], type_)
    }
    if type_.name in ("list", "map"):
        found.update(LIST_MACROS)
    if type_.name == "optional":
        found.update(OPTIONAL_MACROS)
    return sorted(found)
