"""Settings: defaults, values that are not valid, and addresses."""

from __future__ import annotations

import pytest

from server.settings import KEEP_ALIVE_SECONDS, Settings, SettingsError, parse_address


def test_defaults_match_the_usual_configuration_of_extenders() -> None:
    settings = Settings()
    assert (settings.host, settings.port) == ("127.0.0.1", 12345)
    assert settings.body_limit == 64 * 1024 * 1024
    assert not settings.resolvable_rejections


def test_deadlines_are_shares_of_the_timeout() -> None:
    """C2: kube-scheduler waits 5 seconds by default."""
    assert Settings().decision_seconds == pytest.approx(4.0)
    assert Settings(http_timeout=30.0).decision_seconds == pytest.approx(24.0)
    assert Settings().body_seconds < Settings().decision_seconds


def test_idle_connections_outlive_those_of_kube_scheduler() -> None:
    """C2: it keeps them for 90 seconds."""
    assert KEEP_ALIVE_SECONDS >= 120


@pytest.mark.parametrize(
    "wrong",
    [
        {"port": -1},
        {"port": 65536},
        {"body_limit": 1000, "body_budget": 999},
    ],
    ids=str,
)
def test_values_that_do_not_go_together_are_refused(wrong: dict[str, float]) -> None:
    with pytest.raises(SettingsError):
        Settings(**wrong)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("127.0.0.1:12345", ("127.0.0.1", 12345)),
        ("localhost:80", ("localhost", 80)),
        ("[::1]:8443", ("::1", 8443)),
        (":12345", ("", 12345)),
        ("0.0.0.0:0", ("0.0.0.0", 0)),  # noqa: S104
    ],
)
def test_addresses(text: str, address: tuple[str, int]) -> None:
    assert parse_address(text) == address


@pytest.mark.parametrize("text", ["", "12345", "host:", "host:http", "::1:80", "host:-1", "host:²"])
def test_texts_that_are_not_addresses(text: str) -> None:
    with pytest.raises(SettingsError, match="`"):
        parse_address(text)
