"""Errors of a call: the text that the client gets, and the outcome that metrics count."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from engine.errors import (
    BadObjectError,
    DeadlineExceededError,
    EngineError,
    ExpensivePolicyError,
    NotSyncedError,
    RefusedError,
    WaitedInVainError,
    own_text,
)
from grammar.messages.texts import MOST_ERROR, shown


class Outcome(StrEnum):
    """The outcome of a call: a label of metrics and a key of the log."""

    ANSWERED = "answered"
    # Problems of the request, from the outside in.
    UNAUTHENTICATED = "unauthenticated"
    FORBIDDEN = "forbidden"
    UNKNOWN_PATH = "unknown_path"
    WRONG_METHOD = "wrong_method"
    ENCODED_BODY = "encoded_body"
    LARGE_BODY = "large_body"
    SLOW_BODY = "slow_body"
    BROKEN_BODY = "broken_body"
    BAD_REQUEST = "bad_request"
    DISCONNECTED = "disconnected"
    OVERLOADED = "overloaded"
    # Problems of the decision.
    UNSUPPORTED = "unsupported"
    NOT_SYNCED = "not_synced"
    DEADLINE = "deadline"
    EXPENSIVE_POLICY = "expensive_policy"
    BAD_OBJECT = "bad_object"
    REFUSED = "refused"
    WAITED_IN_VAIN = "waited_in_vain"
    UNDECIDED = "undecided"
    INTERNAL = "internal"


class RequestError(Exception):
    """The request cannot be understood or is not offered here; the text is one sentence."""

    def __init__(self, text: str, outcome: Outcome = Outcome.BAD_REQUEST) -> None:
        super().__init__(text)
        self.outcome = outcome


@dataclass(frozen=True, slots=True)
class CallFailure:
    """The failure of a call, as the client and the metrics see it."""

    text: str
    outcome: Outcome


def failure_of(error: Exception) -> CallFailure:
    """The failure behind any exception; an unexpected one gets a constant text.

    The text names Placet as its author, unless a clause has written it.
    """
    if not isinstance(error, RequestError | EngineError):
        # kube-scheduler copies the text into events: a traceback belongs in our log only.
        error = RequestError("internal error: see the log of Placet", Outcome.INTERNAL)
    if isinstance(error, RequestError):
        return CallFailure(shown(own_text(str(error)), MOST_ERROR), error.outcome)
    outcome = next((o for kind, o in _OUTCOMES.items() if isinstance(error, kind)), None)
    return CallFailure(shown(error.answer, MOST_ERROR), outcome or Outcome.UNDECIDED)


_OUTCOMES: Mapping[type[EngineError], Outcome] = {
    NotSyncedError: Outcome.NOT_SYNCED,
    DeadlineExceededError: Outcome.DEADLINE,
    ExpensivePolicyError: Outcome.EXPENSIVE_POLICY,
    BadObjectError: Outcome.BAD_OBJECT,
    RefusedError: Outcome.REFUSED,
    WaitedInVainError: Outcome.WAITED_IN_VAIN,
}
