"""The plan: the clauses that apply to the pods of one shape, and what it decides from them."""

from __future__ import annotations

import gc
import math
import weakref

from engine.decision.plan import Plan, SharedMemos
from engine.decision.verdict import Feasible, Rejected, Verdict
from engine.program.program import FilterProgram, Program, ScoreProgram
from tests.support.builders import Object, node, pod, raw
from tests.support.engines import (
    engine_of,
    evaluation_of,
    frame_of,
    programs_of,
    registry_of,
    snapshot_of,
)
from tests.support.rows import rows

ASKED = pod("asked", labels={"app": "web"})
POLICY = """
cluster policy p {
  filter "low" { require int(node.labels["n"]) < 3 message "too high" }
  score "high" weight 1 { value int(node.labels["n"]) * 10 }
}
"""


def plan_of(text: str, asked: Object = ASKED, *, nodes: int = 100, exempt: str = "") -> Plan:
    evaluation = evaluation_of(frame_of(asked))
    return Plan(
        registry_of(text),
        "default",
        None,
        evaluation,
        SharedMemos(),
        lambda *_: (),
        nodes=nodes,
        pod=1000,
        exempt=exempt,
    )


NODES = [node(f"n{number}", labels={"n": str(number)}) for number in range(4)]
NAMES = [f"n{number}" for number in range(4)]


def verdicts(plan: Plan) -> list[Verdict]:
    table = snapshot_of(NODES).table
    return list(plan.filters.decide(table, table.find(NAMES), evaluation_of(frame_of(ASKED))))


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
    reason = "policy p: its `for` cannot be evaluated"
    failed = Rejected(reason, "p", "for", error="division by zero")
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
    [(program, memo)] = plan.audits
    assert program.name == "p"
    decided = memo.decide(table, table.find(NAMES), evaluation_of(frame_of(ASKED)))
    assert [isinstance(v, Rejected) for v in decided] == [False, False, False, True]
    assert not plan.scored


@rows(
    ("clauses", "wanted"),
    {
        "no clause": ("", False),
        "a filter": ('filter "x" { require true }', False),
        "a score": ('score "x" weight 1 { value 1 }', True),
        "not its `when`": ('score "x" weight 1 when pod.priority > 0 { value 1 }', False),
        "a strict count": ('spread "x" { over node.zone skew at most 1 strict }', False),
        "a best-effort count": (
            'spread "x" { over node.zone skew at most 1 weight 2 }',
            True,
        ),
    },
)
def test_whether_a_plan_scores(clauses: str, wanted: bool) -> None:
    assert plan_of(f"cluster policy p {{ {clauses} }}").scored is wanted


def test_scores_of_all_enforced_policies_have_one_mean() -> None:
    """'sum of weight * points' / 'sum of weights', in tens."""
    text = """
    policy a { for pods where true score "n" weight 1 { value int(node.labels["n"]) * 30 } }
    cluster policy z { score "ten" weight 3 { value 20 } }
    cluster policy audited { mode audit score "x" weight 9 { value 100 } }
    """
    plan, table = plan_of(text), snapshot_of(NODES).table
    found = plan.scorer.scores(table, table.find(NAMES), evaluation_of(frame_of(ASKED)))
    assert found.tolist() == [2, 2, 3, 4]
    assert len(plan.scorer) == 2


def test_the_size_of_a_plan_grows_with_nodes_and_memos() -> None:
    """Plans share a cache that is bounded in bytes."""
    small, large = (plan_of(POLICY, nodes=nodes).bytes for nodes in (100, 200))
    audited = plan_of(POLICY + POLICY.replace("policy p {", "policy q { mode audit"), nodes=100)
    two_scores = plan_of(POLICY.replace("score", 'score "b" weight 1 { value 1 } score'), nodes=100)
    assert large - small == 100 * (30 + 2 * 8)
    assert audited.bytes - small == 100 * (13 + 8)
    assert two_scores.bytes - small == 100 * (17 + 8)


def test_programs_are_what_text_says() -> None:
    """The clauses above are not empty by mistake."""
    (program,) = programs_of(POLICY)
    assert isinstance(program, Program)
    assert (len(program.of(FilterProgram)), len(program.of(ScoreProgram))) == (1, 1)


def test_nothing_of_policies_that_have_changed_is_kept() -> None:
    engine = engine_of(POLICY, NODES)
    engine.filter(raw(ASKED), NAMES, None, math.inf)
    engine.prioritize(raw(ASKED), NAMES, None, math.inf)
    old = weakref.ref(engine.registry)
    engine.adopt(registry_of(POLICY))
    gc.collect()
    assert old() is None
