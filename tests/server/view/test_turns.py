"""Turns: whose question is answered next."""

from __future__ import annotations

import asyncio

import pytest
from aiohttp import web

from server.view.turns import Line
from tests.support.fake_clock import settled

pytestmark = pytest.mark.fake_clock


async def test_namespaces_take_turns_and_one_leaves_room_for_others() -> None:
    """Also when a question gives up in the moment in which its turn comes."""
    line, order = Line("the answer", "several have not ended"), list[str]()

    async def answer(name: str) -> None:
        order.append(name)

    async with line.one():
        named = {f"{each[0]}{n}": each[0] for n, each in enumerate("aaaabb")}
        asked = {
            name: asyncio.create_task(line.turn(answer(name), owner))
            for name, owner in named.items()
        }
        await settled()
        for owner in ("a", "a"):
            with pytest.raises(web.HTTPTooManyRequests):
                await line.turn(answer("late"), owner)
    asked["a0"].cancel()
    await asyncio.gather(*asked.values(), return_exceptions=True)
    assert order == ["b4", "a1", "b5", "a2", "a3"]
    await line.turn(answer("next"), "a")
    assert order[-1] == "next"
