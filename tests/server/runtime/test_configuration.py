"""Changes of the configuration file of a server: what is applied, what waits, what is said."""

from __future__ import annotations

import logging
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from prometheus_client import CollectorRegistry

from engine.objects.request_pod import NO_EXEMPTIONS
from server.metrics.metrics import Metrics
from server.runtime.reloader import (
    ConfigurationFile,
    ConfigurationReloader,
    ServerConfiguration,
    UnusableConfigurationError,
)
from server.settings import Settings

LOG = logging.getLogger("placet.test")
START = {"httpTimeout": "5s", "listen": ":1", "lease": "a/b"}


@dataclass
class Followed:
    """A reloader of a file that says what a test likes, and what it has applied."""

    path: Path
    registry: CollectorRegistry = field(default_factory=CollectorRegistry)
    applied: list[ServerConfiguration] = field(default_factory=list)
    found: dict[str, Any] | str = ""
    edits: int = 0

    def __post_init__(self) -> None:
        self.path.write_text("")
        file = ConfigurationFile(self.path, self.read, {"httpTimeout"})
        metrics = Metrics(self.registry, "1.2.3")
        self.reloader = ConfigurationReloader(file, START, self.applied.append, LOG, metrics)

    def read(self) -> ServerConfiguration:
        if isinstance(self.found, str):
            raise UnusableConfigurationError(self.found)
        return ServerConfiguration(
            START | self.found, Settings(), NO_EXEMPTIONS, "text", is_verbose=False
        )

    async def edited(self, found: dict[str, Any] | str) -> None:
        """The file says this now; a change is read when a second look finds it unchanged."""
        self.found, self.edits = found, self.edits + 1
        self.path.write_text("x" * self.edits)
        for _ in range(2):
            await self.reloader.look()

    @property
    def is_stale(self) -> float | None:
        return self.registry.get_sample_value("placet_configuration_stale")


@pytest.fixture
def followed(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> Followed:
    caplog.set_level(logging.INFO)
    return Followed(tmp_path / "placet.yaml")


async def test_an_unchanged_file_is_not_read(followed: Followed) -> None:
    for _ in range(3):
        await followed.reloader.look()
    assert (followed.applied, followed.is_stale) == ([], 0)


async def test_what_can_be_applied_is(followed: Followed, caplog: pytest.LogCaptureFixture) -> None:
    await followed.edited({"httpTimeout": "1s"})
    assert len(followed.applied) == 1
    assert followed.reloader.document == START | {"httpTimeout": "1s"}
    assert caplog.messages == ["configuration: applied `httpTimeout`"]
    assert followed.is_stale == 0


async def test_the_rest_waits_for_a_restart_and_is_named_in_one_line(
    followed: Followed, caplog: pytest.LogCaptureFixture
) -> None:
    """And what is shown is what is in force."""
    await followed.edited({"httpTimeout": "1s", "listen": ":2", "lease": "c/d", "more": True})
    assert caplog.messages == [
        "configuration: applied `httpTimeout`",
        (
            "configuration: `lease`, `listen` and `more` changed in "
            f"`{followed.path}`: restart Placet to apply that"
        ),
    ]
    assert followed.reloader.document == START | {"httpTimeout": "1s"}
    assert followed.is_stale == 1
    await followed.edited({"httpTimeout": "1s"})
    assert followed.is_stale == 0
    assert len(followed.applied) == 1


async def test_a_broken_file_changes_nothing_and_is_one_line(
    followed: Followed, caplog: pytest.LogCaptureFixture
) -> None:
    await followed.edited({"httpTimeout": "1s"})
    caplog.clear()
    await followed.edited("`httpTimeuot` is no field (placet.yaml:3)")
    await followed.reloader.look()
    assert caplog.messages == [
        "configuration: `httpTimeuot` is no field (placet.yaml:3); the one in force stays"
    ]
    assert followed.reloader.document == START | {"httpTimeout": "1s"}
    assert followed.is_stale == 1
    await followed.edited({})
    assert (len(followed.applied), followed.is_stale) == (2, 0)
