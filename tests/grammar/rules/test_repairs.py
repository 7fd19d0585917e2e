"""Repair: what its parts may be, its layout, and its time of the day."""

from __future__ import annotations

import pytest

from grammar.meaning.schema import load_schema
from grammar.syntax.formatter import format_file
from grammar.syntax.parser import parse_file
from grammar.tree.clause_parts import Repair, minute_of, time_of
from grammar.tree.source import Source
from policies.validation import check_source

READY = 'filter "ready" { require node.ready }'


def policy(items: str) -> Source:
    return Source("p.policy", f'policy p in namespace "n" {{\n  {items}\n}}\n')


def said(items: str) -> list[str]:
    """What is found: code, and what stands at its place."""
    source = policy(items)
    found = check_source(source, load_schema()).diagnostics
    return [f"{d.code} {source.slice(d.span)}" for d in found]


def repair(text: str) -> Repair:
    file, found = parse_file(policy(f"repair {text}"))
    assert not found, found
    value = file.policies[0].repair
    assert value is not None
    return value


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("at most 5 per minute", Repair(5)),
        ("at most 5 per minute, at most 2", Repair(5, 2)),
        ("at most 5 per minute local data", Repair(5, local_data=True)),
        (
            'at most 1000 per minute, at most 7 local data within "22:00" .. "06:30"',
            Repair(1000, 7, local_data=True, begins=22 * 60, ends=6 * 60 + 30),
        ),
    ],
)
def test_it_is_read_and_printed_as_it_is_written(text: str, wanted: Repair) -> None:
    assert repair(text) == wanted
    assert str(wanted) == text


def test_its_layout() -> None:
    source = policy(f"repair   at most 5\n per minute ,\n at\n most 1\n {READY}")
    file, _ = parse_file(source)
    assert "\n  repair at most 5 per minute\n" in format_file(file, source)


def test_a_number_may_begin_with_zeros() -> None:
    assert repair("at most 005 per minute, at most 0x2") == Repair(5, 2)


@pytest.mark.parametrize(
    ("items", "wanted"),
    [
        ("repair at most 0 per minute", "P0204 0"),
        ("repair at most 1001 per minute", "P0204 1001"),
        ("repair at most 5 per minute, at most 0", "P0204 0"),
        ('repair at most 5 per minute within "24:00" .. "06:00"', 'P0204 "24:00"'),
        ('repair at most 5 per minute within "6:00" .. "07:00"', 'P0204 "6:00"'),
        ('repair at most 5 per minute within "06:00" .. "06:00"', 'P0204 "06:00"'),
        ("repair at most 5 per hour", "P0001 hour"),
        ("repair at most 5 per minute repair at most 6 per minute", "P0201"),
    ],
)
def test_what_it_cannot_be(items: str, wanted: str) -> None:
    assert any(each.startswith(wanted) for each in said(f"{items} {READY}")), said(items)


def test_the_time_of_the_day() -> None:
    night = repair('at most 5 per minute within "22:00" .. "06:30"')
    assert [night.allows(minute) for minute in (21 * 60 + 59, 22 * 60, 0, 389, 390, 720)] == [
        *(False, True, True, True, False, False),
    ]
    noon = repair('at most 5 per minute within "11:00" .. "12:00"')
    assert [noon.allows(minute) for minute in (659, 660, 719, 720)] == [False, True, True, False]
    assert all(Repair(1).allows(minute) for minute in (0, 720, 1439))
    assert [minute_of(text) for text in ("00:00", "23:59", "24:00", "1:00", "aa:bb", "")] == [
        *(0, 1439, None, None, None, None),
    ]
    assert time_of(390) == "06:30"
