"""Names are found by the thousand where a dictionary finds them one by one."""

from __future__ import annotations

import json

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from engine.cache.names import KnownRows, ListedNames, NameIndex
from engine.cache.node_table import NodeTable

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


@given(st.sets(names, max_size=40), st.data())
def test_as_a_dictionary_has_it(known: set[str], data: st.DataObject) -> None:
    rows = {name: row for row, name in enumerate(sorted(known), start=1)}
    index = NameIndex(rows)
    plain = [name for name in sorted(known) if ListedNames.of(f'["{name}"]'.encode())]
    some = st.sampled_from(plain) if plain else st.nothing()
    asked = data.draw(st.lists(some | st.text("abn1", min_size=1, max_size=9), min_size=1))
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


def test_a_table_finds_names_of_which_some_are_not_known() -> None:
    assert table({"a": 1, "b": 2}).find(listed(["b", "c", "a"])).tolist() == [2, 0, 1]


def test_where_names_are_is_remembered_until_there_are_other_nodes() -> None:
    now, asked = table({"a": 1, "b": 2}), listed(["b", "a"])
    rows = now.find(asked)
    where = now.where(asked, rows)
    assert where is not None
    assert now.find(asked) is where.rows
    assert now.where(asked, where.rows) is where
    later = table({"b": 1, "a": 2})
    assert later.find(asked).tolist() == [1, 2]


def test_names_that_are_there_twice_are_nowhere() -> None:
    now, asked = table({"a": 1, "b": 2}), listed(["b", "a", "b"])
    assert now.where(asked, now.find(asked)) is None


def test_names_of_an_answer_are_counted_by_their_places() -> None:
    answered = ListedNames(b'["b","a"]', KnownRows(np.array([2, 1]), {"a": 1, "b": 2}))
    assert len(answered) == 2
    assert list(answered) == ["b", "a"]
