"""Answers of `doctor` and `scheduler-config` to the JSON and YAML that extenders started with.

The exact answers are in tests/golden/seeds. An answer that changes by intention is written again:
`WRITE_GOLDEN=1 .venv/bin/python -m pytest tests/test_seeds.py`.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest
import yaml

from tests.cli.conftest import Placet, folder, placet
from tests.support.seeds import (
    CONFIGURATIONS,
    KEP,
    PLUGIN_ARGUMENTS,
    PROPOSAL,
    SEEDS,
    Printed,
    documents,
)

__all__ = ["folder", "placet"]

GOLDEN = Path(__file__).parent / "golden" / "seeds"


def answers(placet: Placet, printed: Printed, *commands: str) -> str:
    """What the commands print about a document, in a file of its own."""
    file = Path(f"seed{printed.suffix}")
    said = ""
    for command in commands:
        file.write_text(printed.text(), encoding="utf-8")
        done = placet(*command.split(), str(file))
        said += f"$ placet {command} {file}\n{done.out}{done.err}exit {done.code}\n\n"
    return said


def compare(said: str, name: str) -> None:
    file = GOLDEN / f"{name}.txt"
    if os.environ.get("WRITE_GOLDEN"):
        file.write_text(said, encoding="utf-8")
    assert said == file.read_text(encoding="utf-8")


@pytest.mark.parametrize("printed", CONFIGURATIONS, ids=lambda p: p.id)
@pytest.mark.usefixtures("folder")
def test_a_configuration_is_diagnosed_and_converted(placet: Placet, printed: Printed) -> None:
    compare(answers(placet, printed, "doctor", "scheduler-config --from"), printed.id)


@pytest.mark.usefixtures("folder")
def test_arguments_of_a_plugin_are_no_configuration(placet: Placet) -> None:
    said = answers(placet, PLUGIN_ARGUMENTS, "doctor", "scheduler-config --from")
    compare(said, PLUGIN_ARGUMENTS.id)


@pytest.mark.usefixtures("folder")
def test_the_proposed_policy_is_checked(placet: Placet) -> None:
    """As it is printed; then with `spec` in lower case, and with the values that it describes."""
    said = answers(placet, PROPOSAL, "check")
    text = PROPOSAL.text()
    for old, new in (
        ("\nSpec:", "\nspec:"),
        ("<policy-name>", "web"),
        ("weight: <int>", "weight: 200"),
        ("enforcementMode: <string enum>", "enforcementMode: Force"),
        ("Force\n", "Strict\n"),
        ("action: <string enum>", "action: Must"),
        ("targetSize: xx% or xx", "targetSize: 40%"),
        ("matchLabels: # key/value selector", "matchLabels: {Key: Val}"),
    ):
        assert old in text
        text = text.replace(old, new)
        Path("seed.yaml").write_text(text, encoding="utf-8")
        done = placet("check", "-o", "plain", "seed.yaml")
        said += f"with `{new.strip()}`\n{done.out}{done.err}exit {done.code}\n\n"
    compare(said, PROPOSAL.id)


@pytest.mark.parametrize("printed", CONFIGURATIONS, ids=lambda p: p.id)
def test_what_is_converted_has_no_errors(placet: Placet, folder: Path, printed: Printed) -> None:
    file = folder / f"seed{printed.suffix}"
    file.write_text(printed.text(), encoding="utf-8")
    converted = placet("scheduler-config", "--from", str(file)).out
    binds = ["--bind"] if printed is KEP else []
    assert placet("doctor", *binds, "-", stdin=converted).code == 0
    again = placet("scheduler-config", "--from", "-", stdin=converted)
    assert yaml.safe_load(again.out) == yaml.safe_load(converted)
    assert again.err == ""


def test_every_document_has_a_test() -> None:
    if not SEEDS.exists():
        pytest.skip(f"there is no {SEEDS}")
    found = {
        (path.name[:3], place)
        for path in SEEDS.glob("*.txt")
        for place, _ in enumerate(documents(path.read_text(encoding="utf-8")))
    }
    known = (*CONFIGURATIONS, PLUGIN_ARGUMENTS, PROPOSAL)
    assert found == {(each.number, each.block) for each in known}
