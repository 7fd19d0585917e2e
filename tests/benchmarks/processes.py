"""Processes: the processor time and memory that those of a server have taken, as Linux says."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

_TICKS = os.sysconf("SC_CLK_TCK")


def spent(pid: int) -> float:
    """The seconds of processor time of a process, and of those that it has started."""
    folder = Path(f"/proc/{pid}")
    children: list[str] = []
    for task in (folder / "task").iterdir():
        with suppress(FileNotFoundError):  # a thread that has ended
            children += (task / "children").read_text().split()
    own = _ticks(folder, slice(11, 15))
    return (own + sum(_ticks(Path(f"/proc/{child}"), slice(11, 13)) for child in children)) / _TICKS


def most_mib(pid: int) -> int:
    """The most memory that a process has had, in MiB."""
    status = Path(f"/proc/{pid}/status").read_text()
    return int(status.partition("VmHWM:")[2].split()[0]) // 1024


def _ticks(folder: Path, fields: slice) -> int:
    return sum(map(int, (folder / "stat").read_text().rpartition(")")[2].split()[fields]))
