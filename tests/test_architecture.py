"""The layout of the source: layers, sizes of files, charters of packages, allowed imports."""

import ast
import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from typing import get_args

import pytest

from engine.clauses import MEANINGS
from engine.program.program import ClauseProgram
from grammar.clauses import KINDS
from grammar.clauses.kind import ClauseKind

ROOT = Path(__file__).parents[1]
PACKAGES = ("cli", "engine", "grammar", "policies", "server")
MOST_LINES = 700
# All modules of the packages, and their lines: they only fall. What is new pays with a deletion.
MOST_MODULES, MOST_LINES_OF_ALL = 359, 85_244
NAMED_MODULE = re.compile(rf"`((?:{'|'.join(PACKAGES)})(?:\.\w+)+)[`(]")
# What starts a task or a thread that nobody has to wait for.
STARTERS = {"Thread", "ThreadPoolExecutor", "create_task", "ensure_future", "run_in_executor"}
STARTER_BYTES = [name.encode() for name in STARTERS]
# Who may do so besides the supervisor, which starts failed tasks again: what is started, where,
# and why its failure is seen.
STARTS = {
    "cli/live.py: ensure_future in LiveCluster._data.start": "a source of one command, which waits "
    "for all of them with a limit",
    "server/supervisor.py: create_task in Supervisor.start": "the supervisor itself",
    "server/http/sockets.py: create_task in Listener._begin": "one connection, which "
    "`_connected` reports",
    "server/http/sockets.py: Thread in health_server": "an event loop of its own; its "
    "caller joins it",
    "policies/disk.py: Thread in _Job.__init__": "whoever asks waits for its result, and gets its "
    "error, unless the file system never answers",
    "server/admission/webhooks.py: ensure_future in AdmissionWebhooks._in_turn": "one request "
    "awaits it",
    "server/admission/checking_process.py: Thread in _serve": "ends the process for checks "
    "when its server has ended",
    "engine/cluster/binding.py: create_task in Binder.bind": "one call awaits it",
    "engine/cluster/binding.py: ensure_future in Binder._held_back": "one call awaits "
    "it, and it cannot fail",
    "engine/cluster/data_sources.py: ThreadPoolExecutor in DataKeeper": "the one thread "
    "that reads texts, which `close` ends",
    "engine/cluster/data_sources.py: run_in_executor in DataKeeper._parse": "the task of the "
    "source awaits it, and gets its error",
    "engine/cluster/data_watching.py: create_task in _Reflected.run": "the task of the source "
    "waits for both in a group, ends with them and fails with them",
    "engine/cluster/scales.py: create_task in Scales.take": "some owners that are asked; `take` "
    "waits for them in a group",
    "engine/cluster/binding.py: create_task in Binder._send": "one pod whose binding is unknown; "
    "the pod counts on its node until a time, whatever happens here",
}


def modules(*folders: str) -> list[str]:
    """Return the Python files below these folders, relative to the root."""
    found = (path for folder in folders for path in (ROOT / folder).rglob("*.py"))
    return sorted(path.relative_to(ROOT).as_posix() for path in found)


@dataclass(frozen=True)
class Module:
    """What the tests below have to know of a file, which is parsed once."""

    docstring: str
    lines: int
    # The full name of everything that is imported, at any place in the file.
    imports: tuple[str, ...]
    # What tasks and threads are started with, and in which function.
    starts: tuple[str, ...]
    # The classes that it defines.
    classes: tuple[str, ...]
    # What these classes are made from, as it is written.
    bases: tuple[str, ...]
    # The names of their fields.
    fields: tuple[str, ...]
    # What it defines at its top.
    definitions: frozenset[str]
    # What its docstrings and comments name in backticks that looks like a part of a package.
    named_modules: tuple[str, ...]
    # The classes by which it tells objects apart: in `isinstance`, and in the cases of `match`.
    told_apart: frozenset[str]


@cache
def read(module: str) -> Module:
    content = (ROOT / module).read_bytes()
    tree = ast.parse(content)
    nodes = list(ast.walk(tree))
    classes = [node for node in nodes if isinstance(node, ast.ClassDef)]
    begun = starts(tree, ()) if any(word in content for word in STARTER_BYTES) else ()
    return Module(
        ast.get_docstring(tree) or "",
        content.count(b"\n"),
        tuple(imports(nodes)),
        tuple(f"{module}: {start}" for start in begun),
        tuple(node.name for node in classes),
        tuple(ast.unparse(base) for node in classes for base in node.bases),
        tuple(fields(classes)),
        frozenset(definitions(tree)),
        tuple(NAMED_MODULE.findall(content.decode())),
        frozenset(told_apart(nodes)),
    )


def imports(nodes: Iterable[ast.AST]) -> Iterator[str]:
    for node in nodes:
        match node:
            case ast.Import(names=names):
                yield from (name.name for name in names)
            case ast.ImportFrom(module=str(origin), names=names):
                yield from (f"{origin}.{name.name}" for name in names)
            case _:
                pass


def fields(classes: Iterable[ast.ClassDef]) -> Iterator[str]:
    """The annotated names in the bodies of classes."""
    for node in classes:
        for item in node.body:
            if isinstance(item, ast.AnnAssign) and isinstance(item.target, ast.Name):
                yield item.target.id


def told_apart(nodes: Iterable[ast.AST]) -> Iterator[str]:
    for node in nodes:
        match node:
            case ast.Call(func=ast.Name(id="isinstance"), args=[_, classes]):
                yield from (n.id for n in ast.walk(classes) if isinstance(n, ast.Name))
            case ast.MatchClass(cls=ast.Name(id=name)):
                yield name
            case _:
                pass


def definitions(tree: ast.Module) -> Iterator[str]:
    for node in tree.body:
        match node:
            case ast.ClassDef(name=name) | ast.FunctionDef(name=name):
                yield name
            case ast.AsyncFunctionDef(name=name) | ast.AnnAssign(target=ast.Name(id=name)):
                yield name
            case ast.Assign(targets=targets):
                yield from (target.id for target in targets if isinstance(target, ast.Name))
            case _:
                pass


def starts(node: ast.AST, path: tuple[str, ...]) -> Iterator[str]:
    for child in ast.iter_child_nodes(node):
        match child:
            case ast.ClassDef(name=name) | ast.FunctionDef(name=name):
                yield from starts(child, (*path, name))
                continue
            case ast.AsyncFunctionDef(name=name):
                yield from starts(child, (*path, name))
                continue
            case ast.Attribute(attr=name) | ast.Name(id=name) if name in STARTERS:
                yield f"{name} in {'.'.join(path)}"
            case _:
                pass
        yield from starts(child, path)


def test_no_modules_import_each_other() -> None:
    """Not even through other modules, so a reader follows imports in one direction."""
    names = {name_of(m): m for m in modules(*PACKAGES)}
    graph = {
        name: {
            known for i in read(module).imports if (known := _module(i, names)) not in (None, name)
        }
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


# The next tests read hundreds of files each, and name those that fail.


def test_each_module_starts_with_a_sentence() -> None:
    first = {m: read(m).docstring.partition("\n")[0] for m in modules(*PACKAGES, "tests")}
    assert {m: line for m, line in first.items() if not line.endswith((".", "?"))} == {}


def test_each_module_is_one_thing() -> None:
    lines = {m: read(m).lines for m in modules(*PACKAGES, "tests")}
    assert {m: number for m, number in lines.items() if number > MOST_LINES} == {}


def test_the_engine_is_a_face_with_its_work_in_parts() -> None:
    """What decides about counts, cards, audits and what is left behind are parts of their own."""
    content = (ROOT / "engine/engine.py").read_text()
    (engine,) = (
        node
        for node in ast.parse(content).body
        if isinstance(node, ast.ClassDef) and node.name == "Engine"
    )
    methods = {node.name: node for node in engine.body if isinstance(node, ast.FunctionDef)}
    given = methods["__init__"].args
    parameters = [*given.posonlyargs, *given.args, *given.kwonlyargs]
    assert len(parameters) - 1 <= 9
    assert len(methods) <= 24
    assert content.count("\n") <= 430


def test_the_packages_do_not_grow() -> None:
    """Whoever has deleted something lowers the bounds to what is left."""
    found = [(ROOT / module).read_bytes().count(b"\n") for module in modules(*PACKAGES)]
    more = {"modules": len(found) - MOST_MODULES, "lines": sum(found) - MOST_LINES_OF_ALL}
    assert max(more.values()) <= 0, f"above the bounds: {more}; fold others in this commit"


def test_each_package_has_a_charter() -> None:
    """It says what belongs in the package, and what must not."""
    packages = [m for m in modules(*PACKAGES) if m.endswith("__init__.py")]
    assert packages
    assert [m for m in packages if "must not" not in read(m).docstring.lower()] == []


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


def test_background_tasks_have_a_supervisor() -> None:
    """A task that nobody waits for would end in silence if it failed."""
    found = {start for module in modules(*PACKAGES) for start in read(module).starts}
    assert found == STARTS.keys()


def test_aiohttp_is_used_by_what_it_publishes() -> None:
    """So another version of it works too. ruff finds private names, but none that are inherited."""
    public = {"aiohttp", "aiohttp.web", "aiohttp.typedefs"}
    users = [m for m in modules(*PACKAGES) if any(_of_aiohttp(n) for n in read(m).imports)]
    assert "server/http/connections.py" in users
    inner = {(m, n) for m in users for n in read(m).imports if _of_aiohttp(n)}
    assert {(m, n) for m, n in inner if not {n, n.rpartition(".")[0]} & public} == set()
    heirs = {(m, base) for m in users for base in read(m).bases}
    assert {(m, base) for m, base in heirs if re.match(r"(aiohttp|web)\.", base)} == set()


def _of_aiohttp(name: str) -> bool:
    return name.partition(".")[0] == "aiohttp"


def test_tests_mock_nothing() -> None:
    """A mock of our own code tests the mock; other programs are served over a real socket."""
    found = {(m, name) for m in modules("tests") for name in read(m).imports}
    assert {(m, name) for m, name in found if "mock" in name.split(".")} == set()


def test_end_to_end_tests_see_what_users_see() -> None:
    found = {(m, name) for m in modules("tests/e2e") for name in read(m).imports}
    assert {(m, name) for m, name in found if name.split(".")[0] in PACKAGES} == set()


# ---- kinds of clauses

PROGRAMS = "engine.program.program"
# The modules that tell kinds of clauses, or classes of their programs, apart. A new kind has files
# in `grammar.clauses` and `engine.clauses`, and is added to none of these.
OF_EACH_KIND = {
    "cli/comparison/proofs.py": "what is proven of a kind; of those that are not named nothing is",
    "engine/explanation/written.py": "whether its program counts",
}


def node_of(kind: ClauseKind) -> type:
    """The class of the clauses that a kind makes."""
    made = kind.make.func if isinstance(kind.make, partial) else kind.make
    assert isinstance(made, type)
    return made


def kinds() -> dict[str, set[str]]:
    """The kinds, and the unions of their programs, by the module that defines them."""
    found = {node.__module__: {node.__name__} for node in map(node_of, KINDS.values())}
    programs = {kind.__name__ for kind in get_args(ClauseProgram)}
    return found | {PROGRAMS: programs | {"RejectingProgram"}}


def test_few_modules_tell_kinds_of_clauses_apart() -> None:
    """Each other module asks a clause what it needs to know, or takes the clauses of one kind."""
    found = {
        module
        for module in modules(*PACKAGES)
        for origin, names in kinds().items()
        for name in names & read(module).told_apart
        if f"{origin}.{name}" in read(module).imports
    }
    assert found == OF_EACH_KIND.keys()


@pytest.mark.parametrize("module", ["bounds.py", "groups.py"])
def test_a_missing_kind_of_counts_is_found_by_types(module: str) -> None:
    """`assert_never` is an error of mypy wherever a `match` has no case for a kind of counts."""
    assert "typing.assert_never" in read(f"engine/counting/{module}").imports


@pytest.mark.parametrize("word", KINDS)
def test_a_kind_has_one_file_in_the_language(word: str) -> None:
    """What reads, writes and corrects texts takes all kinds from their table."""
    origin = node_of(KINDS[word]).__module__
    assert origin.rpartition(".")[0] == "grammar.clauses"
    own = f"{origin.replace('.', '/')}.py"
    folders = [f"grammar/{name}" for name in ("clauses", "messages", "mistakes", "syntax", "tree")]
    others = {m for m in modules(*folders) for name in read(m).imports if name.startswith(origin)}
    assert others <= {own, "grammar/clauses/__init__.py"}


@pytest.mark.parametrize("word", KINDS)
def test_a_kind_has_one_file_in_the_engine(word: str) -> None:
    """Cards alone take clauses of other kinds, of which they consist."""
    node = node_of(KINDS[word])
    assert MEANINGS[node].kind is node
    origin, own = f"{node.__module__}.{node.__name__}", node.__module__.replace(".", "/")
    own = own.replace("grammar/", "engine/") + ".py"
    folders = ["engine/clauses", "engine/explanation", "engine/portable", "engine/program"]
    users = {m for m in modules(*folders) if origin in read(m).imports}
    assert own in users
    assert users <= {own, "engine/clauses/cards.py"}


# ---- words


# Classes that stand in two files, with the reason.
ONE_NAME_TWICE: dict[str, str] = {}


def test_a_class_name_means_one_thing() -> None:
    """In the whole project: a reader who meets a name knows which class it is."""
    places: dict[str, list[str]] = {}
    for module in modules(*PACKAGES):
        for name in read(module).classes:
            places.setdefault(name, []).append(module)
    twice = {name: where for name, where in places.items() if len(where) > 1}
    assert {name: where for name, where in twice.items() if name not in ONE_NAME_TWICE} == {}
    assert ONE_NAME_TWICE.keys() <= twice.keys()


def test_docstrings_name_what_exists() -> None:
    """A dotted name in backticks that begins with a package is a module, or defined in one."""
    names = {name_of(m): m for m in modules(*PACKAGES)}
    stale = [
        f"{module}: {name}"
        for module in modules(*PACKAGES, "tests")
        for name in read(module).named_modules
        if name not in names and not is_defined(name, names)
    ]
    assert stale == []


def name_of(module: str) -> str:
    """The dotted name of a file: `engine.cache.store` of `engine/cache/store.py`."""
    return module.removesuffix(".py").removesuffix("/__init__").replace("/", ".")


def is_defined(name: str, known: Mapping[str, str]) -> bool:
    """Whether a module defines a name at its top, or a class there has such a member."""
    parts = name.split(".")
    for count in (len(parts) - 1, len(parts) - 2):
        if (module := known.get(".".join(parts[:count]))) is not None:
            return parts[count] in read(module).definitions
    return False


# What only one struct says, in its own words: the explanation of a pod.
OF_EXPLANATIONS = {"failsOnlyThis", "heldBack", "rejectedBy", "toldToOthers"}


def test_there_is_one_struct_of_explanations() -> None:
    """Another one would have other keys and words for the same, and show something else."""
    found = {
        module
        for module in modules(*PACKAGES)
        for name in read(module).fields
        if name in OF_EXPLANATIONS
    }
    assert found == {"engine/explanation/document.py"}
