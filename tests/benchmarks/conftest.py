"""Gives benchmarks a place for their figures; at the end of a run it prints and writes them."""

from __future__ import annotations

import pytest

from tests.benchmarks.results import Record, Results, table

_RESULTS = pytest.StashKey[Results]()


@pytest.fixture(scope="session")
def record(pytestconfig: pytest.Config) -> Record:
    """Return the function that keeps a figure for the table and `.bench/results.json`."""
    return pytestconfig.stash.setdefault(_RESULTS, Results()).record


def pytest_terminal_summary(
    terminalreporter: pytest.TerminalReporter, config: pytest.Config
) -> None:
    if (results := config.stash.get(_RESULTS, None)) is None or not results.taken:
        return
    path = config.rootpath / ".bench" / "results.json"
    results.write(path)
    terminalreporter.section("benchmarks")
    terminalreporter.write_line(table(results.taken))
    terminalreporter.write_line(f"written to {path.relative_to(config.rootpath)}")
