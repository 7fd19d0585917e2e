"""Language benchmarks: how long it takes to compile and to check a policy."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median

import pytest

from engine.clauses.programs import compile_policy
from grammar.meaning.schema import load_schema
from grammar.tree.source import Source
from policies.validation import check_source
from tests.benchmarks.results import AtMost, Record

ROOT = Path(__file__).parents[2]
POLICY = Path(__file__).with_name("sixty_lines.policy")

pytestmark = pytest.mark.bench


def test_compile(record: Record) -> None:
    """Text to program, in a process that has done so before."""
    source = Source(POLICY.name, POLICY.read_text())
    schema = load_schema()
    assert source.text.count("\n") == 60

    def act() -> None:
        (checked,) = check_source(source, schema).policies
        assert not checked.broken
        compile_policy(checked)

    taken = _seconds(20, act)
    record(
        "compile 60 lines",
        median(taken) * 1000,
        AtMost(40),
        f"ms from text to program, warm; most {max(taken) * 1000:.3g}",
    )


@pytest.mark.parametrize("cached", [True, False], ids=["cache", "no cache"])
def test_check(cached: bool, tmp_path: Path, record: Record) -> None:
    """From a cold start of the interpreter."""
    command = [sys.executable, "-m", "cli", "check", str(POLICY)]
    folders = [tmp_path / ("cache" if cached else f"cache-{i}") for i in range(8)]

    def check() -> None:
        env = os.environ | {"XDG_CACHE_HOME": str(folders.pop())}
        subprocess.run(command, cwd=ROOT, env=env, check=True, capture_output=True)

    taken = _seconds(7, check)
    record(
        "check one file" if cached else "check one file, no grammar cache",
        median(taken),
        AtMost(0.5) if cached else None,
        f"s for `placet check` of 60 lines, from the start of its process; most {max(taken):.3g}",
    )


def _seconds(times: int, act: Callable[[], None]) -> list[float]:
    act()  # the first one pays for what is kept
    taken = []
    for _ in range(times):
        started = time.perf_counter()
        act()
        taken.append(time.perf_counter() - started)
    return taken
