"""Whatever happens to objects, server and connections: in the end the store equals the server."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support import fake_clock
from tests.support.books import examples
from tests.support.fake_api_server import Answer, FakeApiServer, fake_api_server
from tests.support.kubeconfig import client_of
from tests.support.mirror import PODS, QUICK, Mirror, mirror_of

NAMES = [*(f"shop/{letter}" for letter in "abcde"), "in-no-namespace"]
STATUSES = ["410", "422", "429", "500", "503", "504"]
FAULTS = "close cut stall garbage expire compact bookmark drop shorten unlearn wait wait".split()
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("put"), st.sampled_from(NAMES)),
        st.tuples(st.just("delete"), st.sampled_from(NAMES)),
        st.tuples(st.just("refuse"), st.sampled_from(STATUSES)),
        st.tuples(st.sampled_from(FAULTS), st.just("")),
    ),
    max_size=40,
)


# Nothing comes for this long: a connection that has died.
TIMING = replace(QUICK, idle=0.2)


@settings(max_examples=examples(40))
@given(steps=STEPS, streams=st.booleans())
def test_the_store_ends_equal_to_the_server(steps: list[tuple[str, str]], *, streams: bool) -> None:
    fake_clock.run(_play(steps, streams=streams))


async def _play(steps: list[tuple[str, str]], *, streams: bool) -> None:
    with TemporaryDirectory() as folder:
        async with fake_api_server() as server:
            server.streams = streams
            server.put(PODS, "shop/first")
            async with (
                client_of(server.url, Path(folder)) as client,
                mirror_of(server, client, TIMING) as mirror,
            ):
                for step, detail in steps:
                    await _step(step, detail, server, mirror)
                server.answers.clear()
                for _ in range(2):  # the first may have begun before the last step
                    await _relist(mirror)
                assert len(server.requests) < 50 + 10 * len(steps)


async def _relist(mirror: Mirror) -> None:
    """It is what finds the changes that a connection has swallowed."""
    await mirror.until(lambda: mirror.reflector.synced)
    done = mirror.reflector.relists.total()
    mirror.reflector.ask_relist("compare")
    mirror.server.bookmark(PODS)
    await mirror.until(lambda: mirror.reflector.relists.total() > done)
    await mirror.watching()


async def _step(step: str, detail: str, server: FakeApiServer, mirror: Mirror) -> None:
    match step:
        case "put":
            server.put(PODS, detail, spec={"change": server.version})
        case "delete":
            if detail in server.objects(PODS):
                server.delete(PODS, detail)
        case "refuse":
            server.answers.append(Answer(int(detail), b"not now"))
        case "close" | "cut":
            server.close_watches(PODS, within_a_line=step == "cut")
        case "garbage":
            server.send(PODS, b'{"type":')
        case "stall":
            server.stall_watches(PODS)
        case "expire":
            server.send(PODS, b'{"type":"ERROR","object":{"code":410,"reason":"Expired"}}')
        case "compact":
            server.compact()
        case "bookmark":
            server.bookmark(PODS)
        case "shorten":
            server.initial_lines = 1
        case "unlearn":
            server.streams = False
        case "drop":
            server.dropped += 1
        case _:
            await asyncio.sleep(0.005)
