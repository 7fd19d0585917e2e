"""`placet fmt --upgrade`: policies in words of earlier versions become those of today."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from cli.main import main
from grammar.syntax.formatter import format_file
from grammar.syntax.parser import parse_file
from grammar.tree.source import Source

ROOT = Path(__file__).parents[3]
FILES = sorted(
    path
    for folder in ("policies", "docs/examples", "cli/demo")
    for path in (ROOT / folder).rglob("*.policy")
)
# What is written today, and what it was before.
BEFORE = (
    (r"\{ per zone\b", "{ per group zone"),
    (r"\bper node\.", "per domain node."),
    (r"\bindex (\"|\w+\n)", r"index in annotation \1"),
    (r"\bprotect pods where\b", "protect victim where"),
    (r"\bpick (\d+) least\b", r"keep \1 by"),
    (r"= most (?=\w)", "= max "),
    (r"(from configmap \S+) file\b", r"\1 key"),
    (r"(query (?:\"[^\"\n]*\"|\w+)) by\b", r"\1 key"),
    (r"(?m)(\d |^    )weight (?=\d|weight)", r"\1best effort weight "),
    (r"(by \"\w+\") for at most", r"\1 stale after"),
    (r"\bexpect bind\b", "expect bound"),
    (r"\bexpect wait\b", "expect held"),
)


def earlier(text: str) -> str:
    """The text in the words of earlier versions."""
    for now, before in BEFORE:
        text = re.sub(now, before, text)
    return re.sub(r"(preempt [^{]*\{[^}]*?)\brequire\b", r"\1allow when", text)


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_a_policy_of_the_tree_is_written_as_it_is_today(path: Path, tmp_path: Path) -> None:
    source = Source(path.name, path.read_text("utf-8"))
    file, found = parse_file(source)
    assert not found
    old = tmp_path / path.name
    old.write_text(earlier(source.text), encoding="utf-8")
    main(["fmt", "--upgrade", str(old)])
    assert old.read_text("utf-8") == format_file(file, source)


def test_there_are_old_words_of_each_kind_in_the_tree() -> None:
    texts = [path.read_text("utf-8") for path in FILES]
    assert len(FILES) > 80
    unused = [now for now, _ in BEFORE if not any(re.search(now, text) for text in texts)]
    assert unused == [r"\bpick (\d+) least\b", "= most (?=\\w)"]
