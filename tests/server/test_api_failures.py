"""API failures: each cause is logged at once, then at growing intervals, with one text."""

from __future__ import annotations

import logging

import pytest

from engine.errors import ApiError, ApiUnreachableError, EngineError, why
from server.http.health import ReadinessCheck
from server.supervisor import ApiFailures

WORK, REFUSED, BROKEN = "watch nodes", "cannot watch nodes: refused", "cannot watch nodes: broken"


class Reported:
    """Failures with a clock that a test moves, and their lines in the log."""

    def __init__(self, caplog: pytest.LogCaptureFixture) -> None:
        caplog.set_level(logging.INFO)
        self.now = 100.0
        self.failures = ApiFailures(logging.getLogger("placet.test"), lambda: self.now)
        self._caplog = caplog

    def report(self, failure: str, seconds: float = 0.0, every: float = 1.0) -> list[str]:
        """The lines logged while this is reported again and again for so many seconds."""
        self._caplog.clear()
        until = self.now + seconds
        self.failures.report(WORK, failure)
        while self.now < until:
            self.now += every
            self.failures.report(WORK, failure)
        return list(self._caplog.messages)


@pytest.fixture
def reported(caplog: pytest.LogCaptureFixture) -> Reported:
    return Reported(caplog)


def test_a_failure_is_logged_at_once_and_then_less_and_less(reported: Reported) -> None:
    assert reported.report(REFUSED) == [REFUSED]
    assert reported.report(REFUSED, 100.0) == [
        f"{REFUSED} (for 10 seconds)",
        f"{REFUSED} (for 30 seconds)",
        f"{REFUSED} (for 70 seconds)",
    ]
    assert len(reported.report(REFUSED, 3600.0)) < 10
    assert reported.report("") == ["can watch nodes again after 3700 seconds"]
    assert reported.report("") == []


def test_another_cause_is_logged_at_once(reported: Reported) -> None:
    assert reported.report(REFUSED) == [REFUSED]
    assert reported.report(BROKEN) == [BROKEN]


def test_causes_that_alternate_do_not_fill_the_log(reported: Reported) -> None:
    lines = sum(len(reported.report(text)) for _ in range(1000) for text in (REFUSED, BROKEN, ""))
    assert lines == 3, "and the end of the first"


def test_texts_that_never_repeat_do_not_fill_the_log(reported: Reported) -> None:
    assert sum(len(reported.report(f"{REFUSED} {number}")) for number in range(1000)) == 8


def test_a_failure_after_a_long_time_is_news(reported: Reported) -> None:
    reported.report(REFUSED)
    reported.report("")
    reported.now += 601.0
    assert reported.report(REFUSED) == [REFUSED]


def test_what_fails_now_is_shown(reported: Reported) -> None:
    reported.report(REFUSED)
    assert reported.failures.failing == {WORK: REFUSED}
    assert reported.failures.checks() == [ReadinessCheck("api", REFUSED, is_warning=True)]
    reported.report("")
    assert not reported.failures.failing
    assert not reported.failures.checks()


# ---- the text


def denied(user: str, resource: str = "nodes") -> ApiError:
    text = (
        f'{resource} is forbidden: User "{user}" cannot list resource "{resource}" in API group ""'
    )
    return ApiError(403, "Forbidden", f"{text} at the cluster scope")


@pytest.mark.parametrize(
    ("error", "text"),
    [
        (
            denied("system:serviceaccount:kube-system:placet"),
            (
                "cannot list nodes: the service account `kube-system/placet` may not list nodes: "
                "run `kubectl apply -f deploy/rbac/placet.yaml`"
            ),
        ),
        (
            denied("jane"),
            (
                "cannot list nodes: `jane` may not list nodes: "
                "run `kubectl apply -f deploy/rbac/placet.yaml` with this subject in its bindings"
            ),
        ),
        (
            denied("system:serviceaccount:kube-system:placet", "pods/binding"),
            (
                "cannot list nodes: the service account `kube-system/placet` may not list"
                " pods/binding: run `kubectl apply -f deploy/rbac/bind/placet.yaml`"
            ),
        ),
        (
            denied("system:serviceaccount:kube-system:placet", "pods/eviction"),
            (
                "cannot list nodes: the service account `kube-system/placet` may not list"
                " pods/eviction: run `kubectl apply -f deploy/rbac/repair/placet.yaml`"
            ),
        ),
        (
            ApiError(401, "Unauthorized", "Unauthorized"),
            (
                "cannot list nodes: the API server does not accept the credentials of Placet: "
                "renew the user of the kubeconfig, or the token of the service account"
            ),
        ),
        (ApiUnreachableError("gone", "wait"), "cannot list nodes: gone: wait"),
        (ApiUnreachableError("gone"), "cannot list nodes: gone"),
        (
            ApiError(500, "", "broken"),
            "cannot list nodes: the API server answers 500: broken",
        ),
    ],
)
def test_the_text_has_the_cause_and_the_remedy(error: EngineError, text: str) -> None:
    assert why("list nodes", error) == text


def test_not_every_403_is_a_missing_right() -> None:
    assert denied("jane").is_denied
    assert ApiError(401, "Unauthorized", "").is_denied
    text = "unable to create new content in namespace shop because it is being terminated"
    assert not ApiError(403, "Forbidden", text).is_denied
