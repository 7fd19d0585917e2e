"""Filtering: which clause refuses a node, what missing values and errors mean, and decisions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest

from engine.cache.node_table import KnownRows
from engine.decision.filtering import UNKNOWN_NODE, FilterMemo, Rejection, rejections
from engine.decision.verdict import FEASIBLE, Decision, Rejected, Verdict
from engine.errors import DeadlineExceededError
from engine.program.frame import Evaluation
from engine.program.program import FilterProgram
from tests.support.builders import Object, node, pod
from tests.support.engines import evaluation_of, frame_of, programs_of, snapshot_of
from tests.support.rows import rows

ASKED = pod("asked", labels={"app": "web"}, priority=0)
SNAPSHOT = snapshot_of(
    [node("a", labels={"n": "1"}), node("b", labels={"n": "2"}), node("c", labels={"n": "x"})]
)
NODES = SNAPSHOT.nodes
NAMES = ["a", "b", "c"]


def refused(
    clauses: str, names: Sequence[str] = NAMES, settings: str = "", asked: Object = ASKED
) -> list[Rejection | None]:
    """What refuses each node; a name that is not known is an unknown node."""
    (program,) = programs_of(f"cluster policy p {{ {settings} {clauses} }}")
    evaluation = evaluation_of(frame_of(asked))
    return rejections(program.of(FilterProgram), evaluation, [NODES.get(name) for name in names])


def shown(found: Sequence[Rejection | None]) -> list[str]:
    """`-` for a node that passes, else the clause, with `!` for an error and `?` if unknown."""
    marks = {(True, True): "", (False, True): "!", (True, False): "?"}
    return [
        "-" if each is None else each.clause.name + marks[each.error is None, each.known]
        for each in found
    ]


NUMBER = 'int(node.labels["n"])'


@rows(
    ("clauses", "settings", "wanted"),
    {
        "no clause": ("", "", "- - -"),
        "a clause refuses": ('filter "f" { require node.name != "b" }', "", "- f -"),
        "the first clause that does not hold decides": (
            'filter "f" { require node.name != "b" } filter "g" { require node.name == "a" }',
            "",
            "- f g",
        ),
        "every `require` of a clause must hold": (
            'filter "f" { require node.name != "b" require node.name != "c" }',
            "",
            "- f f",
        ),
        "about the pod: every node": ('filter "f" { require pod.priority > 0 }', "", "f f f"),
        "no clause is evaluated after one that refuses every node": (
            'filter "f" { require pod.priority > 0 } filter "g" { require node.name == "" }',
            "",
            "f f f",
        ),
        "missing: refused": ('filter "f" { require node.labels["none"] == "x" }', "", "f f f"),
        "`missing fail`: refused": (
            'filter "f" { require node.labels["none"] == "x" missing fail }',
            "",
            "f f f",
        ),
        "`missing pass`: passes": (
            'filter "f" { require node.labels["none"] == "x" missing pass }',
            "",
            "- - -",
        ),
        "`missing pass`: the `require`s after it decide": (
            (
                'filter "f" { require node.labels["none"] == "x" require node.name == "a"'
                " missing pass }"
            ),
            "",
            "- f f",
        ),
        "`missing pass`: the `require`s before it decide": (
            (
                'filter "f" { require node.name == "a" require node.labels["none"] == "x"'
                " missing pass }"
            ),
            "",
            "- f f",
        ),
        "`missing pass`: the `require`s after an error decide": (
            f'filter "f" {{ require {NUMBER} < 2 require node.name == "b" }}',
            "missing pass",
            "f f f",
        ),
        "an error: refused": (f'filter "f" {{ require {NUMBER} < 2 }}', "", "- f f!"),
        "`missing pass`: errors pass, too": (
            f'filter "f" {{ require {NUMBER} < 2 missing pass }}',
            "",
            "- f -",
        ),
        "`missing pass` of the policy": (
            f'filter "f" {{ require {NUMBER} < 2 }}',
            "missing pass",
            "- f -",
        ),
        "a clause says otherwise than its policy": (
            'filter "f" { require node.labels["none"] == "x" missing fail }',
            "missing pass",
            "f f f",
        ),
    },
)
def test_what_refuses_each_node(clauses: str, settings: str, wanted: str) -> None:
    assert shown(refused(clauses, settings=settings)) == wanted.split()


@rows(
    ("condition", "settings", "wanted"),
    {
        "about the pod: true": ("pod.priority == 0", "", "f f f"),
        "about the pod: false": ("pod.priority > 0", "", "- - -"),
        "about the pod: missing": ('pod.labels["none"] == "x"', "", "- - -"),
        "about the pod: an error": ("1 / pod.priority > 0", "", "f! f! f!"),
        "about the pod: an ignored error": ("1 / pod.priority > 0", "missing pass", "- - -"),
        "about the node: where it is true": (f"{NUMBER} == 2", "", "- f f!"),
        "about the node: ignored": (f"{NUMBER} == 2", "missing pass", "- f -"),
        "about the node: missing": ('node.labels["none"] == "x"', "", "- - -"),
    },
)
@pytest.mark.parametrize("require", ['node.name == ""', "pod.priority > 9"], ids=["node", "pod"])
def test_when(condition: str, settings: str, wanted: str, require: str) -> None:
    """Where `when` is not true the clause does not apply, whatever its `require`s are about."""
    clause = f'filter "f" when {condition} {{ require {require} }}'
    assert shown(refused(clause, settings=settings)) == wanted.split()


@rows(
    ("clauses", "wanted"),
    {
        "a clause reads it": ('filter "f" { require node.name == "a" }', "- f?"),
        "no clause reads it": ('filter "f" { require pod.priority == 0 }', "- -"),
        "a `when` reads it": (
            'filter "f" when node.name == "a" { require pod.priority == 0 }',
            "- f?",
        ),
        "the clause that reads it does not apply": (
            'filter "f" when pod.priority > 0 { require node.name == "a" }',
            "- -",
        ),
        "a clause before it refuses": (
            'filter "e" { require pod.priority > 0 } filter "f" { require node.name == "a" }',
            "e e",
        ),
    },
)
def test_an_unknown_node_is_refused_by_the_first_clause_that_reads_it(
    clauses: str, wanted: str
) -> None:
    assert shown(refused(clauses, ["a", "unknown"])) == wanted.split()


@rows(
    ("clauses", "name", "wanted"),
    {
        "a message": (
            'filter "f" { require node.name == "a" message "not {pod.name}" }',
            "b",
            Rejected("not asked", "p", "f"),
        ),
        "no message": (
            'filter "f" { require node.name == "a" }',
            "b",
            Rejected("policy p: f", "p", "f"),
        ),
        "what an eviction may change is resolvable": (
            'filter "f" { require node.free["cpu"] > "100" }',
            "b",
            Rejected("policy p: f", "p", "f", resolvable=True),
        ),
        "an error": (
            f'filter "f" {{ require {NUMBER} < 2 message "no" }}',
            "c",
            Rejected("no", "p", "f", error="`x` is not an int"),
        ),
        "an unknown node: our view is late": (
            'filter "f" { require node.name == "a" message "no" }',
            "unknown",
            Rejected(UNKNOWN_NODE, "p", "f", waits=True),
        ),
    },
)
def test_verdict_of_a_rejection(clauses: str, name: str, wanted: Rejected) -> None:
    (found,) = refused(clauses, [name])
    assert found is not None
    assert found.verdict(found.text(evaluation_of(frame_of(ASKED)))) == wanted


def test_rejections_of_one_kind_are_equal() -> None:
    """A memo keeps each once."""
    found = refused('filter "f" { require node.name == "" }')
    assert found[0] == found[1] == found[2]
    assert len(set(found)) == 1


def test_the_time_is_looked_at_between_clauses_and_often_within_them() -> None:
    """A clause with few parts takes little time: one look for many nodes."""
    (program,) = programs_of(
        'cluster policy p { filter "f" { require node.name != "" } filter "g" { require true } }'
    )
    frame = frame_of(ASKED)
    checks: list[int] = []
    per_look = program.of(FilterProgram)[0].nodes_per_look

    def check() -> None:
        checks.append(1)

    nodes = [NODES["a"]] * (2 * per_look + 1)
    rejections(program.of(FilterProgram), evaluation_of(frame, check), nodes)
    assert len(checks) == 2 + 2

    def late() -> None:
        raise DeadlineExceededError("too late")

    with pytest.raises(DeadlineExceededError):
        rejections(program.of(FilterProgram), evaluation_of(frame, late), [NODES["a"]])


# ---- the decision about all nodes of a request


def decided(
    memo: FilterMemo, names: Sequence[str] = NAMES, known_rows: KnownRows | None = None
) -> Decision:
    table = SNAPSHOT.table
    return memo.decide(table, table.find(names), evaluation_of(frame_of(ASKED)), known_rows)


def memo_of(clauses: str, failed: Rejected | None = None) -> FilterMemo:
    (program,) = programs_of(f"cluster policy p {{ {clauses} }}")
    return FilterMemo(program.of(FilterProgram), failed)


E, F = Rejected("policy p: e", "p", "e"), Rejected("policy p: f", "p", "f")


@rows(
    ("clauses", "names", "wanted"),
    {
        "no clause": ("", "abc", [FEASIBLE] * 3),
        "no node": ('filter "f" { require node.name != "b" }', "", []),
        "as requested": ('filter "f" { require node.name != "b" }', "bab", [F, FEASIBLE, F]),
        "the verdict of the first clause that rejects": (
            'filter "e" { require node.name != "a" } filter "f" { require node.name == "a" }',
            "abc",
            [E, F, F],
        ),
        "an error": (
            f'filter "f" {{ require {NUMBER} > 0 }}',
            "ac",
            [FEASIBLE, Rejected("policy p: f", "p", "f", error="`x` is not an int")],
        ),
    },
)
def test_a_verdict_for_each_node(clauses: str, names: str, wanted: list[Verdict]) -> None:
    memo = memo_of(clauses)
    for _ in range(2):
        assert list(decided(memo, list(names))) == wanted


def test_feasible_is_the_first_verdict() -> None:
    """Others take the code 0 for it."""
    memo = memo_of('filter "f" { require node.name != "b" }')
    assert decided(memo, ["b"]).verdicts[0] == FEASIBLE
    assert list(decided(memo, ["a"]).verdicts) == [FEASIBLE], "what rejects no node is left out"


def test_a_message_is_made_only_for_a_clause_that_rejects_a_node() -> None:
    """It may read much of the pod."""
    made: list[str] = []
    (program,) = programs_of(
        'cluster policy p { filter "e" { require node.name != "a" }'
        ' filter "f" { require node.name != "b" } }'
    )

    def recording(clause: FilterProgram) -> FilterProgram:
        def message(evaluation: Evaluation) -> str:
            made.append(clause.name)
            return clause.message(evaluation)

        return replace(clause, message=message)

    memo = FilterMemo([recording(clause) for clause in program.of(FilterProgram)])
    for names, wanted in ((["a", "b", "b"], ["e", "f"]), (["b", "c"], ["f"]), (["c"], [])):
        made.clear()
        decided(memo, names)
        assert made == wanted


@pytest.mark.parametrize("node_name", ["a", "c"], ids=["accepted", "rejected"])
@pytest.mark.parametrize("failed", [None, Rejected("no", "p", "for", error="division by zero")])
def test_the_rows_of_the_request_are_handed_on(node_name: str, failed: Rejected | None) -> None:
    memo = memo_of('filter "f" { require node.name != "c" }', failed)
    table = SNAPSHOT.table
    known = KnownRows(table.find([node_name]), table.rows)
    assert decided(memo, [node_name], known).known_rows is known
    assert decided(memo, [node_name]).known_rows is None


def test_where_a_policy_cannot_be_selected_every_node_has_that_verdict() -> None:
    failed = Rejected("no", "p", "for", error="division by zero")
    memo = memo_of('filter "f" { require node.name != "c" }', failed)
    assert list(decided(memo, ["a", "c", "unknown"])) == [failed] * 3


def test_a_memo_starts_over_when_it_has_too_many_rejections() -> None:
    """Errors that name what they found would fill it."""
    names = [f"n{number}" for number in range(1200)]
    table = snapshot_of([node(name, labels={"n": f"x-{name}"}) for name in names]).table
    memo = memo_of(f'filter "f" {{ require {NUMBER} < 3 }}')
    rows = table.find(names)
    for asked in (rows, rows, rows[:2]):
        found = memo.decide(table, asked, evaluation_of(frame_of(ASKED)))
        errors = [each.error for each in found if isinstance(each, Rejected) and each.error]
        assert errors == [f"`x-n{row - 1}` is not an int" for row in asked]
    assert len(found.verdicts) == 3


def test_an_interrupted_evaluation_is_not_continued_in_another_table() -> None:
    """Rows and versions of two tables may be the same numbers, but they are other nodes."""
    memo = memo_of('filter "f" { require node.name == "a" } filter "g" { require node.ready }')
    looks: list[int] = []

    def late() -> None:
        looks.append(1)
        if len(looks) > 1:
            raise DeadlineExceededError("too late")

    first, other = (snapshot_of([node(name)]).table for name in "ab")
    with pytest.raises(DeadlineExceededError):
        memo.decide(first, first.find(["a"]), evaluation_of(frame_of(ASKED), late))
    found = memo.decide(other, other.find(["b"]), evaluation_of(frame_of(ASKED)))
    assert list(found) == [F]
