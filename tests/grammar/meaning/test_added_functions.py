"""Functions that packages add: signatures, what is wrong with a call, and how they are found."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from grammar.meaning import added_functions
from grammar.meaning.added_functions import AddedFunction, SignatureError, function, parsed
from grammar.tree.types import BOOL, INT, STRING, list_of, map_of
from grammar.values.errors import EvaluationError

ROOT = Path(__file__).parents[3]


def test_a_signature_has_types() -> None:
    assert parsed("acme.f(string, map(string, list(int))) list(bool)") == (
        "acme.f",
        (STRING, map_of(STRING, list_of(INT))),
        list_of(BOOL),
    )
    assert parsed(" acme.now() int ")[1] == ()


@pytest.mark.parametrize(
    ("signature", "message"),
    [
        ("rackOf(string) string", "is not a signature"),
        ("acme.rackOf(string)", "is not a signature"),
        ("acme.rackOf(text) string", "`text` is no type of a function"),
        ("acme.rackOf(list(quantity)) string", "`quantity` is no type of a function"),
        ("acme.rackOf(map(double, int)) string", "`map(double, int)` is no type"),
    ],
)
def test_a_wrong_signature_says_how_one_is_written(signature: str, message: str) -> None:
    with pytest.raises(SignatureError, match=re.escape(message)):
        function(signature)


def made(signature: str, call: Callable[..., Any]) -> AddedFunction:
    return function(signature, steps=7)(call)


def test_a_call_gives_plain_values() -> None:
    each = made("acme.parts(string) list(string)", lambda text: text.split("-"))
    assert each.overload.call("a-b") == ("a", "b")
    assert each("a-b") == ["a", "b"]
    assert each.overload.work is not None
    assert each.overload.work("a-b") == 7
    of = made("acme.of(int) map(string, int)", lambda number: {"n": number})
    assert of.overload.call(3) == {"n": 3}


@pytest.mark.parametrize(
    ("signature", "call", "message"),
    [
        ("acme.f(int) int", lambda n: 1 // n, "`acme.f` failed: ZeroDivisionError"),
        ("acme.f(int) string", lambda n: n, "`acme.f` gave a int in place of string"),
        ("acme.f(int) int", lambda _: True, "`acme.f` gave a bool in place of int"),
        ("acme.f(int) int", lambda _: 2**63, "an int of more than 64 bits"),
        ("acme.f(int) list(int)", lambda _: ["x"], "`acme.f` gave a str in place of int"),
        ("acme.f(int) map(string, int)", lambda _: {1: 1}, "gave a int in place of string"),
    ],
)
def test_what_goes_wrong_is_an_error_of_the_evaluation(
    signature: str, call: Callable[..., Any], message: str
) -> None:
    with pytest.raises(EvaluationError, match=re.escape(message)):
        made(signature, call).overload.call(0)


def test_a_slow_function_is_not_called_for_a_minute(monkeypatch: pytest.MonkeyPatch) -> None:
    now, calls = [100.0], []

    def call(seconds: float) -> bool:
        calls.append(seconds)
        now[0] += seconds
        return True

    monkeypatch.setattr(added_functions, "monotonic", lambda: now[0])
    slow = made("acme.slow(double) bool", call).overload
    assert slow.call(0.04) is slow.call(0.3) is True
    with pytest.raises(EvaluationError, match=r"`acme.slow` took 0.30 s"):
        slow.call(0.0)
    now[0] += 59.0
    with pytest.raises(EvaluationError):
        slow.call(0.0)
    now[0] += 2.0
    assert slow.call(0.0) is True
    assert calls == [0.04, 0.3, 0.0]


SAMPLE = """
from grammar.meaning.added_functions import function

@function("acme.rackOf(string) string", steps=20)
def rack_of(name):
    return name.partition("-")[0]

@function("acme.fails(string) bool")
def fails(name):
    raise KeyError(name)

not_one = len
"""
POINTS = """[placet.functions]
rackOf = acme_functions:rack_of
fails = acme_functions:fails
other = acme_functions:not_one
missing = acme_missing:f
"""


@pytest.fixture
def packages(tmp_path: Path) -> Path:
    """A folder for PYTHONPATH in which a package has functions."""
    information = tmp_path / "acme-1.0.dist-info"
    information.mkdir()
    (information / "METADATA").write_text("Metadata-Version: 2.1\nName: acme\nVersion: 1.0\n")
    (information / "entry_points.txt").write_text(POINTS)
    (tmp_path / "acme_functions.py").write_text(SAMPLE)
    return tmp_path


@pytest.mark.process
def test_every_command_has_the_functions_of_packages(packages: Path, tmp_path: Path) -> None:
    policy = tmp_path / "rack.policy"
    policy.write_text(
        'policy racks { for pods where pod.namespace == "shop"\n'
        '  filter "rack" { require acme.rackOf(node.name) == "n" } }\n'
    )
    test = tmp_path / "rack_test.policy"
    test.write_text(
        'test "racks" {\n  node "n-1"\n  node "m-1"\n  pod "shop/web" {}\n'
        '  expect pass "n-1"\n  expect reject "m-1" by "rack"\n}\n'
    )

    def run(*arguments: str, given: str = "") -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-m", "cli", *arguments],
            cwd=ROOT,
            env={"PYTHONPATH": f"{packages}:{ROOT}", "PATH": "", "HOME": str(tmp_path)},
            input=given,
            capture_output=True,
            text=True,
            check=False,
            timeout=60,
        )

    said = run("eval", 'acme.rackOf("r1-n2")')
    assert said.stdout == '"r1" : string\n'
    assert "`acme_functions:not_one` is not a function" in said.stderr
    assert "the function `acme_missing:f` cannot be read: No module named" in said.stderr
    assert run("check", str(policy)).returncode == 0
    assert "acme.rackOf" in run("check", "--cost", str(policy)).stdout
    assert "1 passed" in run("test", str(policy), str(test)).stdout
    assert '"r1"' in run("repl", given='acme.rackOf("r1-n2")\n').stdout
    assert "KeyError" in run("eval", 'acme.fails("x")').stderr
