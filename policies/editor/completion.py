"""Completion: the texts that can stand at the end of an unfinished text.

Fields and functions by the type of the operand before a dot, keys and values as a cluster has them,
policies and their parameters after `use`, and the words that the grammar accepts. Variables of
macros count as far as their lists are known, and each field and function has its description.

The parser's own lexer needs a text without errors; the tokens here are pieces of any text.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal as OneOf
from typing import cast, get_args

from grammar.checker.declarations import OBJECT
from grammar.checker.expression_checker import Checker
from grammar.checker.policy_checker import READ_IN, VARIABLES
from grammar.clauses.parts import EVERYWHERE
from grammar.meaning.environment import Environment, variables_of_macro
from grammar.meaning.schema import Field
from grammar.messages.texts import cut
from grammar.syntax.expression_builder import MACRO_VARIABLES
from grammar.syntax.formatter import print_data, print_parameter
from grammar.syntax.parser import accepts, keywords, parse_expression, scan
from grammar.tree.clause_parts import NodeSet, Order
from grammar.tree.policy import COLUMN_OF, Policy
from grammar.tree.source import Source, Span
from grammar.tree.types import DECLARED, DYN, POISON, Overload, Type, agrees

Kind = OneOf["space", "comment", "string", "number", "word", "sign"]

# A string without an end goes to the end of its line, with triple quotes to the end of the text.
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
OPENING, CLOSING = ("(", "[", "[?", "{"), (")", "]", "}")


@dataclass(frozen=True, slots=True)
class EditedToken:
    """A token of a text, which starts at offset `start`."""

    kind: Kind
    text: str
    start: int

    @property
    def span(self) -> Span:
        return Span(self.start, self.start + len(self.text))

    @property
    def quote(self) -> str:
        """The quotes at the start of a string."""
        bare = self.text.lstrip("rRbB")
        return next(q for q in _QUOTES if bare.startswith(q))

    @property
    def is_open(self) -> bool:
        """Whether it is a string without an end."""
        if self.kind != "string":
            return False
        inside = self.text.lstrip("rRbB").removeprefix(self.quote)
        if not inside.endswith(self.quote):
            return True
        bare = inside.removesuffix(self.quote)
        escapes = len(bare) - len(bare.rstrip("\\"))
        return escapes % 2 == 1 and self.text[0] not in "rR"


def tokens(text: str) -> list[EditedToken]:
    """All tokens of a text; joined, they are the text."""
    found = _TOKEN.finditer(text)
    return [EditedToken(cast("Kind", m.lastgroup), m.group(), m.start()) for m in found]


def last_operand(before: Sequence[EditedToken]) -> str:
    """The operand at the end of the tokens, as `a.b["c"].d()`; empty if there is none."""
    _, opening_of = _brackets(before)
    start = at = len(before)
    while at:
        last = before[at - 1]
        if last.text in (")", "]") and at - 1 in opening_of:
            start = at = opening_of[at - 1]
            # A called or indexed operand stands directly before; parentheses may stand alone.
            if at and (before[at - 1].kind == "word" or before[at - 1].text in (")", "]")):
                continue
        elif last.kind == "word":
            start = at = at - 1
        else:
            break
        if not at or before[at - 1].text not in (".", ".?"):
            break
        at -= 1
    return "".join(token.text for token in before[start:])


def _brackets(code: Sequence[EditedToken]) -> tuple[list[int], Mapping[int, int]]:
    """The opening brackets that no other closes, outermost first; and that of each closing one."""
    opened, opening_of = list[int](), dict[int, int]()
    for index, token in enumerate(code):
        if token.text in OPENING:
            opened.append(index)
        elif token.text in CLOSING and opened:
            opening_of[index] = opened.pop()
    return opened, opening_of


def open_brackets(code: Sequence[EditedToken]) -> list[int]:
    return _brackets(code)[0]


def significant(found: Sequence[EditedToken]) -> list[EditedToken]:
    """The tokens without spaces and comments."""
    return [token for token in found if token.kind not in ("space", "comment")]


# The most variables of each macro. With two, the first one is a key or an index.
_MACROS: Mapping[str, int] = {name: n for (name, _), n in sorted(MACRO_VARIABLES.items())}


def macro_variables(
    code: Sequence[EditedToken], environment: Environment
) -> tuple[Environment, Mapping[str, Span]]:
    """The environment with the variables of macros that are open at the end of some tokens.

    `code` are tokens without spaces and comments. An inner variable hides an outer one. The spans
    say where each variable is declared.
    """
    found: dict[str, Span] = {}
    for index in open_brackets(code):
        # `operand . macro ( variable ,`
        if code[index].text != "(" or index < 3 or code[index - 2].text != ".":
            continue
        macro, named = code[index - 1].text, _named(code[index + 1 :])
        target = type_of(last_operand(code[: index - 2]), environment)
        if macro not in _MACROS or not named or target is None:
            continue
        types = variables_of_macro(macro, target, min(len(named), _MACROS[macro]))
        for token, type_ in zip(named, types or (), strict=False):
            found[token.text] = token.span
            known = {**environment.variables, token.text: type_}
            environment = replace(environment, variables=known)
    return environment, found


def _named(code: Sequence[EditedToken]) -> list[EditedToken]:
    """The words at the start of some tokens, each with a comma after it."""
    found: list[EditedToken] = []
    for word, comma in zip(code[::2], code[1::2], strict=False):
        if word.kind != "word" or comma.text != ",":
            break
        found.append(word)
    return found


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
    found = tokens(text)
    last = found[-1] if found else None
    if last is not None and last.kind in ("comment", "number"):
        return []
    before = significant(found)
    if last is not None and last.is_open:
        inside = last.start + last.text.index(last.quote) + len(last.quote)
        return _matching(_strings(around, before[:-1], last.quote), text[inside:], inside)
    if last is not None and (last.kind == "string" or last.text in CLOSING):
        # A word that follows without a space would not be a word of its own.
        opened = open_brackets(before) if last.kind == "string" else []
        closes = opened and before[opened[-1]].text in ("[", "[?")
        return [Candidate("]", "sign", "sign", start=len(text))] if closes else []
    begun = ""
    if last is not None and last.kind == "word":
        begun, before = last.text, before[:-1]
    start = len(text) - len(begun)
    if before and before[-1].text in (".", ".?"):
        offers = members(around, before)
    else:
        offers = _words(around, text[:start], before, starts)
    return _matching(offers, begun, start)


def _matching(offers: Iterable[Candidate], begun: str, start: int) -> list[Candidate]:
    """The candidates that continue what is begun, each once."""
    fitting = (each for each in offers if each.text.startswith(begun) and each.text != begun)
    found = {each.text: each for each in reversed([*fitting])}
    return [
        replace(each, start=start, note=each.note or each.kind) for each in reversed(found.values())
    ]


def members(around: Surroundings, before: Sequence[EditedToken]) -> Iterator[Candidate]:
    """The fields, keys and functions of the operand before the dot that ends the tokens."""
    environment, _ = macro_variables(before, around.environment)
    operand = last_operand(before[:-1])
    if operand == "data" and before[-1].text == ".":
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


def _strings(
    around: Surroundings, before: Sequence[EditedToken], quote: str
) -> Iterator[Candidate]:
    """Keys after a bracket, values after a comparison, policies after `use`."""
    if not before:
        return
    sign, rest = before[-1].text, before[:-1]
    found: Iterable[str] = ()
    if sign in ("[", "[?") and (operand := last_operand(rest)):
        found = around.samples.keys(operand)
    elif sign in ("==", "!="):
        found = around.samples.values(last_operand(rest))
    elif sign in ("[", ",") and (left := _left_of_list(before)):
        found = around.samples.values(left)
    elif sign == "use":
        for name, policy in sorted(around.policies.items()):
            if quote not in name:
                about = str(policy.setting("description", ""))
                yield Candidate(f"{name}{quote}", "policy", "text", about)
    for text in found:
        if "\n" not in text and quote not in text and "\\" not in text:
            yield Candidate(f"{text}{quote}", "text")


def _left_of_list(before: Sequence[EditedToken]) -> str:
    """The operand before `in [`, followed by any number of strings."""
    left = list(before)
    while left and (left[-1].text == "," or left[-1].kind == "string"):
        left.pop()
    if len(left) > 1 and left[-1].text == "[" and left[-2].text == "in":
        return last_operand(left[:-2])
    return ""


def _words(
    around: Surroundings, code: str, before: Sequence[EditedToken], starts: Sequence[Start]
) -> Iterator[Candidate]:
    """The words that the grammar accepts, and names where an expression can start."""
    sets = [accepts(code, start) for start in starts]
    if code.strip() and any(sets[1:]):
        sets[0] = set()  # a text that can be a clause is not an expression that starts like one
    accepted = set[str]().union(*sets)
    if "AMOUNT" in accepted and "NOT" not in accepted:
        yield from (Candidate(text, "word", "length of time") for text in ("30s", "1m", "5m"))
    if before and not accepted.isdisjoint({"NAME", "IDENT"}):
        yield from (Candidate(word, "word") for word in _CHOICES.get(before[-1].text, ()))
    if before and before[-1].text in ("per", "over", "within", "used", "empty"):
        places = dict.fromkeys(("node", "cluster", *EVERYWHERE, *around.environment.groups))
        yield from (Candidate(name, "name") for name in places)
    elif "IDENT" in accepted and "NOT" in accepted:
        environment = macro_variables(before, around.environment)[0]
        if _is_about_object(before):
            yield Candidate(OBJECT, "name", str(DYN), "The object that a row is made of.")
            yield from _functions(environment)
        else:
            yield from names(environment)
    elif "IDENT" in accepted and before and before[-1].text == ":":
        schema = around.environment.schema
        records = schema.records if schema is not None else ()
        yield from (Candidate(n, "type") for n in (*map(str, DECLARED), "list(", "map(", *records))
    elif "IDENT" in accepted:
        yield from _parameters(around, before)
    yield from (Candidate(w, "word") for t, w in sorted(keywords().items()) if t in accepted)


def used_policy(code: Sequence[EditedToken]) -> str | None:
    """The name in `use "NAME" (` if its parenthesis is the innermost that is open at the end."""
    opened = open_brackets(code)
    if not opened or opened[-1] < 2 or code[opened[-1]].text != "(":
        return None
    named = code[opened[-1] - 1]
    is_use = named.kind == "string" and code[opened[-1] - 2].text == "use"
    return named.text.strip("\"'") if is_use else None


def _parameters(around: Surroundings, before: Sequence[EditedToken]) -> Iterator[Candidate]:
    """The parameters of the policy that `use "NAME" (` names, without the ones that are set."""
    policy = around.policies.get(used_policy(before) or "")
    if policy is None:
        return
    given = {token.text for token in before[open_brackets(before)[-1] :]}
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


def _is_about_object(code: Sequence[EditedToken]) -> bool:
    """Whether an expression at the end is in a block of data `from objects`."""
    for start in open_brackets(code):
        head = code[max(0, start - 2) : start]
        if len(head) == 2 and head[0].text == "data" and head[1].kind == "string":
            return any(token.text == "objects" for token in code[start:])
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
    return [text for text in (field.doc, _note(field, owner)) if text]


def _sentences(field: Field, owner: str) -> str:
    """What is said of a field, with code in backticks."""
    about = [f"`{text}`" if text.startswith("=") else text for text in about_field(field, owner)]
    default = absent(field)
    return "\n".join([*about, f"If absent: {default}."] if default else about)


def _note(field: Field, owner: str) -> str:
    if field.derived is not None:
        return f"= {_SELF.sub(lambda _: owner, field.derived)}"
    is_computed = field.native and not field.doc.startswith(COLUMN_OF)
    return "computed by the engine" if is_computed else ""


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
