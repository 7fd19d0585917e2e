"""Early pods: those that were placed before their policy was in force, as a status has them."""

from __future__ import annotations

import math
from collections.abc import Iterable

import msgspec
import pytest

from engine.decision.after import AfterDecision
from engine.decision.journal import Journal
from engine.objects.peer import Peer, key_of
from grammar.values.time import Timestamp
from policies.resource import Metadata, PolicyStatus, VersionInForce
from server.runtime.missed_pods import EarlyPods, early_text
from tests.support.builders import node, pod, raw
from tests.support.engines import engine_of, peer_of

STARTED = Timestamp.parse("2026-11-21T09:00:00.7Z")
POLICY = Metadata("web", "shop", "u", 1, creationTimestamp="2026-11-21T10:00:00Z")
BEFORE, AFTER = "2026-11-21T09:59:59Z", "2026-11-21T10:00:00Z"


def counted(
    pods: Iterable[Peer],
    journal: Journal | None = None,
    metadata: Metadata = POLICY,
    written: PolicyStatus | None = None,
) -> int | None:
    early = EarlyPods((journal or Journal()).has_decided, STARTED)
    known = {key_of(each): each for each in pods}
    return early.count("web", metadata, written or PolicyStatus(), lambda: known, lambda _: True)


@pytest.mark.parametrize(
    ("created", "on", "expected"),
    [
        pytest.param(AFTER, "n1", 1, id="after the policy"),
        pytest.param(BEFORE, "n1", 0, id="before the policy"),
        pytest.param(AFTER, None, 0, id="without a node"),
    ],
)
def test_which_pods_are_early(created: str, on: str | None, expected: int) -> None:
    assert counted([peer_of(pod("a", on=on, created=created))]) == expected


def test_a_pod_that_the_policy_decided_about_is_not_early() -> None:
    journal = Journal()
    policy = 'policy web { for pods where true filter "all" { require true } }'
    engine = engine_of(policy, [node("n1")], after=AfterDecision(journal=journal))
    engine.filter(raw(pod("a", created=AFTER)), ["n1"], None, math.inf)
    placed = [peer_of(pod(name, on="n1", created=AFTER)) for name in "ab"]
    assert counted(placed, journal) == 1


def test_the_number_stays_once_the_policy_was_in_force() -> None:
    placed = [peer_of(pod("a", on="n1", created=AFTER))]
    written = PolicyStatus(earlyPods=6, inForce=VersionInForce(1))
    assert counted(placed, written=written) == 6


@pytest.mark.parametrize("created", ["2026-11-21T08:59:59Z", ""])
def test_a_policy_from_before_the_start_has_no_number(created: str) -> None:
    metadata = msgspec.structs.replace(POLICY, creationTimestamp=created)
    assert counted([peer_of(pod("a", on="n1", created=AFTER))], metadata=metadata) is None


def test_a_policy_of_the_second_of_the_start_has_a_number() -> None:
    """The API server tells a creation in whole seconds."""
    metadata = msgspec.structs.replace(POLICY, creationTimestamp="2026-11-21T09:00:00Z")
    assert counted([peer_of(pod("a", on="n1", created=AFTER))], metadata=metadata) == 1


def test_the_event_says_how_many() -> None:
    assert early_text(6).startswith("6 pods were placed before this policy was in force")
    assert early_text(1).startswith("1 pod was placed")
