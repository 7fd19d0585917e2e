"""A hung mount: a file system that never answers, as that of a server which is gone."""

from __future__ import annotations

import ctypes
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

_DETACH = 2


@contextmanager
def hung_mount(folder: Path) -> Iterator[None]:
    """Whoever looks into the folder waits until the context ends. Skips without the right."""
    libc = ctypes.CDLL(None, use_errno=True)
    try:
        fuse = os.open("/dev/fuse", os.O_RDWR)
    except OSError:
        pytest.skip("needs /dev/fuse")
    # Nobody reads the requests of the kernel, so none is ever answered.
    options = f"fd={fuse},rootmode=40000,user_id={os.getuid()},group_id={os.getgid()}"
    where = os.fsencode(folder)
    if libc.mount(b"hung", where, b"fuse.hung", 0, options.encode()) != 0:
        os.close(fuse)
        pytest.skip("needs the right to mount")
    try:
        yield
    finally:
        # Whoever waits gets an error now.
        os.close(fuse)
        libc.umount2(where, _DETACH)
