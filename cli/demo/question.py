"""The demo's announcement: its policies, a question to ask, and the answer to expect."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from cli.demo.demo_cluster import NODE_NAMES, Object
from engine.decision import scoring
from engine.engine import Engine
from engine.explanation.inspection import Inspection
from server.runtime.reloader import PolicyReloader

POD: Object = {
    "metadata": {
        "name": "web-7d9c6b-6new",
        "namespace": "shop",
        "uid": "3f0c8a52-6a0e-4b55-9d0e-0c6f0d1e7a11",
        "labels": {"app": "web", "tier": "web"},
    },
    "spec": {
        "containers": [
            {"name": "web", "resources": {"requests": {"cpu": "500m", "memory": "1Gi"}}},
        ],
    },
}


def answer(engine: Engine) -> Iterator[str]:
    """The answer of the engine at this moment, in lines; nothing is offered or recorded."""
    inspection = Inspection.of(engine, msgspec.json.encode(POD))
    objections = inspection.all_objections(NODE_NAMES)
    passing: list[str] = []
    failed: dict[str, list[str]] = {}
    for index, name in enumerate(NODE_NAMES):
        reasons = [o.message for o in objections if o.refused[index]]
        (failed.setdefault(reasons[0], []) if reasons else passing).append(name)
    yield f"NodeNames, where the pod may go: {', '.join(passing) or 'none'}"
    for reason, names in failed.items():
        yield f"FailedAndUnresolvableNodes: {', '.join(names)}: {reason}"
    given = inspection.contributions(passing) if passing else ()
    if given:
        scores = scoring.scores([(each.weight, each.points) for each in given]).tolist()
        ranked = sorted(zip(passing, scores, strict=True), key=lambda found: -found[1])
        best = ", ".join(f"{name} {score}" for name, score in ranked)
        yield f"asked to prioritize instead of filter, it scores them: {best}"


def announcement(url: str, reloader: PolicyReloader) -> Iterator[str]:
    """The lines that `--demo` prints; the last ones are the answer to the question."""
    snapshot = reloader.view.snapshot()
    nodes, pods = len(snapshot.table.rows), len(snapshot.pods())
    yield f"Placet decides about a demo cluster of {nodes} nodes and {pods} pods at {url}"
    yield "Ctrl-C stops it."
    yield ""
    in_force = reloader.enforced.in_force.active
    applied = [active for active in in_force if not active.checked.policy.only_used]
    used = len(in_force) - len(applied)
    more = f"; {used} more only provide clauses that a policy can `use`" if used else ""
    yield f"{len(applied)} of its {len(in_force)} policies apply to pods{more}."
    yield "An edit is enforced half a second later:"
    for active in applied:
        policy = active.checked.policy
        kind = "cluster policy" if policy.cluster else "policy"
        description = policy.setting("description", "no description")
        yield f"  {kind} {policy.address}: {description}"
        yield f"    {active.file}"
    yield ""
    yield "Ask it, in another terminal, where a web pod may go:"
    yield ""
    # The request of kube-scheduler with nodeCacheCapable, on one line.
    body = msgspec.json.encode({"Pod": POD, "NodeNames": NODE_NAMES}).decode()
    yield f"curl -s {url}/api/scheduler/filter -d '{body}'"
    yield ""
    yield "It would answer now:"
    yield from (f"  {line}" for line in answer(reloader.engine))
