"""Errors of the engine. Their texts reach users: kube-scheduler logs them, pod events show them.

`why` makes the one text about a failed request to the API server: for the log, for `/readyz`, for
metrics, and for the errors that pod events show.

What Placet answers by itself begins with `placet: `, so that the condition of a pod says whose
words these are. `own_text` makes such a text, and `own_words` finds it again.
"""

from __future__ import annotations

import re

_MARK = "placet: "
# After the words of others, as in `binding rejected: placet: …`.
_MARKED = re.compile(rf"(?:^|: ){_MARK}(.*)", re.DOTALL)
# How they began before they had the mark: a condition stays until its pod is asked about again.
_BEFORE = re.compile(
    r"`[^`]+` is the leader |(?:the|cannot hold the) Lease|this replica (?:is taking|has just) "
    r"|waiting (?:until ReplicaSet|for in-flight) |the (?:pod was not bound|decision took) "
    r"|the request's time|policy \S+ (?:gives cards|holds gangs) at bind: |not synced: "
    r"|no cluster view: |node not yet known$"
)


def own_text(words: str) -> str:
    """The text of an answer that Placet itself gives, and no author of a policy."""
    return f"{_MARK}{words}"


def own_words(said: str) -> str:
    """What Placet itself says in a text of kube-scheduler; empty if it says nothing."""
    if (known := _MARKED.search(said)) is not None:
        return known[1]
    return said if _BEFORE.match(said) else ""


class EngineError(Exception):
    """An error without a decision: the answer is an `Error` (C18, C30: retried with backoff).

    `policy` is the address of the policy that is the reason, or empty. `of_clause` says that the
    text begins with the words of a clause, and not with Placet's own.
    """

    def __init__(self, text: str = "", *, policy: str = "", of_clause: bool = False) -> None:
        super().__init__(text)
        self.policy = policy
        self.of_clause = of_clause

    @property
    def answer(self) -> str:
        """The text for kube-scheduler. It is never empty: an empty `Error` is none (C44)."""
        text = str(self)
        return text if self.of_clause and text else own_text(text or "no reason is given")


class NotSyncedError(EngineError):
    """Not all of the cluster is known yet."""


class WaitingError(EngineError):
    """The pod has to wait for time or for in-flight pods; a later call may succeed."""


class BriefWaitError(WaitingError):
    """The pod waits for what mostly comes within milliseconds.

    In-flight pods are about to be bound, or a watch is about to show what a new pod belongs to.
    """


class WaitedInVainError(WaitingError):
    """What a binding has waited for did not come: others were given up, or a condition stayed."""

    def __init__(self, text: str) -> None:
        super().__init__(text, of_clause=True)


class HandoverError(WaitingError):
    """A handover: another replica is or was the leader, which takes seconds."""


class RefusedError(EngineError):
    """A refused bind: the pod may not be bound to the node that bind names."""


class DeadlineExceededError(EngineError):
    """The deadline of the request was exceeded: the decision took longer."""


class ExpensivePolicyError(EngineError):
    """A policy needs more time than policies may use.

    The text is the same at each call: another one would have kube-scheduler retry at once (C47).
    """

    def __init__(self, policy: str) -> None:
        text = f"policy {policy} takes too much time to evaluate: its pods wait while it does"
        super().__init__(text, policy=policy)


class BadObjectError(EngineError):
    """The JSON of an object does not have the types of its kind."""


class UnknownNodeError(EngineError):
    """There is no node of this name in the cluster."""


class ClusterConfigurationError(EngineError):
    """No usable configuration for the cluster; `hint` says what to do."""

    def __init__(self, message: str, hint: str = "") -> None:
        super().__init__(message)
        self.hint = hint


class ApiUnreachableError(EngineError):
    """The API server gave no complete answer; `remedy` says what to do, or is empty."""

    def __init__(self, message: str, remedy: str = "") -> None:
        super().__init__(message)
        self.remedy = remedy


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

    @property
    def is_denied(self) -> bool:
        """Whether Placet lacks the identity or the right, whatever the object is.

        Admission and namespaces that are being deleted have other reasons to answer 403.
        """
        return self.status == _UNAUTHORIZED or _DENIED.search(self.message) is not None

    @property
    def is_transient(self) -> bool:
        """Whether the same request may succeed later: the server is busy or has failed."""
        return self.status == _TOO_MANY or self.status >= _INTERNAL


_UNAUTHORIZED, _TOO_MANY, _INTERNAL = 401, 429, 500
# A part of every authorizer's answer 403.
_DENIED = re.compile(r'User "([^"]*)" cannot (\w+) resource "([^"]*)"')
_SERVICE_ACCOUNT = "system:serviceaccount:"
# The folder of the rules about a resource, if they are apart from the others.
_RBAC = "deploy/rbac"
_RIGHTS = {
    "pods/binding": f"{_RBAC}/bind",
    "pods/eviction": f"{_RBAC}/repair",
    "secrets": f"{_RBAC}/certificates",
    "mutatingwebhookconfigurations": f"{_RBAC}/certificates",
    "validatingwebhookconfigurations": f"{_RBAC}/certificates",
}
# The subject of the bindings in deploy/rbac.
_OURS = f"{_SERVICE_ACCOUNT}kube-system:placet"


def why(work: str, error: Exception) -> str:
    """The text about a failed request: what cannot be done, the cause, and the remedy if known.

    `work` completes "cannot …". The text is the same as long as the cause is.
    """
    match error:
        case ApiError(status=status) if status == _UNAUTHORIZED:
            cause = "the API server does not accept the credentials of Placet"
            remedy = "renew the user of the kubeconfig, or the token of the service account"
        case ApiError(message=message) if (found := _DENIED.search(message)) is not None:
            user, verb, resource = found.groups()
            who = f"`{user}`"
            if user.startswith(_SERVICE_ACCOUNT):
                namespace, _, name = user.removeprefix(_SERVICE_ACCOUNT).partition(":")
                who = f"the service account `{namespace}/{name}`"
            cause = f"{who} may not {verb} {resource}"
            remedy = f"run `kubectl apply -f {_RIGHTS.get(resource, _RBAC)}/placet.yaml`"
            if user != _OURS:
                remedy += " with this subject in its bindings"
        case ApiUnreachableError():
            cause, remedy = str(error), error.remedy
        case _:
            cause, remedy = str(error), ""
    return f"cannot {work}: {cause}" + (f": {remedy}" if remedy else "")
