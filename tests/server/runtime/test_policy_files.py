"""Policy files of a server: checked in a process, and none holds back another."""

from __future__ import annotations

import logging
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TypeVar

from grammar.meaning.schema import load_schema
from grammar.tree.source import Source
from server.admission.checking_process import (
    CheckFailedError,
    CheckingProcess,
    CheckLimitError,
    CheckTimeoutError,
)
from server.runtime.policies import PolicyReader
from tests.server.runtime.test_objects import HandClock

T = TypeVar("T")
SCHEMA = load_schema()
LOG = logging.getLogger("policy-files")
GOOD = "policy {} {{\n  for pods where true\n}}\n"


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


class Late(CheckingProcess):
    """It checks in this process, but nothing in time while `is_late`."""

    is_late = True

    def run(self, seconds: float, function: Callable[..., T], *args: object) -> T:
        if self.is_late:
            raise CheckTimeoutError(f"the check took longer than {seconds:g} s", "try again")
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


def test_pods_wait_for_a_file_until_it_is_checked(tmp_path: Path) -> None:
    """However often its check is late."""
    process, clock = Late(SCHEMA), HandClock()
    reader = PolicyReader([tmp_path], SCHEMA, LOG, process, clock)
    write(tmp_path, a=GOOD.format("a"))
    for _ in range(3):
        found = reader.read({})
        assert [each.address for each in found.registry.refusing] == [str(tmp_path / "a.policy")]
        clock.now += 1000
    process.is_late = False
    assert not reader.read({}).registry.refusing
    assert in_force(reader) == ["a"]


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
