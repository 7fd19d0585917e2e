"""A PolicyReloader over a view, built as `server.runtime.server_runtime` builds it."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from logging import Logger
from pathlib import Path

from engine.cache.informers import Needs
from engine.engine import Engine
from engine.objects.codec import ObjectCodec
from engine.objects.request_pod import NO_EXEMPTIONS, Exemptions
from grammar.meaning.schema import Schema
from server.runtime.file_cluster import ClusterSource
from server.runtime.observers import LogObserver
from server.runtime.policies import PolicyReader
from server.runtime.reloader import PolicyReloader
from tests.support.served import PROCESSES


def reloader_of(
    paths: Sequence[Path],
    open_view: Callable[[Needs], ClusterSource],
    schema: Schema,
    observer: LogObserver,
    log: Logger,
    exemptions: Exemptions = NO_EXEMPTIONS,
    clock: Callable[[], float] = time.monotonic,
    *,
    binds: bool = True,
) -> PolicyReloader:
    """The reloader of these policy files; `open_view` opens the view for what they read."""
    policies = PolicyReader(paths, schema, log, PROCESSES[0], clock)
    view = open_view(policies.read({}).needs)
    enforced = policies.read(view.policies())
    engine = Engine(enforced.registry, view, ObjectCodec(schema), observer, exemptions=exemptions)
    return PolicyReloader(policies, view, engine, log, binds=binds)
