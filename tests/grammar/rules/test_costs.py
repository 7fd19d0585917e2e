"""The check of costs: expressions that can take more than a million steps for one node."""

from __future__ import annotations

from grammar.meaning.costs import LIMIT, describe
from grammar.tree.source import Source
from policies.validation import check_source
from tests.grammar.rules.helpers import SCHEMA, found
from tests.support.rows import rows

ONE = "node.pods.all(a, a.priority > 0)"
PAIRS = "node.pods.all(a, node.pods.all(b, a.priority >= b.priority))"
DOUBLED = "def d0(s: string): string = s + s " + " ".join(
    f"def d{i}(s: string): string = d{i - 1}(s) + d{i - 1}(s)" for i in range(1, 20)
)
TRIPLES = f"node.pods.all(c, {PAIRS})"


@rows(
    ("items", "wanted"),
    {
        "three loops over pods": (f'filter "f" {{ require {TRIPLES} }}', 1),
        "in a `let` that is used": (f'let slow = {TRIPLES} filter "f" {{ require slow }}', 1),
        "in a `def` that is called": (
            f"def slow(x: int): bool = {TRIPLES} filter 'f' {{ require slow(1) }}",
            1,
        ),
        "in a score": (f'score "s" weight 1 {{ value {TRIPLES} }}', 1),
        "in a domain": (f'limit "l" {{ per {TRIPLES} at most 1 strict }}', 1),
        "each expression by itself": (
            f'filter "f" {{ require {TRIPLES} }} filter "g" {{ require {TRIPLES} }}',
            2,
        ),
        "a function that compares each with each": (
            'filter "f" { require lists.range(30000).map(x, [x]).distinct().size() > 1 }',
            1,
        ),
        "a range of known length": (
            'filter "f" { require lists.range(60000).all(x, x + pod.priority + x + x > 1) }',
            0,
        ),
        "a range just short enough": (
            'filter "f" { require lists.range(65000).all(x, x + x + x + x + x + x + x > 1) }',
            0,
        ),
        "texts that double": (f'{DOUBLED} filter "f" {{ require d19("a") == "b" }}', 1),
        "in a message": (
            f'{DOUBLED} filter "f" {{ require node.ready message "{{d19(pod.name)}}" }}',
            1,
        ),
        "in a detail": (
            f'{DOUBLED} filter "f" {{ require node.ready detail "{{d19(pod.name)}}" }}',
            1,
        ),
        "not a label, which is short": (
            'filter "f" { require node.labels["a"].split(",").exists(x, x in pod.labels) }',
            0,
        ),
        "in a bound": (f'limit "l" {{ per node at most {TRIPLES} ? 1 : 2 strict }}', 1),
        "a part of a list": (
            f'filter "f" {{ require {TRIPLES.replace("node.pods", "node.pods.slice(0, 50)")} }}',
            0,
        ),
        "at most so many of a list": (
            'filter "f" { require '
            + TRIPLES.replace("node.pods", "node.pods.slice(0, math.least(50, size(node.pods)))")
            + " }",
            0,
        ),
        "as many of a list as there are": (
            'filter "f" { require '
            + TRIPLES.replace("node.pods", "node.pods.slice(0, math.least([size(node.pods)]))")
            + " }",
            1,
        ),
        "a large part of a list": (
            f'filter "f" {{ require {TRIPLES.replace("node.pods", "node.pods.slice(9, 250)")} }}',
            1,
        ),
        "the first parts of a text": (
            (
                'filter "f" { require pod.annotations["a"].split(",", 9).all(x, x in node.labels'
                " && node.pods.all(p, x in p.labels && x in p.annotations && p.name < x)) }"
            ),
            0,
        ),
        "all parts of a text": (
            (
                'filter "f" { require pod.annotations["a"].split(",").all(x, x in node.labels'
                " && node.pods.all(p, x in p.labels && x in p.annotations && p.name < x)) }"
            ),
            1,
        ),
        "a part of a text": (
            (
                'let part = pod.annotations["a"].substring(0, 8)'
                ' filter "f" { require lists.range(4000).all(x, part + part + part != node.name) }'
            ),
            0,
        ),
        "in the ends of a range": (
            f'score "s" weight 1 {{ value 1 range ({TRIPLES} ? 1 : 2) .. ({TRIPLES} ? 3 : 4) }}',
            2,
        ),
        # near misses
        "not a name, taken apart": (
            (
                'filter "f" { require node.name.replace("a", "b").split("-")'
                '.exists(x, x.matches("^a1") && pod.name.contains(x)) }'
            ),
            0,
        ),
        "not one loop": (f'filter "f" {{ require {ONE} }}', 0),
        "not two loops": (f'filter "f" {{ require {PAIRS} }}', 0),
        "not loops over short lists": (
            f'filter "f" {{ require {TRIPLES.replace("node.pods", "[pod]")} }}',
            0,
        ),
        "not unused": (f'let slow = {TRIPLES} filter "f" {{ require node.ready }}', 0),
    },
)
def test_expressions_that_take_too_many_steps(items: str, wanted: int) -> None:
    assert len(found(items, ["P0401"])) == wanted


def test_what_reads_the_pod_alone_is_priced_once_for_a_call() -> None:
    """Rule C-0045 of Kubescape, as a ValidatingAdmissionPolicy has it."""
    nested = (
        "pod.spec.volumes.all(v, pod.spec.containers.all(c, c.volumeMounts.all(m,"
        " m.name != v.name || m.readOnly)))"
    )
    assert found(f'filter "f" {{ require {nested} }}', ["P0401"]) == []
    of_node = nested.replace("m.readOnly", "node.ready")
    assert len(found(f'filter "f" {{ require {of_node} }}', ["P0401"])) == 1
    twice = f"pod.spec.containers.all(d, {nested})"
    assert len(found(f'filter "f" {{ require {twice} }}', ["P0401"])) == 1


def test_the_limit_is_the_most_steps_that_are_allowed() -> None:
    """A loop over a range takes the steps of its body, and some, for each number."""
    known = {}
    for added in range(1, 30):
        item = f'filter "f" {{ require lists.range(60000).all(x, x{" + x" * added} > 1) }}'
        (checked,) = check_source(
            Source("p.policy", f"cluster policy p {{ {item} }}"), SCHEMA
        ).policies
        (cost,) = describe(checked.policy, checked.environment)
        known[cost.steps > LIMIT] = [d.code for d in checked.diagnostics]
    assert known == {False: [], True: ["P0401"]}


def test_the_span_is_the_part_that_costs_the_most() -> None:
    items = f'filter "f" {{ require node.ready && ({TRIPLES}) }}'
    assert found(items, ["P0401"]) == [f"P0401 ({TRIPLES})"]


def test_findings_are_in_the_order_of_the_text() -> None:
    items = (
        'filter "f" { require 1 < 2 } filter "g" { require node.labels["a"] != "b" } let unused = 1'
    )
    assert [each[:5] for each in found(items, ["P0301", "P0302", "P0303"])] == [
        "P0302",
        "P0301",
        "P0303",
    ]
