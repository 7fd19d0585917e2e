"""Objects as JSON by key: the plainest store that a reflector can fill."""

from __future__ import annotations

import json
from collections.abc import Collection
from typing import Any

import msgspec

from engine.errors import BadObjectError


class ObjectStore:
    """An object with a field `bad` is one that it cannot read."""

    def __init__(self) -> None:
        self.objects: dict[str, Any] = {}

    def upsert(self, key: str, version: str, raw: bytes | msgspec.Raw) -> None:
        item = json.loads(bytes(raw))
        assert version == item["metadata"]["resourceVersion"]
        if "bad" in item:
            raise BadObjectError("it is bad")
        self.objects[key] = item

    def remove(self, key: str, version: str) -> None:
        assert version
        self.objects.pop(key, None)

    def retain(self, keys: Collection[str]) -> None:
        self.objects = {key: item for key, item in self.objects.items() if key in keys}

    def __len__(self) -> int:
        return len(self.objects)
