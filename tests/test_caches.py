"""The memories of the process: each has a bound in bytes, or is listed here with what bounds it.

The source is walked, so that what remembers without a bound fails, also where nobody thought of a
cache: a dictionary that one function both reads and fills. `Remembered` has a bound in bytes, and a
WeakValueDictionary keeps nothing alive; neither has to be listed.
"""

import ast
import functools
import gc
import importlib
import json
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
import yaml

from engine import fairness
from engine.cache import cache, census, ended_pods, policy_objects, tallies
from engine.cards.node_cards import taken
from engine.decision import journal
from engine.objects import remembered
from engine.program import columns
from grammar.mistakes.readings import clause_of
from grammar.values import strings
from grammar.values.addresses import parse_cidr, parse_ip
from grammar.values.errors import EvaluationError
from grammar.values.quantity import Quantity
from grammar.values.semver import Semver, kubernetes_version
from grammar.values.strings import matches, pattern
from grammar.values.time import Duration, Timestamp
from policies.sugar import items_of

ROOT = Path(__file__).parents[1]
PACKAGES = ("cli", "engine", "grammar", "policies", "server")
# The most bytes that one function may remember.
MOST_BYTES = 48 << 20
# What a result takes besides the texts that it is made of.
RESULT_BYTES = 220
# What a server takes in a small cluster.
BASE_BYTES = 110 << 20

CALL = "of one call or connection, one document or one policy that is read: it goes with that"
CLUSTER = "has one entry for each object of the cluster, and loses it with the object"
POLICIES = "has one entry for each policy or clause in force, and loses it with these"
PROGRAM = "its keys are constants of the program"
COUNTED = "counts its bytes or its entries, which are small, itself"
TERMINAL = "of a command at a terminal or an editor, and of the user's own files"
# The dictionaries that are read and filled in one function, and what bounds each.
DICTIONARIES = {
    CALL: (
        "engine/decision/registry.py: Registry._namespaced",
        "engine/decision/moves.py: MovedPods._there",
        "engine/decision/moves.py: MovedPods._views",
        "engine/gangs/paper.py: Paper._masks",
        "engine/gangs/paper.py: Paper._totals",
        "engine/gangs/paper.py: Slots.roles",
        "engine/simulation/cycle.py: Simulation._outcomes",
        "engine/counting/node_groups.py: CallGroups._followed",
        "engine/counting/node_groups.py: CallGroups._numbers",
        "engine/counting/node_groups.py: CallGroups._others",
        "engine/given_cards.py: CardClaims._programs",
        "engine/explanation/inspection.py: Inspection._counted",
        "engine/explanation/inspection.py: Inspection._counts",
        "engine/explanation/inspection.py: Inspection._groups",
        "engine/program/compiler.py: Compiler._defs",
        "engine/program/compiler.py: Compiler._lets",
        "engine/program/compiler.py: Compiler._of_nodes",
        "engine/program/compiler.py: Stages._named",
        "engine/program/compiler.py: Stages._needs",
        "engine/program/pod_shape.py: PodReads._known",
        "engine/simulation/pod_list.py: PodReader.bodies",
        "engine/program/policy_compiler.py: PolicyCompiler._known",
        "engine/program/policy_time.py: CallTime._used",
        "server/http/places.py: Places._addresses",
        "server/http/sockets.py: Listener._handshakes",
        "server/verbs/answering.py: DecisionQueue._waiting",
        "grammar/checker/policy_checker.py: _PolicyChecker._checked",
        "grammar/meaning/access.py: _Finder._guarded",
        "grammar/meaning/costs.py: Estimator._defs",
        "grammar/meaning/costs.py: Estimator._known",
        "grammar/meaning/costs.py: Estimator._lets",
        "grammar/tree/walk.py: Definitions._paths",
        "policies/documents.py: _Builder._built",
        "policies/validation.py: Validator._filled",
        "grammar/mistakes/rewrites.py: _Found.marks",
        "grammar/mistakes/rewrites.py: _Found.parts",
        "grammar/mistakes/readings.py: _Reader._known",
        "policies/hints.py: HintTrial._after",
        "policies/hints.py: HintTrial._before",
    ),
    CLUSTER: (
        "engine/cache/cache.py: Cache.assumptions",
        "engine/cache/cache.py: Cache.crowded",
        "engine/cache/cache.py: Cache._spaces",
        "engine/cache/cache.py: NodeStore._pods",
        "engine/cache/cache.py: Workloads._controllers",
        "engine/cache/cache.py: Workloads._owned",
        "engine/cache/cache.py: Workloads.keys",
        "engine/cache/tallies.py: AlikePods.groups",
        "engine/cache/tallies.py: Tallies.alike",
        "engine/cache/census.py: Census.groups",
        "engine/cluster/binding.py: Binder._running",
        "engine/cluster/held_pods.py: HeldPods.shown",
        "engine/cluster/data_watching.py: ObjectRows.owners",
        "engine/cluster/data_watching.py: ObjectRows._waiting",
        "engine/cluster/scales.py: Scales._asked",
        "engine/counting/groups.py: CountGroups._domains",
        "engine/counting/groups.py: CountGroups._within",
        "engine/counting/domains.py: Domains._numbers",
        "engine/counting/node_groups.py: _Arrivals._made",
        "engine/counting/node_groups.py: _Arrivals._more",
        "engine/gangs/gang.py: Members._waiting",
        "engine/gangs/paper.py: NodeRoom._free",
    ),
    POLICIES: (
        "engine/decision/registry.py: Registry.keys",
        "engine/cluster/data_sources.py: DataKeeper._states",
        "engine/drift/repairs.py: Repairs._disturbances",
        "engine/gangs/paper.py: Attempts._domains",
        "engine/gangs/gang.py: Members._frames",
        "engine/cache/tallies.py: Tallies._within",
        "engine/program/policy_time.py: _Budgets.used",
        "server/capabilities/audit.py: AuditStatuses._changed",
        "server/capabilities/portable.py: PortablePods._verdicts",
        "server/runtime/policies.py: Checks._known",
        "server/runtime/policies.py: Checks._used",
        "server/runtime/policies.py: Checks._versions",
        "server/capabilities/policy_statuses.py: Statuses._kept",
        "server/capabilities/policy_statuses.py: Statuses._seen",
    ),
    PROGRAM: (
        "engine/decision/filtering.py: FilterMemo._by_way",
        "engine/cache/informers.py: Informers._informers",
        "engine/counting/named_counts.py: NamedCount._last",
        "engine/objects/decoding.py: StructFactory._structs",
        "server/supervisor.py: ApiFailures._known",
        "server/capabilities/policy_first.py: PolicyFirst._asked",
        "server/capabilities/policy_first.py: PolicyFirst._known",
        "server/call.py: LimitedLog._kinds",
        "server/metrics/metrics.py: Metrics._levels",
        "server/metrics/metrics.py: Metrics._verbs",
    ),
    COUNTED: (
        "engine/fairness.py: FairQueue._own",
        "engine/cache/ended_pods.py: EndedPods._pods",
        "engine/cache/ended_pods.py: EndedPods._spaces",
        "engine/cache/tallies.py: Tallies._censuses",
        "engine/cards/fragmentation.py: Mix._usable",
        "engine/counting/groups.py: KeptCounts._kept",
        "engine/counting/in_flight_pods.py: InFlightPod._groups",
        "engine/decision/audit_log.py: AuditLog._open",
        "engine/decision/audit_log.py: AuditLog._owners",
        "engine/decision/filtering.py: _RowMemo._known",
        "engine/decision/journal.py: Journal._records",
        "engine/decision/plugin_filters.py: _Memo._known",
        "engine/decision/verb_call.py: OfferedNodes._rows",
        "engine/drift/survey.py: Survey._since",
        "engine/program/item_kinds.py: ItemKinds._column",
    ),
    TERMINAL: (
        "cli/comparison/worlds.py: WorldMaker._literals",
        "cli/language_server/server.py: PolicyServer._validators",
        "cli/policy_tests/runner.py: FixtureEngine._verdicts",
        "cli/written_objects.py: ObjectBuilder._workloads",
    ),
}
# The other memories of cachetools: their keys are short, and each says how many it has.
TIMED = {
    "engine/decision/recent_answers.py": "uids of pods",
    "engine/program/policy_time.py": "addresses of policies",
    "server/call.py": "hashes",
    "server/view/overview.py": "labels of at most 317 characters, and uids of pods",
    "server/view/policy_states.py": "the policies in force",
    "server/view/view_access.py": "digests, and names of namespaces of at most 63 characters",
}


# The functions whose results are kept by `lru_cache`: what is called, the longest text that it
# keeps, and texts of its form that are longer. None: it reads no text of a user.
KEPT: dict[str, tuple[Callable[..., object], int, tuple[Any, ...]] | None] = {
    "grammar.values.time.Duration.parse": (Duration.parse, 200, ("1s" * 150, "0" * 300 + "s")),
    "grammar.values.time.Timestamp.parse": (
        Timestamp.parse,
        64,
        ("2026-01-31T12:00:00." + "1" * 300 + "Z",),
    ),
    "grammar.values.time._zone": (Timestamp(0).local, 256, ("Europe/" + "x" * 300,)),
    "grammar.values.quantity.Quantity.parse": (
        Quantity.parse,
        200,
        ("1" * 300, "0" * 300 + "1Gi", "1." + "0" * 300),
    ),
    "grammar.values.semver.Semver.parse": (Semver.parse, 256, ("1.2.3-" + "a" * 300,)),
    "grammar.values.semver.kubernetes_version": (
        kubernetes_version,
        256,
        ("v1.36.0-" + "a" * 300, "v1.36.0+" + "a" * 300),
    ),
    "grammar.values.strings.pattern": (pattern, 16_384, ("a" * 16_385,)),
    "grammar.values.strings._instructions": (pattern, 16_384, ("a" * 16_385,)),
    "grammar.values.strings._matches_short": (
        lambda text: matches(text, "a+"),
        512,
        ("a" * 600,),
    ),
    "grammar.values.addresses.parse_ip": (parse_ip, 256, ("1" * 300, "0:" * 200 + "1")),
    "grammar.values.addresses.parse_cidr": (parse_cidr, 256, ("10.0.0.0/" + "8" * 300,)),
    "grammar.values.nodes._is_label": None,
    "grammar.mistakes.readings._read": (clause_of, 400, ("at most 3 per zone" + " please" * 80,)),
    "engine.cards.node_cards._taken_short": (
        taken,
        512,
        (json.dumps({"a" * 600: {"cards": [0], "take": {}}}),),
    ),
    "engine.counting.count_clauses.most_pods": None,
    "engine.counting.count_clauses.shortfall": None,
    "engine.counting.bounds.target": None,
    "grammar.meaning.schema.short_form": None,
    "grammar.tree.walk._parts": None,
    "grammar.tree.walk._rewritable": None,
    "engine.program.program._compared": None,
    "policies.manifests._inspected": None,
    "policies.sugar._items_of_short": (items_of, 256, ("weight 1" + "0" * 300,)),
}


# ---- the source


def _files() -> list[Path]:
    return [path for package in PACKAGES for path in sorted((ROOT / package).rglob("*.py"))]


def _trees(word: str = "") -> Iterator[tuple[str, ast.Module]]:
    """The files that contain a word, which each of their trees of interest has."""
    for path in _files():
        if word in (text := path.read_text("utf-8")):
            yield path.relative_to(ROOT).as_posix(), ast.parse(text)


def _owner(node: ast.expr) -> str | None:
    """The name of a dictionary that outlives a call: an attribute, or a name of the module."""
    if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
        return f"{node.value.id}.{node.attr}" if node.value.id in ("self", "cls") else None
    return node.id if isinstance(node, ast.Name) else None


def _stored_and_read(function: ast.AST) -> set[str]:
    """The dictionaries that a function both asks for a key and gives one."""
    stored: set[str | None] = set()
    read: set[str | None] = set()
    for node in ast.walk(function):
        match node:
            case ast.Subscript(value, _, ast.Store()):
                stored.add(_owner(value))
            case ast.Subscript(value, _, ast.Load()):
                read.add(_owner(value))
            case ast.Compare(_, [ast.In() | ast.NotIn()], [value]):
                read.add(_owner(value))
            case ast.Call(ast.Attribute(value, "get"), _):
                read.add(_owner(value))
            case ast.Call(ast.Attribute(value, "setdefault"), _):
                stored.add(_owner(value))
                read.add(_owner(value))
            case _:
                pass
    return {name for name in stored & read if name is not None}


def _is_dict(value: ast.expr | None) -> bool:
    match value:
        case ast.Dict():
            return True
        case ast.Call(ast.Name("dict" | "defaultdict" | "OrderedDict")):
            return True
        case ast.Call(ast.Name("field"), _, [*keywords]):
            return any(k.arg == "default_factory" and _owner(k.value) == "dict" for k in keywords)
        case _:
            return False


def _dicts(scope: ast.AST, prefix: str) -> set[str]:
    """The dictionaries that a class makes for its objects, or a module for itself."""
    found: set[str | None] = set()
    for node in ast.walk(scope) if prefix else ast.iter_child_nodes(scope):
        match node:
            case ast.Assign(targets, value) if _is_dict(value):
                found.update(map(_owner, targets))
            case ast.AnnAssign(target, _, value) if _is_dict(value):
                name = _owner(target)
                found.add(name if name is None or "." in name else prefix + name)
            case _:
                pass
    return {name for name in found if name is not None and name.startswith(prefix)}


def dictionaries() -> set[str]:
    """The memories that are dictionaries: `file: Class.attribute` or `file: NAME`."""
    found = set()
    for file, tree in _trees():
        functions = (n for n in tree.body if isinstance(n, ast.FunctionDef | ast.AsyncFunctionDef))
        inside = {name for function in functions for name in _stored_and_read(function)}
        found |= {f"{file}: {name}" for name in _dicts(tree, "") & inside}
        for owner in ast.walk(tree):
            if isinstance(owner, ast.ClassDef):
                used = {name for part in owner.body for name in _stored_and_read(part)}
                names = _dicts(owner, "self.") & used
                found |= {f"{file}: {owner.name}.{name.removeprefix('self.')}" for name in names}
    return found


def _imported(tree: ast.Module, module: str) -> set[str]:
    """The names that a file imports from a module, as it calls them there."""
    found: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module == module:
            found.update(alias.name for alias in node.names)
        if isinstance(node, ast.Attribute) and ast.unparse(node.value) == module:
            found.add(node.attr)
    return found


def test_every_dictionary_that_remembers_is_known() -> None:
    """A new one is a `Remembered`, or gets a line that says what bounds it."""
    listed = [name for names in DICTIONARIES.values() for name in names]
    assert dictionaries() == set(listed)


def test_a_dictionary_that_remembers_is_found() -> None:
    """Whatever way it is asked and filled."""
    made = "def __init__(self): self.d = {}"
    asked = ("self.d.get(k)", "k in self.d", "k not in self.d", "self.d[k]")
    for ask in asked:
        function = ast.parse(f"def f(self, k):\n  x = {ask}\n  self.d[k] = x")
        assert _stored_and_read(function) == {"self.d"}, ask
    assert _stored_and_read(ast.parse("self.d.setdefault(k, 1)")) == {"self.d"}
    assert _dicts(ast.parse(made), "self.") == {"self.d"}
    assert _dicts(ast.parse("D: dict[str, int] = {}"), "") == {"D"}


def test_cachetools_remembers_only_short_keys() -> None:
    """Its bounds are numbers of entries, unless a function gives their sizes."""
    imported = {file: _imported(tree, "cachetools") for file, tree in _trees("cachetools")}
    found = {file: names for file, names in imported.items() if names}
    assert found == {file: {"TTLCache"} for file in TIMED}


def test_no_object_makes_a_function_that_keeps_everything() -> None:
    found = set()
    for file, tree in _trees("functools"):
        if not _imported(tree, "functools") & {"cache", "lru_cache"}:
            continue
        for owner in ast.walk(tree):
            if isinstance(owner, ast.ClassDef):
                calls = (n for n in ast.walk(owner) if isinstance(n, ast.Call))
                if any(isinstance(c.func, ast.Name) and c.func.id == "cache" for c in calls):
                    found.add(f"{file.removesuffix('.py').replace('/', '.')}.{owner.name}")
    assert not found


@functools.cache
def _kept_functions() -> dict[str, Any]:
    """The functions of the project whose results are kept, by their full names."""
    for path in _files():
        name = ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")
        if not name.endswith("__main__"):
            importlib.import_module(name)
    wrapper = functools._lru_cache_wrapper  # noqa: SLF001 - nothing public says what keeps results
    # What is left out of collections is not listed: what tests/conftest.py and servers found.
    gc.unfreeze()
    found = [f for f in gc.get_objects() if isinstance(f, wrapper)]
    gc.freeze()
    named = {f"{f.__module__}.{f.__qualname__}": f for f in found}
    return {name: f for name, f in named.items() if name.split(".")[0] in PACKAGES}


def _has_arguments(function: Any) -> bool:
    code = function.__wrapped__.__code__
    return bool(code.co_argcount + code.co_kwonlyargcount)


def test_every_function_whose_results_are_kept_has_a_bound() -> None:
    kept = {name: f for name, f in _kept_functions().items() if _has_arguments(f)}
    single = {name for name, f in kept.items() if f.cache_parameters()["maxsize"] == 1}
    assert sorted(set(kept) - single) == sorted(KEPT)
    for name, function in kept.items():
        most = function.cache_parameters()["maxsize"]
        assert most is not None, f"{name} keeps everything"
        if (known := KEPT.get(name)) is not None:
            assert most * (known[1] + RESULT_BYTES) <= MOST_BYTES, name


@pytest.mark.parametrize("name", [name for name, known in KEPT.items() if known is not None])
def test_a_text_that_is_too_long_is_not_kept(name: str) -> None:
    function, known = _kept_functions()[name], KEPT[name]
    assert known is not None
    call, longest, texts = known
    for text in texts:
        assert len(text) > longest
        before = function.cache_info().currsize
        with suppress(EvaluationError):
            call(text)
        assert function.cache_info().currsize <= before, f"{name} keeps {text[:40]}"


def test_what_tenants_can_have_kept_is_less_than_the_memory_of_the_chart() -> None:
    """Beside what a server takes in a small cluster, as docs/operations/limits.md measures."""
    functions = sum(
        function.cache_parameters()["maxsize"] * (known[1] + RESULT_BYTES)
        for name, function in _kept_functions().items()
        if (known := KEPT.get(name)) is not None and known[0] is not pattern
    )
    kept = (
        fairness.MOST_OF_TENANTS,
        cache.MOST_BODIES,
        policy_objects.MOST_OF_HEADS,
        ended_pods.MOST_BYTES,
        tallies.MOST_BYTES,
        census.MOST_STALE_BYTES,
        columns.SHARED_BYTES,
        journal.MOST_BYTES,
        remembered.MOST_REMEMBERED,
        pattern.cache_parameters()["maxsize"] * strings.MOST_MEMORY,
        functions,
    )
    values = yaml.safe_load((ROOT / "deploy/chart/values.yaml").read_text("utf-8"))
    limit = Quantity.parse(values["resources"]["limits"]["memory"]).nanos // 10**9
    assert BASE_BYTES + sum(kept) <= limit, f"{sum(kept) >> 20} MiB beside {BASE_BYTES >> 20}"
