"""YAML and JSON as people write them: values, and the line that each of them is on."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import yaml

from cli.exits import CommandError
from policies.yaml_text import MAX_DEPTH, JsonLoader, depth, problem

# A text that spans lines, written as it is: what is in it has lines of its own.
_LITERAL = "|"


@dataclass(frozen=True, slots=True)
class Document:
    """One document. Paths are like `extenders[0].weight`, lines count from 1.

    `repeated` has the paths of keys that a mapping has twice; its value is the last one's.
    """

    value: Any
    lines: Mapping[str, int] = field(default_factory=dict)
    # The line before the first one of a literal text.
    literals: Mapping[str, int] = field(default_factory=dict)
    repeated: tuple[str, ...] = ()

    def line(self, path: str) -> int:
        """The line of what is at the path, or of the nearest thing around it; 0 is unknown."""
        while path and path not in self.lines:
            path = path[: max(path.rfind("."), path.rfind("["), 0)]
        return self.lines.get(path, 0)


def read(text: str, name: str) -> list[Document]:
    """The documents of a text. Raises CommandError for what is neither YAML nor JSON."""
    if depth(text.encode()) > MAX_DEPTH:
        raise CommandError(f"`{name}` is nested too deeply", "check what it is")
    found = []
    try:
        loader = JsonLoader(text)
        while loader.check_node() and (node := loader.get_node()) is not None:
            found.append(_Reader(loader).document(node))
    except yaml.YAMLError as error:
        raise CommandError(
            f"`{name}` is neither YAML nor JSON: {problem(error)}", "mend it first"
        ) from None
    return found


def join(path: str, key: object) -> str:
    """The path of a mapping's value."""
    return f"{path}.{key}" if path else str(key)


class _Reader:
    """Builds one document from its nodes."""

    def __init__(self, loader: JsonLoader) -> None:
        self._loader = loader
        self._lines: dict[str, int] = {}
        self._literals: dict[str, int] = {}
        self._repeated: list[str] = []
        # What an alias stands for is built once, however often it is named.
        self._built: dict[int, Any] = {}

    def document(self, node: yaml.Node) -> Document:
        self._lines[""] = node.start_mark.line + 1
        value = self._value(node, "")
        return Document(value, self._lines, self._literals, tuple(self._repeated))

    def _value(self, node: yaml.Node, path: str) -> Any:
        if id(node) not in self._built:
            # An alias to what is around it finds this.
            self._built[id(node)] = None
            self._built[id(node)] = self._build(node, path)
        return self._built[id(node)]

    def _build(self, node: yaml.Node, path: str) -> Any:
        match node:
            case yaml.MappingNode():
                self._loader.flatten_mapping(node)
                return self._mapping(node, path)
            case yaml.SequenceNode(value=items):
                for place, item in enumerate(items):
                    self._lines[f"{path}[{place}]"] = item.start_mark.line + 1
                return [self._value(item, f"{path}[{n}]") for n, item in enumerate(items)]
            case _:
                if isinstance(node, yaml.ScalarNode) and node.style == _LITERAL:
                    self._literals[path] = node.start_mark.line + 1
                return self._loader.construct_object(node)

    def _mapping(self, node: yaml.MappingNode, path: str) -> dict[str, Any]:
        found: dict[str, Any] = {}
        for key_node, value_node in node.value:
            key = str(self._loader.construct_object(key_node, deep=True))
            place = join(path, key)
            if key in found:
                self._repeated.append(place)
            self._lines[place] = key_node.start_mark.line + 1
            found[key] = self._value(value_node, place)
        return found
