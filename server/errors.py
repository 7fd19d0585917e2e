"""Why a call has no answer, in the words that kube-scheduler, logs and metrics get."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from engine.errors import BadObjectError, DeadlineExceededError, EngineError, NotSyncedError


class Outcome(StrEnum):
    """How a call ended: the label of metrics and the key of the log."""

    ANSWERED = "answered"
    # The request, from the outside in.
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
    # The decision.
    UNSUPPORTED = "unsupported"
    NOT_SYNCED = "not_synced"
    DEADLINE = "deadline"
    BAD_OBJECT = "bad_object"
    UNDECIDED = "undecided"
    INTERNAL = "internal"


class RequestError(Exception):
    """The request cannot be read or understood; the text is one sentence that says why."""

    def __init__(self, text: str, outcome: Outcome = Outcome.BAD_REQUEST) -> None:
        super().__init__(text)
        self.outcome = outcome


class UnsupportedError(Exception):
    """The request is understood, and this server does not do that."""


@dataclass(frozen=True, slots=True)
class CallFailure:
    """What becomes of an exception: a text for whoever asked, and how the call is counted."""

    text: str
    outcome: Outcome


def failure_of(error: Exception) -> CallFailure:
    """The problem behind any exception; one that nobody foresaw gets a constant text."""
    match error:
        case RequestError():
            return CallFailure(str(error), error.outcome)
        case UnsupportedError():
            return CallFailure(str(error), Outcome.UNSUPPORTED)
        case NotSyncedError():
            return CallFailure(str(error), Outcome.NOT_SYNCED)
        case DeadlineExceededError():
            return CallFailure(str(error), Outcome.DEADLINE)
        case BadObjectError():
            return CallFailure(str(error), Outcome.BAD_OBJECT)
        case EngineError():
            return CallFailure(str(error), Outcome.UNDECIDED)
        case _:
            # What went wrong is in our log; a traceback is no event text.
            return CallFailure(
                "internal error: the log of Placet has the details", Outcome.INTERNAL
            )
