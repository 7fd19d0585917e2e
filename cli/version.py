"""Which Placet this is."""

from __future__ import annotations


def version() -> str:
    """The version of the installed distribution; a checkout that was not installed has none."""
    # This takes longer to import than a command that does not need it takes to start.
    from importlib import metadata  # noqa: PLC0415

    try:
        return metadata.version("placet")
    except metadata.PackageNotFoundError:
        return "unknown"
