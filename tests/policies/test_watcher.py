"""The watcher: every way in which files change is seen, once, when they have settled."""

import os
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from policies.disk import Visit
from policies.loader import Search, Watcher


def rewrite(folder: Path) -> None:
    (folder / "a.policy").write_text("# more", encoding="utf-8")


def replace(folder: Path) -> None:
    """As editors do: another file with the same size and time takes the place."""
    old = (folder / "a.policy").stat()
    (folder / "new").write_text("# a", encoding="utf-8")
    os.utime(folder / "new", ns=(old.st_atime_ns, old.st_mtime_ns))
    (folder / "new").replace(folder / "a.policy")


def touch(folder: Path) -> None:
    os.utime(folder / "a.policy", ns=(1, 1))


def add(folder: Path) -> None:
    (folder / "b.policy").touch()


def remove(folder: Path) -> None:
    (folder / "a.policy").unlink()


def swap(folder: Path) -> None:
    """As the kubelet updates a ConfigMap: the link in the middle gets another target."""
    (folder / "..new").symlink_to("..second")
    (folder / "..new").replace(folder / "..data")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "a.policy").write_text("# a", encoding="utf-8")
    for version in ("..first", "..second"):
        (tmp_path / version).mkdir()
        (tmp_path / version / "mounted.policy").touch()
    (tmp_path / "..data").symlink_to("..first")
    (tmp_path / "mounted.policy").symlink_to("..data/mounted.policy")
    return tmp_path


@pytest.mark.parametrize("change", [rewrite, replace, touch, add, remove, swap])
def test_change_is_seen_once_at_the_second_look(
    folder: Path, change: Callable[[Path], None]
) -> None:
    watcher = Watcher(lambda visit: Search([folder], visit).paths)
    assert [watcher.changed() for _ in range(3)] == [False, False, False]
    quiet = watcher.pause
    change(folder)
    assert not watcher.changed()
    assert watcher.pause == quiet / 2
    assert [watcher.changed() for _ in range(3)] == [True, False, False]
    assert watcher.pause == quiet


def test_without_a_sign_nothing_is_listed(folder: Path) -> None:
    """A look at many files costs more than a server that idles; two follow a change."""
    listed = []

    def files(visit: Visit) -> Sequence[Path]:
        listed.append(folder)
        return Search([folder], visit).paths

    watcher = Watcher(files)
    assert [watcher.changed() for _ in range(3)] == [False, False, False]
    assert len(listed) == 1
    rewrite(folder)
    assert [watcher.changed() for _ in range(4)] == [False, True, False, False]
    assert len(listed) == 3


def test_file_that_is_still_changing_is_left_alone(folder: Path) -> None:
    """A file that is being written, half of which would be another policy."""
    watcher = Watcher(lambda visit: Search([folder], visit).paths)
    for size in range(1, 4):
        (folder / "a.policy").write_text("#" * size * 10, encoding="utf-8")
        assert not watcher.changed()
    assert watcher.changed()


def test_file_that_comes_back_as_it_was_has_not_changed(folder: Path) -> None:
    """Removed and restored between two looks that agree."""
    watcher = Watcher(lambda visit: Search([folder], visit).paths)
    (folder / "a.policy").rename(folder / "a.gone")
    assert not watcher.changed()
    (folder / "a.gone").rename(folder / "a.policy")
    assert [watcher.changed() for _ in range(3)] == [False, False, False]
