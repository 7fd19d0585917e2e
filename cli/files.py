"""Files that commands write."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

from cli.exits import CommandError


def make(file: Path) -> None:
    """An empty file, unless there is one. Raises CommandError where that cannot be."""
    try:
        file.touch()
    except OSError as error:
        raise _unwritable(file, error) from None


def replace_text(file: Path, text: str) -> None:
    """Writes a file in one step: who reads it meanwhile sees the old text or the new one.

    Raises CommandError where that cannot be.
    """
    target = file.resolve()  # a link stays one
    made: Path | None = None
    try:
        mode = target.stat().st_mode
        handle, name = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name}.")
        made = Path(name)
        with os.fdopen(handle, "w", encoding="utf-8", newline="") as out:
            out.write(text)
        made.chmod(mode)
        made.replace(target)
    except OSError as error:
        if made is not None:
            made.unlink(missing_ok=True)
        raise _unwritable(file, error) from None


def _unwritable(file: Path, error: OSError) -> CommandError:
    reason = (error.strerror or str(error)).lower()
    return CommandError(f"cannot write `{file}`: {reason}", "check who may write it")
