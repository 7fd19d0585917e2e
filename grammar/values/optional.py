"""Values that may be absent (cel-go's optional types)."""

from __future__ import annotations

from dataclasses import dataclass

from grammar.errors import EvaluationError


@dataclass(frozen=True, slots=True)
class Optional:
    """A value, or `NONE`."""

    value: object
    present: bool = True

    def __str__(self) -> str:
        return f"optional.of({self.value})" if self.present else "optional.none()"


NONE = Optional(None, present=False)


def value_of(optional: Optional) -> object:
    if not optional.present:
        raise EvaluationError("optional.none() has no value")
    return optional.value
