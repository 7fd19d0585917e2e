"""A simulated cluster shows no fault, and one with a planted fault shows it."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.chaos.mutants import MUTANTS, TREE, Mutant, copied, run
from tests.chaos.random_mutants import drawn


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
