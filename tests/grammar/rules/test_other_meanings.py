"""Rules that are accepted and mean something else, each with its warning and its remedy.

tests/golden/other_meanings.yaml has them. Rules that are like them, and say what they mean, have no
warning; nor have those that operators would write.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from grammar.messages.diagnostics import Diagnostic
from grammar.tree.source import Source
from policies.validation import check_source
from tests.grammar.rules.helpers import SCHEMA
from tests.support.seeds import edit_of, edited

GOLDEN = Path(__file__).parents[2] / "golden" / "other_meanings.yaml"
TABLE: dict[str, Any] = yaml.safe_load(GOLDEN.read_text(encoding="utf-8"))


def _of(items: str) -> tuple[str, list[Diagnostic]]:
    is_whole = "policy " in items.partition("{")[0]
    text = items if is_whole else f"cluster policy example {{\n{items}\n}}\n"
    return text, [*check_source(Source("example.policy", text), SCHEMA).diagnostics]


@pytest.mark.parametrize("case", TABLE["meant"], ids=lambda case: case["text"])
def test_another_meaning_has_a_warning_and_a_remedy(case: dict[str, str]) -> None:
    text, found = _of(case["text"])
    first = next(d for d in found if d.code not in ("P0301", "P0319"))
    assert (first.code, first.hint) == (case["code"], case["hint"])
    if (edit := edit_of(first)) is None:
        return
    left = check_source(Source("example.policy", edited(text, edit)), SCHEMA).diagnostics
    assert [d for d in left if d.code == first.code or d.severity == "error"] == []


@pytest.mark.parametrize("items", [*TABLE["quiet"], *TABLE["sensible"]])
def test_what_says_what_it_means_has_no_warning(items: str) -> None:
    assert [(d.code, d.message) for d in _of(items)[1]] == []
