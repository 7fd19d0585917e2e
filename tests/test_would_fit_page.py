"""The page about questions of autoscalers and CI: every command prints the output below it."""

import re
import shlex
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.cli.conftest import Placet, placet
from tests.cli.test_serve import serving

__all__ = ["placet"]
pytestmark = pytest.mark.process

DOCS = Path(__file__).parents[1] / "docs"
PAGE = (DOCS / "would-fit.md").read_text(encoding="utf-8")
VIEW = "http://127.0.0.1:12346"
_FENCE = re.compile(r"(?ms)^```console\n(.*?)^```$")
_MARK = "---"


@pytest.mark.skipif(
    not (shutil.which("curl") and shutil.which("jq")), reason="there is no curl or no jq"
)
def test_the_page_can_be_followed(
    placet: Placet, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shutil.copytree(DOCS / "examples" / "simulate", tmp_path, dirs_exist_ok=True)
    monkeypatch.setenv("COLUMNS", "110")
    monkeypatch.chdir(tmp_path)
    start, *blocks = [block.splitlines() for block in _FENCE.findall(PAGE)]
    words = shlex.split(start[0].removeprefix("$ placet serve ").removesuffix(" &"))
    with serving(tmp_path, *words) as server:
        session = list[str]()
        for block in blocks:
            commands = [line.removeprefix("$ ") for line in block if line.startswith("$ ")]
            shown = [line for line in block if not line.startswith("$ ")]
            commands = [line.replace(VIEW, server.view) for line in commands]
            if commands[0].startswith("placet "):
                said = placet(*shlex.split(commands[0])[1:]).out
            else:
                # Later blocks use the variables of earlier ones.
                session += commands
                said = _bash([*session[: -len(commands)], f"echo {_MARK}", *commands])
            assert said.rstrip().splitlines() == "\n".join(shown).rstrip().splitlines(), commands


def _bash(lines: list[str]) -> str:
    done = subprocess.run(
        ["/bin/bash", "-ec", "\n".join(lines)], capture_output=True, text=True, check=True
    )
    return done.stdout.partition(f"{_MARK}\n")[2]
