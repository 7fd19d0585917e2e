"""Programs beside their results: traces, moments, needs, digests and lazy parts."""

from __future__ import annotations

from contextlib import suppress

import pytest

from engine.clauses.programs import compile_policy
from engine.enforced import needs
from engine.explanation.written import Step, Tracer
from engine.program.compiler import Compiler
from engine.program.frame import Evaluate, Frame
from grammar.checker.expression_checker import Checker
from grammar.checker.policy_checker import VARIABLES
from grammar.meaning.environment import Environment
from grammar.meaning.schema import load_schema
from grammar.syntax.parser import parse_expression
from grammar.tree.printer import print_expression
from grammar.tree.source import Source
from grammar.values.errors import EvaluationError
from grammar.values.time import NEVER, SECOND, Timestamp
from policies.validation import Validator
from tests.differential.test_kubernetes_cel import NO_VALUE, Here
from tests.support.builders import node, pod, raw
from tests.support.engines import CODEC, SCHEMA, checked, programs_of, snapshot_of
from tests.support.rows import rows


def traced(text: str) -> list[Step]:
    expr, found = parse_expression(Source("t", text))
    assert expr is not None, found
    environment = Environment(variables=VARIABLES, schema=SCHEMA)
    checker = Checker(environment)
    checked = checker.check(expr)
    assert not checker.found
    snapshot = snapshot_of([node("n1", zone="a")])
    frame = Frame(CODEC.pod(raw(pod("p", cpu="2"))), Timestamp.ZERO, slots=0)
    frame.node = snapshot.nodes["n1"]
    return Tracer(environment).trace(checked, frame)


def shown(text: str) -> list[tuple[int, str, str]]:
    return [(s.depth, print_expression(s.expr), s.text) for s in traced(text)]


def test_every_part_has_its_value() -> None:
    """Outer before inner, by depth; constants are not repeated."""
    assert shown('node.free["cpu"] - pod.requests["cpu"] >= "1"') == [
        (0, 'node.free["cpu"] - pod.requests["cpu"] >= 1', "true"),
        (1, 'node.free["cpu"] - pod.requests["cpu"]', "6"),
        (2, 'node.free["cpu"]', "8"),
        (3, "node.free", "{cpu: 8, memory: 32Gi, pods: 110}"),
        (4, "node", "Node"),
        (2, 'pod.requests["cpu"]', "2"),
        (3, "pod.requests", "{cpu: 2}"),
        (4, "pod", "Pod"),
    ]


def test_an_unevaluated_part_has_no_step() -> None:
    """A decided `||` says nothing of the rest."""
    texts = [t for _, t, _ in shown('node.zone == "a" || pod.name == "q"')]
    assert 'pod.metadata.name == "q"' not in texts


def test_an_error_is_a_value_of_the_trace() -> None:
    """It shows at the part where it began and at all that it reached."""
    steps = traced('node.labels["absent"] == "x"')
    assert steps[0].text == "error: there is no key `absent`"
    assert steps[1].text == "error: there is no key `absent`"


def test_a_macro_has_a_step_for_each_item() -> None:
    """So that one sees which item decided."""
    values = [v for _, t, v in shown("[1, 2, 3].exists(x, x > 1)") if t == "x > 1"]
    assert values == ["false", "true"]


# ---- moments: how long results last; and loops over lists: their fuel, and their variables


def compiled(text: str) -> tuple[Evaluate, Frame]:
    environment = Environment(variables=VARIABLES, schema=load_schema())
    expr, found = parse_expression(Source("t", text))
    assert expr is not None, found
    compiler = Compiler(environment)
    run = compiler.compile(Checker(environment).check(expr))
    return run, Frame(None, Timestamp.ZERO, slots=compiler.slots)


@pytest.mark.parametrize(
    "text",
    [
        "[1, 2, 3].exists(x, x > 3)",
        "[1, 2, 3].all(x, x > 0)",
        "[1, 2, 3].map(x, x).size() == 3",
        "[1, 2, 3].filter(x, x > 0).size() == 3",
        '["a", "b", "c"].all(x, [x].exists(y, y == x))',
    ],
)
def test_fuel(text: str) -> None:
    run, frame = compiled(text)
    before = frame.fuel
    run(frame)
    assert before - frame.fuel >= 3


def test_inner_variable_hides_outer() -> None:
    run, frame = compiled('[["a"], ["b"]].map(x, x.filter(x, x == "b").size() + x.size())')
    assert run(frame) == (1, 2)


MINUTE = 60 * SECOND


@rows(
    ("text", "until"),
    {
        "it turns then": ("now < timestamp(60)", MINUTE),
        "the other way round": ("timestamp(60) <= now", MINUTE),
        "it turns now": ("now > timestamp(0)", 1),
        "equal then": ("now == timestamp(60)", MINUTE),
        "it has turned": ("now >= timestamp(-60)", NEVER),
        "an age": ('now - timestamp(-60) < duration("3m")', 2 * MINUTE),
        "what is left": ('timestamp(60) - now > duration("20s")', 40 * SECOND),
        "a time before": ('now - duration("1m") > timestamp(0)', MINUTE),
        "what was looked at": ("now < timestamp(60) || now < timestamp(90)", MINUTE),
        "the first": ("now > timestamp(60) || now > timestamp(30)", 30 * SECOND),
        "in a macro": ("[1].exists(x, now > timestamp(60))", MINUTE),
        "thrice": ('now - timestamp(-60) + (now - now) < duration("3m")', SECOND),
        "the calendar": ("now.getHours() == 0", MINUTE),
        "in a zone": ('now.getDate("+05:45") == 1', MINUTE),
        "a variable of the name": ("[now].exists(now, now.getHours() == 0)", SECOND),
        "the seconds": ("now.getSeconds() == 0", SECOND),
        "of another time": ('(now + duration("30s")).getHours() == 0', SECOND),
        "no zone": ('now.getHours("nowhere") == 0', MINUTE),
        "not a sum": ("(true ? now : now) < timestamp(60)", SECOND),
        "error": ('now - timestamp("1600-01-01T00:00:00Z") > duration("1s")', SECOND),
        "it reads no time": ("1 < 2", NEVER),
    },
)
def test_how_long_a_result_lasts(text: str, until: int) -> None:
    run, frame = compiled(text)
    frame.now = Timestamp(0)
    with suppress(EvaluationError):
        run(frame)
    assert frame.until == until


# ---- needs of policies: what the cache keeps for them besides nodes and pods


OF_WEB = 'of pods where peer.labels["app"] == "web" on nodes where node.ready'
WEB = 'pods where peer.labels["app"] == "web"'


@rows(
    ("clause", "wanted"),
    {
        "nothing is counted": ('filter "f" { require node.ready }', False),
        "`workload` is read": ('filter "f" { require pod.workload.name == "web" }', True),
        "by workload": ('spread "s" { over node.zone skew at most 1 strict }', True),
        "a number of pods": (f'share "s" {{ {OF_WEB} at most 3 strict }}', False),
        "a percentage is of the pods that workloads want": (
            f'share "s" {{ {OF_WEB} at most 40% strict }}',
            True,
        ),
        "a gang of a workload": ('gang "g" { }', True),
        "a gang by a label": ('gang "g" { of pods by peer.labels["job"] at least 2 }', True),
        "a limit of pods": (f'limit "l" {{ {WEB} per node at most 1 strict }}', False),
    },
)
def test_workloads(clause: str, wanted: bool) -> None:
    (policy,) = checked(f"cluster policy p {{ {clause} }}")
    assert needs([policy.policy]).workloads is wanted


def test_annotations_of_gangs() -> None:
    """What `by` reads of other pods is kept of them, through a `let` too."""
    items = 'let job = peer.annotations["example.com/job"] gang "g" { of pods by job at least 2 }'
    (policy,) = checked(f"cluster policy p {{ {items} }}")
    assert "example.com/job" in needs([policy.policy]).annotations


@pytest.mark.parametrize(
    ("items", "wanted"),
    [
        ('filter "f" { require size(pod.failures) < 3 }', True),
        ('let last = pod.failures filter "f" { require size(last) < 3 }', True),
        ('filter "f" { require pod.workload.name == "failures" }', False),
    ],
)
def test_failures(items: str, wanted: bool) -> None:
    (policy,) = checked(f"cluster policy p {{ {items} }}")
    assert needs([policy.policy]).failures is wanted


# ---- digests: change with the meaning of a policy, and not with its layout


POLICY = 'policy web { for pods where pod.priority > 1 filter "f" { require node.ready } }'


def digest(text: str) -> str:
    return programs_of(text)[0].digest


@pytest.mark.parametrize(
    "other",
    [
        POLICY.replace("{ require", "{\n  # up\n  require"),
        POLICY.replace("pod.priority > 1", "(pod.priority > 1)"),
    ],
)
def test_layout_does_not_matter(other: str) -> None:
    assert digest(other) == digest(POLICY)


@pytest.mark.parametrize(
    "other",
    [
        POLICY.replace("> 1", "> 2"),
        POLICY.replace("> 1", ">= 1"),
        POLICY.replace('"f"', '"g"'),
        POLICY.replace("policy web", "policy shop"),
        POLICY.replace("node.ready", "!node.ready"),
        POLICY.replace('filter "f"', 'mode audit filter "f"'),
    ],
)
def test_meaning_does(other: str) -> None:
    assert digest(other) != digest(POLICY)


def test_what_a_policy_uses_belongs_to_it() -> None:
    digests = set()
    for value in ("true", "false"):
        text = f"""
        policy web {{ for pods where true use "base" }}
        policy base {{ for pods where false filter "f" {{ require node.ready == {value} }} }}
        """
        found = Validator(SCHEMA).validate([Source("p.policy", text)])
        digests |= {
            compile_policy(each).digest for each in found.policies if each.policy.name == "web"
        }
    assert len(digests) == 2


# ---- parts that are not needed are not evaluated, and what is missing stays so: compiled as plain


@pytest.fixture(scope="module")
def here() -> Here:
    """Its `evaluate` compares both evaluations."""
    return Here({"labels": '{"a": "1"}', "ports": "[80]", "some": "optional.of(1)"})


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("some.orValue(1 / 0)", ("int", 1)),
        ("some.or(optional.of(1 / 0)).value()", ("int", 1)),
        ("ports[?5].orValue(7)", ("int", 7)),
        ("ports[?5].orValue(1 / 0)", NO_VALUE),
        ("has(labels.a)", ("bool", True)),
        ("has(labels.b)", ("bool", False)),
        ('has({"a": labels}[labels["b"]].c)', NO_VALUE),
        ('has({"a": labels}["b"].c)', NO_VALUE),
        ('has({"a": optional.none()}.a)', ("bool", True)),
        ('has(labels[labels["b"]])', NO_VALUE),
        ("has(ports[5])", ("bool", False)),
        ('[duration("1h")].filter(x, false).sum()', ("duration", 0)),
        ('(true ? [duration("1h")] : []).max().getHours()', ("int", 1)),
    ],
)
def test_both_evaluations_agree(here: Here, text: str, value: object) -> None:
    assert here.evaluate(text) == value
