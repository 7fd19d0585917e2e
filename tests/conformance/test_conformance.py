"""The CEL conformance suite, on the plain evaluator and compiled."""

from __future__ import annotations

import pytest

from tests.conformance.cases import SUITE, Case, compiled, plainly, read

CASES = read(SUITE) if SUITE.exists() else []
pytestmark = pytest.mark.skipif(not CASES, reason="the conformance suite is not beside the project")


@pytest.mark.parametrize("case", CASES, ids=lambda c: c.name)
def test_plain(case: Case) -> None:
    """The plain evaluator agrees."""
    assert case.agrees(plainly(case))


@pytest.mark.parametrize("case", [c for c in CASES if c.checked], ids=lambda c: c.name)
def test_compiled(case: Case) -> None:
    """Checker and compiler agree."""
    assert case.agrees(compiled(case))
