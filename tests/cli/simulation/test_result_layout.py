"""The progress bar of a long run on a terminal."""

import io

import pytest

from cli.simulation.result_layout import progress


class Terminal(io.StringIO):
    """A stream that is a terminal."""

    def isatty(self) -> bool:
        return True


def shown(stream: io.StringIO, seconds_a_pod: float) -> str:
    ticks = iter(seconds_a_pod * i for i in range(1000))
    with progress(stream, "old.policy", 64, clock=lambda: next(ticks)) as update:
        for done in range(1, 65):
            update(done)
    return stream.getvalue()


@pytest.fixture(autouse=True)
def terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm")


def test_a_long_run_shows_how_far_it_is() -> None:
    text = shown(Terminal(), 1.0)
    assert "old.policy" in text
    assert "64/64" in text


def test_a_short_run_shows_nothing() -> None:
    assert shown(Terminal(), 0.0).strip() == ""


def test_a_pipe_gets_nothing() -> None:
    assert shown(io.StringIO(), 1.0) == ""


def test_a_dumb_terminal_gets_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "dumb")
    assert shown(Terminal(), 1.0) == ""
