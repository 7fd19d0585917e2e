"""Checks of counts: filters that bound a number of pods."""

from __future__ import annotations

from tests.grammar.rules.helpers import findings, found
from tests.support.books import table

APP = 'p.labels[?"app"].orValue("") == "web"'


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
