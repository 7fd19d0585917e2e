"""Drafts: policies that are not in force, checked for people who write them. Nothing is written.

A draft is checked in a process that can be killed, so that no decision waits for it. A request
needs the token of this start, which only pages of the view itself can read: so no other page can
have drafts checked, even if its request came through.
"""

from __future__ import annotations

import asyncio
import hmac
import secrets
from collections.abc import Callable, Mapping
from typing import TypeVar

import msgspec
from aiohttp import web

from server.api_description import TOKEN_HEADER
from server.checking import CheckFailedError, CheckingProcess, CheckStoppedError
from server.draft_answers import CheckedDraft, Draft, Session, Trial, TriedDraft
from server.policy_answers import problems_of
from server.policy_states import Read
from server.trial import try_draft

T = TypeVar("T")
# A body has a text of at most 256 Ki characters, and a cluster of at most 4 Mi, in JSON.
MOST_BYTES = 6 * 1024 * 1024
_READ_SECONDS, _CHECK_SECONDS, _TRIAL_SECONDS = 10.0, 5.0, 10.0


class Drafts:
    """The checks of drafts of one replica, one at a time, in a process of their own."""

    def __init__(
        self,
        replica: str,
        process: CheckingProcess,
        read: Callable[[], Read],
        objects: Callable[[], Mapping[str, bytes] | None],
    ) -> None:
        """`read` and `objects` are as those of PolicyStates."""
        self._read_policies = read
        self._objects = objects
        self._process = process
        self._session = Session(replica, secrets.token_urlsafe(32))
        self._one = asyncio.Lock()

    @property
    def session(self) -> Session:
        return self._session

    async def check(self, request: web.Request) -> CheckedDraft:
        """The diagnostics of the draft in a request. Raises HTTPException."""
        draft = await self._read(request, Draft)
        found = await self._run(_CHECK_SECONDS, problems_of, draft.name, draft.text)
        return CheckedDraft(found)

    async def evaluate(self, request: web.Request) -> TriedDraft:
        """What the draft in a request changes in a cluster. Raises HTTPException."""
        trial = await self._read(request, Trial)
        read, objects = self._read_policies(), self._objects() or {}
        files = [
            (file.source.name, file.source.text)
            for file in read.validation.files
            if not file.private and file.source.name not in objects
        ]
        found = await self._run(
            _TRIAL_SECONDS, try_draft, trial.name, trial.text, trial.cluster, files, dict(objects)
        )
        if isinstance(found, str):
            raise web.HTTPBadRequest(text=f"{found}\n")
        return found

    async def _run(self, seconds: float, function: Callable[..., T], *args: object) -> T:
        """The result of a function in the process, given the schema too."""
        if self._one.locked():
            raise web.HTTPTooManyRequests(text="the check of another draft has not ended\n")
        async with self._one:
            process = self._process
            arguments = (*args, process.schema)
            try:
                return await asyncio.to_thread(lambda: process.run(seconds, function, *arguments))
            except CheckStoppedError as error:
                text = f"{error.message} ({error.hint})\n"
                raise web.HTTPUnprocessableEntity(text=text) from None
            except CheckFailedError:
                text = "the check failed (report this, with the draft)\n"
                raise web.HTTPUnprocessableEntity(text=text) from None

    async def _read(self, request: web.Request, kind: type[T]) -> T:
        """The body of a request with the token."""
        given = request.headers.get(TOKEN_HEADER, "").encode("utf-8", "surrogateescape")
        if not hmac.compare_digest(given, self._session.token.encode()):
            text = f"the header `{TOKEN_HEADER}` has not the token of this start\n"
            raise web.HTTPUnauthorized(text=text)
        if request.headers.get("Content-Encoding", "identity") != "identity":
            raise web.HTTPUnsupportedMediaType(text="the body is compressed\n")
        try:
            async with asyncio.timeout(_READ_SECONDS):
                body = await request.read()
        except TimeoutError:
            raise web.HTTPBadRequest(text="the body did not come in time\n") from None
        try:
            return msgspec.json.decode(body, type=kind)
        except msgspec.MsgspecError as error:
            raise web.HTTPBadRequest(text=f"the body is no draft: {error}\n") from None
