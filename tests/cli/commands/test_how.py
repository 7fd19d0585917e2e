"""`placet how` and `placet new`: recipes on the terminal, and as files that work."""

from __future__ import annotations

from pathlib import Path

import pytest

from cli.command import Exit
from cli.main import main
from policies.recipe_collection import recipes


def test_a_recipe_is_printed_whole(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["how", "at", "most", "three", "per", "zone"]) == Exit.OK
    out = capsys.readouterr().out
    assert 'limit "three per zone" { per domain node.zone at most 3 strict }' in out
    assert 'expect reject "a-1" by "three per zone"' in out
    assert out.startswith("# 1  at-most-three-per-zone  ")
    assert [line[:3] for line in out.splitlines()[:3]] == ["# 1", "# 2", "# 3"]
    assert "\n# 1: at-most-three-per-zone: " in out


def test_all_recipes_are_listed(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["how"]) == Exit.OK
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines] == [r.name for r in recipes()]


def test_unknown_words_end_with_a_hint(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["how", "xyzzy"]) == Exit.ERROR
    assert "no recipe is about `xyzzy`" in capsys.readouterr().err


def test_new_writes_a_policy_that_passes_its_tests(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["new", "web.policy", "one", "per", "node"]) == Exit.OK
    assert sorted(p.name for p in tmp_path.iterdir()) == [
        "web-cluster.yaml",
        "web.policy",
        "web_test.policy",
    ]
    assert main(["test", "web_test.policy", "web.policy"]) == Exit.OK
    assert main(["check", "--strict", "--cluster", "web-cluster.yaml", "web.policy"]) == Exit.OK
    assert "1 passed" in capsys.readouterr().out


@pytest.mark.parametrize("name", ["web_test.policy", "web.yaml"])
def test_new_wants_the_name_of_a_policy_file(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["new", name, "one-per-node"]) == Exit.ERROR
    assert "is not the name of a policy file" in capsys.readouterr().err


def test_new_replaces_no_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "web_test.policy").write_text("", encoding="utf-8")
    assert main(["new", "web.policy", "one-per-node"]) == Exit.ERROR
    assert "`web_test.policy` already exists" in capsys.readouterr().err
    assert not (tmp_path / "web.policy").exists()


@pytest.mark.parametrize("name", [f"{'a' * 300}.policy", "gone/web.policy"])
def test_new_says_what_is_wrong_with_a_path(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["new", name, "one-per-node"]) == Exit.ERROR
    said = capsys.readouterr().err
    assert said.startswith(f"error: cannot write `{name}`: ")
    assert "give another path" in said
