"""Settings of the server: addresses, timeouts, limits and TLS files."""

from __future__ import annotations

import resource
import socket
from dataclasses import dataclass
from ipaddress import ip_address
from pathlib import Path

from engine.fairness import MOST_HELD

MEBIBYTE = 1024 * 1024
DEFAULT_LISTEN = "127.0.0.1:12345"
# kube-scheduler keeps an idle connection for 90 seconds. A server that closes it earlier can do so
# just as the next POST is sent, and Go does not repeat a POST (C2).
KEEP_ALIVE_SECONDS = 120.0
# The share of `httpTimeout` for reading and deciding; the rest is for sending the answer.
DECISION_SHARE = 0.8
# The share for reading the body; a slower body leaves too little time for the decision.
_BODY_SHARE = 0.4


# The files that a process opens for others than its clients: modules, certificates, policies, pipes
# to processes, the view, and connections to the API server.
_OTHER_FILES = 128
# More is never needed, and each costs memory of the kernel.
_MOST_FILES = 65_536


class SettingsError(ValueError):
    """A setting that is not valid; the text is one sentence for the user."""


@dataclass(frozen=True, slots=True)
class TlsFiles:
    """PEM files: the server's certificate with its chain, its key, and the CA of the clients."""

    certificate: Path
    key: Path
    # If set, verbs require a client certificate of this CA.
    client_ca: Path | None = None
    # If not empty, the certificate's common name or an alternative name must be one of these.
    client_names: frozenset[str] = frozenset()
    # Where the pair is from, if not from the file of the certificate.
    origin: str = ""

    @property
    def shown(self) -> str:
        """The certificate in messages and metrics."""
        return self.origin or str(self.certificate)

    @property
    def paths(self) -> tuple[Path, ...]:
        pair = (self.certificate, self.key)
        return pair if self.client_ca is None else (*pair, self.client_ca)


@dataclass(frozen=True, slots=True)
class SelfSigned:
    """A self-signed certificate: the namespace and name of its Secret, and its names.

    `webhooks` are the names of webhook configurations that rely on it.
    """

    secret: tuple[str, str]
    names: tuple[str, ...]
    webhooks: tuple[str, ...] = ()

    @property
    def shown(self) -> str:
        """The Secret in messages and metrics."""
        return f"Secret {'/'.join(self.secret)}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """Settings in seconds and bytes. Raises SettingsError for values that do not go together.

    The flags have checked each value alone.
    """

    host: str = "127.0.0.1"
    port: int = 12345
    # The extender's `httpTimeout` in kube-scheduler's configuration; 5 seconds is its default.
    http_timeout: float = 5.0
    body_limit: int = 64 * MEBIBYTE
    # The most bytes of all bodies and unsent answers together; None is four times `body_limit`.
    body_budget: int | None = None
    # Whether rejections that an eviction could resolve go to `FailedNodes`. kube-scheduler up to
    # 1.36 cannot use them, and asks about the pod over and over (C48).
    resolvable_rejections: bool = False
    # The most calls of verbs at the same time; more are refused.
    max_in_flight: int = 100
    # Whether the server binds pods, so that kube-scheduler has a connection for each held call.
    bind: bool = False
    # The most open connections; None is four times `max_in_flight`, and twice the calls that may be
    # held. kube-scheduler opens one for each call that it makes at the same time.
    max_connections: int | None = None
    # Whether all clients have one address, so that none keeps others out by having it.
    one_address: bool = False
    # Seconds of serving after SIGTERM. The default is CoreDNS's.
    lameduck: float = 5.0
    # Host and port of the separate health server; None for none.
    health_listen: tuple[str, int] | None = None
    # Host and port of webhooks alone, which then have the TLS files; None for the main address.
    webhook_listen: tuple[str, int] | None = None
    # Host and port of the view that users of the cluster share, over HTTPS; None for none.
    view_listen: tuple[str, int] | None = None
    # None means plain HTTP.
    tls: TlsFiles | None = None

    def __post_init__(self) -> None:
        if not 0 <= self.port <= 65535:
            raise SettingsError(f"`{self.port}` is not a port")
        if self.webhook_listen is not None and self.tls is None:
            raise SettingsError("--webhook-listen has no effect without a certificate")
        if self.webhook_listen is not None and self.has_client_ca:
            raise SettingsError("--client-ca has no effect with --webhook-listen")
        if self.view_listen is not None and self.tls is None:
            raise SettingsError("--view-listen has no effect without a certificate")
        if self.bytes_of_bodies < self.body_limit:
            text = f"the body budget `{self.body_budget}` must not be less than the body limit"
            raise SettingsError(text)

    @property
    def bytes_of_bodies(self) -> int:
        return 4 * self.body_limit if self.body_budget is None else self.body_budget

    @property
    def connections(self) -> int:
        """The connections that are asked for, as far as the process may open so many files."""
        room = max(1, (open_files() - _OTHER_FILES) // self._shares)
        return min(self.wanted_connections, room)

    @property
    def spare_files(self) -> int:
        """The open files that no connection takes."""
        return max(0, open_files() - _OTHER_FILES - self._shares * self.connections)

    @property
    def _shares(self) -> int:
        """How many times there are so many connections: clients with a certificate have theirs."""
        others = (self.health_listen, self.webhook_listen, self.view_listen)
        return 1 + self.has_client_ca + sum(each is not None for each in others)

    @property
    def has_client_ca(self) -> bool:
        return self.tls is not None and self.tls.client_ca is not None

    @property
    def wanted_connections(self) -> int:
        if self.max_connections is not None:
            return self.max_connections
        return 4 * self.max_in_flight + (2 * MOST_HELD if self.bind else 0)

    @property
    def decision_seconds(self) -> float:
        """Seconds from the arrival of a request to the deadline of its decision."""
        return self.http_timeout * DECISION_SHARE

    @property
    def body_seconds(self) -> float:
        """Seconds from the arrival of a request to the last byte of its body."""
        return self.http_timeout * _BODY_SHARE


def open_files() -> int:
    """The most files that this process may open, once it has raised its limit."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY:
        return _MOST_FILES
    return max(soft, _MOST_FILES if hard == resource.RLIM_INFINITY else min(hard, _MOST_FILES))


def raise_open_files() -> None:
    """Lets this process open as many files as it may."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != resource.RLIM_INFINITY:
        resource.setrlimit(resource.RLIMIT_NOFILE, (open_files(), hard))


def too_few_files(settings: Settings) -> str:
    """A warning if the connections that are asked for could take more files than there are."""
    if settings.connections == settings.wanted_connections:
        return ""
    return (
        f"the process may open {open_files()} files, which is enough for {settings.connections}"
        f" connections instead of {settings.wanted_connections}: raise it with ulimit -n"
    )


def parse_address(text: str) -> tuple[str, int]:
    """Host and port of `127.0.0.1:12345`, `[::1]:12345`, or `:12345` for every interface.

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


def exposure(settings: Settings) -> str:
    """The warning about a server that answers whoever reaches it; empty if nobody else can."""
    tls = settings.tls if settings.webhook_listen is None else None
    if settings.has_client_ca or is_loopback(settings.host):
        return ""
    where = f"{settings.host or 'every interface'}, port {settings.port},"
    if tls is None:
        return (
            f"Placet answers on {where} without TLS and without client certificates: whoever "
            "reaches the port can send requests; set --tls-cert, --tls-key and --client-ca, or "
            f"listen on the loopback interface with --listen 127.0.0.1:{settings.port}"
        )
    return (
        f"Placet answers on {where} without client certificates: whoever reaches the port can send "
        "requests; set --client-ca, and --client-name for kube-scheduler alone"
    )


def is_loopback(host: str) -> bool:
    """Whether all addresses of a host are loopback; one that has no address is nobody's."""
    if not host:
        return False
    try:
        found = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)
    except OSError:
        return True
    return all(ip_address(str(address[0]).partition("%")[0]).is_loopback for *_, address in found)
