"""Contestants that do the same in turns, each in a process of its own: A B C, A B C, and so on."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import IO

ROOT = Path(__file__).parents[2]


@dataclass(frozen=True, slots=True)
class Round:
    """What one contestant did in one round: the time, and which of the nodes passed."""

    seconds: float
    passed: Sequence[bool]


@dataclass(frozen=True, slots=True)
class RaceResult:
    """All rounds of one contestant."""

    rounds: tuple[Round, ...]

    @property
    def passed(self) -> Sequence[bool]:
        """Which nodes passed; the same in every round."""
        first, *others = self.rounds
        assert all(r.passed == first.passed for r in others)
        return first.passed

    @property
    def micros(self) -> float:
        """The median of the microseconds that a node took."""
        return median(r.seconds / len(r.passed) for r in self.rounds) * 1e6


def race(
    contestants: Mapping[str, Sequence[str]], rounds: int, path: Path | None = None
) -> dict[str, RaceResult]:
    """Every contestant's rounds.

    A contestant is the name of a module of `contestants` and its arguments; it runs on the same
    Python as this, with `path` before everything else that can be imported.
    """
    with ExitStack() as stack:
        running = {n: stack.enter_context(_running(c, path)) for n, c in contestants.items()}
        taken: dict[str, list[Round]] = {name: [] for name in contestants}
        for number in range(rounds + 1):
            for name, process in running.items():
                done = _round(process)
                if number:  # the first one pays for what is worked out once
                    taken[name].append(done)
    return {name: RaceResult(tuple(done)) for name, done in taken.items()}


@contextmanager
def _running(contestant: Sequence[str], path: Path | None) -> Iterator[subprocess.Popen[str]]:
    module, *arguments = contestant
    command = [sys.executable, "-m", f"tests.benchmarks.contestants.{module}", *arguments]
    env = os.environ | ({} if path is None else {"PYTHONPATH": str(path)})
    pipe = subprocess.PIPE
    with subprocess.Popen(command, cwd=ROOT, env=env, stdin=pipe, stdout=pipe, text=True) as it:
        _read(it)  # it has said that it is ready
        yield it
        it.communicate()  # the end of its input is the end of its run
    assert it.returncode == 0


def _round(process: subprocess.Popen[str]) -> Round:
    stdin: IO[str] | None = process.stdin
    assert stdin is not None
    stdin.write("go\n")
    stdin.flush()
    done = json.loads(_read(process))
    return Round(done["seconds"], [letter == "1" for letter in done["passed"]])


def _read(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    line = process.stdout.readline()
    assert line, f"a contestant has ended: {process.args!r}"
    return line
