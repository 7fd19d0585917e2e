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
    line, order = Line("answer"), list[str]()

    async def answer(name: str) -> None:
        async with line.turn(name[0]):
            order.append(name)

    async with line.one():
        named = [f"{owner}{n}" for n, owner in enumerate("aaaabbcdef")]
        asked = {name: asyncio.create_task(answer(name)) for name in named}
        await settled()
        for owner in ("a", "b", "f"):
            with pytest.raises(web.HTTPTooManyRequests):
                await answer(f"{owner} late")
    asked["a0"].cancel()
    await asyncio.gather(*asked.values(), return_exceptions=True)
    assert order == ["b4", "c6", "d7", "e8", "f9", "a1", "b5", "a2", "a3"]
    await answer("a next")
    assert order[-1] == "a next"


async def test_an_answer_has_its_seconds_after_the_wait() -> None:
    line, time = (
        Line("answer", 100.0),
        asyncio.get_running_loop().time,
    )

    async def answer(owner: str, seconds: float) -> float:
        async with line.turn(owner):
            await asyncio.sleep(seconds)
        return time()

    began = time()
    first, second = (asyncio.create_task(answer(*each)) for each in (("a", 15), ("b", 99)))
    assert await second - began == pytest.approx(114)
    assert first.done()
    late = asyncio.create_task(answer("c", 101))
    with pytest.raises(web.HTTPServiceUnavailable):
        await late
    assert time() - began == pytest.approx(214)
