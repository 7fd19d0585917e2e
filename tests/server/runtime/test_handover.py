"""The thread that reads policies hands over one value; the event loop sees nothing in between."""

from __future__ import annotations

import asyncio
import json
import logging
import sys
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any

import pytest
from prometheus_client import CollectorRegistry

from engine.objects.request_pod import Exemptions
from grammar.meaning.schema import load_schema
from policies.resource import PolicyStatus
from server.capabilities.policy_statuses import Statuses
from server.metrics.metrics import Metrics
from server.runtime import policies as module_of_policies
from server.runtime.file_cluster import ClusterSource
from server.runtime.observers import LogObserver
from server.runtime.policies import PolicyReloader
from tests.support.builders import node, pod
from tests.support.engines import cache_of, programs_of
from tests.support.simulated import reloader_of

SCHEMA = load_schema()
LOG = logging.getLogger("placet.test")
CACHE = cache_of([node("n1")], [pod("web-1", "shop", on="n1", labels={"app": "web"})])


class Edited(ClusterSource):
    """A view whose policy objects a test edits."""

    def __init__(self) -> None:
        self.objects: Mapping[str, bytes] = {}

    def policies(self) -> Mapping[str, bytes]:
        return self.objects

    def edit(self, generation: int, *rules: str) -> None:
        """Replaces all objects; they are called p0, p1 and so on."""
        self.objects = {
            f"placementpolicies/shop/p{number}": stored(f"p{number}", generation, text)
            for number, text in enumerate(rules)
        }


def stored(name: str, generation: int, rules: str) -> bytes:
    metadata = {
        "name": name,
        "namespace": "shop",
        "uid": name,
        "generation": generation,
        "resourceVersion": "1",
    }
    return json.dumps(
        {
            "apiVersion": "placement-policy.scheduling.x-k8s.io/v1",
            "kind": "PlacementPolicy",
            "metadata": metadata,
            "spec": {"podSelector": {"matchLabels": {"app": "web"}}, "rules": rules},
        }
    ).encode()


GOOD = 'filter "f" { require node.ready }'
OTHER = 'filter "f" { require node.name != "n1" }'
BROKEN = 'filter "f" { require node.redy }'


@contextmanager
def between_calls(look: object) -> Iterator[list[object]]:
    """What `look` returns at each call inside the reading of policies, in the thread that reads."""
    assert callable(look)
    seen: list[object] = []
    file = str(Path(module_of_policies.__file__))

    def step(frame: FrameType, event: str, _: object) -> None:
        caller = frame.f_back
        if event == "call" and caller is not None and caller.f_code.co_filename == file:
            sys.setprofile(None)
            seen.append(look())
            sys.setprofile(step)

    threading.setprofile(step)
    try:
        yield seen
    finally:
        threading.setprofile(None)


@pytest.fixture
def view() -> Edited:
    return Edited()


def stopped() -> float:
    """A clock by which checks take no time, so that none waits for its turn."""
    return 0.0


@pytest.fixture
def reloader(view: Edited) -> PolicyReloader:
    view.edit(1, GOOD, OTHER)
    observer = LogObserver(LOG, Metrics(CollectorRegistry(), "0"))
    return reloader_of([], lambda _: view, SCHEMA, observer, LOG, clock=stopped)


@pytest.mark.parametrize(
    "edit", [(GOOD, GOOD), (OTHER, GOOD), (BROKEN, BROKEN), (GOOD,), (), (GOOD, OTHER, GOOD)]
)
def test_reports_during_a_reload_are_those_before_it(
    reloader: PolicyReloader, view: Edited, edit: tuple[str, ...]
) -> None:
    """At every step of the thread; before, one of them was a KeyError."""
    portion = reloader.engine.portion
    statuses, first = Statuses(CACHE, portion), view.objects

    def reports() -> list[tuple[str, PolicyStatus]]:
        found = statuses.reports(reloader.enforced, first, CACHE.snapshot())
        return [(report.path, report.wanted) for report in found]

    before, registry = reports(), reloader.engine.registry
    ready = [status.conditions[0].reason for _, status in before]
    assert ready == ["InForce", "InForce"]
    view.edit(2, *edit)
    with between_calls(lambda: (reports(), reloader.engine.registry)) as seen:
        asyncio.run(reloader.catch_up())
    assert len(seen) > 10
    assert all(each == (before, registry) for each in seen)
    assert reloader.engine.registry is not registry
    assert reloader.enforced.registry is reloader.engine.registry
    assert len(reloader.enforced.objects) == len(edit)


def test_a_policy_of_an_exempt_namespace_is_logged_once(
    view: Edited, caplog: pytest.LogCaptureFixture
) -> None:
    """And not again when another policy is edited."""
    view.edit(1, GOOD, OTHER)
    observer = LogObserver(LOG, Metrics(CollectorRegistry(), "0"))
    exempt = Exemptions(frozenset({"shop"}))
    reloader = reloader_of([], lambda _: view, SCHEMA, observer, LOG, exempt, clock=stopped)
    assert sorted(line for line in caplog.messages if "concerns no pod" in line) == [
        f"policy shop/p{n} concerns no pod: namespace `shop` is exempt" for n in range(2)
    ]
    caplog.clear()
    view.edit(2, GOOD, GOOD, GOOD)
    asyncio.run(reloader.catch_up())
    assert [line for line in caplog.messages if "concerns no pod" in line] == [
        "policy shop/p2 concerns no pod: namespace `shop` is exempt"
    ]


GANG = 'gang "g" { of pods by peer.labels["job"] at least 2 }'
WAIT = 'bind "b" { wait until pod.annotations["ready"] == "true" for at most 9s }'
WORK = {
    GANG: "holds gangs",
    WAIT: "waits for conditions",
    f"{WAIT} {GANG}": "holds gangs and waits for conditions",
}
TO_BIND = "serve with `--bind`, and set the extender's `bindVerb`"


@pytest.mark.parametrize(("rules", "work"), WORK.items(), ids=WORK.values())
@pytest.mark.parametrize("binds", [True, False], ids=["binds", "without bind"])
def test_a_policy_with_work_at_bind_is_told_where_nothing_is_bound(
    view: Edited, caplog: pytest.LogCaptureFixture, rules: str, work: str, binds: bool
) -> None:
    """In the log once, also after an edit of another policy; and in the status of that policy."""
    view.edit(1, rules, GOOD)
    observer = LogObserver(LOG, Metrics(CollectorRegistry(), "0"))
    reloader = reloader_of(
        [], lambda _: view, SCHEMA, observer, LOG, clock=lambda: 0.0, binds=binds
    )
    told = [] if binds else [f"policy shop/p0 {work} at bind: {TO_BIND}"]
    assert [line for line in caplog.messages if "at bind" in line] == told
    caplog.clear()
    view.edit(2, rules, OTHER)
    asyncio.run(reloader.catch_up())
    assert [line for line in caplog.messages if "at bind" in line] == []
    statuses = Statuses(CACHE, reloader.engine.portion, binds=binds)
    found = statuses.reports(reloader.enforced, view.objects, CACHE.snapshot())
    (mine, other) = ({each.type: each for each in r.wanted.conditions} for r in found)
    assert "NoBinder" not in other
    assert (mine["NoBinder"].status, mine["NoBinder"].message) == (
        ("False", f"it {work} at bind, which is served")
        if binds
        else ("True", f"it {work} at bind: {TO_BIND}")
    )
    ready = mine["Ready"]
    assert (ready.status, ready.reason, ready.message) == (
        ("True", "InForce", "it is in force as it is written")
        if binds
        else ("False", "NoBinder", f"it {work} at bind: {TO_BIND}")
    )
    view.edit(3, GOOD, GOOD)
    asyncio.run(reloader.catch_up())
    view.edit(4, rules, GOOD)
    asyncio.run(reloader.catch_up())
    assert [line for line in caplog.messages if "at bind" in line] == told


def test_work_at_bind_is_that_of_enforced_policies() -> None:
    cards = 'cards "c" { on node 2 of {"milli": 1000} take {"milli": 500} }'
    rules = (cards, f"mode audit {GANG}", GOOD)
    programs = programs_of(
        " ".join(f"policy p{n} {{ for pods where true {each} }}" for n, each in enumerate(rules))
    )
    assert [each.binding_work for each in programs] == ["gives cards", "", ""]


def test_a_reload_that_fails_is_due_again(reloader: PolicyReloader, view: Edited) -> None:
    """And leaves what is enforced as it was: the failure is that of the task."""
    before = reloader.enforced
    view.edit(2, GOOD)
    good = view.objects
    unreadable: dict[str, Any] = {**good, "placementpolicies/shop/p1": None}
    view.objects = unreadable
    with pytest.raises(TypeError):
        asyncio.run(reloader.catch_up())
    assert reloader.enforced is before
    with pytest.raises(TypeError):
        asyncio.run(reloader.catch_up())
    view.objects = good
    asyncio.run(reloader.catch_up())
    assert list(reloader.enforced.objects) == ["placementpolicies/shop/p0"]
