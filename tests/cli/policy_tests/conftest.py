"""Runs the tests of policy texts."""

from collections.abc import Callable
from pathlib import Path

import pytest

from cli.policy_tests.runner import Runner, TestOutcome, collect
from grammar.meaning.schema import load_schema
from policies.validation import Validator

SCHEMA = load_schema()

RunTest = Callable[..., TestOutcome]


def run(*paths: Path) -> list[TestOutcome]:
    """The results of all tests of some files."""
    collection = collect(paths, Validator(SCHEMA))
    runner = Runner(collection, SCHEMA)
    return [r for suite in collection.suites for r in runner.run(suite, suite.tests)]


@pytest.fixture
def run_test(tmp_path: Path) -> RunTest:
    """Runs one test, given the policies of its file and its items."""

    def run_one(policies: str, items: str) -> TestOutcome:
        file = tmp_path / "some.policy"
        file.write_text(f'{policies}\ntest "it" {{ {items} }}\n', encoding="utf-8")
        (result,) = run(file)
        assert result.suite.errors == ()
        return result

    return run_one
