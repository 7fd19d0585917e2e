"""ConfigurationReloader: has a running server take up changes of its configuration file.

It belongs to one server. Some fields are applied as they change, the others at the next start. A
file that cannot be used changes nothing.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from logging import Logger
from pathlib import Path

from engine.objects.request_pod import Exemptions
from grammar.messages.catalogue import listed
from policies.loader import INTERVAL_SECONDS, Watcher
from server.metrics.metrics import Metrics
from server.settings import Settings

# The group of PlacetConfiguration.
GROUP = "placet.dev"


class UnusableConfigurationError(Exception):
    """The configuration cannot be used; the text is one sentence and its place."""


@dataclass(frozen=True, slots=True)
class ServerConfiguration:
    """A configuration as a running server can use it.

    `document` has every field with its value. The other attributes belong to a server that was
    started with the old values of the fields that need a restart.
    """

    document: Mapping[str, object]
    settings: Settings
    exemptions: Exemptions
    log_format: str
    is_verbose: bool


@dataclass(frozen=True, slots=True)
class ConfigurationFile:
    """A file that can be read again. `applied` are the fields that need no restart.

    `read` may be called in any thread; it raises UnusableConfigurationError.
    """

    path: Path
    read: Callable[[], ServerConfiguration]
    applied: Collection[str]


class ConfigurationReloader:
    """Looks for changes again and again. On one event loop; the file is read in a thread."""

    def __init__(
        self,
        file: ConfigurationFile,
        document: Mapping[str, object],
        apply: Callable[[ServerConfiguration], None],
        log: Logger,
        metrics: Metrics,
    ) -> None:
        """`document` is the configuration of the start."""
        self.document = document
        self._file = file
        self._apply = apply
        self._log = log
        self._metrics = metrics
        self._watcher = Watcher(lambda: [file.path])

    async def run(self) -> None:
        while True:
            await asyncio.sleep(INTERVAL_SECONDS)
            await self.look()

    async def look(self) -> None:
        """Looks once, and applies what can be applied."""
        if not self._watcher.changed():
            return
        try:
            found = await asyncio.to_thread(self._file.read)
        except UnusableConfigurationError as error:
            self._log.error("configuration: %s; the one in force stays", error)
            self._metrics.configuration_is_stale(stale=True)
            return
        fields = {
            name
            for name in {*found.document, *self.document}
            if found.document.get(name) != self.document.get(name)
        }
        applied, waiting = fields & {*self._file.applied}, fields - {*self._file.applied}
        if applied:
            self._apply(found)
            self.document = {
                **{name: value for name, value in self.document.items() if name not in applied},
                **{name: value for name, value in found.document.items() if name in applied},
            }
            self._log.info("configuration: applied %s", _listed(applied))
        if waiting:
            text = "configuration: %s changed in `%s`: restart Placet to apply that"
            self._log.warning(text, _listed(waiting), self._file.path)
        self._metrics.configuration_is_stale(stale=bool(waiting))


def _listed(fields: Collection[str]) -> str:
    return listed((f"`{name}`" for name in sorted(fields)), "and")
