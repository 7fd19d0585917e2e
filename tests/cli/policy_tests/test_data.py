"""Rows of tables in tests of policies: their age, and what is wrong with them."""

from __future__ import annotations

from pathlib import Path

import pytest

from cli.main import main

POLICY = """cluster policy p {
  for pods where true
  data "load" { from metrics stale after 2h }
  filter "not hot" { require data.load[node.name].cpu < "6" missing pass }
}
"""
REST = """  node "n1"
  pod "shop/a"
  expect reject "n1" by "not hot"
}
"""


def outcome(folder: Path, capsys: pytest.CaptureFixture[str], rows: str) -> tuple[int, str]:
    file = folder / "p.policy"
    file.write_text(f'{POLICY}test "t" {{\n  {rows}\n{REST}')
    code = main(["test", str(file)])
    return code, capsys.readouterr().out


@pytest.mark.parametrize(("age", "code"), [("119m", 0), ("121m", 1)])
def test_a_row_can_be_as_old_as_it_says(
    age: str, code: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = f'data "load" {{ "n1": {{"cpu": "7", "age": "{age}"}} }}'
    assert outcome(tmp_path, capsys, rows)[0] == code


@pytest.mark.parametrize(
    ("rows", "error", "hint"),
    [
        (
            'data "laod" { "n1": {"cpu": "7"} }',
            'no policy here has `data "laod"`',
            "write `load`",
        ),
        (
            'data "load" { "n1": {"cpu": "hot"} }',
            "data load: row `n1`, column `cpu`: `hot` is not a quantity",
            "fix the rows of `load`",
        ),
        (
            'data "load" { "n1": {"cpu": "7", "age": "old"} }',
            "data load: row `n1`, column `age`: write a number and a unit",
            "fix the rows of `load`",
        ),
    ],
)
def test_wrong_rows_are_an_error_of_their_test(
    rows: str, error: str, hint: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code, out = outcome(tmp_path, capsys, rows)
    assert code == 1
    assert f"error: {error}" in out
    assert f"= help: {hint}" in out
