"""Records: objects whose attributes are the fields that the schema names."""

from __future__ import annotations

from grammar.errors import MissingError


class EmptyRecord:
    """A record of which nothing is set: what an absent one reads as."""

    __slots__ = ()

    def __getattr__(self, name: str) -> None:
        if name.startswith("__"):
            raise AttributeError(name)

    def __repr__(self) -> str:
        return "{}"


EMPTY_RECORD = EmptyRecord()


def read_field(value: object, name: str, zero: object, *, optional: bool) -> object:
    """A field's value; absent it is `zero`, or missing where it is optional.

    Raises MissingError.
    """
    found = getattr(value, name, None)
    if found is not None:
        return found
    if optional:
        raise MissingError(f"there is no `{name}`")
    return zero
