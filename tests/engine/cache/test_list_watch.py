"""Lists in pages as bytes, and lines of watches, in whatever order their fields are."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field

import pytest

from engine.cache.list_watch import (
    ContinueExpiredError,
    GarbageError,
    Kind,
    Params,
    Resource,
    bodies,
    read_event,
)
from engine.errors import ApiError

PODS = Resource("pods", "/api/v1/pods")


@dataclass
class Source:
    """An API server that sends these bodies, or this error, one after another."""

    answers: Sequence[bytes | ApiError]
    asked: list[Params] = field(default_factory=list)

    async def request(
        self, method: str, path: str, *, params: Params = (), timeout_seconds: float = 1.0
    ) -> bytes:
        assert (method, path, timeout_seconds) == ("GET", PODS.path, 5.0)
        answer = self.answers[len(self.asked)]
        self.asked.append(params)
        if isinstance(answer, ApiError):
            raise answer
        return answer

    def stream(
        self, path: str, params: Params, idle_seconds: float
    ) -> AbstractAsyncContextManager[AsyncIterator[bytes]]:
        raise NotImplementedError


def page(token: str, *, metadata_first: bool = True) -> bytes:
    metadata = {"resourceVersion": "7", **({"continue": token} if token else {})}
    # An object may say anything.
    items = [{"metadata": {"name": "a", "annotations": {"x": '"items":[{"continue":"no"}]'}}}]
    both = {"metadata": metadata, "items": items}
    ordered = both if metadata_first else {"items": items, "metadata": metadata}
    return json.dumps({"kind": "PodList", **ordered}, separators=(",", ":")).encode()


@pytest.mark.parametrize("metadata_first", [True, False])
async def test_pages_come_as_they_are_sent(*, metadata_first: bool) -> None:
    sent = [page(token, metadata_first=metadata_first) for token in ("one", "two", "")]
    source = Source(sent)
    assert [body async for body in bodies(source, PODS, 100, 5.0)] == sent
    assert [dict(params).get("continue") for params in source.asked] == [None, "one", "two"]
    assert {dict(params)["limit"] for params in source.asked} == {"100"}


@pytest.mark.parametrize("body", [b"", b"[]", b'{"items":', b'{"kind": "PodList"'])
async def test_what_is_no_list_is_told(body: bytes) -> None:
    with pytest.raises(GarbageError, match="is not a list"):
        _ = [body async for body in bodies(Source([body]), PODS, 100, 5.0)]


async def test_a_token_that_is_forgotten_is_told() -> None:
    source = Source([page("one"), ApiError(410, "Expired", "too old")])
    with pytest.raises(ContinueExpiredError):
        _ = [body async for body in bodies(source, PODS, 100, 5.0)]
    source = Source([ApiError(410, "Expired", "too old")])
    with pytest.raises(ApiError):
        _ = [body async for body in bodies(source, PODS, 100, 5.0)]


OBJECT = {"metadata": {"name": "a", "namespace": "b", "resourceVersion": "7"}, "x": "\u00e9{}"}


@pytest.mark.parametrize("type_", ["ADDED", "MODIFIED", "DELETED"])
@pytest.mark.parametrize("separators", [(",", ":"), (", ", ": "), (" ,", " :")])
@pytest.mark.parametrize("end", ["", "\r", " "])
@pytest.mark.parametrize("is_reversed", [False, True])
def test_an_event_is_read_however_it_is_written(
    type_: str, separators: tuple[str, str], end: str, *, is_reversed: bool
) -> None:
    fields = [("type", type_), ("object", OBJECT)]
    text = json.dumps(dict(fields[::-1] if is_reversed else fields), separators=separators) + end
    event = read_event(text.encode())
    assert event.kind is (Kind.REMOVED if type_ == "DELETED" else Kind.PUT)
    assert (event.key, event.version) == ("b/a", "7")
    assert json.loads(bytes(event.object)) == OBJECT


@pytest.mark.parametrize(
    "line",
    [
        b"",
        b"{",
        b'{"type":"ADDED","object":{}}',
        b'{"type":"ADDED","object":{"metadata":{"resourceVersion":"7"}}',
        b'{"type":"ADDED","object":{"metadata":{"resourceVersion":"7"}}}}',
        b'{"type":"ADDED","object":{"metadata":{"resourceVersion":"7"}}]',
        b'{"type":"OTHER","object":{"metadata":{"resourceVersion":"7"}}}',
        b'{"type":"BOOKMARK","object":{"metadata":{"resourceVersion":"7","annotations":[]}}}',
    ],
)
def test_what_is_no_event_is_told(line: bytes) -> None:
    with pytest.raises(GarbageError, match="not an event"):
        read_event(line)
