"""Headless Neovim with the lines of docs/editors.md, and what the page says of other editors."""

import json
import os
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from tests.cli import shop

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "editors.md"
NEOVIM = shutil.which("nvim")
POLICY = """\
policy  near {
  for pods where pod.namespace == "shop"
  let near = node.zoen == "a"
  filter "near" { require near }
  score "best" weight 1 { value near }
}
"""


def fence(language: str) -> str:
    """The example of the page in a language."""
    found = re.search(rf"(?ms)^```{language}\n(.*?)^```", PAGE.read_text("utf-8"))
    assert found is not None
    return found[1]


@pytest.mark.browser
@pytest.mark.skipif(NEOVIM is None, reason="no Neovim; on Debian run: apt-get install neovim")
def test_the_lines_for_neovim(tmp_path: Path) -> None:
    assert NEOVIM is not None
    shop.write(tmp_path)
    lines = fence("lua").replace('"placet", "lsp"', '"placet", "lsp", "--cluster", "cluster.json"')
    (tmp_path / "init.lua").write_text(lines, "utf-8")
    policies = tmp_path / "policies"
    policies.mkdir()
    file, answer = policies / "near.policy", tmp_path / "answer.json"
    file.write_text(POLICY, "utf-8")
    session = Path(__file__).parent / "session.lua"
    command = (NEOVIM, "--headless", "--clean", "-u", "init.lua", "-c", f"luafile {session}")
    ended = subprocess.run(
        command,
        cwd=tmp_path,
        env={
            **os.environ,
            "HOME": str(tmp_path),
            "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
            "PLACET_SESSION": f"{file}\n{answer}",
        },
        capture_output=True,
        timeout=120,
        check=False,
    )
    assert answer.exists(), ended.stderr.decode()
    seen = json.loads(answer.read_text("utf-8"))
    assert seen.get("problem") is None, ended.stderr.decode()
    line, start, end, message = seen["diagnostic"]
    assert POLICY.splitlines()[line][start:end] == "zoen"
    assert message.splitlines()[0] == "Node has no field `zoen`"
    assert "node.zone: string" in seen["hover"]
    assert seen["definition"] == [3, len("  let near") - len("near") + 1]
    assert seen["completion"] == ["capacity"]
    assert (
        seen["text"]
        == POLICY.replace("policy  near", "policy near").replace("zoen", "zone").rstrip()
    )


def test_the_lines_for_helix_name_the_server() -> None:
    found = tomllib.loads(fence("toml"))
    (language,) = found["language"]
    (name,) = language["language-servers"]
    server = found["language-server"][name]
    assert (server["command"], server["args"]) == ("placet", ["lsp"])
    assert language["file-types"] == ["policy"]
