"""Errors of evaluation; a clause turns them into a verdict."""


class EvaluationError(Exception):
    """An expression without a value: overflow, division by zero, no matching overload."""


class MissingError(EvaluationError):
    """An absent key or optional field: CEL's "no such key"."""
