"""Context of the checks: one configuration, its extender that is Placet, and Placet's own flags."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from cli.command import CommandError
from cli.doctor.configuration_text import SchedulerConfiguration
from cli.doctor.extender import ExtenderEntry
from cli.doctor.gate_checks import Marking
from cli.doctor.generator import OUR_LEASE
from cli.doctor.kube_versions import KNOWN_MINOR
from cli.doctor.requirements import SchedulerRequirements
from engine.counting.in_flight_pods import BIND_TIMEOUT_SECONDS
from grammar.messages.diagnostics import Severity, nearest

OUR_PATH = "/api/scheduler"
OUR_PORT = 12345


@dataclass(frozen=True, slots=True)
class ConfigurationContext:
    """One configuration to check. The timeouts of `placet serve` are in seconds.

    `ours` is the extender taken for Placet, `because` the reason; None and empty if it is unclear.
    Of several entries it is the one with filter.
    `requirements` is None if the policies are unknown. `binds` says whether `placet serve` has
    `--bind`, `lease` is the namespace and name of its `--lease`, None without one, and `gate` its
    `--gate`. `marking` is None if the cluster is unknown. `plugins` are those of others that this
    kube-scheduler is built with. `minor` is its minor version.
    """

    configuration: SchedulerConfiguration
    ours: ExtenderEntry | None
    because: str
    http_timeout: float
    requirements: SchedulerRequirements | None = None
    binds: bool = False
    lease: tuple[str, str] | None = OUR_LEASE
    bind_timeout: float = BIND_TIMEOUT_SECONDS
    gate: bool = False
    marking: Marking | None = None
    plugins: frozenset[str] = frozenset()
    minor: int = KNOWN_MINOR

    @property
    def entries(self) -> tuple[ExtenderEntry, ...]:
        """The entries that are Placet: `ours` and others with its URL, as that of bind alone."""
        ours, extenders = self.ours, self.configuration.extenders
        return () if ours is None else tuple(each for each in extenders if each.calls(ours))

    def entry_of(self, verb: str) -> ExtenderEntry | None:
        """The entry with which kube-scheduler calls this verb of Placet; None if it does not."""
        return next((each for each in self.entries if each.verbs[verb]), None)

    @property
    def worst(self) -> Severity:
        """The severity of pods that pass without policies: strict bounds must always hold."""
        return "error" if self.requirements is not None and self.requirements.strict else "warning"


def choose(
    extenders: Sequence[ExtenderEntry], url: str | None = None, *, by_url: bool = False
) -> tuple[ExtenderEntry | None, str]:
    """The extender that is Placet, and the reason: it has the URL, or is the most likely one.

    With `by_url` the only extender is not Placet unless its URL says so. None if it is unclear.
    Raises CommandError if no extender has the URL.
    """
    if url is not None:
        for extender in extenders:
            if extender.url.rstrip("/") == url.rstrip("/"):
                return _main(extender, extenders), "it has the URL of `--url`"
        close = nearest(url, [e.url for e in extenders])
        hint = f"a similar one exists: `{close}`" if close else "give the `urlPrefix` of one"
        raise CommandError(f"no extender has the URL `{url}`", hint)
    if extenders and not by_url and all(each.calls(extenders[0]) for each in extenders):
        because = "it is the only one" if len(extenders) == 1 else "there is no other URL"
        return _main(extenders[0], extenders), because
    by_path = [e for e in extenders if e.prefix.path.endswith(OUR_PATH)]
    by_port = [e for e in extenders if e.prefix.port == OUR_PORT]
    if by_url:
        by_port = [e for e in by_port if not e.prefix.path]
    both = [e for e in by_path if e.prefix.port == OUR_PORT]
    for found, because in (
        (both, f"its URL has the port {OUR_PORT} and ends in `{OUR_PATH}`"),
        (by_path, f"its URL ends in `{OUR_PATH}`"),
        (by_port, f"its URL has the port {OUR_PORT}"),
    ):
        if len({extender.url.rstrip("/") for extender in found}) == 1:
            return _main(found[0], extenders), because
    return None, ""


def _main(found: ExtenderEntry, extenders: Sequence[ExtenderEntry]) -> ExtenderEntry:
    """Of the entries with the URL of this one, that with filter."""
    return next((each for each in extenders if each.calls(found) and each.verbs["filter"]), found)
