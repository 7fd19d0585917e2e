"""What evaluating an expression can fail with; a clause's edge turns these into values."""


class EvaluationError(Exception):
    """An expression has no value here: overflow, division by zero, no matching overload."""


class MissingError(EvaluationError):
    """A key or an optional field that is not there: CEL's "no such key"."""
