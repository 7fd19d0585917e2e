"""YAML as JSON has it: without times, without depths that end the process, errors in one line."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass

import msgspec
import yaml

from grammar.source import Source, Span
from policies.page import Move, Page

MAX_DEPTH = 1_000
_BRACKET = re.compile(rb"[\[\]{}]")
_LEAD = re.compile(rb"^[-?: \t]+", re.MULTILINE)


class JsonLoader(yaml.CSafeLoader):
    """Reads times as the text that they are: JSON has no others."""


JsonLoader.yaml_implicit_resolvers = {
    first: [(tag, pattern) for tag, pattern in resolvers if tag != "tag:yaml.org,2002:timestamp"]
    for first, resolvers in yaml.CSafeLoader.yaml_implicit_resolvers.items()
}


def depth(data: bytes) -> int:
    """How deep the YAML may be nested: an estimate that is never too low.

    libyaml builds its tree by recursion and overflows the stack, which ends the process: what is
    deeper than MAX_DEPTH must not get there.
    """
    deepest = max((len(lead) for lead in _LEAD.findall(data)), default=0)
    brackets = 0
    for bracket in _BRACKET.findall(data):
        brackets = brackets + 1 if bracket in b"[{" else max(0, brackets - 1)
        deepest = max(deepest, brackets)
    return deepest


def problem(error: yaml.YAMLError) -> str:
    """What is wrong and in which line, in one line."""
    what = getattr(error, "problem", None) or getattr(error, "reason", "the text cannot be read")
    mark = getattr(error, "problem_mark", None)
    where = f" in line {mark.line + 1}" if mark is not None else ""
    return " ".join(f"{what}{where}".split())


# ---- The documents of a YAML or JSON text, each with the places of its fields.

_STEP = re.compile(r"[^.\[\]]+")
_SURROGATE = re.compile(r"\\u[dD][89a-fA-F][0-9a-fA-F]{2}")
# A character of a quoted text; one beyond 16 bits is two escapes in JSON.
_CHARACTER = re.compile(
    r"\\u[dD][89abAB]..\\u[dD][c-fC-F]..|\\x..|\\u.{4}|\\U.{8}|\\.|.", re.DOTALL
)


class NoDocumentsError(Exception):
    """A text that is neither YAML nor JSON; what it says is why."""


@dataclass(frozen=True, slots=True)
class Document:
    """A parsed value, and where it and its parts stand in the text."""

    value: object
    node: yaml.Node


def documents(source: Source) -> list[Document]:
    """The documents of a text, those of a List one by one. Raises NoDocumentsError.

    But for tabs and surrogates JSON is YAML, which tells where in it things are.
    """
    is_json = source.name.endswith(".json")
    text = _SURROGATE.sub(r"\\u0020", source.text.replace("\t", " ")) if is_json else source.text
    if depth(text.encode("utf-8", "surrogatepass")) > MAX_DEPTH:
        raise NoDocumentsError("it is nested too deeply")
    try:
        found = list(_composed(text))
        if is_json and found:
            found = [Document(msgspec.json.decode(source.text), found[0].node)]
    except yaml.YAMLError as error:
        raise NoDocumentsError(problem(error)) from None
    except RecursionError:
        raise NoDocumentsError("it is nested too deeply") from None
    except (TypeError, ValueError, OverflowError) as error:
        # YAML can say things that JSON cannot: a list as a key, a tag for a number that is none.
        raise NoDocumentsError(str(error)) from None
    return [item for document in found for item in _items(document)]


def _composed(text: str) -> Iterator[Document]:
    loader = JsonLoader(text)
    try:
        while loader.check_node():
            node = loader.get_node()
            # `---` alone is a document too, of nothing.
            if node is not None and (value := loader.construct_document(node)) is not None:
                yield Document(value, node)
    finally:
        loader.dispose()


def _items(document: Document) -> Iterator[Document]:
    """What `kubectl get -o yaml` writes of several objects is one List."""
    match document.value:
        case {"kind": "List", "items": [*items]}:
            node = _child(document.node, "items")
            nodes = node.value if isinstance(node, yaml.SequenceNode) else []
            yield from (Document(v, n) for v, n in zip(items, nodes, strict=True))
        case _:
            yield document


def file_page(source: Source, document: Document) -> Page:
    """The page of a manifest in a file."""
    root = document.node

    def place(field: str) -> Span:
        return _place(root, field)

    rules = _rules(document)
    move = _move(source.text, rules) if rules is not None else None
    return Page(source, place, move)


def _place(root: yaml.Node, field: str) -> Span:
    """A value on a line of its own, the key of a longer one or of what lacks the field."""
    here, place = root, _span(root)
    steps = _STEP.findall(field)
    for step in steps:
        key, found = _entry(here, step)
        if found is None:
            break
        here, place = found, _span(key or found)
    else:
        if steps and isinstance(here, yaml.ScalarNode) and here.style not in ("|", ">"):
            return _span(here)
    return place


def _entry(node: yaml.Node, step: str) -> tuple[yaml.Node | None, yaml.Node | None]:
    """The key and the value behind it; an item of a list has no key."""
    if isinstance(node, yaml.MappingNode):
        return next(((k, v) for k, v in node.value if k.value == step), (None, None))
    if isinstance(node, yaml.SequenceNode) and step.isdecimal() and int(step) < len(node.value):
        return None, node.value[int(step)]
    return None, None


def _child(node: yaml.Node | None, key: str) -> yaml.Node | None:
    return _entry(node, key)[1] if node is not None else None


def _span(node: yaml.Node) -> Span:
    return Span(node.start_mark.index, node.end_mark.index)


def literal_rules(document: Document) -> Span | None:
    """Where a manifest's rules stand as they are; an edit of any other text would need care."""
    rules = _rules(document)
    return _span(rules) if rules is not None and rules.style == "|" else None


def _rules(document: Document) -> yaml.ScalarNode | None:
    rules = _child(_child(document.node, "spec"), "rules")
    return rules if isinstance(rules, yaml.ScalarNode) else None


def _move(text: str, rules: yaml.ScalarNode) -> Move | None:
    """From places in the rules to places in the text; None for ways to write them that fold lines.

    The pieces are stretches of the rules that stand in the text as they are.
    """
    pieces = {"|": _lines, '"': _characters}.get(rules.style, lambda *_: ())(text, rules)
    here = [start for start, _ in pieces]
    there = [start for _, start in pieces]
    if not pieces:
        return None

    def moved(offset: int) -> int:
        number = bisect_right(here, offset) - 1
        return there[number] + offset - here[number]

    return lambda span: Span(moved(span.start), moved(span.end))


def _lines(text: str, rules: yaml.ScalarNode) -> list[tuple[int, int]]:
    """Where each line starts, in the rules and in the text: below the `|`, after an indentation."""
    found, here = [], 0
    there = text.find("\n", rules.start_mark.index) + 1
    for line in rules.value.split("\n"):
        end = text.find("\n", there)
        end = end if end >= 0 else len(text)
        raw = text[there:end].rstrip("\r")
        indent = max(0, len(raw) - len(line))
        if line and raw[indent:] != line:
            return []
        found.append((here, there + indent))
        here, there = here + len(line) + 1, min(end + 1, len(text))
    return found


def _characters(text: str, rules: yaml.ScalarNode) -> list[tuple[int, int]]:
    """Where each character is, in the rules and in the text: one may be written as an escape."""
    start, end = rules.start_mark.index + 1, rules.end_mark.index - 1
    if "\n" in text[start:end]:
        return []
    starts = [match.start() for match in _CHARACTER.finditer(text, start, end)]
    return list(enumerate([*starts, end]))
