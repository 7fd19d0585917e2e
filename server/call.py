"""One call of a verb while it is answered: what logs and metrics say of it afterwards."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass

from server.errors import Outcome
from server.wire import pod_key


@dataclass(frozen=True, slots=True)
class Admitted:
    """An object that was reviewed: what was to be done with it, and whether it may be."""

    operation: str
    object: str
    allowed: bool


@dataclass(slots=True)
class Call:
    """Filled in step by step, so that a call that fails half-way still tells what was known."""

    verb: str
    # Seconds of the monotonic clock, when the headers had been read.
    arrived: float
    agent: str = ""
    received: int = 0
    pod: bytes = b""
    # `namespace/name` of a pod, and the node to bind it to.
    binds: tuple[str, str] | None = None
    admitted: Admitted | None = None
    full_nodes: bool = False
    offered: int = 0
    returned: int = 0
    outcome: Outcome = Outcome.ANSWERED
    error: str = ""


@dataclass(frozen=True, slots=True)
class Entry:
    """The one argument of a log record: `answered verb="filter"` as text; formatters see fields."""

    message: str
    fields: Mapping[str, str | int | float]

    def __str__(self) -> str:
        # Quoted as in JSON: names come from requests, and must not start a line of their own.
        pairs = (f"{key}={json.dumps(value)}" for key, value in self.fields.items())
        return " ".join((self.message, *pairs))


def entry_of(call: Call, code: int, seconds: float, left_out: int = 0) -> Entry:
    """The line a call leaves in the log; its keys are those of kube-scheduler where it has them.

    `left_out` is how many answered calls before it have left none.
    """
    fields: dict[str, str | int | float] = {"verb": call.verb}
    if call.pod:
        fields["pod"] = pod_key(call.pod)
        fields["mode"] = "nodes" if call.full_nodes else "names"
        fields["offered"] = call.offered
        fields["returned"] = call.returned
    if call.binds is not None:
        fields["pod"], fields["node"] = call.binds
    if call.admitted is not None:
        fields["operation"], fields["object"] = call.admitted.operation, call.admitted.object
        fields["allowed"] = call.admitted.allowed
    fields["code"] = code
    fields["outcome"] = call.outcome.value
    fields["seconds"] = round(seconds, 6)
    if call.error:
        fields["err"] = call.error
    if left_out:
        fields["leftOut"] = left_out
    return Entry("answered", fields)
