"""Document of an explanation: the groups of nodes that the fewest clauses reject."""

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from engine.explanation.document import NodeGroup, PodExplanation, RejectingClause


def explained(nodes: list[set[str]]) -> PodExplanation:
    """The explanation of nodes, each of which some clauses reject."""
    number = Counter(frozenset(each) for each in nodes)
    groups = [
        NodeGroup([RejectingClause("p", name, name) for name in sorted(against)], n, [])
        for against, n in number.items()
    ]
    return PodExplanation(pod="shop/a", at="", on=None, groups=groups)


def closest(nodes: list[set[str]]) -> dict[str, int]:
    found = explained(nodes).closest
    return {" ".join(each.clause for each in group.rejectedBy): group.nodes for group in found}


def test_a_clause_alone_in_the_way_is_told_from_one_that_is_not() -> None:
    assert closest([set(), {"a"}, {"a"}, {"a", "b"}]) == {"a": 2}


def test_where_no_single_clause_helps_the_smallest_sets_do() -> None:
    assert closest([{"a", "b"}, {"a", "b", "c"}, {"b", "c"}]) == {"a b": 1, "b c": 1}


def test_where_all_pass_there_is_nothing_to_leave_out() -> None:
    assert closest([set(), set()]) == {}


@given(st.lists(st.sets(st.sampled_from("abcde")), min_size=1, max_size=6))
def test_leaving_out_such_clauses_frees_as_many_nodes_as_it_says(nodes: list[set[str]]) -> None:
    found, passing = closest(nodes), sum(not each for each in nodes)
    for clauses, gained in found.items():
        kept = [each - set(clauses.split()) for each in nodes]
        assert sum(not each for each in kept) - passing == gained
    assert len({len(clauses) for clauses in found}) <= 1
