"""Meaning: what a name in a document stands for, in words, and where it is defined."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from grammar.checker.policy_checker import VARIABLES
from grammar.syntax.parser import accepts, keywords
from grammar.tree.clauses import Def, Let, Policy
from grammar.tree.groups import Count, Group
from grammar.tree.printer import print_parameter
from grammar.tree.source import Source, Span
from grammar.tree.types import Type, agrees
from policies.editor.completion import (
    VARIABLE_MEANINGS,
    Samples,
    about_field,
    absent,
    docs,
    head_of_data,
    head_of_def,
    macro_variables,
    signatures,
    type_of,
    used_policy,
)
from policies.editor.edited_text import EditedDocument, Knowledge, hole, knowledge
from policies.editor.tokens import ColouredToken, last_operand, significant, tokens
from policies.manifest_text import is_manifest

# The most values of a cluster, and the longest text of a `let`, that are shown.
_MOST_VALUES, _LONGEST = 5, 400


@dataclass(frozen=True, slots=True)
class Definition:
    """The place where a name is defined."""

    source: Source
    span: Span


@dataclass(frozen=True, slots=True)
class Meaning:
    """What the name at `span` stands for.

    `heading` has lines of the language, such as `node.zone: string`; `about` has sentences, with
    code in backticks. `definition` is None for what no policy defines.
    """

    span: Span
    heading: str
    about: Sequence[str] = ()
    definition: Definition | None = None


@dataclass(frozen=True, slots=True)
class _Cursor:
    """A word or string of a document, with what is before and after it in its item."""

    token: ColouredToken
    before: Sequence[ColouredToken]
    after: Sequence[ColouredToken]
    code: str
    known: Knowledge

    @property
    def span(self) -> Span:
        return Span(self.token.start, self.token.start + len(self.token.text))

    @property
    def next(self) -> str:
        return self.after[0].text if self.after else ""

    @property
    def previous(self) -> str:
        return self.before[-1].text if self.before else ""


def meaning(document: EditedDocument, offset: int, samples: Samples) -> Meaning | None:
    """The meaning of the name at an offset; None if nothing is known of it."""
    cursor = None if is_manifest(document.source.name) else _cursor(document, offset)
    if cursor is None:
        return None
    if cursor.token.kind == "string":
        return _of_string(document, cursor, samples)
    if cursor.previous in (".", ".?"):
        return _of_member(document.source, cursor, samples)
    if cursor.next == ":" and (used := used_policy(cursor.before)) is not None:
        return _of_argument(document, cursor, used)
    if _is_keyword(cursor):
        return None
    return _of_name(document, cursor)


def _cursor(document: EditedDocument, offset: int) -> _Cursor | None:
    text = document.source.text
    found = [t for t in tokens(text) if t.start <= offset <= t.start + len(t.text)]
    token = next((t for t in reversed(found) if t.kind in ("word", "string")), None)
    if token is None:
        return None
    known = knowledge(document, token.start)
    start = known.place.item.start
    before = significant(_tokens(text, Span(start, token.start)))
    after = Span(token.start + len(token.text), len(text))
    if (inside := hole(token, before, offset)) is not None:
        found = _tokens(text, inside)
        words = (t for t in found if t.kind in ("word", "string"))
        around = (t for t in words if t.start <= offset <= t.start + len(t.text))
        if (token := next(around, None)) is None:
            return None
        start = inside.start
        before = significant(_tokens(text, Span(start, token.start)))
        after = Span(token.start + len(token.text), inside.end)
        return _Cursor(token, before, significant(_tokens(text, after)), "", known)
    code = known.place.code(text)
    # A scope needs a few tokens after the word only.
    following = significant(_tokens(text, Span(after.start, min(after.start + 200, after.end))))
    return _Cursor(token, before, following, code, known)


def _tokens(text: str, span: Span) -> list[ColouredToken]:
    """The tokens of a part of a text, with their offsets in the whole text."""
    found = tokens(text[span.start : span.end])
    return [replace(token, start=token.start + span.start) for token in found]


def _is_keyword(cursor: _Cursor) -> bool:
    """Whether the word is one of clauses here; elsewhere the same word may be a name."""
    terminals = {word: terminal for terminal, word in keywords().items()}
    terminal = terminals.get(cursor.token.text)
    return terminal is not None and bool(cursor.code) and terminal in accepts(cursor.code)


# ---- strings: policies and keys


def _of_string(document: EditedDocument, cursor: _Cursor, samples: Samples) -> Meaning | None:
    text = cursor.token.text
    if cursor.previous == "use":
        found = document.policies.get(text.strip("\"'"))
        if found is None:
            return None
        policy = found.policy
        definition = Definition(found.source, policy.name_span)
        return Meaning(cursor.span, _head(policy), _description(policy), definition)
    if cursor.previous in ("[", "[?"):
        operand = f"{last_operand(cursor.before[:-1])}[{text}]"
        environment, _ = macro_variables(cursor.before, cursor.known.environment)
        type_ = type_of(operand, environment)
        if type_ is not None and type_.name != "error":
            return Meaning(cursor.span, f"{operand}: {type_}", _values(operand, type_, samples))
    return None


def _head(policy: Policy) -> str:
    kind = "cluster policy" if policy.cluster else "policy"
    parameters = ", ".join(map(print_parameter, policy.parameters))
    return f"{kind} {policy.address}{f'({parameters})' if parameters else ''}"


def _description(policy: Policy) -> Sequence[str]:
    text = str(policy.setting("description", ""))
    return (text,) if text else ()


def _values(operand: str, type_: Type, samples: Samples) -> Sequence[str]:
    """A sentence with the most frequent values in the cluster, if that is known."""
    found = samples.values(operand) if type_.name in ("string", "dyn") else ()
    shown = [f"`{value}`" for value in found[:_MOST_VALUES]]
    more = len(found) - len(shown)
    ending = f" and {more} more" if more > 0 else ""
    return (f"In the cluster: {', '.join(shown)}{ending}.",) if shown else ()


# ---- fields, functions, arguments


def _of_member(source: Source, cursor: _Cursor, samples: Samples) -> Meaning | None:
    name = cursor.token.text
    environment, _ = macro_variables(cursor.before, cursor.known.environment)
    operand = last_operand(cursor.before[:-1])
    if (data := environment.tables.get(f"{operand}.{name}")) is not None:
        definition = Definition(source, data.name_span)
        heading = f"{data.variable}: {environment.variables[data.variable]}"
        return Meaning(cursor.span, heading, (f"`{head_of_data(data)}`",), definition)
    if cursor.next == "(" and (its := environment.overloads(f"{operand}.{name}", member=False)):
        return Meaning(cursor.span, "\n".join(signatures(its)), tuple(docs(its)))
    type_ = type_of(operand, environment)
    if type_ is None:
        return None
    if cursor.next == "(":
        overloads = environment.overloads(name, member=True)
        fitting = [o for o in overloads if agrees(o.params[0], type_)]
        return Meaning(cursor.span, "\n".join(signatures(fitting))) if fitting else None
    whole = f"{operand}.{name}"
    field = environment.field(type_, name)
    if field is None:
        kind = type_.args[1] if type_.name == "map" else None
        about = _values(whole, kind, samples) if kind is not None else ()
        return Meaning(cursor.span, f"{whole}: {kind}", about) if kind is not None else None
    shown = f"{whole}[{field.parameter}]" if field.parameter else whole
    default = absent(field)
    sentences = [
        *(f"`{text}`" if text.startswith("=") else text for text in about_field(field, operand)),
        *([f"If absent: {default}."] if default else []),
        *(_values(whole, field.type, samples) if not field.parameter else ()),
    ]
    return Meaning(cursor.span, f"{shown}: {field.type}", sentences)


def _of_argument(document: EditedDocument, cursor: _Cursor, used: str) -> Meaning | None:
    found = document.policies.get(used)
    for parameter in found.policy.parameters if found is not None else ():
        if found is not None and parameter.name == cursor.token.text:
            definition = Definition(found.source, parameter.name_span)
            return Meaning(cursor.span, print_parameter(parameter), (), definition)
    return None


# ---- names


def _of_name(document: EditedDocument, cursor: _Cursor) -> Meaning | None:
    """Inner names hide outer ones: variables of macros, parameters, `let` and `def`, variables."""
    name, span, source = cursor.token.text, cursor.span, document.source
    known = cursor.known
    # The word itself may be the variable that a macro declares.
    code = [*cursor.before, cursor.token, *_declaring(cursor.after)]
    _, variables = macro_variables(code, known.environment)
    if (variable := variables.get(name)) is not None:
        heading = f"{name}: {variable.type}"
        return Meaning(span, heading, (), Definition(source, variable.span))
    for parameter in reversed(known.parameters):
        if parameter.name == name:
            definition = Definition(source, parameter.name_span)
            return Meaning(span, print_parameter(parameter), (), definition)
    if known.checked is not None and (found := _defined(document, known, name, span)) is not None:
        return found
    if name in VARIABLES:
        what, where = VARIABLE_MEANINGS[name]
        about = (f"{what[0].upper()}{what[1:]}.", f"Can be read in: {where}.")
        return Meaning(span, f"{name}: {VARIABLES[name]}", about)
    overloads = known.environment.overloads(name, member=False) if cursor.next == "(" else []
    return Meaning(span, "\n".join(signatures(overloads))) if overloads else None


def _declaring(after: Sequence[ColouredToken]) -> Iterator[ColouredToken]:
    """The tokens that end the declaration of a macro's variables: `, item,`."""
    for wanted, token in zip(("", "word", ""), after, strict=False):
        if wanted == "word" and token.kind != "word":
            return
        if wanted == "" and token.text != ",":
            return
        yield token


def _defined(document: EditedDocument, known: Knowledge, name: str, span: Span) -> Meaning | None:
    assert known.checked is not None, "the policy could be read"
    source = document.source
    for item in known.checked.policy.items:
        if isinstance(item, Let) and item.name == name:
            text = source.slice(item.value.span)
            shown = text if len(text) <= _LONGEST else f"{text[:_LONGEST]} ..."
            heading = f"let {name}: {item.value.type} = {shown}"
            return Meaning(span, heading, (), Definition(source, item.name_span))
        if isinstance(item, Def) and item.name == name:
            return Meaning(span, head_of_def(item), (), Definition(source, item.name_span))
        if isinstance(item, Group) and item.name == name:
            heading = f"group {name} by {source.slice(item.by.span)}"
            return Meaning(span, heading, (), Definition(source, item.name_span))
        if isinstance(item, Count) and item.name == name:
            heading = source.slice(item.span)
            return Meaning(span, heading, (), Definition(source, item.name_span))
    return None
