"""Why the engine could not decide at all; kube-scheduler and the pod's event show the text."""


class EngineError(Exception):
    """No decision: the call is answered with `Error` (C18, C30: retried with backoff)."""


class NotSyncedError(EngineError):
    """Our view of the cluster is not complete yet."""


class WaitingError(EngineError):
    """Only time, or pods on their way to a node, stand in the way: it may be asked again."""


class HandoverError(WaitingError):
    """Another replica decides by counts, or has until now: that is over in seconds."""


class RefusedError(EngineError):
    """The pod may not be bound where kube-scheduler wants it."""


class DeadlineExceededError(EngineError):
    """The decision took longer than the request may."""


class BadObjectError(EngineError):
    """A Pod or Node in the request is not one."""


class ClusterConfigurationError(EngineError):
    """There is no telling where the API server is, or as whom to speak to it; `hint` helps."""

    def __init__(self, message: str, hint: str = "") -> None:
        super().__init__(message)
        self.hint = hint


class ApiUnreachableError(EngineError):
    """The API server gave no answer, or broke off in the middle of one."""


class NotSentError(ApiUnreachableError):
    """The API server never got the request: it cannot have acted on it."""


class ApiError(EngineError):
    """The API server answered, and refused.

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
