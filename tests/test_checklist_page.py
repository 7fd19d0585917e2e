"""The page of what operators expect: all rows, each with a place that exists, or a reason."""

import re
from pathlib import Path

ROOT = Path(__file__).parents[1]
TEXT = (ROOT / "docs" / "checklist.md").read_text(encoding="utf-8")
ROWS = re.findall(r"(?m)^\| (\d+) \| (.+?) \| (.+?) \| (.+) \|$", TEXT)


def test_every_row_is_there_once() -> None:
    assert sorted(int(number) for number, *_ in ROWS) == list(range(1, 63))


def test_every_row_says_where_or_why_not() -> None:
    assert {state for *_, state, _ in ROWS} <= {"yes", "no"}
    assert [row for row in ROWS if row[2] == "yes" and not re.search(r"`|\]\(", row[3])] == []
    assert [row for row in ROWS if row[2] == "no" and len(row[3].split()) < 8] == []


def test_tests_and_targets_of_rows_exist() -> None:
    paths = re.findall(r"`((?:tests|server)/[\w/]+(?:\.py)?)`", TEXT)
    assert paths
    assert [path for path in paths if not (ROOT / path).exists()] == []
    targets = re.findall(r"`make ([a-z-]+)`", TEXT)
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    assert [name for name in targets if not re.search(rf"(?m)^{name}:", makefile)] == []
