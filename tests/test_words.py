"""The words of docstrings: whoever reads the first words of one knows what the thing is.

A class is named in the first five words of its docstring, a module in its first eight, and no
sentence makes its reader guess at three pronouns. A rename keeps the docstring true.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Sequence
from pathlib import Path

ROOT = Path(__file__).parents[1]
PACKAGES = ("cli", "engine", "grammar", "policies", "server")
# Words that point at something that was said before.
POINTING = re.compile(r"\b(it|its|ones?|those|that of|such|others?|what)\b", re.IGNORECASE)
MOST_POINTING = 2
# So many equal letters make one stem.
STEM = 4


def findings(path: str, source: str) -> list[str]:
    """What is wrong with the docstrings of a file, a line each."""
    tree = ast.parse(source)
    found: list[str] = []
    name = Path(path).stem if Path(path).name != "__init__.py" else Path(path).parent.name
    if not _names(ast.get_docstring(tree) or "", name.split("_"), 8):
        found.append(f"{path}: the module is not named")
    for node in ast.walk(tree):
        match node:
            case ast.ClassDef(name=name):
                text = ast.get_docstring(node)
                if text and not _names(text, re.findall(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])", name), 5):
                    found.append(f"{path}: class {name} is not named")
            case _:
                pass
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            found += [f"{path}: {chain}" for chain in _chains(ast.get_docstring(node) or "")]
    return found


def _names(text: str, words: Sequence[str], first: int) -> bool:
    """Whether the first words of a text have one of these words in them."""
    opening = [word.lower() for word in re.findall(r"[A-Za-z0-9]+", text)[:first]]
    return any(_alike(word.lower(), known) for word in words for known in opening)


def _alike(one: str, other: str) -> bool:
    """Whether two words are of one stem: `pod` and `pods`, `counts` and `counter`."""
    letters = min(STEM, len(one), len(other))
    return one == other or (letters > 2 and one[:letters] == other[:letters])


def _chains(text: str) -> Iterator[str]:
    """The sentences with too many words that point; what is in backticks is code."""
    for sentence in re.split(r"(?<=[.!?:;])\s+", re.sub(r"`[^`]*`", "`x`", text)):
        if len(POINTING.findall(sentence)) > MOST_POINTING:
            yield " ".join(sentence.split())


def test_docstrings_name_their_thing() -> None:
    """In all modules of the packages."""
    files = [path for package in PACKAGES for path in (ROOT / package).rglob("*.py")]
    assert len(files) > 100
    found = [
        line
        for path in sorted(files)
        for line in findings(path.relative_to(ROOT).as_posix(), path.read_text())
    ]
    wanted = "name a module in the first 8 words of its docstring, a class in the first 5"
    assert not found, "\n".join([wanted, *found])


def test_what_is_wrong_is_found() -> None:
    source = '''
"""How pods are counted."""

class PodCounter:
    """Pods by group, as a counter has them. It says what it knows of those that others count."""

class Tally:
    """The number of pods in a group."""
'''
    assert findings("engine/node_table.py", source) == [
        "engine/node_table.py: the module is not named",
        "engine/node_table.py: It says what it knows of those that others count.",
        "engine/node_table.py: class Tally is not named",
    ]
    assert findings("engine/pod_counts.py", source)[1:] == [
        "engine/pod_counts.py: class Tally is not named"
    ]
