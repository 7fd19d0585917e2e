"""Extender entries of a configuration, and which of them are Placet."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from urllib.parse import SplitResult, urlsplit

import msgspec

from cli.doctor.generator import VERBS
from cli.doctor.schema import ExtenderFields
from grammar.values.named_formats import is_qualified
from grammar.values.time import SECOND, Duration

OUR_PATH = "/api/scheduler"
OUR_PORT = 12345
# kube-scheduler's timeout if none is set (C2).
DEFAULT_TIMEOUT = 5.0
_DOMAIN = r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*"
_EXTENDED = re.compile(
    rf"(?!requests\.)(?=[^/]{{1,244}}/){_DOMAIN}/[A-Za-z0-9]([-\w.]*[A-Za-z0-9])?"
)


class ExtenderEntry(ExtenderFields, frozen=True, kw_only=True):
    """An entry of `extenders` as kube-scheduler reads it, at its place.

    Missing values and values of a wrong type are zero: `wrong-type` reports them.
    """

    place: str

    @classmethod
    def all_of(cls, extenders: Sequence[ExtenderFields]) -> tuple[ExtenderEntry, ...]:
        return tuple(
            cls(**msgspec.structs.asdict(each), place=f"extenders[{index}]")
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
        return Duration.parse(self.http_timeout or "0").nanos / SECOND or None

    @property
    def patience(self) -> float:
        """How long kube-scheduler waits for an answer, in seconds."""
        return DEFAULT_TIMEOUT if self.timeout is None else self.timeout

    @property
    def prefix(self) -> SplitResult:
        """The parts of its URL, all empty if it is none."""
        try:
            parts = urlsplit(self.url_prefix)
            _ = parts.port  # a wrong one is found when it is read
        except ValueError:
            return urlsplit("")
        return urlsplit("") if re.search(r"\s", self.url_prefix) else parts

    @property
    def host(self) -> str:
        return self.prefix.hostname or ""

    @property
    def port(self) -> int:
        return self.prefix.port or {"http": 80, "https": 443}.get(self.prefix.scheme, 0)

    @property
    def path(self) -> str:
        return self.prefix.path.rstrip("/")

    @property
    def is_local(self) -> bool:
        """Whether its host is kube-scheduler's own machine."""
        return self.host in ("localhost", "::1") or self.host.startswith("127.")

    def has_url(self, url: str) -> bool:
        return self.url_prefix.rstrip("/") == url.rstrip("/")


def placets(
    extenders: Sequence[ExtenderEntry], url: str | None = None, *, by_url: bool = False
) -> tuple[tuple[ExtenderEntry, ...], str]:
    """The entries that are Placet, that with filter first, and why; none if it is unclear.

    All of them have one URL: the `url`, else the only one, else the one that looks most like
    Placet. With `by_url` the only one has to look like Placet, too.
    """
    port, path = f"its URL has the port {OUR_PORT}", f"ends in `{OUR_PATH}`"
    rules: tuple[tuple[str, Callable[[ExtenderEntry], bool]], ...] = (
        ("it has the URL of `--url`", lambda e: url is not None and e.has_url(url)),
        ("it is the only one", lambda _: not by_url and len(extenders) == 1),
        ("there is no other URL", lambda _: not by_url),
        (f"{port} and {path}", lambda e: e.port == OUR_PORT and e.path.endswith(OUR_PATH)),
        (f"its URL {path}", lambda e: e.path.endswith(OUR_PATH)),
        (port, lambda e: e.port == OUR_PORT and not e.path),
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
