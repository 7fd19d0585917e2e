"""Lists of names as JSON has them, and an index that finds what a dictionary finds."""

from __future__ import annotations

import json
from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.cache.node_table import KnownRows, ListedNames, NameIndex, NodeTable

# Makes a long list of one that begins with it.
MANY = ["m"] * 251
SHORT_AND_LONG = pytest.mark.parametrize("before", [[], MANY], ids=["short", "long"])


def begin(before: list[str]) -> str:
    return "".join(f'"{name}",' for name in before)


@SHORT_AND_LONG
@pytest.mark.parametrize("length", range(8))
def test_every_text_of_few_letters(before: list[str], length: int) -> None:
    """Of all that can stand between the first quote and the last."""
    for letters in product('",a', repeat=length):
        text = f'[{begin(before)}"{"".join(letters)}"]'
        found = ListedNames.of(text.encode())
        if found is not None:
            assert len(found) == len(json.loads(text)), text[-20:]
            assert list(found) == json.loads(text)


@pytest.mark.parametrize(
    "text", ["", "[", '["', '["]', "[]", '"]', '["a]', '[""]x', 'x["a"]', "[1]"]
)
def test_other_texts_are_not_lists_of_names(text: str) -> None:
    assert ListedNames.of(text.encode()) is None


@SHORT_AND_LONG
@pytest.mark.parametrize("given", [["a"], [""], ["a", "b"], ["", ""], ["x" * 300, "b c"]])
def test_a_list_of_names(before: list[str], given: list[str]) -> None:
    found = listed([*before, *given])
    assert list(found) == [*before, *given]


@SHORT_AND_LONG
@pytest.mark.parametrize("text", ['"é"', '"\\u0061"', '"a\\"b"', '"a\tb"', '"a", "b"'])
def test_names_that_need_a_json_decoder(before: list[str], text: str) -> None:
    assert ListedNames.of(f"[{begin(before)}{text}]".encode()) is None


# Long and short ones, that differ at the beginning, at the end, in nothing but their length.
names = st.one_of(
    st.text("ab", min_size=1, max_size=20),
    st.integers(0, 30).map("n{}".format),
    st.integers(0, 30).map("ip-10-0-{}.eu-west-1.compute.internal".format),
    st.integers(1, 253).map(lambda length: "x" * length),
    st.text(min_size=1, max_size=5),
)


def listed(given: list[str]) -> ListedNames:
    text = json.dumps(given, separators=(",", ":")).encode()
    found = ListedNames.of(text)
    assert found is not None
    return found


@pytest.mark.process
@SHORT_AND_LONG
@given(known=st.sets(names, max_size=40), data=st.data())
def test_finds_what_a_dictionary_finds(
    before: list[str], known: set[str], data: st.DataObject
) -> None:
    known = known | set(before)
    rows = {name: row for row, name in enumerate(sorted(known), start=1)}
    index = NameIndex(rows)
    # Without those that JSON escapes.
    plain = [name for name in sorted(known) if ListedNames.of(json.dumps([name]).encode())]
    some = st.sampled_from(plain) if plain else st.nothing()
    asked = data.draw(st.lists(some | st.text("abn1", min_size=1, max_size=9), min_size=1))
    asked = before + asked
    found = index.find(listed(asked))
    if all(name in rows for name in asked):
        assert found is not None
        assert found.tolist() == [rows[name] for name in asked]
    else:
        assert found is None


def test_a_large_cluster() -> None:
    rows = {f"node-{n:05}.pool-{n % 7}": n + 1 for n in range(20_000)}
    asked = list(rows)[::-1]
    found = NameIndex(rows).find(listed(asked))
    assert found is not None
    assert found.tolist() == [rows[name] for name in asked]


def test_no_nodes() -> None:
    assert NameIndex({}).find(listed(["a"])) is None


def table(nodes: dict[str, int]) -> NodeTable:
    size = len(nodes) + 1
    return NodeTable(object(), nodes, [None] * size, np.ones(size, np.int64), NameIndex(nodes))


def test_a_table_finds_known_and_unknown_names() -> None:
    assert table({"a": 1, "b": 2}).find(listed(["b", "c", "a"])).tolist() == [2, 0, 1]


def test_rows_are_remembered_until_the_nodes_change() -> None:
    now, asked = table({"a": 1, "b": 2}), listed(["b", "a"])
    rows, known = now.locate(asked)
    assert known is not None
    assert now.find(asked) is known.rows is rows
    assert now.locate(asked) == (rows, known)
    later = table({"b": 1, "a": 2})
    assert later.find(asked).tolist() == [1, 2]


def test_repeated_names_have_no_known_rows() -> None:
    now, asked = table({"a": 1, "b": 2}), listed(["b", "a", "b"])
    assert now.locate(asked)[1] is None


def test_names_of_an_answer_are_counted_by_their_rows() -> None:
    answered = ListedNames(b'["b","a"]', KnownRows(np.array([2, 1]), {"a": 1, "b": 2}))
    assert len(answered) == 2
    assert list(answered) == ["b", "a"]
