"""The lines of a watch: what happened, and the object that it happened to, still as bytes."""

from __future__ import annotations

import enum
from dataclasses import dataclass

import msgspec

from engine.errors import ApiError

_END = "k8s.io/initial-events-end"


class Kind(enum.Enum):
    """What a line says. END is the bookmark after the objects that there were."""

    PUT = enum.auto()
    REMOVED = enum.auto()
    BOOKMARK = enum.auto()
    END = enum.auto()


@dataclass(frozen=True, slots=True)
class Event:
    """One line: the version of the resource after it, and the key and bytes of the object."""

    kind: Kind
    version: str
    key: str = ""
    object: bytes | msgspec.Raw = b""


@dataclass(frozen=True, slots=True)
class Head:
    """An object's key (`namespace/name`, or the name alone) and resource version."""

    key: str
    version: str


class GarbageError(Exception):
    """An answer that is no list, or a line that is no event of a watch."""


class _Line(msgspec.Struct, frozen=True, gc=False):
    type: str
    object: msgspec.Raw


class _Meta(msgspec.Struct, frozen=True, gc=False):
    resourceVersion: str
    name: str = ""
    namespace: str = ""


class _Object(msgspec.Struct, frozen=True, gc=False):
    metadata: _Meta


class _BookmarkMeta(msgspec.Struct, frozen=True, gc=False):
    resourceVersion: str
    annotations: dict[str, str] | None = None


class _Bookmark(msgspec.Struct, frozen=True, gc=False):
    metadata: _BookmarkMeta


class _Status(msgspec.Struct, frozen=True, gc=False):
    code: int = 500
    reason: str = ""
    message: str = ""


_LINE = msgspec.json.Decoder(_Line)
_OBJECT = msgspec.json.Decoder(_Object)
_BOOKMARK = msgspec.json.Decoder(_Bookmark)
_STATUS = msgspec.json.Decoder(_Status)
_KINDS = {"ADDED": Kind.PUT, "MODIFIED": Kind.PUT, "DELETED": Kind.REMOVED}


def read_event(line: bytes) -> Event:
    """What a line says. Raises GarbageError, and ApiError for a line that reports one."""
    try:
        outer = _LINE.decode(line)
        match outer.type:
            case "ERROR":
                status = _STATUS.decode(outer.object)
            case "BOOKMARK":
                meta = _BOOKMARK.decode(outer.object).metadata
                end = (meta.annotations or {}).get(_END) == "true"
                kind = Kind.END if end else Kind.BOOKMARK
                return Event(kind, meta.resourceVersion)
            case _:
                kind = _KINDS[outer.type]
                named = _OBJECT.decode(outer.object).metadata
                return Event(kind, named.resourceVersion, _key(named), outer.object)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError, KeyError) as error:
        text = " ".join(line[:60].decode("utf-8", "replace").split())
        raise GarbageError(f"the watch sent a line that is no event: {text}") from error
    raise ApiError(status.code, status.reason, status.message)


def head(raw: bytes | msgspec.Raw) -> Head:
    """Which object a JSON is, in which state. Raises GarbageError."""
    try:
        meta = _OBJECT.decode(raw).metadata
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise GarbageError("the list has an object without a name") from error
    return Head(_key(meta), meta.resourceVersion)


def _key(meta: _Meta) -> str:
    return f"{meta.namespace}/{meta.name}" if meta.namespace else meta.name
