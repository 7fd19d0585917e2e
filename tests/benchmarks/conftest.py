"""Gives benchmarks a place for their figures; at the end of a run it prints and writes them."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.benchmarks.results import Record, Results, table

_RESULTS = pytest.StashKey[Results]()


@pytest.fixture(scope="session")
def record(pytestconfig: pytest.Config) -> Record:
    """Return the function that keeps a figure for the table and `.bench/results.json`."""
    return pytestconfig.stash.setdefault(_RESULTS, Results()).record


@pytest.fixture(scope="session")
def peers(pytestconfig: pytest.Config) -> Path:
    """Return the folder where `make bench` has installed the peers; without it there is no race."""
    folder = pytestconfig.rootpath / ".bench" / "peers"
    if not (folder / "stamp").is_file():
        pytest.skip("the peers are not installed: `make bench` could not, or has not been run")
    return folder


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
