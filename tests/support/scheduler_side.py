"""A model of how kube-scheduler reads an extender's answers: results, errors and crashes.

Written from its observed behaviour, one contract number at a time; tests judge answers by it.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any


class ExtenderFailedError(Exception):
    """kube-scheduler treats the whole call as failed; the text is what its event would say."""


class SchedulerCrashError(Exception):
    """kube-scheduler would crash (C39)."""


@dataclass(frozen=True)
class Filtered:
    """A filter answer as kube-scheduler reads it; in full-node mode `feasible` holds objects."""

    feasible: list[Any]
    failed: Mapping[str, str]
    unresolvable: Mapping[str, str]


def first_value(body: bytes) -> Any:
    """C4: only the first JSON value counts, and there must be one."""
    try:
        value, _ = json.JSONDecoder().raw_decode(body.decode().lstrip())
    except ValueError as error:
        raise ExtenderFailedError("EOF" if not body.strip() else str(error)) from None
    return value


def read_filter(body: bytes, names: Iterable[str] | None) -> Filtered:
    """C18-C24. `names` are the names of the request, None in full-node mode."""
    value = first_value(body)
    assert isinstance(value, dict)
    result: dict[str, Any] = {key.lower(): member for key, member in value.items()}
    if result.get("error"):
        raise ExtenderFailedError(result["error"])
    failed = _texts(result.get("failednodes"))
    unresolvable = _texts(result.get("failedandunresolvablenodes"))
    if names is not None and result.get("nodenames") is not None:
        offered = set(names)
        for name in result["nodenames"]:
            if name not in offered:
                raise ExtenderFailedError(f"extender claims a filtered node {name} not found")
        return Filtered(result["nodenames"], failed, unresolvable)
    if result.get("nodes") is not None:
        return Filtered(result["nodes"].get("items") or [], failed, unresolvable)
    return Filtered([], failed, unresolvable)


def read_scores(body: bytes) -> dict[str, int]:
    """C25-C27: sums per host."""
    value = first_value(body)
    if value is None:
        return {}
    if not isinstance(value, list):
        raise ExtenderFailedError("cannot unmarshal object into []HostPriority")
    scores: dict[str, int] = {}
    for item in value:
        host, score = item["Host"], item["Score"]
        if type(score) is not int:
            raise ExtenderFailedError(f"cannot unmarshal {score!r} into int64")
        scores[host] = scores.get(host, 0) + score
    return scores


def read_victims(status: int, body: bytes, known: Mapping[str, set[str]]) -> dict[str, list[str]]:
    """C36-C40. `known` are the UIDs of the pods on each node."""
    if status != 200:
        raise ExtenderFailedError(f"code {status}")
    answer = first_value(body).get("NodeNameToMetaVictims") or {}
    victims: dict[str, list[str]] = {}
    for node, found in answer.items():
        if found is None or any(pod is None for pod in found["Pods"] or ()):
            raise SchedulerCrashError(node)
        if node not in known:
            raise ExtenderFailedError(f"extender claims a node {node} that is not known")
        victims[node] = [pod["UID"] for pod in found["Pods"] or ()]
        for uid in victims[node]:
            if uid not in known[node]:
                raise ExtenderFailedError(f"extender claims a victim {uid} that is not known")
        if not victims[node]:
            raise ExtenderFailedError(f"expected at least one victim pod on node {node}")
        if type(found["NumPDBViolations"]) is not int:
            raise ExtenderFailedError("cannot unmarshal NumPDBViolations into int64")
    return victims


def _texts(value: Any) -> Mapping[str, str]:
    texts = value or {}
    if not all(isinstance(text, str) for text in texts.values()):
        raise ExtenderFailedError("cannot unmarshal into string")
    return dict(texts)
