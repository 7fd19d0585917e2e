"""The sentence of `placet explain` about a sum."""

from __future__ import annotations

import pytest

from cli.explaining.views import count_text
from engine.cache.tallies import FULL
from tests.engine.counting.helpers import clause_of, numbers

SUM = 'limit "l" { sum peer.requests["cpu"] of pods where true per %s strict }'


@pytest.mark.parametrize(
    ("scope", "here", "own", "wanted"),
    [
        pytest.param(
            "node at most 3",
            2500,
            250,
            "2500m on this node, 250m of this pod; at most 3",
            id="node",
        ),
        pytest.param(
            "domain node.zone at most 3",
            2000,
            1000,
            "2 in this node's domain, 1 of this pod; at most 3",
            id="domain",
        ),
        pytest.param(
            "cluster at most 1.5",
            FULL,
            FULL,
            "more than any bound in the cluster, no amount of this pod; at most 1500m",
            id="a full sum, and a pod without an amount",
        ),
    ],
)
def test_a_sum_is_shown_in_units(scope: str, here: int, own: int, wanted: str) -> None:
    assert count_text(clause_of(SUM % scope), numbers([here], own=own), 0) == wanted
