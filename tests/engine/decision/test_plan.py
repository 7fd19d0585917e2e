"""The plan and its memos: what is evaluated again, and what a plan decides from it."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pytest

from engine.cache.cache import Cache
from engine.cache.node_table import NodeTable, NodeView, table_of
from engine.decision.plan import FilterMemo, MeanMemo, Plan, ScoreMemo
from engine.decision.registry import Registry
from engine.decision.verdict import Failed, Feasible, Rejected, Verdict
from engine.errors import DeadlineExceededError
from engine.program.frame import CheckDeadline, Evaluate, Frame, unlimited
from engine.program.program import Program
from grammar.errors import EvaluationError
from tests.support.builders import Object, node, pod
from tests.support.engines import cache_of, frame_of, node_of, programs_of, snapshot_of

ASKED = pod("asked", labels={"app": "web"})
POLICY = """
cluster policy p {
  filter "low" { require int(node.labels["n"]) < 3 message "too high" }
  score "high" weight 1 { value int(node.labels["n"]) * 10 }
}
"""


def asking() -> Frame:
    return frame_of(ASKED)


def numbered(name: str, number: int) -> Object:
    return node(name, labels={"n": str(number)})


def no_report(policy: str, clause: str, error: EvaluationError) -> None:
    raise AssertionError(f"{policy}: {clause}: {error}")


# ---- memos: the same table for each kind


@dataclass
class Memo:
    """A memo of one clause: what it says of nodes, and the nodes it evaluated for that."""

    answer: Callable[[NodeTable, Sequence[str], CheckDeadline], list[float]]
    evaluated: list[str]

    def ask(
        self, table: NodeTable, names: Sequence[str], check: CheckDeadline = unlimited
    ) -> list[float]:
        self.evaluated.clear()
        return self.answer(table, names, check)


def recording(evaluate: Evaluate, evaluated: list[str]) -> Evaluate:
    def run(frame: Frame) -> object:
        assert isinstance(frame.node, NodeView)
        evaluated.append(frame.node.name)
        return evaluate(frame)

    return run


def filter_memo(*, time_dependent: bool = False) -> Memo:
    """1 for a node that the filter passes."""
    evaluated: list[str] = []
    (program,) = programs_of(POLICY)
    (clause,) = program.filters
    requires = tuple(recording(require, evaluated) for require in clause.requires)
    clause = dataclasses.replace(clause, requires=requires, time_dependent=time_dependent)
    memo = FilterMemo([clause])

    def answer(table: NodeTable, names: Sequence[str], check: CheckDeadline) -> list[float]:
        codes = memo.codes(table, table.find(names), asking, check)
        return [float(memo.findings[code] is None) for code in codes]

    return Memo(answer, evaluated)


def score_memo(*, time_dependent: bool = False) -> Memo:
    """The value of the score."""
    evaluated: list[str] = []
    (program,) = programs_of(POLICY)
    (clause,) = program.scores
    value = recording(clause.value, evaluated)
    memo = ScoreMemo(dataclasses.replace(clause, value=value, time_dependent=time_dependent))

    def answer(table: NodeTable, names: Sequence[str], check: CheckDeadline) -> list[float]:
        values = memo.values(table, table.find(names), asking, check, no_report)
        return [float(each) for each in values]

    return Memo(answer, evaluated)


def mean_memo(*, time_dependent: bool = False) -> Memo:
    """The mean of the score, in tens."""
    evaluated: list[str] = []
    (program,) = programs_of(POLICY)
    (clause,) = program.scores
    value = recording(clause.value, evaluated)
    memo = MeanMemo([dataclasses.replace(clause, value=value, time_dependent=time_dependent)])

    def answer(table: NodeTable, names: Sequence[str], check: CheckDeadline) -> list[float]:
        points = memo.points(table, table.find(names), asking, check, no_report)
        return [float(each) for each in points]

    return Memo(answer, evaluated)


Made = tuple[Callable[..., Memo], Callable[[int], float]]
MEMOS: Mapping[str, Made] = {
    "filters": (filter_memo, lambda number: float(number < 3)),
    "a score": (score_memo, lambda number: number * 10.0),
    "the mean of scores": (mean_memo, float),
}


@pytest.fixture(params=MEMOS)
def made(request: pytest.FixtureRequest) -> Made:
    """A memo of each kind, and what it says of a node with a number."""
    return MEMOS[request.param]


def numbered_cache(count: int = 4) -> Cache:
    return cache_of([numbered(f"n{number}", number) for number in range(count)])


def test_only_a_node_that_changed_is_evaluated_again(made: Made) -> None:
    make, says = made
    memo, cache, names = make(), numbered_cache(), ["n0", "n1", "n2", "n3"]
    assert memo.ask(cache.snapshot().table, names) == [says(0), says(1), says(2), says(3)]
    assert memo.evaluated == names
    assert memo.ask(cache.snapshot().table, names) == [says(0), says(1), says(2), says(3)]
    assert memo.evaluated == []
    cache.put_node(node_of(numbered("n1", 7)))
    assert memo.ask(cache.snapshot().table, names) == [says(0), says(7), says(2), says(3)]
    assert memo.evaluated == ["n1"]


def test_only_nodes_that_are_asked_about_are_evaluated(made: Made) -> None:
    make, says = made
    memo, table = make(), numbered_cache().snapshot().table
    assert memo.ask(table, ["n3", "n1"]) == [says(3), says(1)]
    assert memo.evaluated == ["n1", "n3"]
    assert memo.ask(table, ["n2", "n3"]) == [says(2), says(3)]
    assert memo.evaluated == ["n2"]


def test_a_change_of_a_node_is_not_lost_while_nobody_asks_about_it(made: Made) -> None:
    make, says = made
    memo, cache = make(), numbered_cache()
    memo.ask(cache.snapshot().table, ["n0", "n1"])
    cache.put_node(node_of(numbered("n1", 7)))
    memo.ask(cache.snapshot().table, ["n0"])
    assert memo.evaluated == []
    assert memo.ask(cache.snapshot().table, ["n1"]) == [says(7)]


def test_a_new_node_is_evaluated_whatever_row_it_takes(made: Made) -> None:
    make, says = made
    memo, cache = make(), numbered_cache()
    memo.ask(cache.snapshot().table, ["n0", "n1", "n2", "n3"])
    cache.remove_node("n1")
    cache.put_node(node_of(numbered("n8", 8)))
    cache.put_node(node_of(numbered("n9", 2)))
    assert memo.ask(cache.snapshot().table, ["n0", "n8", "n9"]) == [says(0), says(8), says(2)]
    assert sorted(memo.evaluated) == ["n8", "n9"]


def test_a_table_of_another_owner_is_evaluated_whole(made: Made) -> None:
    make, says = made
    memo, names = make(), ["n0", "n1"]
    memo.ask(snapshot_of([numbered("n0", 0), numbered("n1", 1)]).table, names)
    other = snapshot_of([numbered("n1", 5), numbered("n0", 6)]).table
    assert memo.ask(other, names) == [says(6), says(5)]
    assert memo.evaluated == ["n1", "n0"]


def test_what_time_can_change_is_evaluated_each_time(made: Made) -> None:
    make, _ = made
    memo, table = make(time_dependent=True), numbered_cache().snapshot().table
    for names in (["n0", "n1"], ["n0", "n1"], ["n1"]):
        memo.ask(table, names)
        assert memo.evaluated == names


def test_what_was_done_before_the_deadline_is_kept(made: Made) -> None:
    """In portions of 512 nodes: the next request begins where this one ended."""
    make, says = made
    memo, names = make(), [f"n{number}" for number in range(1100)]
    view = snapshot_of([numbered("n", 1)]).nodes["n"]
    table = table_of(dataclasses.replace(view, name=name) for name in names)

    def late() -> None:
        if len(memo.evaluated) >= 512:
            raise DeadlineExceededError("too late")

    with pytest.raises(DeadlineExceededError):
        memo.ask(table, names, late)
    done = list(memo.evaluated)
    assert done == names[:512]
    assert memo.ask(table, names) == [says(1)] * 1100
    assert memo.evaluated == names[512:]


@pytest.mark.parametrize(
    ("make", "wanted"),
    [
        pytest.param(filter_memo, 0.0, id="a filter rejects it"),
        pytest.param(score_memo, math.nan, id="a score has no value for it"),
        pytest.param(mean_memo, 0.0, id="the mean takes the value as missing"),
    ],
)
def test_an_unknown_node(make: Callable[[], Memo], wanted: float) -> None:
    memo = make()
    found = memo.ask(numbered_cache().snapshot().table, ["unknown", "n0"])
    assert np.array_equal(found[:1], [wanted], equal_nan=True)
    assert memo.evaluated == ["n0"]


def test_a_filter_memo_starts_over_when_it_has_too_many_findings() -> None:
    """Errors that name what they found would fill it."""
    names = [f"n{number}" for number in range(1200)]
    table = snapshot_of([node(name, labels={"n": f"x-{name}"}) for name in names]).table
    memo = FilterMemo(programs_of(POLICY)[0].filters)
    rows = table.find(names)
    for asked in (rows, rows, rows[:2]):
        codes = memo.codes(table, asked, asking, unlimited)
        found = [memo.findings[code] for code in codes]
        assert [each and each.error for each in found] == [
            f"`x-n{row - 1}` is not an int" for row in asked
        ]
    assert len(memo.findings) == 3


# ---- the plan


def plan_of(text: str, asked: Object = ASKED, *, nodes: int = 100, exempt: str = "") -> Plan:
    registry = Registry(programs_of(text))
    return Plan(registry, "default", None, frame_of(asked), no_report, nodes=nodes, exempt=exempt)


NODES = [numbered(f"n{number}", number) for number in range(4)]
NAMES = [f"n{number}" for number in range(4)]


def verdicts(plan: Plan) -> list[Verdict]:
    table = snapshot_of(NODES).table
    return list(plan.filter(table, table.find(NAMES), asking, unlimited))


def scores(plan: Plan) -> list[int]:
    table = snapshot_of(NODES).table
    found: list[int] = plan.scores(table, table.find(NAMES), asking, unlimited, no_report).tolist()
    return found


def test_a_verdict_names_the_first_clause_that_rejects() -> None:
    text = """
    cluster policy p {
      filter "even" { require int(node.labels["n"]) % 2 == 0 message "{pod.name}: odd" }
      filter "low" { require int(node.labels["n"]) < 2 }
    }
    """
    even = Rejected("asked: odd", "p", "even")
    low = Rejected("policy p: low", "p", "low")
    assert verdicts(plan_of(text)) == [Feasible(), even, low, even]


def test_guardrails_reject_before_the_governing_policy() -> None:
    text = """
    policy a { for pods where true filter "low" { require int(node.labels["n"]) < 1 } }
    cluster policy z { filter "mid" { require int(node.labels["n"]) < 2 } }
    """
    found = [v.policy for v in verdicts(plan_of(text)) if isinstance(v, Rejected)]
    assert found == ["a", "z", "z"]


def test_a_policy_that_cannot_be_selected_fails_on_every_node() -> None:
    text = 'cluster policy p { for pods where 1 / pod.priority > 0 filter "x" { require true } }'
    failed = Failed("policy p: its `for` cannot be evaluated", "p", "for", "division by zero")
    assert verdicts(plan_of(text, pod("asked", priority=0))) == [failed] * 4


def test_an_exempt_pod_has_no_policies() -> None:
    plan = plan_of(POLICY, exempt="the pod bypasses policies")
    assert plan.selection.empty
    assert plan.selection.exempt == "the pod bypasses policies"
    assert verdicts(plan) == [Feasible()] * 4
    assert not plan.scored


def test_a_policy_in_audit_mode_rejects_nothing_and_says_what_it_would() -> None:
    text = POLICY.replace("{", "{ mode audit", 1)
    plan = plan_of(text)
    table = snapshot_of(NODES).table
    assert verdicts(plan) == [Feasible()] * 4
    [(program, decided)] = plan.audit(table, table.find(NAMES), asking, unlimited)
    assert program.name == "p"
    assert [isinstance(v, Rejected) for v in decided] == [False, False, False, True]
    assert not plan.scored


@pytest.mark.parametrize(
    ("clauses", "wanted"),
    [
        pytest.param("", False, id="no clause"),
        pytest.param('filter "x" { require true }', False, id="a filter"),
        pytest.param('score "x" weight 1 { value 1 }', True, id="a score"),
        pytest.param(
            'score "x" weight 1 when pod.priority > 0 { value 1 }', False, id="not its `when`"
        ),
        pytest.param(
            'spread "x" { over node.zone skew at most 1 strict }', False, id="a strict count"
        ),
        pytest.param(
            'spread "x" { over node.zone skew at most 1 best effort weight 2 }',
            True,
            id="a best-effort count",
        ),
    ],
)
def test_whether_a_plan_scores(clauses: str, wanted: bool) -> None:
    assert plan_of(f"cluster policy p {{ {clauses} }}").scored is wanted


@pytest.mark.parametrize(
    ("clauses", "wanted"),
    [
        pytest.param(
            'score "a" weight 1 { value int(node.labels["n"]) range 0 .. 3 }',
            [0, 3, 7, 10],
            id="a range of numbers",
        ),
        pytest.param(
            'score "a" weight -1 { value int(node.labels["n"]) range 0 .. 3 }',
            [10, 7, 3, 0],
            id="a negative weight turns it round",
        ),
        pytest.param(
            'score "a" weight 1 { value int(node.labels["n"]) range minmax }',
            [0, 3, 7, 10],
            id="minmax compares the nodes of the request",
        ),
        pytest.param(
            'score "a" weight 1 { value int(node.labels["n"]) range 0 .. 3 }'
            ' score "b" weight 3 { value node.name == "n0" }',
            [8, 1, 2, 3],
            id="the mean by weight, rounded half up",
        ),
        pytest.param(
            'score "a" weight 1 { value int(node.labels["m"]) missing 40 }',
            [4, 4, 4, 4],
            id="missing values have their points",
        ),
    ],
)
def test_scores(clauses: str, wanted: list[int]) -> None:
    """10 * 'sum of weight * points' / 'sum of weights' / 100, rounded half up."""
    assert scores(plan_of(f"cluster policy p {{ {clauses} }}")) == wanted


def test_points_of_counts_are_terms_of_the_mean() -> None:
    plan = plan_of('cluster policy p { score "a" weight 1 { value 0 } }')
    table = snapshot_of(NODES).table
    term = (3.0, np.array([0.0, 100.0, 50.0, 20.0]))
    rows = table.find(NAMES)
    found = plan.scores(table, rows, asking, unlimited, no_report, [term])
    assert found.tolist() == [0, 8, 4, 2]


def test_the_size_of_a_plan_grows_with_nodes_and_memos() -> None:
    """Plans share a cache that is bounded in bytes."""
    small, large = (plan_of(POLICY, nodes=nodes).bytes for nodes in (100, 200))
    audited = plan_of(POLICY + POLICY.replace("policy p {", "policy q { mode audit"), nodes=100)
    two_scores = plan_of(POLICY.replace("score", 'score "b" weight 1 { value 1 } score'), nodes=100)
    assert large - small == 100 * 28
    assert audited.bytes - small == 100 * 12
    assert two_scores.bytes - small == 100 * 16


def test_programs_are_what_text_says() -> None:
    """The clauses above are not empty by mistake."""
    (program,) = programs_of(POLICY)
    assert isinstance(program, Program)
    assert (len(program.filters), len(program.scores)) == (1, 1)
