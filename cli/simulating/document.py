"""The result of a simulation, or of two, as one JSON document; docs/simulate.md describes it."""

from __future__ import annotations

import json
from typing import assert_never

from engine.simulation.difference import changes
from engine.simulation.outcome import Outcome, Pending, Placed
from engine.simulation.result import Allocation, Result


def result_json(result: Result) -> str:
    return _text(_result(result))


def difference_json(old: Result, new: Result) -> str:
    moves = [
        {"pod": c.pod, "change": c.kind, "old": _node(c.old), "new": _node(c.new)}
        for c in changes(old, new)
    ]
    return _text({"old": _result(old), "new": _result(new), "changes": moves})


def _text(value: object) -> str:
    return json.dumps(value, ensure_ascii=False)


def _result(result: Result) -> dict[str, object]:
    return {
        "nodes": result.nodes,
        "placed": len(result.placed),
        "pending": len(result.pending),
        "because": [
            {"reason": b.reason, "pods": b.pods, "fewestNodes": b.fewest, "mostNodes": b.most}
            for b in result.because()
        ],
        "allocation": {name: _allocation(a) for name, a in result.allocation.items()},
        "policies": [
            {"policy": policy or None, "placed": placed, "pending": pending}
            for policy, (placed, pending) in result.policies().items()
        ],
        "pods": [_outcome(outcome) for outcome in result.outcomes],
    }


def _allocation(allocation: Allocation) -> dict[str, object]:
    return {
        "requested": allocation.requested,
        "allocatable": allocation.allocatable,
        "part": round(allocation.part, 6),
    }


def _outcome(outcome: Outcome) -> dict[str, object]:
    found: dict[str, object] = {
        "pod": outcome.pod,
        "policy": outcome.policy or None,
        "node": _node(outcome),
    }
    if isinstance(outcome, Pending):
        found["reasons"] = dict(outcome.reasons)
    return found


def _node(outcome: Outcome) -> str | None:
    match outcome:
        case Placed(node=node):
            return node
        case Pending():
            return None
        case _:
            assert_never(outcome)
