"""Entry of `extenders` as kube-scheduler reads it, however wrong the written one is."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

from cli.doctor.generator import VERBS
from grammar.values.errors import EvaluationError
from grammar.values.time import SECOND, Duration

_DATA = ("caData", "certData", "keyData")
_FILES = ("caFile", "certFile", "keyFile")
_DEFAULT_PORTS = {"http": 80, "https": 443}


@dataclass(frozen=True, slots=True)
class ExtenderUrl:
    """The parts of a `urlPrefix`, all empty if it is not a URL. The scheme is in lower case.

    `extra` is its query or fragment, with the sign before it.
    """

    scheme: str = ""
    host: str = ""
    port: int = 0
    path: str = ""
    has_port: bool = False
    extra: str = ""

    @classmethod
    def of(cls, text: str) -> ExtenderUrl:
        try:
            parts = urlsplit(text)
            port = parts.port or _DEFAULT_PORTS.get(parts.scheme, 0)
        except ValueError:
            return cls()
        has_port, extra = (
            parts.port is not None,
            text[len(text.partition("?")[0].partition("#")[0]) :],
        )
        if any(character.isspace() for character in text):
            return cls()
        path = parts.path.rstrip("/")
        return cls(parts.scheme, parts.hostname or "", port, path, has_port, extra)

    @property
    def local(self) -> bool:
        """Whether the host is kube-scheduler's own machine."""
        return self.host in ("localhost", "::1") or self.host.startswith("127.")


@dataclass(frozen=True, slots=True)
class TlsConfig:
    """The `tlsConfig`: which parts are given, and the inline `data` and `files` by field name."""

    given: bool
    insecure: bool
    ca: bool
    certificate: bool
    key: bool
    data: Mapping[str, str]
    files: Mapping[str, str]
    server_name: str = ""


@dataclass(frozen=True, slots=True)
class Managed:
    """One of the `managedResources`."""

    name: str
    ignored: bool


@dataclass(frozen=True, slots=True)
class ExtenderEntry:
    """One entry. Missing values and values of a wrong type are zero: `wrong-type` reports them.

    `timeout` is in seconds; None if it is not set, which means 5 seconds to kube-scheduler.
    """

    place: str
    url: str
    verbs: Mapping[str, str]  # keys: VERBS
    weight: int
    https: bool
    tls: TlsConfig
    timeout: float | None
    node_cache_capable: bool
    managed: tuple[Managed, ...]
    ignorable: bool
    legacy: bool

    def at(self, name: str) -> str:
        return f"{self.place}.{name}"

    @property
    def only_binds(self) -> bool:
        """Whether bind is its only verb: kube-scheduler calls it beside its scheduling cycles."""
        return [name for name, path in self.verbs.items() if path] == ["bind"]

    def calls(self, other: ExtenderEntry) -> bool:
        """Whether both have the same URL: two entries of one extender."""
        return self.url.rstrip("/") == other.url.rstrip("/")

    @property
    def prefix(self) -> ExtenderUrl:
        return ExtenderUrl.of(self.url)

    @property
    def https_name(self) -> str:
        return "enableHttps" if self.legacy else "enableHTTPS"


def entry(value: Any, place: str, *, legacy: bool) -> ExtenderEntry:
    """The entry of a document's value. Field names of a Policy are case-insensitive."""
    given = _Given(value, folded=legacy)
    tls = _Given(given.any("tlsConfig"), folded=legacy)
    resources = given.any("managedResources")
    items = [_Given(i, folded=legacy) for i in resources] if isinstance(resources, list) else []
    return ExtenderEntry(
        place=place,
        url=given.text("urlPrefix"),
        verbs={verb: given.text(f"{verb}Verb") for verb in VERBS},
        weight=given.number("weight"),
        https=given.flag("enableHTTPS") or given.flag("enableHttps"),
        tls=TlsConfig(
            given=bool(given.any("tlsConfig")),
            insecure=tls.flag("insecure"),
            ca=bool(tls.text("caFile") or tls.text("caData")),
            certificate=bool(tls.text("certFile") or tls.text("certData")),
            key=bool(tls.text("keyFile") or tls.text("keyData")),
            data={name: text for name in _DATA if (text := tls.text(name))},
            files={name: text for name in _FILES if (text := tls.text(name))},
            server_name=tls.text("serverName"),
        ),
        timeout=given.seconds("httpTimeout"),
        node_cache_capable=given.flag("nodeCacheCapable"),
        managed=tuple(Managed(i.text("name"), i.flag("ignoredByScheduler")) for i in items),
        ignorable=given.flag("ignorable"),
        legacy=legacy,
    )


class _Given:
    """The fields of a mapping, each read as the type that it should have."""

    def __init__(self, value: Any, *, folded: bool) -> None:
        fields: dict[str, Any] = value if isinstance(value, dict) else {}
        self._folded = folded
        self._fields = {self._key(name): field for name, field in fields.items()}

    def any(self, name: str) -> Any:
        return self._fields.get(self._key(name))

    def text(self, name: str) -> str:
        found = self.any(name)
        return found if isinstance(found, str) else ""

    def flag(self, name: str) -> bool:
        return self.any(name) is True

    def number(self, name: str) -> int:
        found = self.any(name)
        whole = isinstance(found, int) or (isinstance(found, float) and found.is_integer())
        return int(found) if whole else 0

    def seconds(self, name: str) -> float | None:
        """A duration; None for 0, which kube-scheduler treats as not set."""
        found = self.any(name)
        if isinstance(found, int | float):
            return found / SECOND or None
        try:
            return Duration.parse(found).nanos / SECOND or None
        except (EvaluationError, TypeError):
            return None

    def _key(self, name: str) -> str:
        return name.lower() if self._folded else name
