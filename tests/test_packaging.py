"""The wheel: one name in site-packages, all files that Placet reads, and a working launcher."""

import os
import re
import subprocess
import sys
import sysconfig
import tomllib
import zipfile
from configparser import ConfigParser
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
LOCK = (ROOT / "requirements.lock").read_text(encoding="utf-8")
PROGRAMS = Path(sys.executable).parent


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the wheel, built by the installed backend without isolation and without network."""
    folder = tmp_path_factory.mktemp("wheel")
    subprocess.run(
        [PROGRAMS / "hatchling", "build", "--target", "wheel", "--directory", folder],
        cwd=ROOT,
        check=True,
        capture_output=True,
        timeout=60,
    )
    (built,) = folder.glob("*.whl")
    return built


@pytest.fixture(scope="module")
def names(wheel: Path) -> list[str]:
    with zipfile.ZipFile(wheel) as archive:
        return archive.namelist()


def test_wheel_claims_one_name(names: list[str]) -> None:
    tops = {name.split("/")[0] for name in names}
    assert {top for top in tops if not top.endswith(".dist-info")} == {"placet"}


def test_wheel_has_no_tests_and_no_leftovers(names: list[str]) -> None:
    assert [name for name in names if "/tests/" in name or "__pycache__" in name] == []


@pytest.mark.parametrize("package", ["cli", "engine", "grammar", "policies", "server"])
def test_wheel_has_every_file_of_a_package(package: str, names: list[str]) -> None:
    """Modules, py.typed, grammar, schema, library, demo: every file of the tree."""
    files = (path.relative_to(ROOT) for path in (ROOT / package).rglob("*") if path.is_file())
    wanted = {
        f"placet/bundle/{path.as_posix()}" for path in files if "__pycache__" not in path.parts
    }
    wanted.discard("placet/bundle/cli/launcher.py")  # which is placet/__main__.py
    assert wanted - set(names) == set()
    assert f"placet/bundle/{package}/py.typed" in wanted


def test_wheel_has_what_the_language_is_read_from(names: list[str]) -> None:
    data = {"placet/bundle/grammar/policy.lark", "placet/bundle/grammar/schema.txt"}
    assert data - set(names) == set()


def test_wheel_passes_check_wheel_contents(wheel: Path) -> None:
    done = subprocess.run(
        [PROGRAMS / "check-wheel-contents", "--config", ROOT / "pyproject.toml", wheel],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert done.returncode == 0, done.stdout


@pytest.mark.parametrize("arguments", [["--version"], ["check", "--help"]])
def test_launcher_runs_from_the_wheel_alone(
    arguments: list[str], wheel: Path, tmp_path: Path
) -> None:
    """Without `site` there is no editable install, so Placet comes from the wheel."""
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(tmp_path)
    path = os.pathsep.join([str(tmp_path), sysconfig.get_path("purelib")])
    done = subprocess.run(
        [sys.executable, "-S", "-P", "-m", "placet", *arguments],
        cwd=tmp_path,
        env={"PATH": os.environ["PATH"], "PYTHONPATH": path, "HOME": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert done.returncode == 0, done.stderr
    assert "placet" in done.stdout


def test_scripts_start_the_launcher(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        (path,) = (name for name in archive.namelist() if name.endswith("/entry_points.txt"))
        declared = ConfigParser()
        declared.read_string(archive.read(path).decode())
    scripts = dict.fromkeys(["placet", "kubectl-placet"], "placet.__main__:main")
    assert dict(declared["console_scripts"]) == scripts


@pytest.mark.parametrize(
    ("program", "called"), [("placet", "placet"), ("kubectl-placet", "kubectl placet")]
)
def test_help_calls_the_program_what_its_reader_does(
    program: str, called: str, tmp_path: Path
) -> None:
    """The scripts that pip writes from the entry points; kubectl runs a plugin by its path."""
    script = tmp_path / program
    script.write_text("from cli.launcher import main\nraise SystemExit(main())\n", encoding="utf-8")
    done = subprocess.run(
        [sys.executable, script, "explain", "--help"],
        env=os.environ | {"PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    assert done.stdout.startswith(f"usage: {called} explain ")
    assert f"\n  {called} explain shop/web-1 --cluster" in done.stdout


def test_lock_names_no_address() -> None:
    """An address in the lock would override the configured index of pip."""
    assert re.findall(r"^.*(?://|--index|--find-links|@ ).*$", LOCK, re.MULTILINE) == []


def test_lock_has_every_dependency_with_hashes() -> None:
    blocks = re.split(r"\n(?=[a-z])", LOCK)
    locked = {block.partition("==")[0] for block in blocks if " --hash=sha256:" in block}
    declared = [*PROJECT["project"]["dependencies"], *PROJECT["dependency-groups"]["dev"]]
    wanted = {re.split("[<>=]", line)[0].lower() for line in declared}
    assert wanted - locked == set()
    assert locked == set(re.findall(r"^([\w-]+)==", LOCK, re.MULTILINE))
