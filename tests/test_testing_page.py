"""The page about tests: its files are written, its commands run and print what it shows."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from cli.main import main

PAGE = Path(__file__).parents[1] / "docs" / "testing.md"
# A file with its name above it, or a command with its output.
_STEP = re.compile(
    r"(?ms)^`(\w+\.policy)`\n\n```\n(.*?)^```$|^```console\n\$ placet (.*?)\n(.*?)^```$"
)
_TIME = re.compile(r"in \d+\.\d\ds")


def steps() -> Iterator[tuple[str, ...]]:
    for name, text, arguments, output in _STEP.findall(PAGE.read_text(encoding="utf-8")):
        yield (name, text) if name else (arguments, output)


def test_page_can_be_followed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    commands = 0
    for first, second in steps():
        if first.endswith(".policy"):
            Path(first).write_text(second, encoding="utf-8")
            continue
        commands += 1
        main(first.split())
        done = capsys.readouterr()
        assert done.err == ""
        assert _TIME.sub("in 0.01s", done.out) == second
    assert commands == PAGE.read_text(encoding="utf-8").count("\n$ ") > 0


def test_policies_of_the_page_are_laid_out_as_fmt_would(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for i, (name, text) in enumerate(step for step in steps() if step[0].endswith(".policy")):
        (tmp_path / f"{i}-{name}").write_text(text, encoding="utf-8")
    assert main(["fmt", "--check", str(tmp_path)]) == 0, capsys.readouterr().out
