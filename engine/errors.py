"""Why the engine could not decide at all; kube-scheduler and the pod's event show the text."""


class EngineError(Exception):
    """No decision: the call is answered with `Error` (C18, C30: retried with backoff)."""


class NotSyncedError(EngineError):
    """Our view of the cluster is not complete yet."""


class DeadlineExceededError(EngineError):
    """The decision took longer than the request may."""


class BadObjectError(EngineError):
    """A Pod or Node in the request is not one."""
