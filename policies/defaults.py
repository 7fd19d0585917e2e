"""What an object leaves out, as the additions of a JSON patch that fill it in."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec
from msgspec.structs import fields

from policies.manifest import is_ours
from policies.resource import Spec, Target


class Addition(msgspec.Struct, frozen=True, tag_field="op", tag="add"):
    """One operation of a patch (RFC 6902)."""

    path: str
    value: int | str


def additions(value: object) -> tuple[Addition, ...]:
    """What the object would be read as, added where it says nothing, under names that it uses.

    An API server that has the definitions has filled this in already, and nothing is left to add.
    """
    spec = value.get("spec") if isinstance(value, dict) and is_ours(value) else None
    if not isinstance(spec, dict):
        return ()
    found = [*_absent(Spec, spec, "/spec")]
    for name in ("placementPolicy", "policy"):
        if isinstance(target := spec.get(name), dict):
            found += _absent(Target, target, f"/spec/{name}")
    return tuple(found)


def _absent(
    struct: type[msgspec.Struct], given: dict[str, object], path: str
) -> Iterator[Addition]:
    for field in fields(struct):
        default = field.default
        # Empty is what is left out anyway.
        has_default = isinstance(default, int | str) and bool(default)
        if has_default and given.get(field.encode_name) is None:
            yield Addition(f"{path}/{field.encode_name}", default)
