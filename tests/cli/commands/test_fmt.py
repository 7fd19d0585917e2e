"""`placet fmt`, `placet how` and `placet new`: files that are written, and those left alone."""

from __future__ import annotations

from pathlib import Path

import pytest

from cli.command import Exit
from cli.main import main
from policies.recipe_collection import recipes
from tests.cli.conftest import Placet

LOOSE = 'cluster   policy a {\nfilter "x" {require   node.ready}\n}'
NEAT = 'cluster policy a {\n  filter "x" { require node.ready }\n}\n'


@pytest.fixture
def loose(folder: Path) -> Path:
    path = folder / "a.policy"
    path.write_text(LOOSE, encoding="utf-8")
    return path


def test_files_are_written_in_place(placet: Placet, loose: Path) -> None:
    """A second time there is nothing to do."""
    loose.chmod(0o640)
    done = placet("fmt", ".")
    assert (done.code, done.out, done.err) == (0, "changed a.policy\n", "")
    assert loose.read_text(encoding="utf-8") == NEAT
    assert loose.stat().st_mode & 0o777 == 0o640
    assert placet("fmt", ".").out == ""


def test_link_stays_a_link(placet: Placet, folder: Path, loose: Path) -> None:
    (folder / "link.policy").symlink_to(loose)
    placet("fmt", "link.policy")
    assert (folder / "link.policy").is_symlink()
    assert loose.read_text(encoding="utf-8") == NEAT


def test_check_writes_nothing(placet: Placet, loose: Path) -> None:
    done = placet("fmt", "--check", ".")
    assert (done.code, done.out) == (1, "would change a.policy\n")
    assert loose.read_text(encoding="utf-8") == LOOSE
    loose.write_text(NEAT, encoding="utf-8")
    assert placet("fmt", "--check", ".").code == 0


def test_file_that_is_not_of_the_language_is_left_alone(placet: Placet, loose: Path) -> None:
    """The others are formatted."""
    wrong = loose.with_name("b.policy")
    wrong.write_text("policy {", encoding="utf-8")
    done = placet("fmt", ".")
    assert (done.code, done.out) == (1, "changed a.policy\n")
    assert "b.policy:1:8" in done.err
    assert wrong.read_text(encoding="utf-8") == "policy {"


def test_mistakes_of_meaning_do_not_matter(placet: Placet) -> None:
    text = 'cluster policy a {\n  filter "x" { require node.nope }\n}\n'
    assert placet("fmt", "-", stdin=text).out == text


def test_standard_input_goes_to_standard_output(placet: Placet) -> None:
    done = placet("fmt", "-", stdin=LOOSE)
    assert (done.code, done.out, done.err) == (0, NEAT, "")
    assert placet("fmt", "--check", "-", stdin=LOOSE).code == 1
    assert placet("fmt", "--check", "-", stdin=NEAT).code == 0
    assert placet("fmt", "-", stdin="policy {").code == 1
    assert placet("fmt", "-", "a.policy").code == 2


def test_missing_file_is_an_error(placet: Placet, folder: Path) -> None:
    done = placet("fmt", "a.policy")
    assert (done.code, done.out) == (2, "")
    assert done.err.startswith("error: `a.policy` does not exist\n")


def test_diff_shows_what_would_change(placet: Placet) -> None:
    """Manifests stay as they are."""
    before, after = "cluster policy  a { }\n", "cluster policy a { }\n"
    done = placet("fmt", "--diff", "-", stdin=before)
    assert (done.code, done.err) == (1, "")
    assert done.out == f"--- a/-\n+++ b/-\n@@ -1 +1 @@\n-{before}+{after}"
    assert placet("fmt", "--diff", "-", stdin=after).code == 0
    manifest = "apiVersion: v1\nkind:   ConfigMap\n"
    assert placet("fmt", "-", stdin=manifest).out == manifest


# ---- `placet how` and `placet new`: recipes on the terminal, and as files that work


def test_a_recipe_is_printed_whole(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["how", "at", "most", "three", "per", "zone"]) == Exit.OK
    out = capsys.readouterr().out
    assert 'limit "three per zone" { per zone at most 3 strict }' in out
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


@pytest.mark.parametrize("name", [f"{'a' * 300}.policy", "pyproject.toml/web.policy"])
def test_new_says_what_is_wrong_with_a_path(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["new", name, "one-per-node"]) == Exit.ERROR
    said = capsys.readouterr().err
    assert said.startswith(f"error: cannot write `{name}`: ")
    assert "give another path" in said


OLD = """\
policy a {
  for pods where pod.labels["x"] == "y"
  group rack by node.labels["rack"]
  limit "a" { per domain node.zone at most 2 strict }
  limit "b" { per group rack at most 2 strict }
  count n per group rack = pods where peer.labels["a"] == "b"
  filter "n" { require n < 2 }
  limit "c" { used nodes where node.ready at most 2 strict }
  limit "d" { all pods where true empty nodes at least 2 strict }
  repair at most 5 per minute, at most 2 local data within "22:00" .. "06:30"
  spread "e" { over node.zone skew at most 1 at least 3 strict }
  preempt "f" { allow when size(victims) < 9 keep 2 by size(victims) }
  data "g" {
    from objects "v1/Secret" by object.metadata.namespace
    columns { last = max object.metadata.name.size() }
  }
  filter "g" { require data.g[pod.namespace].last < 9 }
}
"""
NEW = """\
policy a {
  for pods where pod.labels["x"] == "y"
  group rack by node.labels["rack"]
  limit "a" { per node.zone at most 2 strict }
  limit "b" { per rack at most 2 strict }
  count n per rack = pods where peer.labels["a"] == "b"
  filter "n" { require n < 2 }
  limit "c" { used node where node.ready at most 2 strict }
  limit "d" { all pods where true empty node at least 2 strict }
  repair at most 5 per minute, at most 2 local data within "22:00" .. "06:30"
  spread "e" { over node.zone at least 3 skew at most 1 strict }
  preempt "f" { require size(victims) < 9 pick 2 least size(victims) }
  data "g" {
    from objects "v1/Secret" by object.metadata.namespace
    columns { last = most object.metadata.name.size() }
  }
  filter "g" { require data.g[pod.namespace].last < 9 }
}
"""


def test_old_words_are_written_as_they_are_today(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """With `--upgrade` alone."""
    file = tmp_path / "a.policy"
    file.write_text(OLD, encoding="utf-8")
    assert main(["fmt", str(file)]) == Exit.FINDINGS
    assert file.read_text("utf-8") == OLD
    assert main(["fmt", "--upgrade", "--check", str(file)]) == Exit.FINDINGS
    assert file.read_text("utf-8") == OLD
    assert main(["fmt", "--upgrade", str(file)]) == Exit.OK
    assert file.read_text("utf-8") == NEW
    assert main(["fmt", "--upgrade", str(file)]) == Exit.OK
    assert main(["check", str(file)]) == Exit.OK
    assert "changed" in capsys.readouterr().out
