"""Why the engine could not decide at all; the text of each is what kube-scheduler and the pod's event show."""


class EngineError(Exception):
    """No decision: the whole call is answered with `Error` (C18, C30: retried with backoff, no preemption)."""


class NotSyncedError(EngineError):
    """Our view of the cluster is not complete yet."""


class DeadlineExceededError(EngineError):
    """The decision took longer than the request may."""


class BadObjectError(EngineError):
    """A Pod or Node in the request is not one."""
