"""Errors of the engine. Their texts reach users: kube-scheduler logs them, pod events show them."""


class EngineError(Exception):
    """There is no decision: the call is answered with `Error` (C18, C30: retried with backoff)."""


class NotSyncedError(EngineError):
    """The view of the cluster is not complete yet."""


class WaitingError(EngineError):
    """The pod has to wait for time or for in-flight pods; a later call may succeed."""


class HandoverError(WaitingError):
    """Another replica is or was the leader; the handover takes seconds."""


class RefusedError(EngineError):
    """The pod may not be bound to the node that bind names."""


class DeadlineExceededError(EngineError):
    """The decision took longer than the deadline of the request."""


class ExpensivePolicyError(EngineError):
    """A policy needs more time than policies may use; `policy` is its address.

    The text is the same at each call: another one would have kube-scheduler retry at once (C47).
    """

    def __init__(self, policy: str) -> None:
        super().__init__(
            f"policy {policy} takes too much time to evaluate: its pods wait while it does"
        )
        self.policy = policy


class BadObjectError(EngineError):
    """The JSON of an object does not have the types of its kind."""


class ClusterConfigurationError(EngineError):
    """No usable address or identity for the API server; `hint` says what to do."""

    def __init__(self, message: str, hint: str = "") -> None:
        super().__init__(message)
        self.hint = hint


class ApiUnreachableError(EngineError):
    """The API server gave no complete answer."""


class NotSentError(ApiUnreachableError):
    """The request did not reach the API server, so it had no effect."""


class ApiError(EngineError):
    """The API server answered with an error.

    `status` is the HTTP status, `reason` is one word of the API (`Expired`) or empty, and
    `retry_after_seconds` is the wait that the server asks for, or None.
    """

    def __init__(
        self, status: int, reason: str, message: str, retry_after_seconds: float | None = None
    ) -> None:
        super().__init__(f"the API server answers {status}: {message or reason or 'no reason'}")
        self.status = status
        self.reason = reason
        self.message = message
        self.retry_after_seconds = retry_after_seconds
