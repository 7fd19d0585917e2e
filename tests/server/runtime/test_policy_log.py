"""The log about policies: a finding is logged when it is new, and lines are bounded."""

from __future__ import annotations

import logging
import re
from pathlib import Path

import pytest

from engine.enforced import InForce, succeed
from grammar.meaning.schema import load_schema
from grammar.tree.source import Source
from policies.loader import UnreadFile
from policies.validation import Validation, Validator
from server.runtime.policies import BURST, MOST_FINDINGS, MOST_TEXT, PolicyLog, PolicyReader
from tests.support.served import PROCESSES

LOG = logging.getLogger("placet.test")
SCHEMA = load_schema()


def warned(name: str, warnings: int = 1, key: str = "unused") -> str:
    """A policy with so many warnings, each about a name of this kind."""
    lets = "".join(f" let {key}{number} = {number}" for number in range(warnings))
    return f'policy {name} in namespace "shop" {{{lets} }}'


def broken(name: str) -> str:
    return f'policy {name} in namespace "shop" {{ filter "f" {{ require node.redy }} }}'


class Edited:
    """The policies of a server, edited by file, and what is logged after each edit."""

    def __init__(self, caplog: pytest.LogCaptureFixture) -> None:
        self.now = 0.0
        self._caplog = caplog
        caplog.set_level(logging.INFO, logger=LOG.name)
        self._log = PolicyLog(LOG, lambda: self.now)
        self._validator = Validator(SCHEMA)
        self._in_force = InForce()

    def read(self, *unread: UnreadFile, **files: str) -> list[str]:
        sources = [Source(f"{name}.policy", text) for name, text in files.items()]
        validation: Validation = self._validator.validate(sources)
        self._in_force = succeed(self._in_force, validation)
        self._caplog.clear()
        self._log.read(unread, validation, self._in_force)
        return self._caplog.messages


@pytest.fixture
def edited(caplog: pytest.LogCaptureFixture) -> Edited:
    return Edited(caplog)


def test_an_edit_logs_nothing_about_other_policies(edited: Edited) -> None:
    """As in a cluster of hundreds of policies with warnings, one of which changes each second."""
    first = edited.read(a=warned("a"), b=warned("b"))
    assert [line.partition(":")[0] for line in first[:-1]] == ["a.policy", "b.policy"]
    assert first[-1] == "2 policies enforced"
    again = edited.read(a=warned("a"), b=warned("b", key="other"))
    assert [line.partition(":")[0] for line in again] == ["b.policy"]
    assert edited.read(a=warned("a"), b=warned("b", key="other")) == []


def test_policies_of_one_file_are_apart(edited: Edited) -> None:
    """Though an edit of the first one moves the second."""
    edited.read(a=f"{warned('one')}\n{warned('two')}")
    assert len(edited.read(a=f"{warned('one', 2)}\n{warned('two')}")) == 1
    assert edited.read(a=f"{warned('one', 2)}\n\n{warned('two')}") == []


def test_a_finding_that_comes_back_is_news(edited: Edited) -> None:
    edited.read(a=warned("a"))
    assert edited.read(a=warned("a", 0)) == []
    assert len(edited.read(a=warned("a"))) == 1


def test_what_is_enforced_is_logged_when_it_changes(edited: Edited) -> None:
    assert edited.read(a=warned("a"))[1:] == ["1 policy enforced"]
    stale = "policy shop/a: the last valid version stays enforced"
    assert edited.read(a=broken("a"))[0] == stale
    assert edited.read(a=broken("a"), b=warned("b"))[1:] == ["2 policies enforced"]
    idle = "policy shop/c is not enforced: no valid version loaded yet"
    files = {"a": broken("a"), "b": warned("b"), "c": broken("c")}
    found = edited.read(**files)
    assert found[0] == idle
    assert len(found) == 2
    unread = UnreadFile("d", "cannot read `d`", "check its permissions")
    assert edited.read(unread, **files) == ["cannot read `d` (check its permissions)"]
    assert edited.read(unread, **files) == []
    assert edited.read(**files) == []


def test_many_findings_are_cut(edited: Edited) -> None:
    found = edited.read(a=warned("a", 1000))
    assert len(found) == MOST_FINDINGS + 2
    assert found[MOST_FINDINGS] == f"a.policy: {1000 - MOST_FINDINGS:,} more findings"


def test_errors_come_before_warnings(edited: Edited) -> None:
    text = warned("a", 2)[:-1] + 'use "missing" }'
    kinds = [re.findall(r" (\w+)\[", line) for line in edited.read(a=text)]
    assert [kind for found in kinds for kind in found] == ["error", "warning", "warning"]


@pytest.mark.parametrize("mark", ["\u001b", "\u2028", "\u200b", "\u0007"])
def test_a_text_cannot_forge_lines(edited: Edited, mark: str) -> None:
    filters = f'filter "f{mark}" {{ require true }}'
    lines = edited.read(a=f'policy a in namespace "shop" {{ {filters} {filters} }}')
    assert len(lines) > 1
    assert all(line.isprintable() for line in lines)


def test_a_long_text_is_cut(edited: Edited) -> None:
    name = "x" * 5000
    found = edited.read(
        a=f'policy a in namespace "shop" {{ filter "f" {{ require node.{name} }} }}'
    )
    assert len(found) >= 2
    assert all(len(line) <= MOST_TEXT + 1 for line in found)


def test_lines_have_a_bounded_rate(edited: Edited) -> None:
    """Edits of one tenant cannot fill the disk; the log says how much is missing."""
    lines = sum(len(edited.read(a=warned("a", 20, key=f"k{n}"))) for n in range(100))
    assert BURST < 100 * 20
    assert lines <= BURST + 1
    edited.now = 1.0
    text = edited.read(a=warned("a", key="z"))
    assert text[0].endswith("lines about policies were left out, because too many came at once")
    assert len(text) == 2


def test_a_server_logs_so_too(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """From files to lines."""
    caplog.set_level(logging.INFO, logger=LOG.name)
    for name in "ab":
        (tmp_path / f"{name}.policy").write_text(warned(name), encoding="utf-8")
    policies = PolicyReader([tmp_path], SCHEMA, LOG, PROCESSES[0])
    policies.read({})
    caplog.clear()
    (tmp_path / "b.policy").write_text(warned("b", key="other"), encoding="utf-8")
    policies.read({})
    assert [Path(line.partition(":")[0]).name for line in caplog.messages] == ["b.policy"]
