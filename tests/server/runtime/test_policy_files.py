"""Policy files of a server: checked in a process, and none holds back another."""

from __future__ import annotations

import logging
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TypeVar

import pytest

from grammar.meaning.schema import load_schema
from grammar.tree.source import Source
from policies.disk import MOST_OF_TEXT
from policies.validation import check_source
from server.admission.checking_process import (
    CheckFailedError,
    CheckingProcess,
    CheckLimitError,
    CheckTimeoutError,
)
from server.runtime.policies import PolicyReader
from tests.support.fake_clock import HandClock
from tests.support.rows import rows

T = TypeVar("T")
SCHEMA = load_schema()
LOG = logging.getLogger("policy-files")
GOOD = "policy {} {{\n  for pods where true\n}}\n"
WEB = 'policy web { for pods where pod.namespace == "web" filter "a" { require false } }'
AUDIT, IGNORED = (WEB.replace("{", f"{{ {each}", 1) for each in ("mode audit", "missing pass"))
SCORES = 'policy web { for pods where true score "a" weight 10 { value 1 } }'


class Slow(CheckingProcess):
    """It checks in this process. A text with `slow` takes ten seconds, and has no result."""

    def __init__(self) -> None:
        super().__init__(SCHEMA)
        self.seconds = 0.0

    def run(self, seconds: float, function: Callable[..., T], *args: object) -> T:  # noqa: ARG002
        if any(isinstance(each, Source) and "slow" in each.text for each in args):
            self.seconds += 10.0
            raise CheckLimitError("the check took longer than 5 s", "shorten the rules")
        return function(*args)


LATE = CheckTimeoutError("the check took longer than 20 s", "try again")
CRASHED = CheckFailedError("the process for checks ended with -11")
SLOW = CheckLimitError("the check took longer than 5 s of processor time", "shorten the rules")


class Failing(CheckingProcess):
    """It checks in this process, but while it has an `error` nothing, or nothing by the rules."""

    def __init__(self, error: Exception | None, *, reads: bool) -> None:
        super().__init__(SCHEMA)
        self.error = error
        self.reads = reads

    def run(self, seconds: float, function: Callable[..., T], *args: object) -> T:  # noqa: ARG002
        is_check = isinstance(function, partial) and function.func is check_source
        if self.error is not None and (is_check or not self.reads):
            raise self.error
        return function(*args)


class WithoutHints(CheckingProcess):
    """It checks in this process. A check with hints fails."""

    def run(self, seconds: float, function: Callable[..., T], *args: object) -> T:  # noqa: ARG002
        if isinstance(function, partial) and function.keywords["has_hints"]:
            raise CheckFailedError("IndexError")
        return function(*args)


class SlowHints(CheckingProcess):
    """It checks in this process. A check with hints takes ten seconds."""

    def __init__(self) -> None:
        super().__init__(SCHEMA)
        self.seconds = 0.0
        self.hinted = 0

    def run(self, seconds: float, function: Callable[..., T], *args: object) -> T:
        if isinstance(function, partial) and function.keywords["has_hints"]:
            self.seconds += min(seconds, 10.0)
            if seconds < 10.0:
                raise CheckTimeoutError("the check took longer than 1 s", "try again")
            self.hinted += 1
        return function(*args)


def write(folder: Path, **texts: str) -> None:
    for name, text in texts.items():
        (folder / f"{name}.policy").write_text(text, encoding="utf-8")


def in_force(reader: PolicyReader) -> list[str]:
    return [each.checked.policy.address for each in reader.enforced.in_force.active]


def test_a_file_whose_check_takes_long_does_not_hold_back_others(tmp_path: Path) -> None:
    process = Slow()
    reader = PolicyReader([tmp_path], SCHEMA, LOG, process, lambda: process.seconds)
    write(tmp_path, a=GOOD.format("first"), b=GOOD.format("b"))
    reader.read({})
    for number in range(5):
        write(tmp_path, b=f"# slow {number}\n{GOOD.format('other')}", a=GOOD.format(f"a{number}"))
        reader.read({})
        assert in_force(reader) == [f"a{number}", "b"]
    (broken,) = reader.enforced.broken
    assert "error[P0504]: the check took longer than 5 s" in broken.because
    write(tmp_path, b=GOOD.format("mended"))
    reader.read({})
    assert in_force(reader) == ["a4", "mended"]


@pytest.mark.parametrize("error", [LATE, CRASHED], ids=["late", "crashed"])
@pytest.mark.parametrize("reads", [True, False])
def test_pods_wait_for_a_file_until_it_is_checked(
    tmp_path: Path, error: Exception, *, reads: bool
) -> None:
    """However often its check is late or crashes: those that it selects, or all of them."""
    process, clock = Failing(error, reads=reads), HandClock()
    reader = PolicyReader([tmp_path], SCHEMA, LOG, process, clock)
    write(tmp_path, a=WEB)
    name = "web" if reads else str(tmp_path / "a.policy")
    for _ in range(3):
        (refusing,) = reader.read({}).registry.refusing
        assert (refusing.address, refusing.source.policy.selector is None) == (name, not reads)
        (broken,) = reader.enforced.broken
        assert broken.instead == "the pods that it selects wait"
        assert "1 policy is not in force as written" in reader.failure
        assert not reader.changed()
        clock.seconds += 300
        assert reader.changed()
    process.error = None
    assert not reader.read({}).registry.refusing
    assert in_force(reader) == ["web"]


@pytest.mark.parametrize("error", [LATE, CRASHED, SLOW], ids=["late", "crashed", "slow"])
@pytest.mark.parametrize("text", [AUDIT, IGNORED, SCORES], ids=["audit", "ignored", "scores"])
def test_no_pod_waits_for_a_file_that_rejects_none(
    tmp_path: Path, error: Exception, text: str
) -> None:
    reader = PolicyReader([tmp_path], SCHEMA, LOG, Failing(error, reads=True))
    write(tmp_path, a=text)
    assert not reader.read({}).registry.refusing


FILTER = 'filter "f" { require node.ready }'
UNKNOWN = {
    "encoding": WEB.encode("latin-1") + b"# caf\xe9",
    "utf-16": WEB.encode("utf-16"),
    "too large": WEB.encode() + b" " * MOST_OF_TEXT,
    "no end": b'policy "',
    "wrong word": f"polcy web {{ {FILTER} }}".encode(),
    "wrong name": f"policy web/b {{ {FILTER} }}".encode(),
    "wrong for": f"policy web {{ for pods whre true {FILTER} }}".encode(),
    "no for": f"policy web {{ {FILTER} }}".encode(),
}


@rows("data", UNKNOWN)
def test_all_pods_wait_for_a_file_of_which_nobody_knows_the_pods(
    tmp_path: Path, data: bytes
) -> None:
    """From the start on; one that comes later changes nothing. Readiness names both."""
    reader, later = (PolicyReader([tmp_path], SCHEMA, LOG, Failing(None, reads=True)) for _ in "ab")
    write(tmp_path, good=GOOD.format("good"))
    assert not later.read({}).registry.refusing
    file = tmp_path / "a.policy"
    file.write_bytes(data)
    for _ in range(2):
        (refusing,) = reader.read({}).registry.refusing
        assert (refusing.address, refusing.select) == (str(file), None)
        assert [each.instead for each in reader.enforced.broken if each.policy == str(file)] == [
            "the pods that it selects wait"
        ]
        assert not later.read({}).registry.refusing
        assert all("a.policy" in each.failure or "web" in each.failure for each in (reader, later))
        assert in_force(reader) == in_force(later) == ["good"]
        assert (bool(reader.unknown), bool(later.unknown)) == (True, False)
    write(tmp_path, a=WEB)
    assert not reader.read({}).registry.refusing
    assert not reader.unknown
    file.write_bytes(data)
    assert not reader.read({}).registry.refusing
    assert sorted(in_force(reader)) == ["good", "web"], "the last valid version stays in force"


MANIFEST = """
apiVersion: placement-policy.scheduling.x-k8s.io/v1
kind: PlacementPolicy
metadata: {name: web, namespace: shop}
spec: {podSelector: {}, enforcementMode: Strict, rules: 'filter "f" { require node.ready }'}
"""
UNKNOWN_MANIFESTS = {
    "yaml": MANIFEST + "}",
    "version": MANIFEST.replace("/v1", "/v7"),
    "kind": MANIFEST.replace("PlacementPolicy", "PlacementPolicies"),
    "name": MANIFEST.replace("name: web, ", ""),
    "beside another": MANIFEST + "---" + MANIFEST.replace("/v1", "/v7"),
}


@rows("text", UNKNOWN_MANIFESTS)
def test_all_pods_wait_for_a_manifest_of_which_nobody_knows_the_pods(
    tmp_path: Path, text: str
) -> None:
    file = tmp_path / "a.yaml"
    file.write_text(text, encoding="utf-8")
    (tmp_path / "foreign.yaml").write_bytes(b"a: caf\xe9")
    reader = PolicyReader([tmp_path], SCHEMA, LOG, Failing(None, reads=True))
    assert str(file) in [program.address for program in reader.read({}).registry.refusing]


def test_a_second_policy_of_a_name_waits_where_the_first_has_no_valid_version(
    tmp_path: Path,
) -> None:
    broken = WEB.replace("require false", "require node.nam")
    other = WEB.replace('"web"', '"mall"')
    write(tmp_path, a=WEB, b=other)
    reader = PolicyReader([tmp_path], SCHEMA, LOG, Failing(None, reads=True))
    assert not reader.read({}).registry.refusing
    write(tmp_path, a=broken, b=other)
    reader = PolicyReader([tmp_path], SCHEMA, LOG, Failing(None, reads=True))
    assert [each.address for each in reader.read({}).registry.refusing] == ["web", "web"]


def test_hints_that_take_long_hold_back_no_other_file(tmp_path: Path) -> None:
    process = SlowHints()
    reader = PolicyReader([tmp_path], SCHEMA, LOG, process, lambda: process.seconds)
    write(tmp_path, z=GOOD.format("z"))
    reader.read({})
    hostile = {f"h{n}": GOOD.format(f"h{n}").replace("true", "pod._") for n in range(3)}
    write(tmp_path, z=GOOD.format("edited"), **hostile)
    began = process.seconds
    reader.read({})
    assert in_force(reader) == ["edited"]
    assert process.seconds - began <= 1.0
    while reader.changed():
        reader.read({})
        assert process.seconds < 100
    assert process.hinted == 3


def test_a_failing_hint_leaves_the_plain_error(tmp_path: Path) -> None:
    write(tmp_path, a=GOOD.format("a").replace("true", "pod._"), b=GOOD.format("b"))
    reader = PolicyReader([tmp_path], SCHEMA, LOG, WithoutHints(SCHEMA))
    reader.read({})
    assert in_force(reader) == ["b"]
    (broken,) = reader.enforced.broken
    assert "error[P0102]: Pod has no field `_`" in broken.because
