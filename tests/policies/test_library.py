"""The policies that ship: without findings, in canonical form, and each in a file of its name."""

from importlib.resources import files
from pathlib import Path

import pytest

from grammar.formatter import format_file
from grammar.parser import parse_file
from grammar.schema import load_schema
from grammar.source import Source
from policies.loader import load
from policies.validation import check_source

SHIPPED = load([Path(str(files("policies") / "library")), Path(str(files("cli") / "demo"))]).sources


@pytest.mark.parametrize("source", SHIPPED, ids=lambda source: Path(source.name).name)
def test_shipped_policy_is_exemplary(source: Source) -> None:
    checked = check_source(source, load_schema())
    assert checked.diagnostics == ()
    assert [p.policy.name for p in checked.policies] == [Path(source.name).stem]
    assert all(p.policy.setting("description", "") for p in checked.policies)
    assert format_file(parse_file(source)[0], source) == source.text
