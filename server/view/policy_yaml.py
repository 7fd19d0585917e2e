"""Written: policy objects as YAML, as their authors write them and with nothing else.

The problems of an object stand at lines of its page, see `policies.manifest_text`; here they are
moved to the lines of the YAML.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

import msgspec
import yaml

from grammar.tree.source import Source
from policies.manifest_text import FIELDS, RULES
from server.answers import Position

# What others than the author write into the metadata of an object.
_LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"


class FieldsManager(msgspec.Struct, frozen=True):
    """Who has written fields of an object, and when last."""

    manager: str = ""
    time: str = ""
    subresource: str = ""


class _EditedMetadata(msgspec.Struct, frozen=True):
    name: str = ""
    namespace: str | None = None
    uid: str = ""
    creationTimestamp: str | None = None
    labels: dict[str, str] | None = None
    annotations: dict[str, str] | None = None
    managedFields: Sequence[FieldsManager] = ()


class EditedObject(msgspec.Struct, frozen=True):
    """The parts of an object that its author writes, and who has written them."""

    apiVersion: str = ""
    kind: str = ""
    metadata: _EditedMetadata = _EditedMetadata()
    spec: msgspec.Raw = msgspec.Raw(b"{}")


def as_written(raw: bytes) -> str:
    """The object as YAML, with what its author writes and nothing else. For a thread."""
    found = msgspec.json.decode(raw, type=EditedObject)
    own = found.metadata
    annotations = {k: v for k, v in (own.annotations or {}).items() if k != _LAST_APPLIED}
    named = {"name": own.name, "namespace": own.namespace, "labels": own.labels}
    metadata = {**named, "annotations": annotations}
    whole = {
        "apiVersion": found.apiVersion,
        "kind": found.kind,
        "metadata": {key: value for key, value in metadata.items() if value},
        "spec": msgspec.json.decode(found.spec),
    }
    return yaml.dump(whole, Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=100)


class _Dumper(yaml.SafeDumper):
    """A dumper that writes texts of several lines as people do, as blocks."""


_Dumper.add_representer(
    str,
    lambda dumper, text: dumper.represent_scalar(
        "tag:yaml.org,2002:str", text, style="|" if "\n" in text else None
    ),
)


def position_in(text: str, page: Source) -> Position:
    """Where what stands on the page of an object stands in its YAML."""
    lines, pages = text.splitlines(), page.text.splitlines()
    rules = _line_of(RULES, lines)
    is_block = re.fullmatch(r" *rules: \|[-+]?", lines[rules - 1]) is not None
    indent = len(lines[rules - 1]) - len(lines[rules - 1].lstrip()) + 2

    def position(offset: int) -> tuple[int, int]:
        line, column = page.position(offset)
        if line > len(pages) - len(FIELDS):
            return _line_of(pages[min(line, len(pages)) - 1], lines), 1
        return (rules + line, column + indent) if is_block else (rules, 1)

    return position


def _line_of(field: str, lines: Sequence[str]) -> int:
    """The line of a field such as `spec.rules`, or of a field around it; else the first."""
    depth, best = 0, 1
    parts = field.split(".")
    for number, line in enumerate(lines, 1):
        if depth < len(parts) and line.startswith(f"{'  ' * depth}{parts[depth]}:"):
            depth, best = depth + 1, number
    return best
