"""Errors of evaluation; a clause turns them into a verdict."""

from __future__ import annotations

from collections.abc import Callable


class EvaluationError(Exception):
    """An evaluation without a value: overflow, division by zero, no matching overload."""


class MissingError(EvaluationError):
    """A missing key or optional field: CEL's "no such key".

    `reason` is what to tell of a table without a row in place of a clause's own words, else empty.
    """

    def __init__(self, text: str, reason: str = "") -> None:
        super().__init__(text)
        self.reason = reason


class StepLimitError(EvaluationError):
    """Too many steps of an evaluation. The error ends it: `||` does not hide this one."""


def has_value(call: Callable[..., object]) -> Callable[..., bool]:
    """The function of whether `call` has a value for its arguments."""

    def succeeds(*args: object) -> bool:
        try:
            call(*args)
        except EvaluationError:
            return False
        return True

    return succeeds
