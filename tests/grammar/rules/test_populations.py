"""Checks of populations: limits that keep their own pods out, and pods that never count."""

from __future__ import annotations

from tests.grammar.rules.helpers import findings, found
from tests.support.books import table

WEB = 'for pods where pod.labels["app"] == "web"'
PEER = 'pods where peer.labels["app"] == "web"'
OR_EMPTY = 'pods where peer.labels[?"app"].orValue("") == "web"'
OWN = 'pods where peer.labels["app"] == pod.labels["app"]'


@table(
    """
    case                        | items
    exactly one                 | limit "l" { per node «exactly 1» strict }
    at least two                | limit "l" { per zone «at least 2» strict }
    at most none of its own     | limit "l" { per node «at most 0» strict }
    of the pods of the policy   | WEB limit "l" { PEER per node «at most 0» strict }
    a pair of what is alone
         | limit "a" { per node at most 1 strict } limit "b" { per node «at least 1» strict }
    the same pods, in any order
         | WEB limit "b" { PEER per node «at least 1» strict } limit "a" { PEER per node at most 2 strict }
    with a label that may not be there
         | WEB limit "a" { OR per node at most 1 strict } limit "b" { PEER per node «at least 1» strict }
    turned, and with what is always so
         | WEB limit "a" { PEER per node at most 1 strict } limit "b" { pods where "web" == peer.labels["app"] && peer.uid == peer.uid per node «at least 1» strict }
    of the pod's own label
         | limit "a" { OWN per node at most 1 strict } limit "b" { pods where pod.labels[?"app"] == peer.labels[?"app"] per node «at least 1» strict }
    # near misses
    not of another operator
         | WEB limit "a" { pods where peer.labels["app"] < "web" per node at most 1 strict } limit "b" { PEER per node at least 1 strict }
    not of another place
         | limit "a" { per node at most 1 strict } limit "b" { per zone at least 1 strict }
    not of another label
         | limit "a" { PEER per node at most 1 strict } limit "b" { pods where peer.labels["a"] == pod.labels["a"] per node at least 1 strict }
    not at most one             | limit "l" { per node at most 1 strict }
    not near one                | limit "l" { per zone at least 1 strict }
    not of other pods
         | WEB limit "l" { pods where peer.labels["app"] == "db" per node at most 0 strict }
    not of pods that differ     | limit "l" { PEER per node at least 2 strict }
    not a preference            | limit "l" { per node exactly 1 weight 1 }
    not of a state              | limit "l" { ended pods where true per node at most 0 strict }
    """  # noqa: E501
)
def test_limits_that_keep_their_own_pods_out(items: str) -> None:
    text, wanted = findings(items, "P0339", WEB=WEB, PEER=PEER, OWN=OWN, OR=OR_EMPTY)
    assert found(text, ["P0339"]) == wanted


@table(
    """
    case                        | items
    the pod in place of a peer
         | limit "l" { pods where «pod.labels["app"] == "web"» per node at most 1 strict }
    a share of it
         | share "s" { pods where «pod.priority > 5» on nodes where node.ready at most 1 strict }
    # near misses
    not the pods of a share, of which some are pending on a node
         | share "s" { pods where peer.phase == "Pending" on nodes where node.ready at most 1 strict } count n = pods where «peer.phase == "Pending"» filter "f" { require n < 5 }
    not both
         | limit "l" { pods where peer.namespace == pod.namespace per node at most 1 strict }
    not all pods                | limit "l" { pods where true per node at most 1 strict }
    not pods that run           | limit "l" { pods where peer.phase == "Running" per node at most 1 strict }
    """  # noqa: E501
)
def test_pods_that_never_count(items: str) -> None:
    text, wanted = findings(items, "P0340")
    assert found(text, ["P0340"]) == wanted
