"""Mistakes that people bring from other languages: what is said of each, and that the hint works.

tests/golden/mistakes.yaml has a case for each mistake: the wrong text, the diagnostics, and two
nodes. Each hint is applied to the text, which then passes the one node and rejects the other. There
`@clauses` is the list of all words that clauses begin with.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
import yaml

from cli.policy_tests.runner import Runner, collect
from grammar.clauses import CLAUSES_ARE
from grammar.meaning.schema import Schema
from grammar.messages.diagnostics import Diagnostic, mend, plain
from grammar.tree.source import Source
from policies.validation import Validator, check_source

GOLDEN = Path(__file__).parents[1] / "golden" / "mistakes.yaml"
_SNIPPET = re.compile(r"`([^`]+)`")


@dataclass(frozen=True, slots=True)
class Case:
    """One mistake. `mended` is the text after the hint, where the hint is not an edit."""

    name: str
    wrong: str
    says: tuple[str, ...]
    passes: str
    rejects: str
    others: str
    pod: str
    mended: str | None

    @property
    def source(self) -> Source:
        return Source("example.policy", whole(self.wrong))


def whole(rules: str) -> str:
    """The rules in a policy, unless they are one."""
    if re.match(r"(?:cluster )?policy ", rules):
        return rules if rules.endswith("\n") else f"{rules}\n"
    return f"cluster policy example {{\n  {rules.strip()}\n}}\n"


def cases() -> Iterator[Case]:
    text = GOLDEN.read_text(encoding="utf-8").replace("@clauses", CLAUSES_ARE)
    listed: list[dict[str, Any]] = yaml.safe_load(text)
    for item in listed:
        known = {"others": "", "pod": "", "mended": None, "passes": "", "rejects": ""}
        yield Case(**{**known, **item, "says": tuple(item.get("says", ()))})


CASES = tuple(cases())


def said(found: Diagnostic, source: Source) -> str:
    return plain(found, source).partition(":")[2]


def applied(source: Source, schema: Schema) -> str:
    """The text after every hint that is an edit, certain or not."""

    def look(text: Source) -> Iterator[Diagnostic]:
        for found in check_source(text, schema).diagnostics:
            yield replace(found, fix=found.fix or found.remedy)

    return mend(source, look).source.text


@pytest.mark.parametrize("case", CASES, ids=lambda c: c.name)
def test_the_mistake_is_told_once_with_its_remedy(case: Case, schema: Schema) -> None:
    found = check_source(case.source, schema).diagnostics
    assert [said(d, case.source) for d in found] == list(case.says)
    assert all(d.hint for d in found)


@pytest.mark.parametrize("case", CASES, ids=lambda c: c.name)
def test_the_hint_gives_the_stated_verdict(case: Case, schema: Schema, tmp_path: Path) -> None:
    text = applied(case.source, schema)
    if case.mended is not None:
        text = whole(case.mended)
        hints = [d.hint or "" for d in check_source(case.source, schema).diagnostics]
        shown = [s for hint in hints for s in _SNIPPET.findall(hint)]
        assert any(snippet in text for snippet in shown)
    pod = case.pod or 'pod "shop/web-1"'
    test = (
        f'test "it" {{ {case.others} node "good" {case.passes} node "bad" {case.rejects} {pod}'
        ' expect pass "good" expect reject "bad" by "x" }\n'
    )
    path = tmp_path / "example.policy"
    path.write_text(text + test, encoding="utf-8")
    collection = collect([path], Validator(schema))
    runner = Runner(collection, schema)
    (suite,) = collection.suites
    assert [d.message for d, _ in suite.errors] == [], text
    (result,) = runner.run(suite, suite.tests)
    assert result.outcome == "passed", (text, result.diagnostics)


@pytest.mark.parametrize("case", CASES, ids=lambda c: c.name)
def test_a_certain_fix_is_the_remedy(case: Case, schema: Schema) -> None:
    """What `--fix` writes is what the hint says, and leaves no error of the same kind."""
    for found in check_source(case.source, schema).diagnostics:
        if found.fix is not None and found.remedy is not None:
            assert found.fix == found.remedy
        edit = found.remedy or found.fix
        if edit is not None and edit.text.strip() not in ("", "}", "weight 10"):
            assert edit.text.strip().split()[0] in (found.hint or "")
