"""Edited text: a document that somebody writes, as it was checked, with its knowledge by offset.

It is made anew for each version of the text, and has all that completion, hovers and definitions
need. A part with errors is not in the checked file; what is around it still is. A name is told in
the words of completion: what a field, a function or a variable stands for, and where it is defined.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache

from grammar.checker.policy_checker import VARIABLES, Checked
from grammar.meaning.environment import Environment
from grammar.meaning.schema import Schema
from grammar.messages.diagnostics import Diagnostic, Fix
from grammar.messages.texts import cut
from grammar.syntax.formatter import print_parameter
from grammar.syntax.parser import (
    Lexeme,
    Lexemes,
    OffsetContext,
    accepts,
    keywords,
    parse_file,
    parse_rules,
    place,
)
from grammar.tree.policy import Count, Def, Group, Let, Parameter, Policy
from grammar.tree.source import Source, Span
from policies.editor import completion
from policies.editor.completion import (
    Candidate,
    Samples,
    Surroundings,
    last_operand,
    macro_variables,
    members,
    names,
    type_of,
    used_policy,
)
from policies.loader import is_manifest, parsed_library
from policies.validation import LIBRARY, CheckedFile, Validation


@dataclass(frozen=True, slots=True)
class EditedDocument:
    """A checked document, and the policies by name that a `use` in it can name."""

    file: CheckedFile
    policies: Mapping[str, Usable]
    schema: Schema

    @property
    def source(self) -> Source:
        return self.file.source

    def edit(self, found: Diagnostic) -> Fix | None:
        """What the hint of a diagnostic describes, if that can be written into the text."""
        return found.fix if is_manifest(self.source.name) else found.fix or found.remedy


def document(name: str, validation: Validation, schema: Schema) -> EditedDocument | None:
    """The document of this name among files that were checked together."""
    found = next((file for file in validation.files if file.source.name == name), None)
    return None if found is None else EditedDocument(found, usable(validation.files), schema)


@dataclass(frozen=True, slots=True)
class Knowledge:
    """What is known at a place: its names, its policy if that could be read, and parameters.

    `parameters` are the parameters of the policy and of the `def` around the place.
    """

    place: OffsetContext
    environment: Environment
    checked: Checked | None
    parameters: Sequence[Parameter]


def knowledge(document: EditedDocument, offset: int) -> Knowledge:
    text = document.source.text
    at = place(text, offset)
    start = at.head.start
    policies = [] if at.head == Span(start, start) else document.file.policies
    checked = next((c for c in policies if c.policy.span.start == start), None)
    bare = Environment(VARIABLES, schema=document.schema, uniform_literals=True)
    environment = checked.environment if checked is not None else bare
    parameters = [*_parameters(text, at)]
    known = {**environment.variables, **{p.name: p.type for p in parameters}}
    return Knowledge(at, replace(environment, variables=known), checked, parameters)


def _parameters(text: str, at: OffsetContext) -> Iterator[Parameter]:
    """Those of the policy and of the `def`, of which nothing but the heads needs to be written."""
    # Spaces before a head keep its places.
    head = " " * at.head.start + text[at.head.start : at.head.end]
    file, _ = parse_file(Source("", f"{head}}}" if head.endswith("{") else f"{head}{{}}"))
    yield from (p for policy in file.policies for p in policy.parameters)
    if text.startswith("def", at.item.start):
        lexemes = Lexemes(text[at.item.start :]).items
        body = next((item.start for item in lexemes if item.text == "="), None)
        head = " " * at.item.start + text[at.item.start :][:body]
        items, _ = parse_rules(Source("", f"{head}= null"))
        yield from (p for item in items if isinstance(item, Def) for p in item.parameters)


def complete(document: EditedDocument, offset: int, samples: Samples) -> list[Candidate]:
    """What can stand at an offset; nothing in a manifest."""
    if is_manifest(document.source.name):
        return []
    text = document.source.text
    known = knowledge(document, offset)
    policies = {name: each.policy for name, each in document.policies.items()}
    around = Surroundings(known.environment, policies, samples)
    code = known.place.code(text)
    moved = offset - len(code)
    return [
        replace(c, start=c.start + moved, text=_without_end(c.text, text[offset : offset + 1]))
        for c in completion.complete(around, code, ["file"])
    ]


def _without_end(text: str, next_: str) -> str:
    """A candidate without the quote or bracket that the editor wrote already."""
    return text[:-1] if next_ and next_ in "\"'([]" and text.endswith(next_) else text


# ---- the policies that a use can name


@dataclass(frozen=True, slots=True)
class Usable:
    """A usable policy as it is written, and its text."""

    policy: Policy
    source: Source


def usable(files: Iterable[CheckedFile]) -> Mapping[str, Usable]:
    """The policies of some files by address, and those of the library with its prefix."""
    found = dict(_library())
    for file in files:
        for checked in () if file.private else file.policies:
            policy = checked.template or checked.policy
            found.setdefault(policy.address, Usable(policy, file.source))
    return found


@cache
def _library() -> Mapping[str, Usable]:
    """The policies that come with Placet; these files do not change."""
    return {
        LIBRARY + policy.name: Usable(policy, source)
        for source, file, _ in parsed_library()
        for policy in file.policies
    }


# The most values of a cluster, and the longest text of a `let`, that are shown.
_MOST_VALUES, _LONGEST = 5, 400


@dataclass(frozen=True, slots=True)
class Meaning:
    """The meaning of the name at `span`.

    `heading` has lines of the language, such as `node.zone: string`; `about` has sentences, with
    code in backticks. `definition` is the place; None for what no policy defines.
    """

    span: Span
    heading: str
    about: Sequence[str] = ()
    definition: tuple[Source, Span] | None = None


@dataclass(frozen=True, slots=True)
class _Cursor:
    """A cursor: a word or string of a document, at a position among the lexemes of its item.

    `code` is the item up to the word.
    """

    lexemes: Lexemes
    at: int
    code: str
    known: Knowledge

    @property
    def token(self) -> Lexeme:
        return self.lexemes[self.at]

    @property
    def span(self) -> Span:
        return self.lexemes.span(self.at, self.at)

    @property
    def next(self) -> str:
        return self.lexemes[self.at + 1].text

    @property
    def previous(self) -> str:
        return self.lexemes[self.at - 1].text


def meaning(document: EditedDocument, offset: int, samples: Samples) -> Meaning | None:
    """The meaning of the name at an offset; None if nothing is known of it."""
    cursor = None if is_manifest(document.source.name) else _cursor(document, offset)
    if cursor is None:
        return None
    if cursor.token.kind == "string":
        return _of_string(document, cursor, samples)
    if cursor.previous in (".", ".?"):
        return _of_member(document.source, cursor, samples)
    if cursor.next == ":" and (used := used_policy(cursor.lexemes, cursor.at)) is not None:
        found = document.policies.get(used)
        for parameter in found.policy.parameters if found is not None else ():
            if found is not None and parameter.name == cursor.token.text:
                place = found.source, parameter.name_span
                return Meaning(cursor.span, print_parameter(parameter), (), place)
        return None
    # A word of clauses elsewhere may be a name here.
    terminal = next((t for t, word in keywords().items() if word == cursor.token.text), None)
    is_word = terminal is not None and terminal in accepts(cursor.code)
    return None if is_word else _of_name(document, cursor)


def _cursor(document: EditedDocument, offset: int) -> _Cursor | None:
    text = document.source.text
    touched = [t for t in Lexemes(text).items if t.start <= offset <= t.end]
    if (token := next((t for t in touched[::-1] if t.kind in ("word", "string")), None)) is None:
        return None
    known = knowledge(document, token.start)
    start = known.place.item.start
    # Spaces keep the places. The variables that a word may declare need a few lexemes after it.
    lexemes = Lexemes(" " * start + text[start : token.end + 200])
    return _Cursor(lexemes, lexemes.at(token.start), known.place.code(text), known)


# ---- strings: policies and keys


def _of_string(document: EditedDocument, cursor: _Cursor, samples: Samples) -> Meaning | None:
    text = cursor.token.text
    if cursor.previous == "use":
        found = document.policies.get(text.strip("\"'"))
        if found is None:
            return None
        policy = found.policy
        parameters = ", ".join(map(print_parameter, policy.parameters))
        head = f"{'cluster ' if policy.cluster else ''}policy {policy.address}"
        description = str(policy.setting("description", ""))
        return Meaning(
            cursor.span,
            f"{head}({parameters})" if parameters else head,
            (description,) if description else (),
            (found.source, policy.name_span),
        )
    if cursor.previous in ("[", "[?"):
        operand = f"{last_operand(cursor.lexemes, cursor.at - 1)}[{text}]"
        environment, _ = macro_variables(cursor.lexemes, cursor.at, cursor.known.environment)
        type_ = type_of(operand, environment)
        if type_ is not None and type_.name != "error":
            about = _values(operand, str(type_), samples)
            return Meaning(cursor.span, f"{operand}: {type_}", about)
    return None


def _values(operand: str, type_: str, samples: Samples) -> Sequence[str]:
    """A sentence with the most frequent values in the cluster, if that is known."""
    found = samples.values(operand) if type_ in ("string", "dyn") else ()
    shown = [f"`{value}`" for value in found[:_MOST_VALUES]]
    more = len(found) - len(shown)
    ending = f" and {more} more" if more > 0 else ""
    return (f"In the cluster: {', '.join(shown)}{ending}.",) if shown else ()


# ---- fields, functions, arguments


def _of_member(source: Source, cursor: _Cursor, samples: Samples) -> Meaning | None:
    around = Surroundings(cursor.known.environment, {}, samples)
    operand, span = last_operand(cursor.lexemes, cursor.at - 1), cursor.span
    whole = f"{operand}.{cursor.token.text}"
    offer = _offered(cursor, members(around, cursor.lexemes, cursor.at))
    if offer is not None and offer.heading:
        data = around.environment.tables.get(whole)
        place = (source, data.name_span) if data is not None else None
        values = _values(whole, offer.note, samples) if offer.kind == "field" else ()
        return Meaning(span, offer.heading, (*offer.about.splitlines(), *values), place)
    environment, _ = macro_variables(cursor.lexemes, cursor.at, around.environment)
    type_ = type_of(operand, environment)
    if type_ is None or type_.name != "map" or cursor.next == "(":
        return None
    kind = str(type_.args[1])
    return Meaning(span, f"{whole}: {kind}", _values(whole, kind, samples))


def _offered(cursor: _Cursor, offers: Iterable[Candidate]) -> Candidate | None:
    """What completion offers for the word."""
    is_call = cursor.next == "("
    for offer in offers:
        if offer.text.rstrip("([") == cursor.token.text and (offer.kind == "function") == is_call:
            return offer
    return None


# ---- names


def _of_name(document: EditedDocument, cursor: _Cursor) -> Meaning | None:
    """Inner names hide outer ones: variables of macros, parameters, items, and the variables."""
    name, known, lexemes = cursor.token.text, cursor.known, cursor.lexemes
    # The word itself may be a variable that a macro declares: `x,` or `x, item,`.
    more = [lexemes[cursor.at + n] for n in (1, 2, 3)]
    declares_two = more[1].kind == "word" and more[2].text == ","
    end = cursor.at + 1 + (more[0].text == ",") * (3 if declares_two else 1)
    environment, variables = macro_variables(lexemes, end, known.environment)
    defined: tuple[str, Span] | None = None
    if name in variables:
        defined = f"{name}: {environment.variables[name]}", variables[name]
    for parameter in reversed(known.parameters):
        if defined is None and parameter.name == name:
            defined = print_parameter(parameter), parameter.name_span
    for item in known.checked.policy.items if known.checked is not None else ():
        if defined is None and isinstance(item, Let | Def | Group | Count) and item.name == name:
            defined = _head(item, document.source), item.name_span
    if defined is not None:
        heading, span = defined
        return Meaning(cursor.span, heading, (), (document.source, span))
    offer = _offered(cursor, names(known.environment))
    if offer is None or not offer.heading:
        return None
    return Meaning(cursor.span, offer.heading, offer.about.splitlines())


def _head(item: Let | Def | Group | Count, source: Source) -> str:
    match item:
        case Let(name, value):
            return f"let {name}: {value.type} = {cut(source.slice(value.span), _LONGEST)}"
        case Def(name, parameters, result):
            return f"def {name}({', '.join(map(print_parameter, parameters))}): {result}"
        case Group(name, by):
            return f"group {name} by {source.slice(by.span)}"
        case Count():
            return source.slice(item.span)
