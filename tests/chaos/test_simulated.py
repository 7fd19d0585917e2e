"""A simulated cluster shows no fault, and one with a planted fault shows it."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.chaos.mutants import MUTANTS, TREE, Mutant, copied, run
from tests.chaos.random_mutants import drawn
from tests.chaos.simulated.clock import SimulatedLoop, SimulatedWaits


@pytest.mark.process
@pytest.mark.parametrize(
    "binds",
    [
        pytest.param(True, id="bindVerb"),
        pytest.param(False, id="without", marks=pytest.mark.thorough),
    ],
)
def test_nothing_is_found(*, binds: bool) -> None:
    found = run(TREE, 7, binds=binds, minutes=1)
    assert not found.anything, found.text


@pytest.mark.process
def test_a_seed_shows_the_same_at_the_same_times_whenever_it_runs(tmp_path: Path) -> None:
    file, outputs = tmp_path / "schedule", set[tuple[str, tuple[str, ...]]]()
    file.write_text("phase\n0.1 create name=a app=budget count=30\n0.2 api down=2.0\n")
    command = [sys.executable, "-m", "tests.chaos.simulated", "7", "1", "--bind", "--verbose"]
    for hashes in ("0", "1"):
        done = subprocess.run(
            [*command, f"--schedule={file}"],
            cwd=TREE,
            env={**os.environ, "PYTHONHASHSEED": hashes, "PYTHONPATH": f"{TREE}"},
            capture_output=True,
            text=True,
            check=True,
        )
        # The names of replicas and the ports are other ones each time.
        times = tuple(line[: len("2026-01-01 00:00:00,000")] for line in done.stderr.splitlines())
        assert times
        outputs.add((done.stdout.partition("after ")[0], times))
    assert len(outputs) == 1


def test_a_run_begins_where_budgets_and_pauses_are_as_in_the_first_one() -> None:
    waits = SimulatedWaits()
    loop = SimulatedLoop(waits, 1030.25)
    loop.begin()
    assert loop.time() == 1030.25
    waits.now += 500.5
    loop.begin()
    assert loop.time() == 1630.25
    loop.close()


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda each: each.name)
def test_each_fault_is_one_of_this_tree(mutant: Mutant, tmp_path: Path) -> None:
    tree = copied(tmp_path, folders={Path(mutant.file).parts[0]})
    mutant.apply(tree)
    compile((tree / mutant.file).read_text(), mutant.file, "exec")


def test_random_faults_are_parts_of_this_tree_and_can_be_compiled(tmp_path: Path) -> None:
    found = drawn(TREE, 1, 40)
    assert found == drawn(TREE, 1, 50)[:40]
    assert found != drawn(TREE, 2, 40)
    assert len({each.file for each in found}) > 5
    for number, each in enumerate(found):
        tree = tmp_path / f"{number}"
        (tree / each.file).parent.mkdir(parents=True)
        shutil.copy(TREE / each.file, tree / each.file)
        each.apply(tree)
        changed = (tree / each.file).read_text()
        assert changed != (TREE / each.file).read_text()
        compile(changed, each.file, "exec")


@pytest.mark.thorough
def test_a_planted_fault_is_found_and_shortened(tmp_path: Path) -> None:
    (fault,) = (each for each in MUTANTS if each.name == "pods in flight count nowhere")
    tree = copied(tmp_path)
    fault.apply(tree)

    found = run(tree, 1, binds=fault.binds)

    assert found.anything
    report, _, schedule = found.text.partition("phase\n")
    assert "overrun: " in report
    assert len(schedule.splitlines()) < 10
