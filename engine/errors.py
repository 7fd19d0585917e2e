"""Errors: why the engine could not decide; kube-scheduler shows the text in the pod's event."""


class EngineError(Exception):
    """No decision: the call is answered with `Error` (C18, C30: retried with backoff)."""


class NotSyncedError(EngineError):
    """Our view of the cluster is not complete yet."""


class WaitingError(EngineError):
    """Only time or in-flight pods are in the way: kube-scheduler should ask again."""


class HandoverError(WaitingError):
    """Another replica decides by counts; a handover takes seconds."""


class RefusedError(EngineError):
    """The pod may not be bound where kube-scheduler wants it."""


class DeadlineExceededError(EngineError):
    """The decision took longer than the request may."""


class BadObjectError(EngineError):
    """A Pod or Node in the request cannot be decoded."""


class ClusterConfigurationError(EngineError):
    """The address of the API server or our identity is not known; `hint` says how to set it."""

    def __init__(self, message: str, hint: str = "") -> None:
        super().__init__(message)
        self.hint = hint


class ApiUnreachableError(EngineError):
    """The API server sent no answer, or only a part of one."""


class NotSentError(ApiUnreachableError):
    """The request did not reach the API server, which cannot have acted on it."""


class ApiError(EngineError):
    """The API server answered with an error.

    `status` is HTTP's, `reason` is one word of the API's (`Expired`) or empty, and
    `retry_after_seconds` is how long it asks to be left alone, if it does.
    """

    def __init__(
        self, status: int, reason: str, message: str, retry_after_seconds: float | None = None
    ) -> None:
        super().__init__(f"the API server answers {status}: {message or reason or 'no reason'}")
        self.status = status
        self.reason = reason
        self.message = message
        self.retry_after_seconds = retry_after_seconds
