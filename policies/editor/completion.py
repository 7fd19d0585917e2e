"""Completion: the texts that can stand at the end of an unfinished text.

Fields and functions by the type of the operand before a dot, keys and values as a cluster has them,
policies and their parameters after `use`, and the words that the grammar accepts. Variables of
macros count as far as their lists are known, and each field and function has its description.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import takewhile
from typing import Literal as OneOf
from typing import get_args

from grammar.checker.declarations import OBJECT
from grammar.checker.expression_checker import Checker
from grammar.checker.policy_checker import READ_IN, VARIABLES
from grammar.clauses.parts import EVERYWHERE
from grammar.meaning.environment import Environment, variables_of_macro
from grammar.meaning.schema import Field
from grammar.messages.texts import cut
from grammar.syntax.expression_builder import MACRO_VARIABLES
from grammar.syntax.formatter import print_data, print_parameter
from grammar.syntax.parser import Lexemes, accepts, keywords, parse_expression, scan
from grammar.tree.clause_parts import NodeSet, Order
from grammar.tree.policy import COLUMN_OF, Policy
from grammar.tree.source import Source, Span
from grammar.tree.types import DECLARED, DYN, POISON, Overload, Type, agrees


def last_operand(lexemes: Lexemes, end: int) -> str:
    """The operand that ends before a position, as `a.b["c"].d()`; empty if there is none."""
    first = lexemes.operand_before(end)
    return "" if first is None else lexemes.slice(first, end - 1)


# The most variables of each macro. With two, the first one is a key or an index.
_MACROS: Mapping[str, int] = {name: n for (name, _), n in sorted(MACRO_VARIABLES.items())}


def macro_variables(
    lexemes: Lexemes, end: int, environment: Environment
) -> tuple[Environment, Mapping[str, Span]]:
    """The environment with the variables of macros that are open before a position.

    An inner variable hides an outer one. The spans say where each variable is declared.
    """
    found: dict[str, Span] = {}
    for index in lexemes.around(end):
        # `operand . macro ( variable ,`
        if lexemes[index].text != "(" or lexemes[index - 2].text != ".":
            continue
        words = takewhile(
            lambda at: lexemes[at].kind == "word" and lexemes[at + 1].text == ",",
            range(index + 1, end - 1, 2),
        )
        macro, named = lexemes[index - 1].text, [*words]
        target = type_of(last_operand(lexemes, index - 2), environment)
        if macro not in _MACROS or not named or target is None:
            continue
        types = variables_of_macro(macro, target, min(len(named), _MACROS[macro]))
        for at, type_ in zip(named, types or (), strict=False):
            name = lexemes[at].text
            found[name] = lexemes.span(at, at)
            environment = replace(environment, variables={**environment.variables, name: type_})
    return environment, found


def type_of(text: str, environment: Environment) -> Type | None:
    """The type of an expression; None for a text that is none."""
    source = Source("", text)
    if not text or scan(source) is not None:
        return None
    parsed, _ = parse_expression(source)
    return None if parsed is None else Checker(environment).check(parsed).type


def _member_functions(environment: Environment, type_: Type) -> Iterator[str]:
    """The functions and macros that can follow the dot after a value of a type."""
    for name in environment.function_names(member=True):
        params = (each.params[0] for each in environment.overloads(name, member=True))
        if any(param.name != "dyn" and agrees(param, type_) for param in params):
            yield name
    yield from (macro for macro in _MACROS if variables_of_macro(macro, type_, 1) is not None)


# Names that the grammar does not distinguish, by the word before them.
_CHOICES = {
    "mode": ("enforce", "audit"),
    "missing": ("fail", "pass"),
    "nodes": get_args(NodeSet),
    "range": get_args(Order),
    "rounding": ("up", "down"),
}
Start = OneOf["expression", "rules", "file"]


@dataclass(frozen=True, slots=True)
class Candidate:
    """A candidate: a text that can stand at a place, instead of the text from offset `start`.

    `kind` is field, function, key, name, policy, sign, text, type or word; the REPL has more.
    `note` is the type or kind, and `about` describes the candidate, if that is known. `heading` are
    lines of the language that do, of a function each way to call it.
    """

    text: str
    kind: str
    note: str = ""
    about: str = ""
    heading: str = ""
    start: int = 0


class Samples:
    """Samples of the values that expressions have in a cluster; these are of none."""

    def keys(self, _: str) -> Sequence[str]:
        return ()

    def values(self, _: str) -> Sequence[str]:
        return ()


@dataclass(frozen=True, slots=True)
class Surroundings:
    """The surroundings of a text: names, policies that `use` can name, and a cluster."""

    environment: Environment
    policies: Mapping[str, Policy]
    samples: Samples


def complete(around: Surroundings, text: str, starts: Sequence[Start]) -> list[Candidate]:
    """All candidates at the end of a text, in display order.

    `starts` are what the text may begin with.
    """
    lexemes = Lexemes(text)
    end = len(lexemes.items)
    last, opened = lexemes[end - 1], _open_quote(lexemes)
    if opened is not None:
        if lexemes[opened - 1].text in _EMPTY and lexemes.touches(opened):
            return []  # A text of several lines.
        inside = lexemes[opened].end
        return _matching(_strings(around, lexemes, opened), text[inside:], inside)
    if lexemes.comments and lexemes.comments[-1].end == len(text):
        return []
    if _NUMBER.search(text) is not None:
        return []
    touches = 0 < last.end == len(text)
    if touches and (last.kind == "string" or last.closes):
        # A word that follows without a space would not be a word of its own.
        opener = lexemes.opener(end) if last.kind == "string" else None
        closes = opener is not None and lexemes[opener].text in ("[", "[?")
        return [Candidate("]", "sign", "sign", start=len(text))] if closes else []
    begun = last.text if touches and last.kind == "word" else ""
    start, at = len(text) - len(begun), end - bool(begun)
    if lexemes[at - 1].text in (".", ".?"):
        offers = members(around, lexemes, at)
    else:
        offers = _words(around, text[:start], lexemes, at, starts)
    return _matching(offers, begun, start)


_NUMBER = re.compile(r"(?<!\w)\d[\w.]*%?\Z")
_EMPTY = ('""', "''")


def _open_quote(lexemes: Lexemes) -> int | None:
    """The quote of a string without an end: one of the last line, or of several lines."""
    line = lexemes.text.rfind("\n") + 1
    for at, item in enumerate(lexemes.items):
        is_triple = lexemes.touches(at) and lexemes[at - 1].text in _EMPTY
        if item.text in ('"', "'") and (is_triple or item.start >= line):
            return at
    return None


def _matching(offers: Iterable[Candidate], begun: str, start: int) -> list[Candidate]:
    """The candidates that continue what is begun, each once."""
    fitting = (each for each in offers if each.text.startswith(begun) and each.text != begun)
    found = {each.text: each for each in reversed([*fitting])}
    return [
        replace(each, start=start, note=each.note or each.kind) for each in reversed(found.values())
    ]


def members(around: Surroundings, lexemes: Lexemes, end: int) -> Iterator[Candidate]:
    """The fields, keys and functions of the operand before the dot before a position."""
    environment, _ = macro_variables(lexemes, end, around.environment)
    operand = last_operand(lexemes, end - 1)
    if operand == "data" and lexemes[end - 1].text == ".":
        for name, data in environment.tables.items():
            note = str(environment.variables[name])
            about = f"`{cut(print_data(data), _LONGEST)}`"
            yield Candidate(f"{data.name}[", "field", note, about, f"{name}: {note}")
    # A function with a dot in its name, such as `sets.contains`.
    for name in sorted(environment.function_names(member=False)):
        if name.startswith(f"{operand}."):
            offer = _function(environment, name)
            yield replace(offer, text=offer.text.removeprefix(f"{operand}."))
    type_ = type_of(operand, environment)
    if type_ is None or type_ in (DYN, POISON):
        return
    schema = environment.schema
    record = schema.records.get(type_.name) if schema is not None else None
    for field in record.fields.values() if record is not None else ():
        text = f"{field.name}[" if field.parameter else field.name
        heading = f"{operand}.{field_name(field)}: {field.type}"
        yield Candidate(text, "field", str(field.type), _sentences(field, operand), heading)
    if type_.name == "map":
        keys = around.samples.keys(operand)
        yield from (Candidate(key, "key") for key in keys if key.isidentifier())
    for name in sorted({*_member_functions(environment, type_)}):
        yield _function(environment, name, type_)


def _function(environment: Environment, name: str, of: Type | None = None) -> Candidate:
    """A function, or a function of the values of a type, with each way to call it."""
    overloads = environment.overloads(name, member=of is not None)
    fitting = [o for o in overloads if of is None or agrees(o.params[0], of)]
    # Authors of added functions say what these do.
    docs = dict.fromkeys(each.doc for each in fitting if each.doc)
    heading = "\n".join(dict.fromkeys(map(_signature, fitting)))
    return Candidate(f"{name}(", "function", "", "\n".join(docs), heading)


def _strings(around: Surroundings, lexemes: Lexemes, at: int) -> Iterator[Candidate]:
    """Keys after a bracket, values after a comparison, policies after `use`, behind a quote."""
    sign, quote = lexemes[at - 1].text, lexemes[at].text
    found: Iterable[str] = ()
    if sign in ("[", "[?") and (operand := last_operand(lexemes, at - 1)):
        found = around.samples.keys(operand)
    elif sign in ("==", "!="):
        found = around.samples.values(last_operand(lexemes, at - 1))
    elif sign in ("[", ",") and (left := _left_of_list(lexemes, at)):
        found = around.samples.values(left)
    elif sign == "use":
        for name, policy in sorted(around.policies.items()):
            if quote not in name:
                about = str(policy.setting("description", ""))
                yield Candidate(f"{name}{quote}", "policy", "text", about)
    for text in found:
        if "\n" not in text and quote not in text and "\\" not in text:
            yield Candidate(f"{text}{quote}", "text")


def _left_of_list(lexemes: Lexemes, at: int) -> str:
    """The operand before `in [`, followed by any number of strings."""
    while lexemes[at - 1].text == "," or lexemes[at - 1].kind == "string":
        at -= 1
    is_list = lexemes[at - 1].text == "[" and lexemes[at - 2].text == "in"
    return last_operand(lexemes, at - 2) if is_list else ""


def _words(
    around: Surroundings, code: str, lexemes: Lexemes, end: int, starts: Sequence[Start]
) -> Iterator[Candidate]:
    """The words that the grammar accepts, and names where an expression can start."""
    sets = [accepts(code, start) for start in starts]
    if code.strip() and any(sets[1:]):
        sets[0] = set()  # a text that can be a clause is not an expression that starts like one
    accepted, before = set[str]().union(*sets), lexemes[end - 1].text
    if "AMOUNT" in accepted and "NOT" not in accepted:
        yield from (Candidate(text, "word", "length of time") for text in ("30s", "1m", "5m"))
    if not accepted.isdisjoint({"NAME", "IDENT"}):
        yield from (Candidate(word, "word") for word in _CHOICES.get(before, ()))
    if before in ("per", "over", "within", "used", "empty"):
        places = dict.fromkeys(("node", "cluster", *EVERYWHERE, *around.environment.groups))
        yield from (Candidate(name, "name") for name in places)
    elif "IDENT" in accepted and "NOT" in accepted:
        environment = macro_variables(lexemes, end, around.environment)[0]
        if _is_about_object(lexemes, end):
            yield Candidate(OBJECT, "name", str(DYN), "The object that a row is made of.")
            yield from _functions(environment)
        else:
            yield from names(environment)
    elif "IDENT" in accepted and before == ":":
        schema = around.environment.schema
        records = schema.records if schema is not None else ()
        yield from (Candidate(n, "type") for n in (*map(str, DECLARED), "list(", "map(", *records))
    elif "IDENT" in accepted:
        yield from _parameters(around, lexemes, end)
    yield from (Candidate(w, "word") for t, w in sorted(keywords().items()) if t in accepted)


def used_policy(lexemes: Lexemes, end: int) -> str | None:
    """The name in `use "NAME" (` if its parenthesis is the innermost one that is open there."""
    opener = lexemes.opener(end)
    if opener is None or lexemes[opener].text != "(":
        return None
    named = lexemes[opener - 1]
    is_use = named.kind == "string" and lexemes[opener - 2].text == "use"
    return named.text.strip("\"'") if is_use else None


def _parameters(around: Surroundings, lexemes: Lexemes, end: int) -> Iterator[Candidate]:
    """The parameters of the policy that `use "NAME" (` names, without the ones that are set."""
    policy = around.policies.get(used_policy(lexemes, end) or "")
    if policy is None:
        return
    given = {item.text for item in lexemes.items[lexemes.opener(end) : end]}
    for parameter in policy.parameters:
        if parameter.name not in given:
            note, about = str(parameter.type), print_parameter(parameter)
            yield Candidate(f"{parameter.name}: ", "name", note, about)


def names(environment: Environment) -> Iterator[Candidate]:
    own = [n for n in environment.variables if n not in VARIABLES and n not in environment.tables]
    yield from (Candidate(name, "name", str(environment.variables[name])) for name in own)
    yield from (Candidate(name, "name", str(v.type)) for name, v in environment.lets.items())
    yield from (
        Candidate(f"{name}(", "function", str(its.result)) for name, its in environment.defs.items()
    )
    for name, type_ in VARIABLES.items():
        what = VARIABLE_MEANINGS[name]
        about = f"{what[0].upper()}{what[1:]}.\nCan be read in: {READ_IN[name]}."
        yield Candidate(name, "name", str(type_), about, f"{name}: {type_}")
    if environment.tables:
        yield Candidate("data", "name", "tables", "The tables of data of the policy.")
    yield from _functions(environment)


def _is_about_object(lexemes: Lexemes, end: int) -> bool:
    """Whether an expression before a position is in a block of data `from objects`."""
    for start in lexemes.around(end):
        if lexemes[start - 2].text == "data" and lexemes[start - 1].kind == "string":
            return any(item.text == "objects" for item in lexemes.items[start:end])
    return False


def _functions(environment: Environment) -> Iterator[Candidate]:
    yield Candidate("has(", "function", "", "Whether a field or a key exists.")
    for name in sorted(environment.function_names(member=False)):
        yield _function(environment, name)


# The meaning of each variable.
VARIABLE_MEANINGS = {
    "pod": "the pod that kube-scheduler asks about",
    "node": "a candidate node",
    "peer": "another pod that a clause may count",
    "victim": "a pod that may be evicted",
    "victims": "the pods that may be evicted together",
    "namespaceObject": "the pod's namespace",
    "now": "the time of the request",
}
# The longest text of a data block that is shown.
_LONGEST = 400
_SELF = re.compile(r"\bself\b")
# The value that an absent field has, by its type; others are empty.
_ABSENT = {
    "bool": "false",
    **dict.fromkeys(("int", "double", "quantity", "dyn"), "0"),
    "string": '""',
    "timestamp": "year 1",
}


def field_name(field: Field) -> str:
    return f"{field.name}[{field.parameter}]" if field.parameter else field.name


def about_field(field: Field, owner: str) -> list[str]:
    """The documentation of a field, and its expression over the text `owner`."""
    note = ""
    if field.derived is not None:
        note = f"= {_SELF.sub(lambda _: owner, field.derived)}"
    elif field.native and not field.doc.startswith(COLUMN_OF):
        note = "computed by the engine"
    return [text for text in (field.doc, note) if text]


def _sentences(field: Field, owner: str) -> str:
    """What is said of a field, with code in backticks."""
    about = [f"`{text}`" if text.startswith("=") else text for text in about_field(field, owner)]
    default = absent(field)
    return "\n".join([*about, f"If absent: {default}."] if default else about)


def absent(field: Field) -> str:
    """The value of a field that the object does not have; empty for a short form."""
    if field.derived is not None:
        return ""
    if field.optional:
        return "missing"
    return _ABSENT.get(field.type.name, "empty")


def _signature(overload: Overload) -> str:
    """How a function is called: `string.startsWith(string): bool`."""
    params = [_plain(p) for p in overload.params]
    receiver = f"{params.pop(0)}." if overload.member else ""
    return f"{receiver}{overload.name}({', '.join(params)}): {_plain(overload.result)}"


def _plain(type_: Type) -> str:
    """A type without the brackets of type variables: `list(A)`."""
    return str(type_).replace("<", "").replace(">", "")
