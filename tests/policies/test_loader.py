"""Paths to texts: which files a path stands for, and what is said of those that give none."""

import os
from pathlib import Path

import pytest

from policies.loader import Search, load


def names(*paths: Path) -> list[str]:
    return [path.name for path in Search(paths).files]


def test_folder_stands_for_its_policy_files(tmp_path: Path) -> None:
    """In and below it, by name, without other files and hidden ones."""
    (tmp_path / "below").mkdir()
    (tmp_path / ".hidden").mkdir()
    for name in ("b.policy", "a_test.policy", "notes.txt", "below/c.policy", ".hidden/d.policy"):
        (tmp_path / name).touch()
    (tmp_path / ".e.policy").touch()
    assert names(tmp_path) == ["a_test.policy", "b.policy", "c.policy"]


def test_named_file_is_read_whatever_it_is_called(tmp_path: Path) -> None:
    path = tmp_path / "rules.txt"
    path.write_text("# nothing", encoding="utf-8")
    loaded = load([path])
    assert [(s.name, s.text) for s in loaded.sources] == [(str(path), "# nothing")]
    assert loaded.problems == ()


def test_file_is_read_once(tmp_path: Path) -> None:
    """However often it is named, and through links too."""
    (tmp_path / "a.policy").touch()
    (tmp_path / "b.policy").symlink_to(tmp_path / "a.policy")
    assert names(tmp_path, tmp_path / "a.policy", tmp_path) == ["a.policy"]


def test_mounted_config_map_is_read(tmp_path: Path) -> None:
    """Its files are links through a hidden link into a hidden folder."""
    (tmp_path / "..2026_11_21").mkdir()
    (tmp_path / "..2026_11_21" / "shop.policy").touch()
    (tmp_path / "..data").symlink_to("..2026_11_21")
    (tmp_path / "shop.policy").symlink_to("..data/shop.policy")
    assert Search([tmp_path]).files == [tmp_path / "shop.policy"]


def test_loop_of_links_ends(tmp_path: Path) -> None:
    (tmp_path / "again").symlink_to(tmp_path)
    (tmp_path / "a.policy").touch()
    assert names(tmp_path) == ["a.policy"]


def test_byte_order_mark_is_no_text(tmp_path: Path) -> None:
    (tmp_path / "a.policy").write_bytes(b"\xef\xbb\xbf# text")
    assert load([tmp_path]).sources[0].text == "# text"


def test_good_files_are_read_beside_bad_ones(tmp_path: Path) -> None:
    """A sentence and a hint for each that is not."""
    (tmp_path / "good.policy").touch()
    (tmp_path / "latin.policy").write_bytes(b"# caf\xe9")
    (tmp_path / "empty").mkdir()
    loaded = load([tmp_path, tmp_path / "missing.policy", tmp_path / "empty"])
    assert [Path(s.name).name for s in loaded.sources] == ["good.policy"]
    ending = "policy files end in `.policy`, manifests in `.json`, `.yaml` or `.yml`"
    assert {p.message.replace(str(tmp_path), ""): (p.hint, p.unread) for p in loaded.problems} == {
        "`/latin.policy` is not UTF-8 text at byte 5": ("save it as UTF-8", True),
        "`/missing.policy` does not exist": ("check the path", False),
        "the folder `/empty` has no policy files": (ending, False),
    }


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_what_may_not_be_read_is_unread(tmp_path: Path) -> None:
    """Files and folders; it may be there, so nothing follows from its silence."""
    (tmp_path / "a.policy").touch(mode=0)
    (tmp_path / "closed").mkdir(mode=0)
    problems = load([tmp_path]).problems
    assert [p.message.partition(": ")[2] for p in problems] == ["permission denied"] * 2
    assert all(p.unread for p in problems)
