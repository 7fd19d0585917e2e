"""Runs the tests of policy texts."""

from collections.abc import Callable
from pathlib import Path

import pytest

from cli.policy_tests.coverage import Coverage
from cli.policy_tests.runner import Runner, TestOutcome, collect
from grammar.meaning.schema import load_schema
from policies.validation import Validator

SCHEMA = load_schema()

RunTest = Callable[..., TestOutcome]


def run(*paths: Path) -> tuple[list[TestOutcome], Coverage]:
    """The results of all tests of some files, and their coverage."""
    collection = collect(paths, Validator(SCHEMA))
    runner = Runner(collection, SCHEMA)
    results = [r for suite in collection.suites for r in runner.run(suite, suite.tests)]
    return results, runner.coverage


@pytest.fixture
def run_test(tmp_path: Path) -> RunTest:
    """Runs one test, given the policies of its file and its items."""

    def run_one(policies: str, items: str) -> TestOutcome:
        file = tmp_path / "some.policy"
        file.write_text(f'{policies}\ntest "it" {{ {items} }}\n', encoding="utf-8")
        (result,), _ = run(file)
        assert result.suite.errors == ()
        return result

    return run_one
