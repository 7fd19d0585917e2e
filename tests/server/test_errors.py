"""Failures: the text and the outcome of each exception."""

from __future__ import annotations

import pytest

from engine.errors import BadObjectError, DeadlineExceededError, EngineError, NotSyncedError
from server.errors import CallFailure, Outcome, RequestError, failure_of


@pytest.mark.parametrize(
    ("error", "outcome"),
    [
        (RequestError("sentence"), Outcome.BAD_REQUEST),
        (RequestError("sentence", Outcome.SLOW_BODY), Outcome.SLOW_BODY),
        (RequestError("sentence", Outcome.UNSUPPORTED), Outcome.UNSUPPORTED),
        (NotSyncedError("sentence"), Outcome.NOT_SYNCED),
        (DeadlineExceededError("sentence"), Outcome.DEADLINE),
        (BadObjectError("sentence"), Outcome.BAD_OBJECT),
        (EngineError("sentence"), Outcome.UNDECIDED),
    ],
    ids=repr,
)
def test_expected_errors_keep_their_words(error: Exception, outcome: Outcome) -> None:
    assert failure_of(error) == CallFailure("placet: sentence", outcome)


@pytest.mark.parametrize("error", [KeyError("secret"), RecursionError("secret"), MemoryError()])
def test_unexpected_errors_get_a_constant_text(error: Exception) -> None:
    failure = failure_of(error)
    assert failure.outcome is Outcome.INTERNAL
    assert failure.text.startswith("placet: internal error")
    assert "secret" not in failure.text


def test_texts_of_errors_are_one_bounded_line() -> None:
    """A request or a policy can be quoted in them."""
    text = failure_of(EngineError("a\n\u202e" + "b" * 10_000)).text
    assert text.startswith(r"placet: a\n\u202eb")
    assert len(text) == 1024
