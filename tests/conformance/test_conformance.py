"""The CEL conformance suite, on the plain evaluator and compiled."""

from __future__ import annotations

import pytest

from tests.conformance.cases import SUITE, Case, compiled, plainly, read

# Names are full here: docs/language/cel.md.
OF_CONTAINERS = "namespace/namespace/self_eval_container_lookup_unchecked"
CASES = [c for c in read(SUITE) if c.name != OF_CONTAINERS] if SUITE.exists() else []
FILES = sorted({case.fields["file"] for case in CASES})
pytestmark = pytest.mark.skipif(not CASES, reason="the conformance suite is not beside the project")


def cases_of(file: str) -> list[Case]:
    return [case for case in CASES if case.fields["file"] == file]


@pytest.mark.parametrize("file", FILES)
def test_plain(file: str) -> None:
    """The plain evaluator agrees."""
    assert [case.name for case in cases_of(file) if not case.agrees(plainly(case))] == []


@pytest.mark.parametrize("file", FILES)
def test_compiled(file: str) -> None:
    """Checker and compiler agree."""
    checked = [case for case in cases_of(file) if case.checked]
    assert [case.name for case in checked if not case.agrees(compiled(case))] == []
