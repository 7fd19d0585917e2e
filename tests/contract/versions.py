"""Versions: the file of what was observed of minor versions of kube-scheduler, and its table.

`make contract` writes both; tests/e2e/test_contract_by_version.py observes.
"""

import json
import re
from pathlib import Path

FILE = Path(__file__).with_name("versions.json")
PAGE = Path(__file__).parents[2] / "docs" / "extender.md"
_TABLE = re.compile(r"(?ms)^\| observed \|.*?(?=^$|\Z)")


def read() -> dict[str, dict[str, str]]:
    """Return what was observed, by minor version."""
    found: dict[str, dict[str, str]] = json.loads(FILE.read_text(encoding="utf-8"))
    return found


def write(minor: str, found: dict[str, str]) -> None:
    """Keep what was observed of a version, and write the table again."""
    everything = dict(sorted({**read(), minor: found}.items()))
    FILE.write_text(json.dumps(everything, indent=2) + "\n", encoding="utf-8")
    page = PAGE.read_text(encoding="utf-8")
    PAGE.write_text(_TABLE.sub(lambda _: table(everything), page), encoding="utf-8")


def table(found: dict[str, dict[str, str]]) -> str:
    """Return a row for each thing that was observed; equal cells are written once."""
    minors = list(found)
    facts = list(dict.fromkeys(fact for minor in reversed(minors) for fact in found[minor]))
    rows = [["observed", *minors], ["---"] * (len(minors) + 1)]
    rows += [[fact, *(found[minor].get(fact, "") for minor in minors)] for fact in facts]
    return "".join(f"| {' | '.join(row)} |\n" for row in rows)
