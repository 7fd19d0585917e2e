"""Chart: its files, and the README that is made from the comments of its values.

`python -m tests.deploy.chart` writes the README.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).parents[2]
CHART = ROOT / "deploy" / "chart"
README = CHART / "README.md"
VALUES = CHART / "values.yaml"
SCHEMA = CHART / "values.schema.json"
_KEY = re.compile(r"( *)([\w-]+):(?: .*)?")
_HEAD = """\
# The chart of Placet

[Installing](../../docs/install.md) says how to install Placet with it, and which mode to choose.
This page is made from `values.yaml` by `python -m tests.deploy.chart`.

| value | default | meaning |
| --- | --- | --- |
"""


@dataclass(frozen=True, slots=True)
class Value:
    """One value that has no fields of its own in `values.yaml`, and the comment above it."""

    path: tuple[str, ...]
    default: Any
    meaning: str

    @property
    def row(self) -> str:
        default = json.dumps(self.default, ensure_ascii=False)
        meaning = self.meaning.replace("|", r"\|")
        return f"| `{'.'.join(self.path)}` | `{default}` | {meaning} |"


def values() -> list[Value]:
    text = VALUES.read_text(encoding="utf-8")
    return list(_values(text.splitlines(), yaml.safe_load(text)))


def _values(lines: list[str], defaults: dict[str, Any]) -> Iterator[Value]:
    """The values in their order. A comment belongs to the key below it, at the same indent."""
    path: list[str] = []
    comment: list[str] = []
    inside = -1  # the indent of a value of several lines, whose lines are not keys
    for line in lines:
        found = _KEY.fullmatch(line)
        indent = len(line) - len(line.lstrip())
        if inside >= 0 and (not line.strip() or indent > inside):
            continue
        inside = -1
        if line.lstrip().startswith("#"):
            comment.append(line.lstrip("# "))
        elif found is None:
            comment = []
        else:
            path[indent // 2 :] = [found[2]]
            default: Any = defaults
            for key in path:
                default = default[key]
            is_section = isinstance(default, dict) and line.endswith(":")
            if not is_section or _is_leaf(tuple(path)):
                yield Value(tuple(path), default, " ".join(comment))
                inside = indent
            comment = []


def _is_leaf(path: tuple[str, ...]) -> bool:
    """Whether the value is one of Kubernetes' own objects."""
    return path[-1] == "resources"


def readme() -> str:
    return _HEAD + "".join(f"{value.row}\n" for value in values())


if __name__ == "__main__":
    README.write_text(readme(), encoding="utf-8")
