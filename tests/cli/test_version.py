"""The version: of a tag, of what follows it, of archives, and of files without history."""

import shutil
import subprocess
from pathlib import Path
from runpy import run_path

import pytest

from cli.version import ARCHIVED, UNTAGGED, numbered

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize(
    ("described", "version"),
    [
        ("v0.2.0", "0.2.0"),
        ("v0.2.0rc1", "0.2.0rc1"),
        ("v0.2.0-dirty", "0.2.0+dirty"),
        ("v0.2.0-5-gca2ce1b", "0.2.0+5.gca2ce1b"),
        ("v0.2.0-5-gca2ce1b-dirty", "0.2.0+5.gca2ce1b.dirty"),
        ("ca2ce1b", f"{UNTAGGED}+gca2ce1b"),
        ("ca2ce1b-dirty", f"{UNTAGGED}+gca2ce1b.dirty"),
        ("", UNTAGGED),
        # As `git archive` writes it.
        ("v0.2.0 ca2ce1b", "0.2.0"),
        ("v0.2.0-5-gca2ce1b ca2ce1b", "0.2.0+5.gca2ce1b"),
        (" ca2ce1b", f"{UNTAGGED}+gca2ce1b"),
        # As the Dockerfile writes it.
        ("v0.2.0+5.gca2ce1b", "0.2.0+5.gca2ce1b"),
        ("v", UNTAGGED),
    ],
)
def test_descriptions_are_versions(described: str, version: str) -> None:
    assert numbered(described) == version


def git(folder: Path, *arguments: str) -> str:
    who = ["-c", "user.name=n", "-c", "user.email=e@example.com", "-c", "commit.gpgsign=false"]
    done = subprocess.run(
        ["git", *who, *arguments],  # noqa: S607 - git of the path
        cwd=folder,
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout.strip()


def asked(folder: Path) -> str:
    """What a checkout, an archive or a copy says that its version is."""
    return str(run_path(str(folder / "cli" / "version.py"))["version"]())


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    folder = tmp_path / "checkout"
    (folder / "cli").mkdir(parents=True)
    shutil.copy(ROOT / "cli" / "version.py", folder / "cli")
    shutil.copy(ROOT / ".gitattributes", folder)
    (folder / ".gitignore").write_text("__pycache__\n", encoding="utf-8")
    git(folder, "init", "--quiet")
    git(folder, "add", ".")
    git(folder, "commit", "--quiet", "--message", "one")
    return folder


def test_checkout_is_described_by_its_tag(checkout: Path) -> None:
    commit = git(checkout, "rev-parse", "--short", "HEAD")
    assert asked(checkout) == f"{UNTAGGED}+g{commit}"
    git(checkout, "tag", "v0.3.0")
    assert asked(checkout) == "0.3.0"
    git(checkout, "commit", "--quiet", "--allow-empty", "--message", "two")
    commit = git(checkout, "rev-parse", "--short", "HEAD")
    assert asked(checkout) == f"0.3.0+1.g{commit}"


def test_archive_of_the_source_knows_its_tag(checkout: Path, tmp_path: Path) -> None:
    git(checkout, "tag", "v0.3.0")
    git(checkout, "archive", "--output", str(tmp_path / "source.zip"), "HEAD")
    shutil.unpack_archive(tmp_path / "source.zip", tmp_path / "source")
    assert asked(tmp_path / "source") == "0.3.0"


def test_copy_without_history_has_a_version(checkout: Path) -> None:
    shutil.rmtree(checkout / ".git")
    assert ARCHIVED.startswith("$Format:")
    assert asked(checkout) == UNTAGGED
