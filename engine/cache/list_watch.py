"""The lines of a watch: what happened, and the object that it happened to, still as bytes."""

from __future__ import annotations

import enum
from collections.abc import AsyncIterator, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from typing import Protocol

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


# ---- What is asked of an API server to list a resource and to watch it: parameters and pages.

PAGE = 500
_ABSENT = 404
_GONE = 410
_INTERNAL = 500
_TIMED_OUT = 504
_NOT_UNDERSTOOD = (400, 405, 406, 415, 422, 501)

Params = Sequence[tuple[str, str]]


@dataclass(frozen=True, slots=True)
class Resource:
    """A collection of objects: `/api/v1/pods`, perhaps fewer of them by a field selector.

    One that is `optional` may be unknown to the API server, and is empty then.
    """

    name: str
    path: str
    field_selector: str = ""
    optional: bool = False


class ListerWatcher(Protocol):
    """An API server, as `engine.cluster.client.ApiClient` is one.

    Raises ApiError and ApiUnreachableError.
    """

    async def request(
        self, method: str, path: str, *, params: Params = (), timeout_seconds: float = ...
    ) -> bytes:
        """The body of the answer."""
        ...

    def stream(
        self, path: str, params: Params, idle_seconds: float
    ) -> AbstractAsyncContextManager[AsyncIterator[bytes]]:
        """The lines of the answer, as they come."""
        ...


class ContinueExpiredError(Exception):
    """The pages so far are of a state that the server has forgotten: there will be no more."""


class _ListMeta(msgspec.Struct, frozen=True, gc=False):
    resourceVersion: str
    next: str = msgspec.field(name="continue", default="")


class Page(msgspec.Struct, frozen=True, gc=False):
    """A part of a list: its objects as bytes, and the resource version of all of the list."""

    metadata: _ListMeta
    # A list without objects may say so with null.
    items: list[msgspec.Raw] | None = None


_PAGE = msgspec.json.Decoder(Page)


def initial_params(resource: Resource, version: str, seconds: float) -> Params:
    """Those of a watch that begins with the objects there are (KEP-3157)."""
    # An empty version means the newest state that there is.
    return (
        *watch_params(resource, version, seconds),
        ("sendInitialEvents", "true"),
        ("resourceVersionMatch", "NotOlderThan"),
    )


def watch_params(resource: Resource, version: str, seconds: float) -> Params:
    """Those of a watch for what came after `version`, which the server ends after `seconds`."""
    return (
        *_selection(resource),
        ("watch", "true"),
        ("allowWatchBookmarks", "true"),
        ("resourceVersion", version),
        ("timeoutSeconds", str(max(1, round(seconds)))),
    )


async def pages(
    source: ListerWatcher, resource: Resource, version: str, limit: int, seconds: float
) -> AsyncIterator[Page]:
    """The list in pages of `limit` objects (0: in one), of a state not older than `version`.

    Raises ContinueExpiredError between pages, GarbageError for an answer that is no list,
    ApiError and ApiUnreachableError.
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
        try:
            page = _PAGE.decode(body)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            raise GarbageError(f"the API server's answer is no list: {error}") from error
        yield page
        if not page.metadata.next:
            return
        # The token says which state it is; naming one as well is an error.
        further = True
        params = [*_selection(resource), *size, ("continue", page.metadata.next)]


def is_gone(error: ApiError) -> bool:
    """Whether the server has forgotten the state that it was asked about."""
    return error.status == _GONE or error.reason in ("Expired", "Gone")


def is_ahead(error: ApiError) -> bool:
    """Whether the server does not know yet, or no longer, of the version it was asked about."""
    return error.status == _TIMED_OUT and "Too large resource version" in error.message


def is_absent(error: ApiError) -> bool:
    """Whether the server does not know the resource."""
    return error.status == _ABSENT


def is_not_understood(error: ApiError) -> bool:
    """Whether the server does not know what a parameter means, or does not like its value."""
    return error.status in _NOT_UNDERSTOOD


def is_broken(error: ApiError) -> bool:
    """Whether the server has failed, or something before it, and not just asks for time."""
    return error.status >= _INTERNAL and error.retry_after_seconds is None


def _selection(resource: Resource) -> list[tuple[str, str]]:
    return [("fieldSelector", resource.field_selector)] if resource.field_selector else []
