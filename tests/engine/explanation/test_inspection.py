"""Inspection: the clauses that keep a pod off its nodes, from tables of what each rejects."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from engine.explanation.inspection import relaxations


def test_a_clause_alone_in_the_way_is_told_from_one_that_is_not() -> None:
    #                     n0     n1    n2    n3
    refused = np.array([[False, True, True, True], [False, False, False, True]])
    assert relaxations(refused) == [((0,), 2)]


def test_where_no_single_clause_helps_the_smallest_sets_do() -> None:
    rows = [[True, True, False], [True, True, True], [False, True, True]]
    assert relaxations(np.array(rows)) == [((0, 1), 1), ((1, 2), 1)]


def test_where_all_pass_there_is_nothing_to_leave_out() -> None:
    assert relaxations(np.zeros((2, 3), np.bool_)) == []


@given(st.lists(st.lists(st.booleans(), min_size=6, max_size=6), min_size=1, max_size=5))
def test_leaving_out_a_relaxation_frees_as_many_nodes_as_it_says(rows: list[list[bool]]) -> None:
    refused = np.array(rows)
    found, passing = relaxations(refused), int((~refused.any(axis=0)).sum())
    for clauses, gained in found:
        kept = np.delete(refused, clauses, axis=0)
        assert int((~kept.any(axis=0)).sum()) - passing == gained
    assert len({len(clauses) for clauses, _ in found}) <= 1
