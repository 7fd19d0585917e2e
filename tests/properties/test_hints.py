"""Hints lead on: each edit that a hint describes is followed, in texts with all sorts of mistakes.

The texts are the examples of the docs with random mutations, the rows of the table of habits, and
what people paste from other languages (tests/golden/pasted/).
"""

from __future__ import annotations

import random
import re
from collections import Counter
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

from grammar.meaning.schema import load_schema
from grammar.messages import habits
from tests.support.books import examples
from tests.support.seeds import Followed, errors, follow

ROOT = Path(__file__).parents[2]
PASTED = ROOT / "tests" / "golden" / "pasted"
_FENCE = re.compile(r"(?ms)^```placet[a-z ]*\n(.*?)^```$")
_WORD = re.compile(r'"(?:\\.|[^"\\\n])*"|[A-Za-z_]\w*|\d+(?:\.\d+)?|\s+|[<>=!&|]=?|[\s\S]')
# `make test` follows the first of them.
SHARDS = 5
MUTATIONS = 20_000
# Of the hints that are edits, this part must lead on.
LEAST = 0.98
_FOREIGN = (
    *(
        word
        for rows in (habits.OPERATORS, habits.CALLS, habits.MACROS)
        for r in rows
        for word in r.words
    ),
    *(
        word
        for rows in (habits.NAMES, habits.CLAUSES, habits.PARTS)
        for r in rows
        for word in r.words
    ),
    *"per each zone only unless 40% 8Gi 500m $ ; : = == => one two not null 'a' {{ }} ${x}".split(),
)


@cache
def snippets() -> tuple[str, ...]:
    """The examples of the docs that are whole policies without an error, and not long."""
    found = dict[str, None]()
    for page in sorted((ROOT / "docs").rglob("*.md")):
        for text in _FENCE.findall(page.read_text(encoding="utf-8")):
            whole = (
                text
                if re.match(r"(?:cluster )?policy ", text)
                else f"cluster policy p {{\n{text}}}\n"
            )
            if len(whole) < 600 and "test " not in whole and not errors(whole, load_schema()):
                found[whole] = None
    return tuple(found)


def mutated(dice: random.Random) -> str:
    """An example with one or two of its words left out, doubled, swapped or made others."""
    words = _WORD.findall(dice.choice(snippets()))
    for _ in range(dice.choice((1, 1, 1, 2))):
        at = dice.randrange(len(words))
        while words[at].isspace():
            at = dice.randrange(len(words))
        match dice.randrange(6):
            case 0:
                del words[at]
            case 1:
                words.insert(at, words[at] + " ")
            case 2:
                other = dice.randrange(len(words))
                words[at], words[other] = words[other], words[at]
            case 3:
                words[at] = dice.choice(_FOREIGN)
            case 4:
                words.insert(at, dice.choice(_FOREIGN) + " ")
            case _:
                words[at] = (
                    words[at].strip("\"'")
                    if words[at][:1] in "\"'"
                    else words[at][1:] + words[at][:1]
                )
        if not words:
            break
    return "".join(words)


def followed(texts: Iterator[str]) -> list[Followed]:
    schema = load_schema()
    return [each for text in texts for each in follow(text, schema)]


def assert_they_lead_on(found: list[Followed]) -> None:
    faults = [each for each in found if each.fault]
    kinds = Counter(f"{f.found.message} / {f.found.hint} / {f.fault}" for f in faults)
    # Among few hints there may be two more by chance: of two mutations one may be hidden at first.
    most = (1 - LEAST) * len(found) + 2
    assert len(faults) <= most, (len(faults), len(found), kinds.most_common(12))


@pytest.mark.parametrize(
    "shard",
    [0, *(pytest.param(shard, marks=pytest.mark.thorough) for shard in range(1, SHARDS))],
)
def test_hints_of_mutated_examples_lead_on(shard: int) -> None:
    dice = random.Random(shard)
    found = followed(mutated(dice) for _ in range(examples(MUTATIONS) // SHARDS))
    assert found
    assert_they_lead_on(found)


def pasted() -> Iterator[tuple[str, str]]:
    """What people paste, line by line and whole, in the places where they paste it."""
    for path in sorted(PASTED.iterdir()):
        text = path.read_text(encoding="utf-8")
        for part in (text, *text.split("\n\n"), *text.splitlines()):
            if part.strip():
                yield path.name, part
                yield path.name, f"cluster policy p {{\n{part}\n}}\n"
                yield path.name, f'cluster policy p {{\n  filter "x" {{ {part} }}\n}}\n'
                yield path.name, f'cluster policy p {{\n  filter "x" {{ require {part} }}\n}}\n'


def test_hints_of_pasted_texts_lead_on() -> None:
    found = followed(text for _, text in pasted())
    assert len({path for path, _ in pasted()}) >= 8
    assert found
    assert_they_lead_on(found)


def with_habits() -> Iterator[str]:
    """Each word of the table of habits where it can be meant."""
    for row in habits.OPERATORS:
        for word in row.words:
            yield f'filter "x" {{ require node.name {word} "a" }}'
    for row in (*habits.CALLS, *habits.MACROS, habits.PRESENCE, habits.ABSENCE, habits.DEFAULTS):
        for word in row.words:
            for operand in ("node.name", "node.labels", "node.pods", 'node.labels["a"]'):
                yield f'filter "x" {{ require {operand}.{word}("a") }}'
                yield f'filter "x" {{ require {word}({operand}) }}'
                yield f'filter "x" {{ require {word}({operand}, "a") }}'
    for row in habits.NAMES:
        for word in row.words:
            yield f'filter "x" {{ require {word} }}'
            yield f'filter "x" {{ require {word}.name == "a" }}'
    for row in habits.FIELDS:
        for kind in {"Node", "Pod", "Peer"}.intersection(row.kinds):
            for word in row.words:
                read = f"{kind.lower()}.{word}"
                yield f'limit "x" {{ pods where {read} == "a" per node at most 1 strict }}'
    for row in habits.CLAUSES:
        for word in row.words:
            for block in (
                "node.ready",
                "require node.ready",
                "value node.ready",
                "per node at most 1 strict",
            ):
                yield f'{word} "x" {{ {block} }}'
                yield f"{word} {{ {block} }}"
    for row in habits.PARTS:
        for word in row.words:
            for clause in (
                'filter "x"',
                'limit "x"',
                'spread "x"',
                'share "x"',
                'score "x" weight 1',
            ):
                yield f"{clause} {{ {word} 1 }}"
                yield f'{clause} {{ {word}: "topology.kubernetes.io/zone" }}'
    for unit in (*habits.UNITS, *habits.PERCENT):
        yield f'filter "x" {{ require node.free["memory"] > 8{unit} }}'
        yield f'filter "x" {{ require node.age > 8 {unit} }}'


def test_hints_of_habits_lead_on() -> None:
    texts = sorted(with_habits(), key=lambda text: random.Random(text).random())
    part = texts[: examples(len(texts))]
    found = followed(f"cluster policy p {{\n  {text}\n}}\n" for text in part)
    assert found
    assert_they_lead_on(found)
