"""Loader: finds and reads policy files, and watches them for changes."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path

from grammar.messages.catalogue import listed
from grammar.tree.source import Source
from policies.manifest_names import GROUP, MANIFEST_SUFFIXES, is_manifest

# A change counts when two looks in a row see the same state, so after half a second at most.
INTERVAL_SECONDS = 0.25

_Mark = tuple[int, int, int, str]


class Watcher:
    """Watches the files that `list_files` returns, which may be different at each look.

    A file is compared by time, size, inode and real path: the files of a ConfigMap are links, and
    change when a folder above them points elsewhere.
    """

    def __init__(self, list_files: Callable[[], Iterable[Path]]) -> None:
        self._list = list_files
        self._accepted = self._look()
        self._seen = self._accepted

    def changed(self) -> bool:
        """Whether the files differ from when this was last true, and are no longer changing.

        The second look prevents reading a file that is half written.
        """
        before, self._seen = self._seen, self._look()
        if self._seen == self._accepted or self._seen != before:
            return False
        self._accepted = self._seen
        return True

    def _look(self) -> dict[str, _Mark | None]:
        return {str(file): _mark(file) for file in self._list()}


def _mark(file: Path) -> _Mark | None:
    """The state of a file; None if it cannot be inspected, which is a state too."""
    try:
        found = file.stat()
    except OSError:
        return None
    return found.st_mtime_ns, found.st_size, found.st_ino, os.path.realpath(file)


# ---- policy files

SUFFIX = ".policy"
# A file of tests. Its policies apply only in its tests.
TEST_SUFFIX = "_test.policy"
_MANIFESTS = listed(f"`{suffix}`" for suffix in sorted(MANIFEST_SUFFIXES))


@dataclass(frozen=True, slots=True)
class UnreadFile:
    """A path that gave no text, with a message and a hint; without a text there is no span.

    `unread` is true if the path exists but cannot be read.
    """

    path: str
    message: str
    hint: str
    unread: bool = True


@dataclass(frozen=True, slots=True)
class Loaded:
    """The texts in the order of their paths, and the paths that gave no text."""

    sources: tuple[Source, ...]
    problems: tuple[UnreadFile, ...]


def load(paths: Iterable[Path]) -> Loaded:
    """Reads the policy files at the paths, each file once.

    A path is a file, or a folder with `*.policy` files, and YAML and JSON files with manifests of
    Placet, in it and below it. The name of a source is its path as given.
    """
    search = Search(paths)
    sources: list[Source] = []
    problems = list(search.problems)
    foreign: list[Path] = []
    for file in search.files:
        read = read_source(file)
        if isinstance(read, UnreadFile):
            problems.append(read)
        elif file in search.named or not is_manifest(file.name) or f"{GROUP}/" in read.text:
            sources.append(read)
        else:
            foreign.append(file)
    known = [*(Path(s.name) for s in sources), *(Path(p.path) for p in problems)]
    empty = (f for f in search.folders if _inside(f, foreign) and not _inside(f, known))
    return Loaded(tuple(sources), (*problems, *map(_no_policies, empty)))


def _inside(folder: Path, files: Iterable[Path]) -> bool:
    return any(file.is_relative_to(folder) for file in files)


def library_sources() -> tuple[Source, ...]:
    """The policies that come with Placet."""
    shipped = files("policies").joinpath("library")
    every = (*shipped.iterdir(), *shipped.joinpath("gpu").iterdir())
    found = (f for f in every if f.name.endswith(SUFFIX) and not is_test_file(f.name))
    texts = sorted(found, key=lambda f: f.name)
    return tuple(Source(f"library/{f.name}", f.read_text("utf-8")) for f in texts)


def is_test_file(name: str) -> bool:
    """Whether a file contains tests: `shop_test.policy` has the tests for `shop.policy`."""
    return name.endswith(TEST_SUFFIX)


def read_source(file: Path) -> Source | UnreadFile:
    """The text of a file, which must be UTF-8."""
    try:
        return Source(str(file), file.read_bytes().decode("utf-8-sig"))
    except FileNotFoundError:
        return UnreadFile(str(file), f"`{file}` does not exist", "check the path", unread=False)
    except OSError as error:
        return _unreadable(file, error)
    except UnicodeDecodeError as error:
        message = f"`{file}` is not UTF-8 text at byte {error.start}"
        return UnreadFile(str(file), message, "save it as UTF-8")


class Search:
    """The policy files at some paths, in order.

    `named` are the paths of files, `folders` the paths of folders with policy files. A folder gives
    the files in it and below it, by name, without hidden ones. A file with two paths is listed
    once: the files of a mounted ConfigMap are links into a hidden folder beside them.
    """

    def __init__(self, paths: Iterable[Path]) -> None:
        self.files: list[Path] = []
        self.named: set[Path] = set()
        self.folders: list[Path] = []
        self.problems: list[UnreadFile] = []
        self._seen: set[str] = set()
        for path in paths:
            if not _is_folder(path):
                self.named.add(path)
                self._add(path)
            elif not self._walk(path, frozenset()):
                self.problems.append(_no_policies(path))
            else:
                self.folders.append(path)

    def _walk(self, folder: Path, above: frozenset[str]) -> bool:
        """Adds the files of a folder; returns whether it has any. Loops of links are skipped."""
        here = os.path.realpath(folder)
        if here in above:
            return False
        try:
            entries = sorted(folder.iterdir())
        except OSError as error:
            self.problems.append(_unreadable(folder, error))
            return True
        has_files = False
        for entry in entries:
            if entry.name.startswith("."):
                continue
            if _is_folder(entry):
                has_files |= self._walk(entry, above | {here})
            elif entry.suffix == SUFFIX or is_manifest(entry.name):
                self._add(entry)
                has_files = True
        return has_files

    def _add(self, file: Path) -> None:
        real = os.path.realpath(file)
        if real not in self._seen:
            self._seen.add(real)
            self.files.append(file)


def _is_folder(path: Path) -> bool:
    """Whether a path is a folder; unlike Path.is_dir, false if it may not be inspected."""
    return os.path.isdir(path)  # noqa: PTH112


def _no_policies(folder: Path) -> UnreadFile:
    hint = f"policy files end in `{SUFFIX}`, manifests in {_MANIFESTS}"
    return UnreadFile(str(folder), f"the folder `{folder}` has no policy files", hint, unread=False)


def _unreadable(path: Path, error: OSError) -> UnreadFile:
    reason = (error.strerror or str(error)).lower()
    return UnreadFile(str(path), f"cannot read `{path}`: {reason}", "check its permissions")
