"""The wheel: one name in site-packages, all files that Placet reads, and a working launcher."""

import os
import re
import shutil
import subprocess
import sys
import sysconfig
import tomllib
import zipfile
from configparser import ConfigParser
from pathlib import Path

import pytest

from tests.support.versions import PYTHONS

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
PROGRAMS = Path(sys.executable).parent


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the wheel, built by the installed backend without isolation and without network."""
    return build(tmp_path_factory.mktemp("wheel"))


def build(folder: Path, target: str = "wheel", ends: str = "*.whl", root: Path = ROOT) -> Path:
    subprocess.run(
        [PROGRAMS / "hatchling", "build", "--target", target, "--directory", folder],
        cwd=root,
        check=True,
        capture_output=True,
        timeout=60,
    )
    (built,) = folder.glob(ends)
    return built


@pytest.fixture(scope="module")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The programs of a fresh environment with the wheel; dependencies are those of this one."""
    folder = tmp_path_factory.mktemp("installed")
    run(sys.executable, "-m", "venv", "--without-pip", folder)
    programs = folder / "bin"
    pip: list[str | Path] = [
        sys.executable,
        "-m",
        "pip",
        "--python",
        programs / "python",
        "install",
        "--quiet",
    ]
    run(*pip, "--no-index", "--no-deps", "--no-compile", wheel)
    (packages,) = folder.glob("lib/python*/site-packages")
    (packages / "dependencies.pth").write_text(sysconfig.get_path("purelib"), encoding="utf-8")
    return programs


def run(*command: str | Path, cwd: Path | None = None) -> str:
    done = subprocess.run(
        command, cwd=cwd, capture_output=True, text=True, check=False, timeout=120
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def names(wheel: Path) -> list[str]:
    with zipfile.ZipFile(wheel) as archive:
        return archive.namelist()


@pytest.mark.process
def test_sdist_is_the_same_each_time_and_makes_the_same_wheel(wheel: Path, tmp_path: Path) -> None:
    """Also with the version, which is that of the history that an sdist does not have."""
    first, second = (build(tmp_path / name, "sdist", "*.tar.gz") for name in ("one", "two"))
    assert first.read_bytes() == second.read_bytes()
    shutil.unpack_archive(first, tmp_path, filter="data")
    (root,) = (path for path in tmp_path.iterdir() if path.name.startswith("placet-"))
    again = build(tmp_path / "wheel", root=root)
    assert (again.name, again.read_bytes()) == (wheel.name, wheel.read_bytes())


@pytest.mark.process
def test_a_release_is_of_a_clean_tree(tmp_path: Path) -> None:
    """What is not in a commit nobody could build again."""
    shutil.copy(ROOT / "Makefile", tmp_path)
    git = ("git", "-C", tmp_path, "-c", "user.name=a", "-c", "user.email=a@example.com")
    for words in (["init", "-q"], ["add", "."], ["commit", "-q", "-m", "one"]):
        run(*git, *words)
    run("make", "clean-tree", cwd=tmp_path)
    (tmp_path / "other").touch()
    with pytest.raises(AssertionError, match="commit these changes first"):
        run("make", "clean-tree", cwd=tmp_path)
    rule = re.search(r"(?m)^release: (.*?)  ##", (ROOT / "Makefile").read_text(encoding="utf-8"))
    assert rule is not None
    assert rule[1].split()[0] == "clean-tree"


@pytest.mark.process
def test_wheel_claims_one_name(names: list[str]) -> None:
    tops = {name.split("/")[0] for name in names}
    assert {top for top in tops if not top.endswith(".dist-info")} == {"placet"}


@pytest.mark.process
def test_wheel_has_no_tests_and_no_leftovers(names: list[str]) -> None:
    assert [name for name in names if "/tests/" in name or "__pycache__" in name] == []


@pytest.mark.process
@pytest.mark.parametrize("package", ["cli", "engine", "grammar", "policies", "server"])
def test_wheel_has_every_file_of_a_package(package: str, names: list[str]) -> None:
    """Modules, py.typed, grammar, schema, library, demo: every file of the tree."""
    files = (path.relative_to(ROOT) for path in (ROOT / package).rglob("*") if path.is_file())
    wanted = {
        f"placet/bundle/{path.as_posix()}" for path in files if "__pycache__" not in path.parts
    }
    # Which are placet/__main__.py and placet/__init__.py.
    wanted -= {f"placet/bundle/cli/{name}.py" for name in ("__main__", "package")}
    assert wanted - set(names) == set()
    assert f"placet/bundle/{package}/py.typed" in wanted


@pytest.mark.process
def test_wheel_has_what_the_language_is_read_from(names: list[str]) -> None:
    data = {"placet/bundle/grammar/syntax/policy.lark", "placet/bundle/grammar/meaning/schema.txt"}
    assert data - set(names) == set()


@pytest.mark.process
def test_wheel_passes_check_wheel_contents(wheel: Path) -> None:
    done = subprocess.run(
        [PROGRAMS / "check-wheel-contents", "--config", ROOT / "pyproject.toml", wheel],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert done.returncode == 0, done.stdout


@pytest.mark.process
@pytest.mark.parametrize(
    "arguments", [["--version"], ["check", "--help"], ["check", "--explain", "P0401"]]
)
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


@pytest.mark.process
def test_installed_wheel_is_of_the_version_it_says(
    installed: Path, wheel: Path, tmp_path: Path
) -> None:
    """The same as the checkout's, which it is built from."""
    said = run(installed / "placet", "--version", cwd=tmp_path)
    assert said == f"placet {wheel.name.split('-')[1]}\n"
    assert said == run(PROGRAMS / "placet", "--version", cwd=tmp_path)


@pytest.mark.process
def test_installed_programs_work(installed: Path, tmp_path: Path) -> None:
    policy = tmp_path / "arm.policy"
    policy.write_text("policy arm {\n  for pods where pod.priority > 0\n}\n", encoding="utf-8")
    assert "usage: kubectl placet" in run(installed / "kubectl-placet", "--help", cwd=tmp_path)
    assert "no problems found" in run(installed / "placet", "check", policy, cwd=tmp_path)
    asked = "import placet; print(placet.function('a.b(int) int').__name__)"
    assert run(installed / "python", "-c", asked, cwd=tmp_path) == "made\n"


@pytest.mark.process
def test_wheel_is_the_same_when_built_again(wheel: Path, tmp_path: Path) -> None:
    assert build(tmp_path).read_bytes() == wheel.read_bytes()


def test_nothing_keeps_an_index_from_taking_the_wheel() -> None:
    """An index refuses every classifier that starts with `Private ::`."""
    classifiers = PROJECT["project"]["classifiers"]
    assert [name for name in classifiers if name.startswith("Private ::")] == []


def test_no_python_is_claimed_that_is_not_tested() -> None:
    """`make versions` tests each of them that is there."""
    prefix = "Programming Language :: Python :: 3."
    minors = [c.removeprefix(prefix) for c in PROJECT["project"]["classifiers"] if prefix in c]
    claimed = [f"3.{minor}" for minor in minors]
    assert claimed == sorted({*claimed} & {*PYTHONS}, key=PYTHONS.index)
    assert PROJECT["project"]["requires-python"] == f">={claimed[0]}"


@pytest.mark.process
def test_scripts_start_the_launcher(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        (path,) = (name for name in archive.namelist() if name.endswith("/entry_points.txt"))
        declared = ConfigParser()
        declared.read_string(archive.read(path).decode())
    names = ["placet", "kubectl-placet"]
    scripts = dict.fromkeys(names, "placet.__main__:main")
    assert dict(declared["console_scripts"]) == scripts


@pytest.mark.process
@pytest.mark.parametrize(
    ("program", "called"), [("placet", "placet"), ("kubectl-placet", "kubectl placet")]
)
def test_help_calls_the_program_what_its_reader_does(
    program: str, called: str, tmp_path: Path
) -> None:
    """The scripts that pip writes from the entry points; kubectl runs a plugin by its path."""
    script = tmp_path / program
    script.write_text("from cli.__main__ import main\nraise SystemExit(main())\n", encoding="utf-8")
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


@pytest.mark.parametrize("lock", ["requirements.lock", "requirements-image.lock"])
def test_lock_names_no_address(lock: str) -> None:
    """An address in the lock would override the configured index of pip."""
    text = (ROOT / lock).read_text(encoding="utf-8")
    assert re.findall(r"^.*(?://|--index|--find-links|@ ).*$", text, re.MULTILINE) == []


@pytest.mark.parametrize(
    ("lock", "group"), [("requirements.lock", "dev"), ("requirements-image.lock", "image")]
)
def test_lock_has_every_dependency_with_hashes(lock: str, group: str) -> None:
    text = (ROOT / lock).read_text(encoding="utf-8")
    blocks = re.split(r"\n(?=[a-z])", text)
    locked = {block.partition("==")[0] for block in blocks if " --hash=sha256:" in block}
    declared = [*PROJECT["project"]["dependencies"], *PROJECT["dependency-groups"][group]]
    wanted = {re.split("[<>=]", line)[0].lower() for line in declared}
    assert wanted - locked == set()
    assert locked == set(re.findall(r"^([\w-]+)==", text, re.MULTILINE))


def test_image_has_the_versions_that_are_tested() -> None:
    tested, image = (
        dict(re.findall(r"(?m)^([\w-]+)==(\S+)", (ROOT / lock).read_text(encoding="utf-8")))
        for lock in ("requirements.lock", "requirements-image.lock")
    )
    common = tested.keys() & image.keys()
    assert {n: image[n] for n in common} == {n: tested[n] for n in common}
