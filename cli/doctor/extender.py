"""Extender entries of a configuration, and which of them are Placet."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from urllib.parse import urlsplit

import msgspec

from cli.doctor.generator import VERBS
from cli.doctor.schema import ExtenderFields
from grammar.values.errors import EvaluationError
from grammar.values.named_formats import is_qualified
from grammar.values.time import SECOND, Duration

OUR_PATH = "/api/scheduler"
OUR_PORT = 12345
# kube-scheduler's timeout if none is set (C2).
DEFAULT_TIMEOUT = 5.0
_DEFAULT_PORTS = {"http": 80, "https": 443}
_DOMAIN = r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*"
_EXTENDED = re.compile(
    rf"(?!requests\.)(?=[^/]{{1,244}}/){_DOMAIN}/[A-Za-z0-9]([-\w.]*[A-Za-z0-9])?"
)


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
        if any(character.isspace() for character in text):
            return cls()
        extra = text[len(re.split(r"[?#]", text)[0]) :]
        path, has_port = parts.path.rstrip("/"), parts.port is not None
        return cls(parts.scheme, parts.hostname or "", port, path, has_port, extra)

    @property
    def local(self) -> bool:
        """Whether the host is kube-scheduler's own machine."""
        return self.host in ("localhost", "::1") or self.host.startswith("127.")


class ExtenderEntry(ExtenderFields, frozen=True, kw_only=True):
    """An entry of `extenders` as kube-scheduler reads it, at its place.

    Missing values and values of a wrong type are zero: `wrong-type` reports them. `legacy` says
    that a Policy has it.
    """

    place: str
    legacy: bool = False

    @classmethod
    def all_of(
        cls, extenders: Sequence[ExtenderFields], *, legacy: bool
    ) -> tuple[ExtenderEntry, ...]:
        return tuple(
            cls(**msgspec.structs.asdict(each), place=f"extenders[{index}]", legacy=legacy)
            for index, each in enumerate(extenders)
        )

    def at(self, name: str) -> str:
        return f"{self.place}.{name}"

    @property
    def verbs(self) -> Mapping[str, str]:
        """The path of each verb, empty if kube-scheduler does not call it."""
        return {name: getattr(self, f"{name}_verb") for name in VERBS}

    @property
    def only_binds(self) -> bool:
        """Whether bind is its only verb: kube-scheduler calls it beside its scheduling cycles."""
        return [name for name, path in self.verbs.items() if path] == ["bind"]

    @property
    def timeout(self) -> float | None:
        """The `httpTimeout` in seconds; None for 0, which kube-scheduler treats as not set."""
        try:
            return Duration.parse(self.http_timeout).nanos / SECOND or None
        except EvaluationError:
            return None

    @property
    def patience(self) -> float:
        """How long kube-scheduler waits for an answer, in seconds."""
        return DEFAULT_TIMEOUT if self.timeout is None else self.timeout

    @property
    def https_name(self) -> str:
        return "enableHttps" if self.legacy else "enableHTTPS"

    @property
    def prefix(self) -> ExtenderUrl:
        return ExtenderUrl.of(self.url_prefix)

    def has_url(self, url: str) -> bool:
        return self.url_prefix.rstrip("/") == url.rstrip("/")


def placets(
    extenders: Sequence[ExtenderEntry], url: str | None = None, *, by_url: bool = False
) -> tuple[tuple[ExtenderEntry, ...], str]:
    """The entries that are Placet, that with filter first, and why; none if it is unclear.

    All of them have one URL: the `url`, else the only one, else the one that looks most like
    Placet. With `by_url` the only one has to look like Placet, too.
    """

    def has_path(each: ExtenderEntry) -> bool:
        return each.prefix.path.endswith(OUR_PATH)

    def has_port(each: ExtenderEntry) -> bool:
        return each.prefix.port == OUR_PORT

    rules: tuple[tuple[str, Callable[[ExtenderEntry], bool]], ...] = (
        ("it has the URL of `--url`", lambda each: url is not None and each.has_url(url)),
        ("it is the only one", lambda _: not by_url),
        (
            f"its URL has the port {OUR_PORT} and ends in `{OUR_PATH}`",
            lambda each: has_port(each) and has_path(each),
        ),
        (f"its URL ends in `{OUR_PATH}`", has_path),
        (
            f"its URL has the port {OUR_PORT}",
            lambda each: has_port(each) and not each.prefix.path,
        ),
    )
    for because, is_placet in rules:
        found = [each for each in extenders if is_placet(each)]
        if found and all(each.has_url(found[0].url_prefix) for each in found):
            return tuple(sorted(found, key=lambda each: not each.filter_verb)), because
    return (), ""


def is_extended(name: str) -> bool:
    """Whether an extender can manage a resource of this name (C10)."""
    extended = _EXTENDED.fullmatch(name) is not None
    return extended and is_qualified(name) and "kubernetes.io/" not in name
