"""Layout of what a running cluster says about a pod: its cause, condition and events, policies."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import msgspec

from cli.console import Part, table
from engine.explanation.cause import event_time, pod_scheduled
from engine.explanation.document import Cause
from grammar.messages.texts import excerpt

Json = dict[str, Any]
_EVENTS = 3
_MESSAGE = 600


def cause_lines(found: Cause) -> Iterator[Part]:
    yield f"cause: {found.text}"
    if found.hint:
        yield f"  = help: {found.hint}"


def said_about(pod: Json, events: Sequence[Json] | str) -> Iterator[Part]:
    """What a cause was worked out from: the condition of the pod, and its last events."""
    condition = pod_scheduled(pod)
    if condition is not None:
        reason, message = condition.get("reason", ""), condition.get("message", "")
        yield excerpt(f"PodScheduled is {condition.get('status')}: {reason}: {message}", _MESSAGE)
    if isinstance(events, str):
        yield f"the events are not known: you may not {events}"
    else:
        for event in events[-_EVENTS:]:
            times = event.get("count") or 1
            again = f" ({times} times)" if times > 1 else ""
            text = f"{event_time(event)} {event.get('reason')}{again}: {event.get('message')}"
            yield excerpt(f"event {text}", _MESSAGE)
    yield ""


# ---- what a caller with few rights sees


def readable_policies(policies: Mapping[str, bytes]) -> Iterator[Part]:
    """A row for each policy object, with what its status says; pods are numbers there."""
    if not policies:
        yield "no policy can be read"
        return
    rows = table("policy", "ready", "matched", "placed", "target", "why")
    for name, raw in sorted(policies.items()):
        item = msgspec.json.decode(raw)
        status = item.get("status") or {}
        ready: Json = next(
            (c for c in status.get("conditions", ()) if c.get("type") == "Ready"), {}
        )
        numbers = [status.get(f"{field}Pods") for field in ("matched", "placed", "target")]
        shown = ["" if number is None else str(number) for number in numbers]
        why = "" if ready.get("status") == "True" else ready.get("message", "")
        rows.add_row(name.partition("/")[2], ready.get("status", "unknown"), *shown, why)
    yield rows
