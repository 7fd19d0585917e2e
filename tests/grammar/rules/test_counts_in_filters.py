"""Checks of counts: filters that bound a number of pods, and the limits to write instead."""

from __future__ import annotations

import pytest

from tests.grammar.rules.helpers import diagnostics, findings, found
from tests.support.tables import table

APP = 'p.labels[?"app"].orValue("") == "web"'
PEER = APP.replace("p.", "peer.")


@table(
    """
    case                             | items
    fewer than a number              | filter "f" { require «size(node.pods.filter(p, APP)) < 3» }
    at most a number                 | filter "f" { require «node.pods.filter(p, APP).size() <= 3» }
    none                             | filter "f" { require «size(node.pods.filter(p, APP)) == 0» }
    turned round                     | filter "f" { require «3 > size(node.pods.filter(p, APP))» }
    nothing is there                 | filter "f" { require !«node.pods.exists(p, APP)» }
    a negation                       | filter "f" { require !«(size(node.pods) > 3)» }
    one of two conditions            | filter "f" { require node.ready && «size(node.pods) < 3» }
    one of two requirements
         | filter "f" { require node.ready require «size(node.pods) < 3» }
    a let
         | let n = size(node.pods) filter "f" { require «n < 3» }
    # near misses
    not at least a number            | filter "f" { require size(node.pods.filter(p, APP)) >= 3 }
    not where one must be there      | filter "f" { require node.pods.exists(p, APP) }
    not at the binding               | bind "f" { require !node.pods.exists(p, APP) }
    not a preference                 | score "f" weight 1 { value !node.pods.exists(p, APP) }
    not a list of the pod            | filter "f" { require size(pod.spec.containers) < 3 }
    not what no limit can count
         | filter "f" { require !node.pods.exists(p, p.phase == "Pending") }
    """
)
def test_counts_in_filters(items: str) -> None:
    text, wanted = findings(items, "P0319", APP=APP)
    assert found(text, ["P0319"]) == wanted


@pytest.mark.parametrize(
    ("items", "limit"),
    [
        pytest.param(
            f'for pods where pod.labels["app"] == "web" filter "f" {{ require'
            f' size(node.pods.filter(p, {APP})) < 3 message "full {{{{" }}',
            f'limit "f" {{ all pods where {PEER} per node at most 3 strict message "full {{{{" }}',
            id="the pod is one of them",
        ),
        pytest.param(
            f'for pods where pod.labels["app"] == "db" filter "f" {{ require'
            f" size(node.pods.filter(p, {APP})) < 3 }}",
            f'limit "f" {{ all pods where {PEER} per node at most 2 strict }}',
            id="the pod is none of them",
        ),
        pytest.param(
            f'filter "f" when pod.priority > 5 {{ require size(node.pods.filter(p, {APP})) < 3 }}',
            f'limit "f" when pod.priority > 5 {{ all pods where {PEER} per node at most'
            f" ({PEER.replace('peer.', 'pod.')} ? 3 : 2) strict }}",
            id="the pod may be one of them",
        ),
    ],
)
def test_the_fix_is_a_limit(items: str, limit: str) -> None:
    """And nothing is wrong with it."""
    (warning,) = diagnostics(items, ["P0319"])
    assert warning.fix is not None
    assert (warning.fix.text, warning.hint) == (
        limit,
        f"write `{limit}` instead, which counts them",
    )
    assert diagnostics(limit, ["P0302", "P0319"]) == []


@pytest.mark.parametrize(
    "items",
    [
        pytest.param(
            'filter "f" { require !node.pods.exists(p, p.labels["app"] == "web") }',
            id="a label that may be absent rejects the node",
        ),
        pytest.param('filter "f" { require node.ready && size(node.pods) < 3 }', id="another one"),
        pytest.param(
            'filter "f" when node.ready { require size(node.pods) < 3 }', id="a `when` of the node"
        ),
        pytest.param(
            'filter "f" { require size(node.pods) < 3 detail "{node.name} is full" }',
            id="a text with a value",
        ),
    ],
)
def test_there_is_no_fix_where_the_meaning_would_differ(items: str) -> None:
    (warning,) = diagnostics(items, ["P0319"])
    assert warning.fix is None
