"""Documents: the one reader of YAML and JSON texts, with the position of every field.

YAML is read as JSON has it: keys are strings, and dates stay text. What cannot be read is one
DocumentError, whose message continues a sentence that names the text: "is nested too deeply".
"""

from __future__ import annotations

import codecs
import re
from bisect import bisect_right
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any

import msgspec
import yaml

from grammar.tree.source import Source, Span
from policies.manifest_text import ManifestText, Move, nearest_above

MAX_DEPTH = 1_000
# Aliases of a text may repeat its parts until it has so many characters and values, or so many for
# each byte.
_FEW, _FOR_EACH_BYTE = 400_000, 4
# The characters of a number, and those of all paths of a short document.
_MOST_DIGITS, _FEW_OF_PATHS = 250, 64 * 1024 * 1024
_NUMBERS = frozenset({"tag:yaml.org,2002:int", "tag:yaml.org,2002:float"})
# A tree of YAML takes a hundred times as much memory.
_MOST_OF_YAML = 64 * 1024 * 1024
_BRACKET = re.compile(rb"[\[\]{}]")
_LEAD = re.compile(rb"^[-?: \t]+", re.MULTILINE)
_SURROGATE = re.compile(r"\\u[dD][89a-fA-F][0-9a-fA-F]{2}")
# A character of a quoted scalar; JSON writes one beyond 16 bits as two escapes.
_CHARACTER = re.compile(
    r"\\u[dD][89abAB]..\\u[dD][c-fC-F]..|\\x..|\\u.{4}|\\U.{8}|\\.|.", re.DOTALL
)
_ENCODINGS = {
    codecs.BOM_UTF8: "utf-8-sig",
    # `>` writes UTF-16 in some shells on Windows.
    codecs.BOM_UTF16_LE: "utf-16",
    codecs.BOM_UTF16_BE: "utf-16",
}


class DocumentError(Exception):
    """A document that is neither YAML nor JSON, or that JSON could not say; the message is why."""


class _Loader(yaml.CSafeLoader):
    """A YAML loader that leaves dates as text, since JSON has none."""


_Loader.yaml_implicit_resolvers = {
    first: [(tag, pattern) for tag, pattern in resolvers if tag != "tag:yaml.org,2002:timestamp"]
    for first, resolvers in yaml.CSafeLoader.yaml_implicit_resolvers.items()
}
# Go takes a number without a point for one, such as `1e3`.
_Loader.add_implicit_resolver(
    "tag:yaml.org,2002:float",
    re.compile(r"[-+]?(\.\d+|\d+(\.\d*)?)[eE][-+]?\d+\Z", re.ASCII),
    list("-+.0123456789"),
)


def as_json(data: bytes, *, is_yaml: bool) -> Iterator[bytes]:
    """The documents of a file as JSON, without positions.

    A file that begins with `{` or `[` is passed on unread, unless its name says YAML. Raises
    DocumentError.
    """
    with _errors():
        for mark, encoding in _ENCODINGS.items():
            if data.startswith(mark):
                data = data.decode(encoding).encode()
        if not is_yaml and data.lstrip().startswith((b"{", b"[")):
            yield data
            return
        for loader, node in _nodes(data):
            yield msgspec.json.encode(loader.construct_document(node))


@dataclass(frozen=True, slots=True)
class DocumentField:
    """A field of a document: the YAML nodes of the value and of the key; an item has no key."""

    node: yaml.Node
    key: yaml.Node | None = None


@dataclass(frozen=True, slots=True)
class Document:
    """A document: a parsed value, and its fields by path, such as `extenders[0].weight`.

    `repeated` has the paths of keys that occur twice in a mapping; the last one counts. `root` is
    the path of the document itself, if it is an item of a List.
    """

    value: Any
    fields: Mapping[str, DocumentField] = field(default_factory=dict)
    repeated: tuple[str, ...] = ()
    root: str = ""

    def twice(self) -> Iterator[str]:
        """The paths of `repeated` in this document, which may be one item of a List."""
        root = join(self.root, "") if self.root else ""
        return (p.removeprefix(root) for p in self.repeated if p.startswith(root))

    def line(self, path: str) -> int:
        """The line, from 1, of a field or of the nearest one around it; 0 if unknown."""
        found = self.fields.get(nearest_above(self._path(path), self.fields))
        return (found.key or found.node).start_mark.line + 1 if found is not None else 0

    def span(self, path: str) -> Span:
        """A value on one line, else its key; for an absent field, the nearest field around it."""
        full = self._path(path)
        known = nearest_above(full, self.fields)
        found = self.fields[known]
        is_plain = isinstance(found.node, yaml.ScalarNode) and found.node.style not in ("|", ">")
        return _span(found.node if is_plain and known == full else found.key or found.node)

    def scalar(self, path: str) -> yaml.ScalarNode | None:
        """The node of a field, if it is a scalar."""
        found = self.fields.get(self._path(path))
        return found.node if found and isinstance(found.node, yaml.ScalarNode) else None

    def _path(self, path: str) -> str:
        return join(self.root, path) if path else self.root


def join(path: str, key: object) -> str:
    """The path of a field."""
    return f"{path}.{key}" if path else str(key)


def read(text: str) -> Iterator[Document]:
    """The documents of a YAML or JSON text with the positions of their fields, one by one.

    Raises DocumentError.
    """
    with _errors():
        for loader, node in _nodes(text):
            yield _Builder(loader).document(node)


def _nodes(text: str | bytes) -> Iterator[tuple[_Loader, yaml.Node]]:
    """The tree of each document with its loader, before any value is made of it."""
    data = text if isinstance(text, bytes) else text.encode("utf-8", "surrogatepass")
    if len(data) > _MOST_OF_YAML:
        raise DocumentError(f"has more than {_MOST_OF_YAML:,} bytes, which it may have as JSON")
    # libyaml builds its tree by recursion, and a stack overflow ends the process. This estimate of
    # how deep a text may be is never too low.
    deepest = max((len(lead) for lead in _LEAD.findall(data)), default=0)
    brackets = 0
    for bracket in _BRACKET.findall(data):
        brackets = brackets + 1 if bracket in b"[{" else max(0, brackets - 1)
        deepest = max(deepest, brackets)
    if deepest > MAX_DEPTH:
        raise DocumentError("is nested too deeply")
    loader = _Loader(text)
    try:
        while loader.check_node():
            node = loader.get_node()
            # A lone `---` is a document of nothing.
            if node is not None and node.tag != "tag:yaml.org,2002:null":
                if _weight(node, {}) > max(_FOR_EACH_BYTE * len(data), _FEW):
                    raise DocumentError("repeats its parts too often by aliases")
                yield loader, node
    finally:
        loader.dispose()


def _weight(node: yaml.Node, known: dict[int, int]) -> int:
    """The characters and values of a tree with each alias written out."""
    if isinstance(node, yaml.ScalarNode):
        if node.tag in _NUMBERS and len(node.value) > _MOST_DIGITS:
            what = f"a number of more than {_MOST_DIGITS} digits"
            raise DocumentError(f"has {what} in line {_line(node)}")
        return 1 + len(node.value)
    if id(node) not in known:
        # An alias inside the node that it names finds this.
        known[id(node)] = 1
        parts = (
            [each for pair in node.value for each in pair]
            if isinstance(node, yaml.MappingNode)
            else node.value
        )
        known[id(node)] = 1 + sum(_weight(each, known) for each in parts)
    return known[id(node)]


def documents(source: Source) -> list[Document]:
    """The documents of a manifest file, with the items of each List one by one.

    Raises DocumentError. JSON is YAML but for tabs and surrogates, so its positions come from YAML.
    """
    if not source.name.endswith(".json"):
        found = [*read(source.text)]
    else:
        found = [*read(_SURROGATE.sub(r"\\u0020", source.text.replace("\t", " ")))]
        with _errors():
            found = [replace(d, value=msgspec.json.decode(source.text)) for d in found[:1]]
    return [item for document in found for item in _items(document)]


def _items(document: Document) -> Iterator[Document]:
    """The objects of a List, which `kubectl get -o yaml` writes, or of a list of one kind."""
    match document.value:
        case {"kind": str(kind), "items": [*items], **rest} if kind.endswith("List"):
            # In the answer of an API server items have no kind.
            whole = {"apiVersion": rest.get("apiVersion"), "kind": kind[: -len("List")]}
            repeated: dict[str, list[str]] = {}
            for path in document.repeated:
                repeated.setdefault(path[: path.find("]") + 1], []).append(path)
            for number, item in enumerate(items):
                root = f"items[{number}]"
                twice = tuple(repeated.get(root, ()))
                value = {**whole, **item} if kind != "List" and isinstance(item, dict) else item
                yield replace(document, value=value, root=root, repeated=twice)
        case _:
            yield document


@contextmanager
def _errors() -> Iterator[None]:
    """Raises DocumentError for whatever reading a text can raise."""
    try:
        yield
    except yaml.YAMLError as error:
        raise DocumentError(f"is neither YAML nor JSON: {_problem(error)}") from None
    except UnicodeDecodeError:
        raise DocumentError("is not UTF-8 text") from None
    except RecursionError:
        raise DocumentError("is nested too deeply") from None
    except (TypeError, ValueError, ArithmeticError, LookupError, AttributeError) as error:
        # YAML can say what JSON cannot: a list as a key, a tag for a number that is none.
        raise DocumentError(f"is neither YAML nor JSON: {error}") from None


def _problem(error: yaml.YAMLError) -> str:
    """The problem and its line, on one line."""
    what = getattr(error, "problem", None) or getattr(error, "reason", "the text cannot be read")
    mark = getattr(error, "problem_mark", None)
    where = f" in line {mark.line + 1}" if mark is not None else ""
    if "cannot start any token" in str(what):
        where += ", such as a tab: YAML is indented with blanks"
    return " ".join(f"{what}{where}".split())


def _line(node: yaml.Node) -> int:
    return int(node.start_mark.line) + 1


class _Builder:
    """Builds one document from its nodes; an aliased node is built once."""

    def __init__(self, loader: _Loader) -> None:
        self._loader = loader
        self._fields: dict[str, DocumentField] = {}
        self._repeated: list[str] = []
        self._built: dict[int, Any] = {}
        self._left = 0

    def document(self, node: yaml.Node) -> Document:
        self._left = max(_FEW_OF_PATHS, 16 * node.end_mark.index)
        self._fields[""] = DocumentField(node)
        return Document(self._value(node, ""), self._fields, tuple(self._repeated))

    def _value(self, node: yaml.Node, path: str) -> Any:
        if id(node) not in self._built:
            # An alias inside the node that it names finds this.
            self._built[id(node)] = None
            self._built[id(node)] = self._build(node, path)
        return self._built[id(node)]

    def _build(self, node: yaml.Node, path: str) -> Any:
        match node:
            case yaml.MappingNode():
                self._loader.flatten_mapping(node)
                return self._mapping(node, path)
            case yaml.SequenceNode(value=items):
                for number, item in enumerate(items):
                    self._note(f"{path}[{number}]", DocumentField(item))
                return [self._value(item, f"{path}[{n}]") for n, item in enumerate(items)]
            case _:
                found = self._loader.construct_object(node)
                if isinstance(found, int) and not -(2**63) <= found < 2**64:
                    raise DocumentError(f"has a number beyond 64 bits in line {_line(node)}")
                return found

    def _note(self, path: str, found: DocumentField) -> None:
        self._left -= len(path)
        if self._left < 0:
            raise DocumentError("is nested too deeply under keys that are too long")
        self._fields[path] = found

    def _mapping(self, node: yaml.MappingNode, path: str) -> dict[str, Any]:
        found: dict[str, Any] = {}
        for key_node, value_node in node.value:
            if not isinstance(key_node, yaml.ScalarNode):
                raise TypeError("a key must be a string")
            key = self._loader.construct_object(key_node)
            key = key if isinstance(key, str) else msgspec.json.encode(key).decode()
            here = join(path, key)
            if key in found:
                self._repeated.append(here)
            self._note(here, DocumentField(value_node, key_node))
            found[key] = self._value(value_node, here)
        return found


# ---- the pages of manifests in files


def file_page(source: Source, document: Document) -> ManifestText:
    """The page of a manifest in a file."""
    rules = document.scalar("spec.rules")
    move = _move(source.text, rules) if rules is not None else None
    return ManifestText(source, document.span, move)


def literal_rules(document: Document) -> Span | None:
    """The span of a manifest's rules if they are a `|` block; else edits in them are not safe."""
    rules = document.scalar("spec.rules")
    return _span(rules) if rules is not None and rules.style == "|" else None


def _span(node: yaml.Node) -> Span:
    return Span(node.start_mark.index, node.end_mark.index)


def _move(text: str, rules: yaml.ScalarNode) -> Move | None:
    """The function from spans of the rules to spans of the text; None for a style that folds lines.

    The rules consist of pieces that occur in the text unchanged.
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
    """The start of each line, in the rules and, after its indentation, in the text."""
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
    """The start of each character, in the rules and in the text, where it may be an escape."""
    start, end = rules.start_mark.index + 1, rules.end_mark.index - 1
    if "\n" in text[start:end]:
        return []
    starts = [match.start() for match in _CHARACTER.finditer(text, start, end)]
    return list(enumerate([*starts, end]))
