"""Placet and Kubernetes' own CEL agree on random expressions, where docs/kubernetes-cel.md says so.

`make differential-cel EXPRESSIONS=10000 SEED=1` evaluates more; SEED and EXPRESSIONS=1 evaluate one
again.
"""

from __future__ import annotations

import os
import re
import sys
from collections import Counter
from collections.abc import Iterator

import pytest

from grammar.meaning.environment import FUNCTIONS
from grammar.tree.types import DURATION, Overload
from tests.differential.differences import PAGE, RULES, Case, Row, rows
from tests.differential.expressions import VARIABLES, Generator
from tests.differential.here import NO_VALUE, Here, read, same
from tests.differential.kubernetes_cel import KubernetesCel, There, running
from tests.e2e.process import built_expressions
from tests.support.examples import examples

FEW = 300
# Enough to see what they have in common.
MOST_DIFFERENCES = 10
# Calls of one overload until one of them has constants that Kubernetes accepts.
ATTEMPTS = 30
TEXT = PAGE.read_text(encoding="utf-8")
ROWS = tuple(rows(TEXT))


@pytest.fixture(scope="module")
def here() -> Here:
    return Here(VARIABLES)


@pytest.fixture(scope="module")
def there(pytestconfig: pytest.Config) -> Iterator[KubernetesCel]:
    with running(built_expressions(pytestconfig), VARIABLES) as process:
        yield process


def test_both_evaluations_agree(here: Here) -> None:
    """`evaluate` compares the plain evaluator with the compiler. Most expressions have a value."""
    found = [here.evaluate(Generator(seed).expression()) for seed in range(examples(200))]
    assert found.count(NO_VALUE) < len(found) // 2


def test_each_difference_is_a_row() -> None:
    assert {row.name for row in ROWS} == set(RULES)
    section = TEXT.partition("## Differences")[2].partition("\n- ")[0]
    assert len(ROWS) == section.count("\n| ") - 2


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.text)
def test_the_value_here(here: Here, row: Row) -> None:
    assert same(here.evaluate(row.text), _value(here, row.here))


def test_a_constant_that_is_never_read_hides_no_lenient_conversion() -> None:
    said = There(error="type conversion error from 'string' to 'int'")
    rule = RULES["a constant that is never read"]
    assert rule(Case('true || int("a") == 1', said, ("bool", True)))
    assert not rule(Case('int("1") == 1', said, ("bool", True)))
    assert not rule(Case("int(text) == 1", said, ("bool", True)))


@pytest.mark.e2e
def test_the_values_there(here: Here, there: KubernetesCel) -> None:
    differing = {}
    for row in ROWS:
        found = there.evaluate(row.text)
        if not same(read(found), _value(here, row.there)):
            differing[row.text] = found
    assert differing == {}


@pytest.mark.e2e
def test_functions_that_are_not_here_are_named(there: KubernetesCel) -> None:
    section = TEXT.partition("that are not here:")[2].partition("\n\n")[0]
    names = {name for name in there.functions if name[0].isalpha() and "@" not in name}
    assert names - FUNCTIONS.keys() == set(re.findall("`(.+?)`", section))


@pytest.mark.e2e
def test_expressions_have_the_same_values(
    here: Here, there: KubernetesCel, capsys: pytest.CaptureFixture[str]
) -> None:
    first, count = int(os.environ.get("SEED") or 1), int(os.environ.get("EXPRESSIONS") or FEW)
    common = {id(o) for o in _common(there)}
    became: Counter[str] = Counter()
    found: list[str] = []
    for seed in range(first, first + count):
        text = Generator(seed, lambda overload: id(overload) in common).expression()
        case = Case(text, there.evaluate(text), here.evaluate(text))
        kind = "value" if case.there.has_value else "error" if case.there.error else "refused"
        became[kind] += 1
        if same(read(case.there), case.here):
            continue
        known = next((name for name, rule in RULES.items() if rule(case)), None)
        if known is not None:
            became[f"difference: {known}"] += 1
            continue
        found.append(f"SEED={seed}: {text}\n  there: {case.there}\n  here: {case.here}")
        if len(found) >= MOST_DIFFERENCES:
            break
    with capsys.disabled():
        report = "\n".join(f"{what}: {many}" for what, many in sorted(became.items()))
        sys.stdout.write(f"\n{len(common)} overloads in common\n{report}\n")
    assert not found, "\n".join(found)
    assert became["value"] > count // 2


def _common(there: KubernetesCel) -> Iterator[Overload]:
    """The overloads that both have; the one whose every value differs has its row."""
    generator = Generator(0)
    for overload in (o for overloads in FUNCTIONS.values() for o in overloads):
        if overload.name == "getMilliseconds" and overload.params == (DURATION,):
            continue
        if any(parameter.is_record for parameter in overload.params):
            # Of nodes: only here.
            continue
        calls = (there.evaluate(generator.call(overload)) for _ in range(ATTEMPTS))
        if any(not each.refused for each in calls):
            yield overload


def _value(here: Here, text: str) -> object:
    return NO_VALUE if text == "error" else here.evaluate(text)
