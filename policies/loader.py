"""Loader: finds and reads policy files, and watches them for changes.

Whoever passes the `visit` of a Disk is a server, which reads files again and again. A server takes
only regular files of a limited size, and cannot wait for a silent file.
"""

from __future__ import annotations

import errno
import os
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from pathlib import Path, PurePath

from grammar.messages.catalogue import listed
from grammar.messages.diagnostics import Diagnostic
from grammar.messages.texts import os_hint, os_reason
from grammar.syntax.parser import parse_file
from grammar.tree.policy import File
from grammar.tree.source import Source
from policies.disk import (
    MOST_OF_DOCUMENT,
    MOST_OF_MANIFESTS,
    MOST_OF_TEXT,
    Disk,
    Visit,
    contents,
    trusted,
)
from policies.manifest_text import GROUP

# A change counts when two looks in a row see the same state. The second one comes after so long,
# the first one after twice as long at most: each look wakes threads of a server that idles.
INTERVAL_SECONDS = 0.25
# A folder can change without a sign, so a whole look comes after so many seconds anyway.
LOOK_SECONDS = 5.0

_State = tuple[int, int, int]
_Mark = tuple[int, int, int, str]


class Watcher:
    """Watches the files that `list_files` returns, which may be different at each look.

    A file is compared by time, size, inode and real path: the files of a ConfigMap are links, and
    change when a folder above them points elsewhere.
    """

    def __init__(
        self, list_files: Callable[[Visit], Iterable[Path]], disk: Disk | None = None
    ) -> None:
        self._list = list_files
        self._disk = disk or Disk()
        self._accepted, self._visited = self._disk.run(self._look)
        self._seen, self._looked_at = self._accepted, time.monotonic()

    def changed(self) -> bool:
        """Whether the files differ from when this was last true, and are no longer changing.

        The second look prevents reading a file that is half written. Without a sign of a change
        only the state of each known path is asked for, which costs little.
        """
        is_due = self._seen != self._accepted or time.monotonic() - self._looked_at > LOOK_SECONDS
        if not (is_due or self._disk.run(self._stirs)):
            return False
        before = self._seen
        self._seen, self._visited = self._disk.run(self._look)
        self._looked_at = time.monotonic()
        if self._seen == self._accepted or self._seen != before:
            return False
        self._accepted = self._seen
        return True

    @property
    def pause(self) -> float:
        """The seconds until the next look."""
        return INTERVAL_SECONDS if self._seen != self._accepted else 2 * INTERVAL_SECONDS

    def _stirs(self, visit: Visit) -> bool:
        """Whether anything that the last look has visited is different, or does not answer."""
        try:
            for path, state in self._visited.items():
                visit(path)
                if _state(path) != state:
                    return True
        except OSError:
            return True
        return False

    def _look(self, visit: Visit) -> tuple[dict[str, _Mark | None], dict[Path, _State | None]]:
        """The marks of the files, and the state of each path that was visited for them."""
        visited: dict[Path, _State | None] = {}

        def note(path: Path) -> None:
            visit(path)
            visited[path] = _state(path)

        return {str(file): _mark(file, note) for file in self._list(note)}, visited


def _state(path: Path) -> _State | None:
    """What changes with a file, or with the names in a folder; None if it cannot be inspected."""
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_mtime_ns, found.st_size, found.st_ino


def _mark(file: Path, visit: Visit) -> _Mark | None:
    """The state of a file; None if it cannot be inspected, which is a state too."""
    try:
        visit(file)
    except OSError:
        return None
    found = _state(file)
    return found and (*found, os.path.realpath(file))


# ---- policy files

SUFFIX = ".policy"
# A file of tests. Its policies apply only in its tests.
TEST_SUFFIX = "_test.policy"
# Files with any other suffix are texts of the language.
MANIFEST_SUFFIXES = frozenset({".yaml", ".yml", ".json"})
_MANIFESTS = listed(f"`{suffix}`" for suffix in sorted(MANIFEST_SUFFIXES))


@dataclass(frozen=True, slots=True)
class UnreadFile:
    """An unread file: a path that gave no text, with a message and a hint.

    `unread` is true if the path exists but cannot be read, `is_gone` if nothing is there.
    """

    path: str
    message: str
    hint: str
    unread: bool = True
    is_gone: bool = False


@dataclass(frozen=True, slots=True)
class Loaded:
    """The loaded texts in the order of their paths, and the paths that gave no text."""

    sources: tuple[Source, ...]
    problems: tuple[UnreadFile, ...]


def load(paths: Iterable[Path], visit: Visit | None = None) -> Loaded:
    """Reads the policy files at the paths, each file once. With a `visit`, for a server.

    A path is a file, or a folder with `*.policy` files, and YAML and JSON files with manifests of
    Placet, in it and below it. The name of a source is its path as given.
    """
    search = Search(paths, visit or trusted)
    sources: list[Source] = []
    problems = list(search.problems)
    foreign: list[Path] = []
    for file in search.files:
        is_trusted = visit is None and file in search.named
        read = read_source(file, visit or trusted, is_trusted=is_trusted)
        if read is None:
            foreign.append(file)
        elif isinstance(read, UnreadFile):
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


@cache
def parsed_library() -> tuple[tuple[Source, File, list[Diagnostic]], ...]:
    """The policies that come with Placet, as `parse_file` reads them; these files do not change."""
    return tuple((source, *parse_file(source)) for source in library_sources())


def library_sources(*, tests: bool = False) -> tuple[Source, ...]:
    """The policies that come with Placet, or their tests."""
    shipped = files("policies").joinpath("library")
    every = (*shipped.iterdir(), *shipped.joinpath("gpu").iterdir())
    wanted = (f for f in every if f.name.endswith(SUFFIX) and is_test_file(f.name) == tests)
    texts = sorted(wanted, key=lambda f: f.name)
    return tuple(Source(f"library/{f.name}", f.read_text("utf-8")) for f in texts)


def is_manifest(name: str) -> bool:
    """Whether a file of this name contains manifests."""
    return PurePath(name).suffix in MANIFEST_SUFFIXES


def is_test_file(name: str) -> bool:
    """Whether a file contains tests: `shop_test.policy` has the tests for `shop.policy`."""
    return name.endswith(TEST_SUFFIX)


def read_source(
    file: Path, visit: Visit = trusted, *, is_trusted: bool = False
) -> Source | UnreadFile | None:
    """The text of a file, which must be UTF-8; None for one that has no manifest of ours.

    A pipe, and more manifests than a server takes, are read of a file that `is_trusted`.
    """
    try:
        visit(file)
        most = MOST_OF_DOCUMENT if is_manifest(file.name) else MOST_OF_TEXT
        if is_manifest(file.name) and is_trusted:
            most = MOST_OF_MANIFESTS
        elif file.stat().st_size > most == MOST_OF_DOCUMENT and not _names(file, f"{GROUP}/"):
            return None
        data = contents(file, most, takes_pipes=is_trusted)
        try:
            return Source(str(file), data.decode("utf-8-sig"))
        except UnicodeDecodeError as error:
            # In UTF-16 each sign of the group has a zero beside it.
            if is_manifest(file.name) and f"{GROUP}/".encode() not in data.replace(b"\0", b""):
                return None
            message = f"`{file}` is not UTF-8 text at byte {error.start}"
            return UnreadFile(str(file), message, "save it as UTF-8")
    except FileNotFoundError:
        if file.is_symlink():
            return _dangling(file)
        message = f"`{file}` does not exist"
        return UnreadFile(str(file), message, "check the path", unread=False, is_gone=True)
    except OSError as error:
        return _unreadable(file, error)


def _names(file: Path, text: str) -> bool:
    """Whether a text is in a file, of which only a part is in memory at a time."""
    wanted, before = text.encode(), b""
    with file.open("rb") as opened:
        while part := opened.read(MOST_OF_TEXT):
            if wanted in before + part:
                return True
            before = part[1 - len(wanted) :]
    return False


class Search:
    """A search for the policy files at some paths, in order.

    `named` are the paths of files, `folders` the paths of folders with policy files. A folder gives
    the files at every depth, by name, without hidden files. A file with two paths is listed
    once: the files of a mounted ConfigMap are links into a hidden folder beside them.
    """

    def __init__(self, paths: Iterable[Path], visit: Visit = trusted) -> None:
        self._visit = visit
        self.files: list[Path] = []
        self.named: set[Path] = set()
        self.folders: list[Path] = []
        self.problems: list[UnreadFile] = []
        self._seen: set[str] = set()
        for path in paths:
            if not self._answers(path):
                continue
            if not _is_folder(path):
                self.named.add(path)
                self._add(path)
            elif not self._walk(path, frozenset()):
                self.problems.append(_no_policies(path))
            else:
                self.folders.append(path)

    @property
    def paths(self) -> Sequence[Path]:
        """The files, and the paths with a problem: what to watch."""
        return [*self.files, *(Path(problem.path) for problem in self.problems)]

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
            if not self._answers(entry):
                has_files = True
            elif _is_folder(entry):
                has_files |= self._walk(entry, above | {here})
            elif entry.suffix == SUFFIX or is_manifest(entry.name):
                self._add(entry)
                has_files = True
            elif entry.is_symlink() and not entry.exists():
                # It may have been a folder with policies.
                self.problems.append(_dangling(entry))
                has_files = True
        return has_files

    def _answers(self, path: Path) -> bool:
        try:
            self._visit(path)
        except OSError as error:
            self.problems.append(_unreadable(path, error))
            return False
        return True

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


_HINTS = {
    errno.ETIMEDOUT: "check what is mounted there",
    errno.ENODEV: "policies are read from regular files, not from pipes and devices",
    errno.EFBIG: "divide it into several files",
}


def _unreadable(path: Path, error: OSError) -> UnreadFile:
    hint = _HINTS.get(error.errno or 0) or os_hint(error, "check the path")
    return UnreadFile(str(path), f"cannot read `{path}`: {os_reason(error)}", hint)


def _dangling(link: Path) -> UnreadFile:
    hint = "remove the link, or restore what it points to"
    return UnreadFile(str(link), f"`{link}` is a link to nothing", hint)
