"""The layout of the source: layers, sizes of files, charters of packages, allowed imports."""

import ast
import subprocess
import sys
from collections.abc import Collection, Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PACKAGES = ("cli", "engine", "grammar", "policies", "server")
MOST_LINES = 700
# What starts a task or a thread that nobody has to wait for.
STARTERS = {"Thread", "ThreadPoolExecutor", "create_task", "ensure_future", "run_in_executor"}
# Who may do so besides the supervisor, which starts failed tasks again: what is started, where,
# and why its failure is seen.
STARTS = {
    "server/supervisor.py: create_task in Supervisor.start": "the supervisor itself",
    "server/running.py: create_task in Listener.open": "accepts for as long as the server lives; "
    "every exception is reported to the event loop, and the next connection is accepted",
    "server/running.py: create_task in Listener._accept": "one connection; `_connected` reports it",
    "server/running.py: Thread in health_server": "an event loop of its own; its caller joins it",
    "server/admission.py: ensure_future in AdmissionWebhooks._in_turn": "one request awaits it",
    "server/checking.py: Thread in _serve": "ends the process for checks when its server has ended",
    "engine/cluster/binding.py: create_task in Binder.bind": "one call awaits it",
    "engine/cluster/binding.py: create_task in Binder._bind": "one pod whose binding is unknown; "
    "the pod counts on its node until a time, whatever happens here",
}


def modules(*folders: str) -> list[str]:
    """Return the Python files below these folders, relative to the root."""
    found = (path for folder in folders for path in (ROOT / folder).rglob("*.py"))
    return sorted(path.relative_to(ROOT).as_posix() for path in found)


def docstring(module: str) -> str:
    return ast.get_docstring(ast.parse((ROOT / module).read_bytes())) or ""


def imports(module: str) -> Iterator[str]:
    """Yield the full name of everything that a file imports, at any place in it."""
    for node in ast.walk(ast.parse((ROOT / module).read_bytes())):
        match node:
            case ast.Import(names=names):
                yield from (name.name for name in names)
            case ast.ImportFrom(module=str(origin), names=names):
                yield from (f"{origin}.{name.name}" for name in names)
            case _:
                pass


def test_layers_are_kept() -> None:
    """The contracts are in pyproject.toml; this runs `lint-imports` as `make check` does."""
    done = subprocess.run(
        [Path(sys.executable).with_name("lint-imports"), "--no-logo"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_no_modules_import_each_other() -> None:
    """Not even through other modules, so a reader follows imports in one direction."""
    names = {
        m.removesuffix(".py").removesuffix("/__init__").replace("/", "."): m
        for m in modules(*PACKAGES)
    }
    graph = {
        name: {known for i in imports(module) if (known := _module(i, names)) not in (None, name)}
        for name, module in names.items()
    }
    # Remove modules without remaining imports until none is left, or only circles are.
    while free := [name for name, needs in graph.items() if not needs & graph.keys()]:
        for name in free:
            del graph[name]
    assert graph == {}


def _module(name: str, known: Collection[str]) -> str | None:
    """The known module that an imported name is, or belongs to."""
    if name in known:
        return name
    parent = name.rpartition(".")[0]
    return parent if parent in known else None


@pytest.mark.parametrize("module", modules(*PACKAGES, "tests"))
def test_module_is_one_thing(module: str) -> None:
    """Its docstring starts with a sentence, and it has at most 700 lines."""
    first = docstring(module).partition("\n")[0]
    assert first.endswith((".", "?")), f"no sentence on the first line: {first!r}"
    lines = (ROOT / module).read_bytes().count(b"\n")
    assert lines <= MOST_LINES


@pytest.mark.parametrize("module", [m for m in modules(*PACKAGES) if m.endswith("__init__.py")])
def test_package_has_a_charter(module: str) -> None:
    """It says what belongs in the package, and what must not."""
    assert "must not" in docstring(module).lower()


@pytest.mark.parametrize("package", PACKAGES)
def test_package_is_typed_and_has_no_loose_folders(package: str) -> None:
    assert (ROOT / package / "py.typed").is_file()
    folders = {path.parent for path in (ROOT / package).rglob("*.py")}
    assert [folder for folder in folders if not (folder / "__init__.py").is_file()] == []


def test_folders_of_tests_mirror_the_packages() -> None:
    """Who looks for the tests of a folder finds them under its name."""
    tests = {Path(module).parent for module in modules(*(f"tests/{name}" for name in PACKAGES))}
    folders = {Path("tests") / Path(module).parent for module in modules(*PACKAGES)}
    assert sorted(map(str, tests - folders)) == []


def starts(module: str) -> Iterator[str]:
    """Yield what a file starts tasks and threads with, and in which function."""

    def below(node: ast.AST, path: tuple[str, ...]) -> Iterator[str]:
        for child in ast.iter_child_nodes(node):
            match child:
                case ast.ClassDef(name=name) | ast.FunctionDef(name=name):
                    yield from below(child, (*path, name))
                    continue
                case ast.AsyncFunctionDef(name=name):
                    yield from below(child, (*path, name))
                    continue
                case ast.Attribute(attr=name) | ast.Name(id=name) if name in STARTERS:
                    yield f"{module}: {name} in {'.'.join(path)}"
                case _:
                    pass
            yield from below(child, path)

    return below(ast.parse((ROOT / module).read_bytes()), ())


def test_background_tasks_have_a_supervisor() -> None:
    """A task that nobody waits for would end in silence if it failed."""
    found = {start for module in modules(*PACKAGES) for start in starts(module)}
    assert found == STARTS.keys()


@pytest.mark.parametrize("module", modules("tests"))
def test_tests_mock_nothing(module: str) -> None:
    """A mock of our own code tests the mock; other programs are served over a real socket."""
    assert [name for name in imports(module) if "mock" in name.split(".")] == []


@pytest.mark.parametrize("module", modules("tests/e2e"))
def test_end_to_end_tests_see_what_users_see(module: str) -> None:
    assert [name for name in imports(module) if name.split(".")[0] in PACKAGES] == []
