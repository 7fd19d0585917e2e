"""List and watch: the requests for a resource of the API server, and its answers still as bytes."""

from __future__ import annotations

import enum
from collections.abc import AsyncIterator, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, replace
from typing import Protocol

import msgspec

from engine.errors import ApiError
from engine.objects.api_types import ApiStatus, ListMeta

CHUNK = 500

Params = Sequence[tuple[str, str]]


@dataclass(frozen=True, slots=True)
class Resource:
    """A resource: a collection such as `/api/v1/pods`, or a part of it by a field selector.

    The API server may not know an `optional` one, which is empty then. Decisions do not wait for
    one that is not `awaited`. `others` are the paths of other versions, of which a cluster may
    serve one instead.
    """

    name: str
    path: str
    field_selector: str = ""
    optional: bool = False
    awaited: bool = True
    others: tuple[str, ...] = ()

    @property
    def other(self) -> Resource:
        """The same objects in the next version, after the last one in the first."""
        path, *others = (*self.others, self.path)
        return replace(self, path=path, others=tuple(others))


class ListerWatcher(Protocol):
    """What lists and watches: the API server for reflectors, as `ApiClient` is.

    `request` gives the body of an answer, `stream` its lines as they arrive. Both raise
    ApiError and ApiUnreachableError.
    """

    async def request(
        self, method: str, path: str, *, params: Params = (), timeout_seconds: float = ...
    ) -> bytes: ...

    def stream(
        self, path: str, params: Params, idle_seconds: float
    ) -> AbstractAsyncContextManager[AsyncIterator[bytes]]: ...


class GarbageError(Exception):
    """Garbage: an answer that is not a list, or a line that is not an event of a watch."""


class ContinueExpiredError(Exception):
    """A continue token has expired: the server has forgotten the state of the chunks."""


# ---- lists


class ListChunk(msgspec.Struct, frozen=True, gc=False):
    """A part of a list: its objects as bytes, and the resource version of the whole list."""

    metadata: ListMeta
    # Null for a list without objects.
    items: list[msgspec.Raw] | None = None


_CHUNK = msgspec.json.Decoder(ListChunk)


async def bodies(
    source: ListerWatcher, resource: Resource, limit: int, seconds: float
) -> AsyncIterator[bytes]:
    """The newest list in chunks of `limit` objects, as the API server sends them.

    Of an optional resource in the version that the server has; none if it has none. Raises as
    `chunks` does.
    """
    for _ in range(1 + len(resource.others)):
        try:
            async for body, _ in chunks(source, resource, "", limit, seconds):
                yield body
        except ApiError as error:
            if not (resource.optional and is_absent(error)):
                raise
            resource = resource.other
        else:
            return


async def chunks(
    source: ListerWatcher, resource: Resource, version: str, limit: int, seconds: float
) -> AsyncIterator[tuple[bytes, ListChunk]]:
    """The list in chunks of `limit` objects (0: all in one), of a state not older than `version`.

    Each as the server sends it, and decoded. Raises ContinueExpiredError between chunks,
    GarbageError for an answer that is not a list, ApiError and ApiUnreachableError.
    """
    size = [("limit", str(limit))] if limit else []
    params = [*_selection(resource), *size]
    if version:
        params += [("resourceVersion", version), ("resourceVersionMatch", "NotOlderThan")]
    further = False
    while True:
        try:
            body = await source.request(
                "GET", resource.path, params=params, timeout_seconds=seconds
            )
        except ApiError as error:
            if further and is_gone(error):
                raise ContinueExpiredError from error
            raise
        chunk = _whole(body)
        yield body, chunk
        if not chunk.metadata.next:
            return
        # The token names the state; naming a version as well is an error.
        further = True
        params = [*_selection(resource), *size, ("continue", chunk.metadata.next)]


def _whole(body: bytes) -> ListChunk:
    try:
        return _CHUNK.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise GarbageError(f"the API server's answer is not a list: {error}") from error


# ---- watches

_END = "k8s.io/initial-events-end"


class Kind(enum.Enum):
    """The kind of an event. END is the bookmark that ends the initial objects."""

    PUT = enum.auto()
    REMOVED = enum.auto()
    BOOKMARK = enum.auto()
    END = enum.auto()


class WatchEvent(msgspec.Struct, frozen=True, gc=False):
    """One line of a watch: the resource version, and the key and bytes of the object.

    A key is `namespace/name`, or the name of an object without a namespace.
    """

    kind: Kind
    version: str
    key: str = ""
    object: bytes | msgspec.Raw = b""


# Smaller than the structs of api_types: they are decoded at every event.


class _Line(msgspec.Struct, frozen=True, gc=False):
    type: str
    object: msgspec.Raw


class _Meta(msgspec.Struct, frozen=True, gc=False):
    resourceVersion: str
    name: str = ""
    namespace: str = ""
    annotations: msgspec.Raw = msgspec.Raw(b"null")


class _WatchedObject(msgspec.Struct, frozen=True, gc=False):
    metadata: _Meta


_LINE = msgspec.json.Decoder(_Line)
_OBJECT = msgspec.json.Decoder(_WatchedObject)
_ANNOTATIONS = msgspec.json.Decoder(dict[str, str] | None)
_STATUS = msgspec.json.Decoder(ApiStatus)
_KINDS = {"ADDED": Kind.PUT, "MODIFIED": Kind.PUT, "DELETED": Kind.REMOVED}
# How API servers begin an event: nothing has to be decoded to find where its object ends.
_BEGUN = {
    f'{{"type":{space}"{name}",{space}"object":{space}'.encode(): kind
    for name, kind in _KINDS.items()
    for space in ("", " ")
}


def initial_params(resource: Resource, version: str, seconds: float) -> Params:
    """The parameters of a watch that begins with all objects (KEP-3157).

    Their state is not older than `version`; an empty one means the newest state.
    """
    return (
        *watch_params(resource, version, seconds),
        ("sendInitialEvents", "true"),
        ("resourceVersionMatch", "NotOlderThan"),
    )


def watch_params(resource: Resource, version: str, seconds: float) -> Params:
    """The parameters of a watch from `version` on, which the server ends after `seconds`."""
    return (
        *_selection(resource),
        ("watch", "true"),
        ("allowWatchBookmarks", "true"),
        ("resourceVersion", version),
        ("timeoutSeconds", str(max(1, round(seconds)))),
    )


def read_event(line: bytes) -> WatchEvent:
    """The event of a line. Raises GarbageError, and ApiError for a line that reports one."""
    begin = line.find(b"{", 1)
    try:
        if (kind := _BEGUN.get(line[:begin])) is not None and line.endswith(b"}"):
            meta = _OBJECT.decode(raw := line[begin:-1]).metadata
            return WatchEvent(kind, meta.resourceVersion, _key(meta), raw)
        outer = _LINE.decode(line)
        match outer.type:
            case "ERROR":
                status = _STATUS.decode(outer.object)
            case "BOOKMARK":
                meta = _OBJECT.decode(outer.object).metadata
                end = (_ANNOTATIONS.decode(meta.annotations) or {}).get(_END) == "true"
                return WatchEvent(Kind.END if end else Kind.BOOKMARK, meta.resourceVersion)
            case _:
                meta, kind = _OBJECT.decode(outer.object).metadata, _KINDS[outer.type]
                return WatchEvent(kind, meta.resourceVersion, _key(meta), outer.object)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError, KeyError) as error:
        text = " ".join(line[:60].decode("utf-8", "replace").split())
        raise GarbageError(f"the watch sent a line that is not an event: {text}") from error
    raise ApiError(status.code or _INTERNAL, status.reason or "", status.message or "")


def head(raw: bytes | msgspec.Raw) -> tuple[str, str]:
    """The key and version of an object of a list. Raises GarbageError."""
    try:
        meta = _OBJECT.decode(raw).metadata
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise GarbageError("the list has an object without a name") from error
    return _key(meta), meta.resourceVersion


def _key(meta: _Meta) -> str:
    return f"{meta.namespace}/{meta.name}" if meta.namespace else meta.name


def _selection(resource: Resource) -> list[tuple[str, str]]:
    return [("fieldSelector", resource.field_selector)] if resource.field_selector else []


# ---- error answers

_ABSENT = 404
_GONE = 410
_INTERNAL = 500
_TIMED_OUT = 504
_NOT_UNDERSTOOD = (400, 405, 406, 415, 422, 501)


def is_gone(error: ApiError) -> bool:
    """Whether the server has forgotten the requested version."""
    return error.status == _GONE or error.reason in ("Expired", "Gone")


def is_ahead(error: ApiError) -> bool:
    """Whether the requested version is newer than the server's state."""
    return error.status == _TIMED_OUT and "Too large resource version" in error.message


def is_absent(error: ApiError) -> bool:
    return error.status == _ABSENT


def is_not_understood(error: ApiError) -> bool:
    """Whether the server does not accept a parameter or its value."""
    return error.status in _NOT_UNDERSTOOD


def is_broken(error: ApiError) -> bool:
    """Whether the server, or a proxy before it, has failed and does not just ask for time."""
    return error.status >= _INTERNAL and error.retry_after_seconds is None
