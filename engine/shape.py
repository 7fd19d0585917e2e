"""The shape of a pod: what the loaded rules read of it. Pods of one shape are decided alike."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import msgspec

from engine.program.pod_reads import EACH, Path


class Shapes:
    """Tells shapes apart by the JSON of the parts that are read, without decoding the rest.

    Two bodies of one shape have the same values there; the same values written in another way may
    count as two shapes, which costs time and nothing else.
    """

    def __init__(self, paths: Iterable[Path]) -> None:
        tree: dict[str, Any] = {}
        for path in paths:
            _grow(tree, path)
        self._decoder = msgspec.json.Decoder(_type(tree, "Pod"))
        self._encoder = msgspec.json.Encoder()

    def of(self, body: bytes) -> bytes:
        """The shape of a pod's JSON; a body that is no pod is a shape of its own."""
        try:
            return self._encoder.encode(self._decoder.decode(body))
        except (msgspec.MsgspecError, RecursionError, UnicodeDecodeError):
            return bytes(body)


_WHOLE = "\0whole"


def _grow(tree: dict[str, Any], path: Path) -> None:
    for name in path:
        tree = tree.setdefault(name, {})
    tree[_WHOLE] = {}


def _type(tree: dict[str, Any], name: str) -> Any:
    """The type that takes of a JSON value what the tree has, and skips the rest."""
    if _WHOLE in tree:
        return msgspec.Raw
    if EACH in tree:
        return list[_type(tree[EACH], name)] | None  # type: ignore[misc]
    fields = [(f"f{i}", _type(tree[key], key), None) for i, key in enumerate(tree)]
    names = {f"f{i}": key for i, key in enumerate(tree)}
    made = msgspec.defstruct(name, fields, rename=names, gc=False, omit_defaults=True)
    return made | None
