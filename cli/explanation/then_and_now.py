"""Then and now: the last decision of the running Placet beside what would be decided now.

A decision follows from four things: the policies, the nodes that were offered, what strict clauses
counted, and the time. `changes` says which of them are others now.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import suppress
from typing import Literal as OneOf

from cli.console import Part, table
from cli.explanation.decision_layout import passed
from cli.world import World
from engine.cache.cluster_copy import NamedPod
from engine.decision.journal import Journal
from engine.errors import EngineError
from engine.offline import offline_engine
from server.answers.view_answers import DecisionDetail, detail
from server.view.changes import changes

What = OneOf["policies", "nodes", "counts", "time"]
_HERE = "here"


def decision_now(world: World, pod: NamedPod) -> DecisionDetail:
    """What would be decided about a pod and every node of a world, in the form of the view."""
    journal = Journal(now=lambda: world.cluster.now)
    extender = offline_engine(world.policies.registry, world.cluster, world.codec, journal=journal)
    names = sorted(world.cluster.snapshot().table.rows)
    with suppress(EngineError):  # it is in the journal
        extender.filter(pod.body, names, None, math.inf)
    record = journal.find(pod.namespace, pod.name)
    assert record is not None, "the journal has just recorded it"
    return detail(_HERE, record, journal.generation)


# ---- layout


def then_and_now(then: DecisionDetail, now: DecisionDetail) -> Iterator[Part]:
    """Both decisions, and which of the four things changed between them."""
    yield f"decided by replica {then.replica} at {then.at}: {_outcome(then)}"
    yield f"now: {_outcome(now)}"
    found = changes(then, now)
    if not found:
        yield "policies, nodes, counts and time are the same"
        return
    rows = table("changed", "how")
    for change in found:
        rows.add_row(change.what, change.text)
    yield rows


def _outcome(decision: DecisionDetail) -> str:
    if decision.error is not None:
        return f"error: {decision.error}"
    return passed(decision.passing, decision.offered)
