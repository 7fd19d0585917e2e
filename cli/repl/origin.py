"""Where a session's cluster is read from, once now and again when asked to."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Protocol

from cli.world import Documents, read_documents


class Origin(Protocol):
    """Something that a snapshot can be read from, again and again.

    `paths` are its files; a cluster that is asked itself has none.
    """

    @property
    def paths(self) -> Sequence[Path]: ...

    def read(self) -> Documents:
        """Raises CommandError."""


class Files:
    """What kubectl wrote."""

    def __init__(self, paths: Sequence[Path]) -> None:
        self.paths = tuple(paths)

    def read(self) -> Documents:
        return read_documents(self.paths)
