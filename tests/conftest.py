"""Settings for every test."""

from __future__ import annotations

import asyncio
import gc
import os
import signal
import sys
from collections.abc import Callable, Generator, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from engine.objects.remembered import Memory
from grammar.meaning.schema import Schema, load_schema
from tests.support.books import register_profiles
from tests.support.fake_clock import FakeClockLoop

register_profiles()


@pytest.fixture(scope="session")
def schema() -> Schema:
    return load_schema()


@pytest.fixture
def memory_of(monkeypatch: pytest.MonkeyPatch) -> Callable[[int], Memory]:
    """Gives this thread a memory of so many bytes."""

    def given(most: int) -> Memory:
        memory = Memory(most)
        monkeypatch.setattr("engine.objects.remembered._OF_THREAD.memory", memory)
        monkeypatch.setattr("engine.decision.verb_call.MOST_REMEMBERED", most)
        return memory

    return given


class StartedPrograms:
    """The programs that tests start: Python for marked ones alone, as its start is slow."""

    MARKS = frozenset({"process", "e2e", "bench", "chaos", "rollouts", "image", "browser"})

    def __init__(self) -> None:
        self.are_refused = False
        sys.addaudithook(self.audit)

    def audit(self, event: str, about: tuple[Any, ...]) -> None:
        if event == "subprocess.Popen" and self.are_refused:
            folder = Path(os.fsdecode(about[0])).parent
            assert folder != Path(sys.executable).parent, "who starts Python is marked `process`"

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Iterator[None]:
        self.are_refused = self.MARKS.isdisjoint(mark.name for mark in item.iter_markers())
        try:
            return (yield)
        finally:
            self.are_refused = False


def pytest_configure(config: pytest.Config) -> None:
    """Use no proxy for loopback, start no threads of numpy, and let Ctrl-C reach what tests start.

    A background process of a shell ignores SIGINT, and its child processes do too.
    """
    config.pluginmanager.register(StartedPrograms())
    os.environ |= {"NO_PROXY": "*", "no_proxy": "*", "OPENBLAS_NUM_THREADS": "1"}
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Leave tests, which stay to the end, out of collections of garbage, now and while they run."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.collect()
        gc.freeze()
        gc.enable()


def pytest_sessionfinish() -> None:
    """Let the last collection, which pytest makes, find what servers have left out as well."""
    gc.unfreeze()


@pytest.fixture(scope="session", autouse=True)
def round_trips_of_loopback() -> Iterator[None]:
    """A server of a test that ends waits for the round trip of a client on the same machine."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("server.http.sockets._LAST_SECONDS", 0.01)
        yield


def pytest_xdist_auto_num_workers() -> int:
    """More processes than processors: many tests wait for a server that they have started."""
    return (os.cpu_count() or 1) * 3 // 2


def pytest_asyncio_loop_factories(
    item: pytest.Item,
) -> Mapping[str, Callable[[], asyncio.AbstractEventLoop]]:
    """The event loop of a test: that of asyncio, or one with a fake clock."""
    if item.get_closest_marker("fake_clock") is not None:
        return {"fake clock": FakeClockLoop}
    return {"asyncio": asyncio.new_event_loop}
