"""Answers of the wire in the form that is recorded: what was decided, without the words for it.

Texts of the program change; texts of a policy do not. A policy of the recorder encloses what it
says in `<<` and `>>`: that is kept of a text, besides that there is one.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

from server.verbs.prioritize import HANDFUL

_SAID = re.compile(r"<<.*?>>")


def said(text: str | None) -> list[str] | None:
    """What policies say in a text; None where there is none."""
    return sorted(set(_SAID.findall(text))) if text else None


def filtered(status: int, body: bytes, nodes: Sequence[Any] | None) -> dict[str, Any]:
    """The answer to filter. `nodes` are those of a request that carries them, as JSON values."""
    answer = _decoded(body)
    if status != 200 or not isinstance(answer, dict):
        return {"status": status}
    kept: dict[str, Any] = {"status": status, "names": answer.get("NodeNames")}
    items = (answer.get("Nodes") or {}).get("items")
    if items is not None:
        kept["nodes"] = [item["metadata"]["name"] for item in items]
        kept["unchanged"] = nodes is not None and all(item in nodes for item in items)
    for key in ("FailedNodes", "FailedAndUnresolvableNodes"):
        texts: Mapping[str, str] = answer.get(key) or {}
        kept[key] = {name: said(texts[name]) for name in sorted(texts)}
    kept["error"] = said(answer.get("Error"))
    return kept


def feasible(answer: Mapping[str, Any]) -> list[str]:
    """The nodes that an answer to filter leaves."""
    return list(answer.get("names") or answer.get("nodes") or [])


def prioritized(status: int, body: bytes) -> dict[str, Any]:
    """The answer to prioritize, in its order.

    A long one lists some hosts with 0 by chance, and the others with 0 are left out: none of them
    is recorded.
    """
    answer = _decoded(body)
    if status != 200 or not isinstance(answer, list):
        return {"status": status}
    pairs = [[host["Host"], host["Score"]] for host in answer]
    if len(pairs) > HANDFUL:
        pairs = [pair for pair in pairs if pair[1]]
    return {"status": status, "scores": pairs}


def preempted(status: int, body: bytes) -> dict[str, Any]:
    """The answer to preempt: the nodes that stay, in their order, with their victims."""
    answer = _decoded(body)
    if status != 200 or not isinstance(answer, dict):
        return {"status": status}
    kept = [
        [name, [pod["UID"] for pod in victims["Pods"]], victims.get("NumPDBViolations", 0)]
        for name, victims in (answer.get("NodeNameToMetaVictims") or {}).items()
    ]
    return {"status": status, "kept": kept}


def bound(status: int, body: bytes, bindings: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """The answer to bind, and the Bindings that were made for it."""
    answer = _decoded(body)
    error = said(answer.get("Error")) if isinstance(answer, dict) else ["no JSON"]
    made = [
        [
            binding["metadata"]["name"],
            binding["target"]["name"],
            binding["metadata"].get("annotations", {}),
        ]
        for binding in bindings
    ]
    return {"status": status, "error": error, "made": made}


def _decoded(body: bytes) -> Any:
    try:
        return json.loads(body)
    except ValueError:
        return None
