"""Sees that files have changed, by looking at them now and then."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from pathlib import Path

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
