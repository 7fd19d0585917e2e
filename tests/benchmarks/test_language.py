"""Language benchmarks: rules beside other engines of CEL, and compiling and checking policies."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import Any

import pytest

from engine.program.policy_compiler import compile_policy
from grammar.meaning.schema import load_schema
from grammar.tree.source import Source
from policies.validation import check_source
from tests.benchmarks.race import ROOT, RaceResult, race
from tests.benchmarks.results import AtLeast, AtMost, Record
from tests.support import builders

NODES = 5_000
# cel-python is so slow that fewer nodes tell as much; figures are per node.
FEW = 200
ROUNDS = 9
POLICY = Path(__file__).with_name("sixty_lines.policy")

TESTS = (
    '{labels}["disk"] == "ssd" && {labels}["topology.kubernetes.io/zone"] in ["a", "b"]'
    " && {memory} >= {gib}"
    ' && {conditions}.exists(c, c.type == "Ready" && c.status == "True")'
)
RULE = TESTS.format(
    labels="node.labels",
    memory='node.free["memory"]',
    gib='"1Gi"',
    conditions="node.status.conditions",
)
PEERS_RULE = TESTS.format(labels="labels", memory="memory", gib=2**30, conditions="conditions")

pytestmark = pytest.mark.bench


@pytest.fixture(scope="module")
def race_results(peers: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, RaceResult]:
    """Return the rounds of all contestants, which ran in turns on the same nodes."""
    folder = tmp_path_factory.mktemp("race")
    nodes = [_node(i) for i in range(NODES)]
    objects, variables = folder / "nodes.json", folder / "variables.json"
    objects.write_bytes(json.dumps(nodes).encode())
    variables.write_bytes(json.dumps([_variables(i, n) for i, n in enumerate(nodes)]).encode())
    cel_python = (PEERS_RULE, str(FEW), str(variables))
    contestants = {
        "cold": ("placet", "cold", RULE, str(objects)),
        "warm": ("placet", "warm", RULE, str(objects)),
        "served": ("placet", "served", RULE, str(objects)),
        "cel-expr-python": ("cel_expr", PEERS_RULE, str(variables)),
        "cel-python": ("cel_python", "CompiledRunner", *cel_python),
        "cel-python, default runner": ("cel_python", "InterpretedRunner", *cel_python),
    }
    return race(contestants, ROUNDS, peers)


def _node(i: int) -> dict[str, Any]:
    labels = {"kubernetes.io/arch": "amd64", "kubernetes.io/os": "linux", "pool": f"pool-{i % 7}"}
    labels["disk"] = "ssd" if i % 10 else "hdd"
    ready = bool(i % 20)
    node = builders.node(
        f"node-{i}", zone="abc"[i % 3], memory=f"{i % 64}Gi", labels=labels, ready=ready
    )
    fine = [{"type": f"{what}Pressure", "status": "False"} for what in ("Memory", "Disk", "PID")]
    node["status"]["conditions"] = [*fine, *node["status"]["conditions"]]
    return node


def _variables(i: int, node: dict[str, Any]) -> dict[str, Any]:
    return {
        "labels": node["metadata"]["labels"],
        "memory": (i % 64) * 2**30,
        "conditions": node["status"]["conditions"],
    }


@pytest.mark.parametrize(
    ("state", "peer", "target"),
    [
        ("cold", "cel-expr-python", 5),
        ("cold", "cel-python", 250),
        ("warm", "cel-expr-python", 5),
        ("warm", "cel-python", 250),
        ("served", "cel-expr-python", 10),
    ],
)
def test_rule(
    state: str, peer: str, target: float, race_results: dict[str, RaceResult], record: Record
) -> None:
    """Three tests of labels and a quantity, and one `exists`."""
    ours, theirs = race_results[state], race_results[peer]
    assert ours.passed[: len(theirs.passed)] == theirs.passed
    assert 0 < sum(ours.passed) < NODES
    about = {
        "cold": "every node evaluated for the first time",
        "warm": "the same nodes as the time before",
        "served": "all of a filter call, nothing changed since one about another such pod",
        "cel-expr-python": "ready-made activations of typed variables, amounts as ints",
        "cel-python": f"its own values, amounts as ints, {FEW} nodes, compiled runner; its default"
        f" one takes {race_results['cel-python, default runner'].micros:.0f} us",
    }
    detail = (
        f"Placet {ours.micros:.3g} us a node ({about[state]}); {peer} {theirs.micros:.3g} us a node"
        f" ({about[peer]})"
    )
    record(
        f"filter of {NODES:,} nodes, {state}, against {peer}",
        theirs.micros / ours.micros,
        AtLeast(target),
        detail,
    )


def test_compile(record: Record) -> None:
    """Text to program, in a process that has done so before."""
    source = Source(POLICY.name, POLICY.read_text())
    schema = load_schema()
    assert source.text.count("\n") == 60

    def act() -> None:
        (checked,) = check_source(source, schema).policies
        assert not checked.broken
        compile_policy(checked)

    taken = _seconds(20, act)
    record(
        "compile 60 lines",
        median(taken) * 1000,
        AtMost(40),
        f"ms from text to program, warm; most {max(taken) * 1000:.3g}",
    )


@pytest.mark.parametrize("cached", [True, False], ids=["cache", "no cache"])
def test_check(cached: bool, tmp_path: Path, record: Record) -> None:
    """From a cold start of the interpreter."""
    command = [sys.executable, "-m", "cli", "check", str(POLICY)]
    folders = [tmp_path / ("cache" if cached else f"cache-{i}") for i in range(8)]

    def check() -> None:
        env = os.environ | {"XDG_CACHE_HOME": str(folders.pop())}
        subprocess.run(command, cwd=ROOT, env=env, check=True, capture_output=True)

    taken = _seconds(7, check)
    record(
        "check one file" if cached else "check one file, no grammar cache",
        median(taken),
        AtMost(0.5) if cached else None,
        f"s for `placet check` of 60 lines, from the start of its process; most {max(taken):.3g}",
    )


def _seconds(times: int, act: Callable[[], None]) -> list[float]:
    act()  # the first one pays for what is kept
    taken = []
    for _ in range(times):
        started = time.perf_counter()
        act()
        taken.append(time.perf_counter() - started)
    return taken
