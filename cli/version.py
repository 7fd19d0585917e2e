"""The version of Placet: of the installed wheel, or of a checkout by the newest tag before it.

The build reads it here too, so this file imports nothing but the standard library, and by its path.
"""

from pathlib import Path

# What `git archive` writes here: the tag, the commits since then and the commit.
ARCHIVED = "$Format:%(describe:tags,match=v[0-9]*) %h$"
# The newest release. The chart, the krew plugin and the docs repeat it, and a test compares them.
RELEASE = "0.1.0"
# The version of what no tag precedes, and of files without any history.
UNTAGGED = f"{RELEASE}.dev0"


def version() -> str:
    """The version as Python's packages write it: `0.2.0`, or `0.2.0+5.gca2ce1b` five commits on."""
    root = Path(__file__).parents[1]
    if root.name == "bundle":
        # This import takes longer than a command that does not need it.
        from importlib import metadata  # noqa: PLC0415

        return metadata.version("placet")
    return numbered(_described(root))


def numbered(described: str) -> str:
    """The version that a text of `git describe` or of `git archive` means."""
    text, dirty = described.removesuffix("-dirty"), described.endswith("-dirty")
    tagged, _, archived = text.partition(" ")
    tag, _, since = (tagged or archived).partition("-")
    if tag.startswith("v"):
        base, local = tag[1:] or UNTAGGED, since.split("-")
    else:
        base, local = UNTAGGED, [f"g{tag}"] if tag else []
    parts = [part for part in [*local, "dirty" if dirty else ""] if part]
    return f"{base}+{'.'.join(parts)}" if parts else base


def _described(root: Path) -> str:
    """What git says of a checkout, or the archive of its own; empty if neither is known."""
    if (root / ".git").exists():
        import subprocess  # noqa: PLC0415 - see above

        # Without optional locks a version can be asked for while somebody commits.
        command = ["git", "--no-optional-locks", "-C", str(root), "describe", "--tags"]
        command += ["--match", "v[0-9]*", "--always", "--dirty"]
        try:
            done = subprocess.run(command, capture_output=True, text=True, check=True)  # noqa: S603
        except (OSError, subprocess.CalledProcessError):
            return ""
        return done.stdout.strip()
    return "" if ARCHIVED.startswith("$") else ARCHIVED
