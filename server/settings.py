"""What can be set about the server: where it listens, how long and how large a request may be."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

MEBIBYTE = 1024 * 1024
# kube-scheduler keeps an idle connection for 90 seconds. A server that gives up earlier can close
# it just as the next POST is sent, and Go does not repeat a POST (C2).
KEEP_ALIVE_SECONDS = 120.0
# What is left of `httpTimeout` pays for the way back.
DECISION_SHARE = 0.8
# A body that takes longer leaves too little of the deadline for the decision.
_BODY_SHARE = 0.4


class SettingsError(ValueError):
    """A setting has no meaning; the text is one sentence for the user."""


@dataclass(frozen=True, slots=True)
class TlsFiles:
    """PEM files: a certificate with its chain, its key, and whom clients' certificates are of."""

    certificate: Path
    key: Path
    # With it, verbs are for those who show a certificate of this CA.
    client_ca: Path | None = None
    # And whose common name or one of whose alternative names is one of these, if there are any.
    client_names: frozenset[str] = frozenset()

    @property
    def paths(self) -> tuple[Path, ...]:
        """All of them."""
        mine = (self.certificate, self.key)
        return mine if self.client_ca is None else (*mine, self.client_ca)


@dataclass(frozen=True, slots=True)
class Settings:
    """Seconds and bytes. Raises SettingsError for values with which no request could be served."""

    host: str = "127.0.0.1"
    port: int = 12345
    # The extender's `httpTimeout` in kube-scheduler's configuration, which is 5 seconds unset.
    http_timeout: float = 5.0
    body_limit: int = 64 * MEBIBYTE
    # Whether rejections that an eviction may cure go to `FailedNodes`. kube-scheduler up to 1.36
    # cannot use them, and asks about the pod over and over (C48).
    resolvable_rejections: bool = False
    # Calls of verbs at once; more of them are refused.
    max_in_flight: int = 100
    # Between SIGTERM and the last connection that is accepted. CoreDNS takes as long.
    lameduck: float = 5.0
    # Where health and metrics are served by a thread of their own, if anywhere.
    health: tuple[str, int] | None = None
    # Between two warnings about the same misuse.
    warning_interval: float = 600.0
    # None is plain HTTP.
    tls: TlsFiles | None = None

    def __post_init__(self) -> None:
        if not 0 <= self.port <= 65535:
            raise SettingsError(f"`{self.port}` is not a port")
        if not self.http_timeout > 0:
            raise SettingsError(f"`{self.http_timeout}` is no time to answer in")
        if self.body_limit <= 0:
            raise SettingsError(f"`{self.body_limit}` bytes hold no request")
        if not self.lameduck >= 0:
            raise SettingsError(f"`{self.lameduck}` seconds are over before they begin")
        if self.max_in_flight <= 0:
            raise SettingsError(f"`{self.max_in_flight}` calls are none")

    @property
    def decision_seconds(self) -> float:
        """From the arrival of a request to the deadline of its decision."""
        return self.http_timeout * DECISION_SHARE

    @property
    def body_seconds(self) -> float:
        """From the arrival of a request to the last byte of its body."""
        return self.http_timeout * _BODY_SHARE


def parse_address(text: str) -> tuple[str, int]:
    """Host and port of `127.0.0.1:12345`, `[::1]:12345` or `:12345`, which is every interface.

    Raises SettingsError.
    """
    host, colon, port = text.rpartition(":")
    if not colon or not port.isdecimal() or not port.isascii():
        raise SettingsError(f"`{text}` is not an address and a port")
    if host.startswith("[") and host.endswith("]"):
        host = host[1:-1]
    elif ":" in host:
        raise SettingsError(f"`{text}` has an IPv6 address without brackets")
    return host, int(port)
