"""What a check looks at: a configuration, which of its extenders is Placet, and what that needs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from cli.exits import CommandError
from cli.scheduling.configuration import Configuration
from cli.scheduling.entry import Entry
from grammar.diagnostics import Severity, nearest

OUR_PATH = "/api/scheduler"
OUR_PORT = 12345


@dataclass(frozen=True, slots=True)
class Choice:
    """Which extender is taken for Placet and why; None if nothing tells."""

    index: int | None
    because: str = ""


@dataclass(frozen=True, slots=True)
class Demands:
    """The clauses of policies that need more than a `filterVerb`, each as `policy/clause`."""

    strict: tuple[str, ...] = ()
    at_bind: tuple[str, ...] = ()
    scores: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Case:
    """One configuration. `http_timeout` is that of `placet serve`, in seconds.

    `demands` is None where policies are not known.
    """

    configuration: Configuration
    choice: Choice
    http_timeout: float
    demands: Demands | None = None

    @property
    def ours(self) -> Entry | None:
        index = self.choice.index
        return None if index is None else self.configuration.extenders[index]

    @property
    def worst(self) -> Severity:
        """How bad it is that pods pass without policies: with strict ones, a promise is broken."""
        return "error" if self.demands is not None and self.demands.strict else "warning"


def choose(extenders: Sequence[Entry], url: str | None = None) -> Choice:
    """The extender that is Placet: the one with this URL, the only one, or the likeliest.

    Raises CommandError if none has the URL.
    """
    if url is not None:
        for index, extender in enumerate(extenders):
            if extender.url.rstrip("/") == url.rstrip("/"):
                return Choice(index, "it has the URL of `--url`")
        close = nearest(url, [e.url for e in extenders])
        hint = f"a similar one exists: `{close}`" if close else "name the `urlPrefix` of one"
        raise CommandError(f"no extender has the URL `{url}`", hint)
    if len(extenders) == 1:
        return Choice(0, "it is the only one")
    by_path = [i for i, e in enumerate(extenders) if e.prefix.path.endswith(OUR_PATH)]
    by_port = [i for i, e in enumerate(extenders) if e.prefix.port == OUR_PORT]
    both = [i for i in by_path if i in by_port]
    for found, because in (
        (both, f"its URL has the port {OUR_PORT} and ends in `{OUR_PATH}`"),
        (by_path, f"its URL ends in `{OUR_PATH}`"),
        (by_port, f"its URL has the port {OUR_PORT}"),
    ):
        if len({extenders[index].url for index in found}) == 1:
            return Choice(found[0], because)
    return Choice(None)
