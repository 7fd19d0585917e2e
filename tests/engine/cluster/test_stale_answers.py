"""Bind at a replica whose answers are old: another one has led, and was asked by filter."""

from __future__ import annotations

import pytest

from engine.errors import RefusedError
from tests.engine.cluster.test_binding import World

pytestmark = pytest.mark.fake_clock


async def test_an_old_answer_of_a_replica_that_does_not_lead_refuses_nobody() -> None:
    world = World()
    world.create("a")
    world.hear("a", "n2")
    world.leads_for = -1.0
    await world.bind("a", "n1")
    assert world.on("n1") == {"a"}


async def test_the_answer_of_the_leader_is_the_last() -> None:
    world = World()
    world.create("a")
    world.hear("a", "n2")
    with pytest.raises(RefusedError, match="filter has not offered node `n1`"):
        await world.bind("a", "n1")
