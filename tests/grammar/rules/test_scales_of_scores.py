"""Checks of scales: scores of a few points, numbers that are texts, and the type of a domain."""

from __future__ import annotations

from tests.grammar.rules.helpers import diagnostics, findings, found
from tests.support.books import table


@table(
    """
    case                       | items
    one or zero                | score "s" weight 1 { value «node.zone == "a" ? 1 : 0» }
    two of them                | score "s" weight 1 { value «(node.ready ? 1 : 0) + (pod.priority > 5 ? 2 : 0)» }
    as a number                | score "s" weight 1 { value «double(node.ready ? 4 : 3)» }
    # near misses
    not with a range           | score "s" weight 1 { value node.ready ? 1 : 0 range 0 .. 1 }
    not points                 | score "s" weight 1 { value node.ready ? 100 : 0 }
    not a condition            | score "s" weight 1 { value node.ready }
    not other numbers          | score "s" weight 1 { value size(node.spec.taints) }
    """  # noqa: E501
)
def test_scores_of_a_few_points(items: str) -> None:
    text, wanted = findings(items, "P0337")
    assert found(text, ["P0337"]) == wanted


@table(
    """
    case                       | items
    a label and an annotation  | filter "f" { require «node.labels["a"] >= pod.annotations["b"]» }
    a label and a number       | filter "f" { require «node.labels["a"] > "10"» }
    turned round               | filter "f" { require «"10" < node.labels["a"]» }
    with a value in its place  | filter "f" { require «node.labels[?"a"].orValue("0") < "3.5"» }
    a let                      | let a = node.labels["a"] filter "f" { require «a > "10"» }
    # near misses
    not as numbers             | filter "f" { require int(node.labels["a"]) >= int(pod.annotations["b"]) }
    not an equality            | filter "f" { require node.labels["a"] == "10" }
    not other texts            | filter "f" { require node.labels["a"] < "m" }
    not names                  | filter "f" { require node.name < pod.name }
    """  # noqa: E501
)
def test_numbers_that_are_texts(items: str) -> None:
    text, wanted = findings(items, "P0338")
    assert len(found(text, ["P0338"])) == len(wanted)


def test_the_status_of_a_condition_is_a_word() -> None:
    items = 'filter "f" { require node.status.conditions.exists(c, c.status == true) }'
    (wrong,) = diagnostics(items, ["P0104"])
    assert wrong.hint == 'write `c.status == "True"`'
