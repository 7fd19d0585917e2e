"""Sees that files have changed, by looking at them now and then."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path

from grammar.catalogue import listed
from grammar.source import Source
from policies.forms import GROUP, MANIFEST_SUFFIXES, is_manifest

# How often to look. A change counts once it is the same at two looks: half a second at the most.
INTERVAL_SECONDS = 0.25

_Mark = tuple[int, int, int, str]


class Watcher:
    """Watches the files that `list_files` names at each look, which may be others each time.

    A file is known by its time, size, inode and real path: the files of a ConfigMap are links, and
    change by what a folder above them points to.
    """

    def __init__(self, list_files: Callable[[], Iterable[Path]]) -> None:
        self._list = list_files
        self._accepted = self._look()
        self._seen = self._accepted

    def changed(self) -> bool:
        """Whether the files are others than when this was last true, and no longer changing.

        The second look keeps a file that is being written, or is replaced by way of being removed,
        from being read half way.
        """
        before, self._seen = self._seen, self._look()
        if self._seen == self._accepted or self._seen != before:
            return False
        self._accepted = self._seen
        return True

    def _look(self) -> dict[str, _Mark | None]:
        return {str(file): _mark(file) for file in self._list()}


def _mark(file: Path) -> _Mark | None:
    """None for a file that cannot be looked at, which is a state of its own."""
    try:
        found = file.stat()
    except OSError:
        return None
    return found.st_mtime_ns, found.st_size, found.st_ino, os.path.realpath(file)


# ---- Policy files: from the paths that somebody named to texts, with what could not be read.

SUFFIX = ".policy"
# Such a file is for tests: what policies it has decide in them, and nowhere else.
TEST_SUFFIX = "_test.policy"
_MANIFESTS = listed(f"`{suffix}`" for suffix in sorted(MANIFEST_SUFFIXES))


@dataclass(frozen=True, slots=True)
class UnreadFile:
    """A path without a text: one sentence, and what to do about it.

    `unread` says that something is there; otherwise the path is empty or leads nowhere.
    """

    path: str
    message: str
    hint: str
    unread: bool = True


@dataclass(frozen=True, slots=True)
class Loaded:
    """The texts in the order of their paths, and the paths that gave none."""

    sources: tuple[Source, ...]
    problems: tuple[UnreadFile, ...]


def load(paths: Iterable[Path]) -> Loaded:
    """Reads the policy files behind the paths, each once, however often it is named.

    A path is a file, or a folder that stands for the `*.policy` files in it and below, and for the
    YAML and JSON files there that have manifests of ours. The name of a source is its path as it
    was given.
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
    said = [*(Path(s.name) for s in sources), *(Path(p.path) for p in problems)]
    barren = (f for f in search.folders if _inside(f, foreign) and not _inside(f, said))
    return Loaded(tuple(sources), (*problems, *map(_no_policies, barren)))


def _inside(folder: Path, files: Iterable[Path]) -> bool:
    return any(file.is_relative_to(folder) for file in files)


def library_sources() -> tuple[Source, ...]:
    """The policies that come with Placet."""
    shipped = files("policies").joinpath("library")
    found = (f for f in shipped.iterdir() if f.name.endswith(SUFFIX) and not is_test_file(f.name))
    texts = sorted(found, key=lambda f: f.name)
    return tuple(Source(f"library/{f.name}", f.read_text("utf-8")) for f in texts)


def is_test_file(name: str) -> bool:
    """Whether a file holds tests for the one beside it: `shop_test.policy` for `shop.policy`."""
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
    """The files behind some paths, in order, and the folders that show none.

    `named` are those that were themselves among the paths, `folders` the others of these.

    A folder stands for what is in it and below, by name, without what is hidden. Two paths to one
    file give it once, under the first: the files of a mounted ConfigMap are links into a hidden
    folder beside them.
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
        """Whether there was anything to report; a loop of links ends itself."""
        here = os.path.realpath(folder)
        if here in above:
            return False
        try:
            entries = sorted(folder.iterdir())
        except OSError as error:
            self.problems.append(_unreadable(folder, error))
            return True
        fruitful = False
        for entry in entries:
            if entry.name.startswith("."):
                continue
            if _is_folder(entry):
                fruitful |= self._walk(entry, above | {here})
            elif entry.suffix == SUFFIX or is_manifest(entry.name):
                self._add(entry)
                fruitful = True
        return fruitful

    def _add(self, file: Path) -> None:
        real = os.path.realpath(file)
        if real not in self._seen:
            self._seen.add(real)
            self.files.append(file)


def _is_folder(path: Path) -> bool:
    """Unlike Path.is_dir, this says no of what may not be looked at."""
    return os.path.isdir(path)  # noqa: PTH112


def _no_policies(folder: Path) -> UnreadFile:
    hint = f"policy files end in `{SUFFIX}`, manifests in {_MANIFESTS}"
    return UnreadFile(str(folder), f"the folder `{folder}` has no policy files", hint, unread=False)


def _unreadable(path: Path, error: OSError) -> UnreadFile:
    reason = (error.strerror or str(error)).lower()
    return UnreadFile(str(path), f"cannot read `{path}`: {reason}", "check its permissions")
