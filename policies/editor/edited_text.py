"""Edited text: a document that somebody writes, as it was checked, with its knowledge by offset.

It is made anew for each version of the text, and has all that completion, hovers and definitions
need. A part with errors is not in the checked file; what is around it still is.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from itertools import takewhile

from grammar.checker.policy_checker import VARIABLES, Checked
from grammar.meaning.environment import Environment
from grammar.meaning.schema import Schema
from grammar.messages.diagnostics import Diagnostic, Fix
from grammar.syntax.parser import OffsetContext, parse_file, parse_rules, place
from grammar.tree.clauses import Def, Parameter, Policy
from grammar.tree.source import Source, Span
from policies.editor import completion
from policies.editor.completion import Candidate, Samples, Surroundings
from policies.editor.tokens import tokens
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
        before_body = takewhile(lambda t: t.text != "=", tokens(text[at.item.start :]))
        head = " " * at.item.start + "".join(token.text for token in before_body)
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
