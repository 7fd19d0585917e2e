"""A namespace, as rules see it under the name `namespaceObject`."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from engine.slim import Metadata
from engine.structs import ObjectDecoder


class Namespace(msgspec.Struct, frozen=True, gc=False):
    """The attributes are those of the schema's Namespace."""

    name: str
    labels: Mapping[str, str]
    annotations: Mapping[str, str]


class _SlimNamespace(msgspec.Struct, frozen=True, gc=False):
    metadata: Metadata | None = None


class NamespaceDecoder:
    """Decodes Namespace objects."""

    def __init__(self) -> None:
        self._decoder = ObjectDecoder("Namespace", _SlimNamespace)

    def decode(self, data: bytes | msgspec.Raw) -> Namespace:
        """The namespace of an object's JSON. Raises BadObjectError, naming the path."""
        metadata = self._decoder.decode(data).metadata or Metadata()
        return Namespace(metadata.name or "", metadata.labels or {}, metadata.annotations or {})
