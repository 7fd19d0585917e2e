"""Drafts: policies that are not in force, checked for people who write them. Nothing is written.

A draft is checked in a process that can be killed, so that no decision waits for it. A request
needs the token of this start, which only pages of the view itself can read: so no other page can
have drafts checked, even if its request came through.
"""

from __future__ import annotations

import asyncio
import hmac
import secrets
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import TypeVar

import msgspec
from aiohttp import web

from engine.cache.cluster_copy import DataText, NamedPod
from engine.cache.informers import Needs
from engine.cache.pod_manifests import DEFAULT_NAMESPACE
from engine.enforced import EnforcedPolicies
from engine.errors import EngineError
from engine.simulation.pod_list import PodList
from server.admission.checking_process import CheckFailedError, CheckingProcess, CheckStoppedError
from server.answers.simulation_answers import MOST_PODS, SimulationQuestion
from server.answers.view_answers import (
    CheckedDraft,
    CompletedDraft,
    DescribedName,
    DraftObjects,
    DraftSession,
    DraftText,
    PastedPod,
    Point,
    Trial,
    TriedDraft,
)
from server.view import trial
from server.view.api_description import TOKEN_HEADER
from server.view.trial import Keys, KnownUids

T = TypeVar("T")
# A body has a text of at most 256 Ki characters, and a cluster of at most 4 Mi, in JSON.
MOST_BYTES = 6 * 1024 * 1024
_READ_SECONDS = 10.0
# The process has a bound of processor time for each part, which a busy machine gives it late.
_CHECK_SECONDS, _TRIAL_SECONDS = 30.0, 60.0
# The process has the cluster that a draft is tried on: 150,000 small pods took 242 MiB.
DRAFT_MEMORY_MIB = 768
# For all lists of a cluster.
_CLUSTER_SECONDS = 120.0


class Drafts:
    """The checks of drafts of one replica, one at a time, in a process of their own."""

    def __init__(
        self,
        replica: str,
        process: CheckingProcess,
        read: Callable[[], EnforcedPolicies],
        objects: Callable[[], Mapping[str, bytes] | None],
        cluster: Callable[[Needs], AsyncIterator[bytes]],
        data: Callable[[], Awaitable[Mapping[str, DataText]]],
    ) -> None:
        """`read` and `objects` are as those of PolicyStates.

        `cluster` gives the objects of the cluster in parts, as JSON; it raises EngineError. `data`
        gives the tables that policies read.
        """
        self._read_policies = read
        self._cluster = cluster
        self._objects = objects
        self._data = data
        self._process = process
        self._session = DraftSession(replica, secrets.token_urlsafe(32))
        self._one = asyncio.Lock()

    @property
    def session(self) -> DraftSession:
        return self._session

    async def check(self, request: web.Request) -> CheckedDraft:
        """The diagnostics of the draft in a request. Raises HTTPException."""
        draft = await self._read(request, DraftText)
        return CheckedDraft(await self._told(draft, trial.check_draft))

    async def complete(self, request: web.Request) -> CompletedDraft:
        """What can stand at the place in a request. Raises HTTPException."""
        point = await self._read(request, Point)
        return await self._told(point, trial.complete_draft, point.offset)

    async def describe(self, request: web.Request) -> DescribedName:
        """What the name at the place in a request stands for. Raises HTTPException."""
        point = await self._read(request, Point)
        return await self._told(point, trial.describe_name, point.offset)

    async def objects(self, request: web.Request) -> DraftObjects:
        """The policies of the draft in a request as objects. Raises HTTPException."""
        return await self._told(await self._read(request, DraftText), trial.objects_of)

    async def pasted(self, request: web.Request) -> tuple[NamedPod, str | None]:
        """A pod of the manifests in a request, and the node to show. Raises HTTPException."""
        asked = await self._read(request, PastedPod)
        async with self._turn():
            found = await self._run(_CHECK_SECONDS, trial.pod_of, asked.text, asked.pod)
        if isinstance(found, str):
            raise web.HTTPBadRequest(text=f"{found}\n")
        return found, asked.node

    async def question(self, request: web.Request) -> SimulationQuestion:
        """The question of a simulation in a request. Raises HTTPException."""
        return await self._read(request, SimulationQuestion, "question")

    async def pods(
        self, question: SimulationQuestion, known: Callable[[Keys], Awaitable[KnownUids]]
    ) -> PodList:
        """The pods of a question; `known` has the uids of workloads. Raises HTTPException.

        It waits for its turn.
        """
        listed = question.pods
        text = listed if isinstance(listed, str) else msgspec.json.encode(listed).decode()
        where = question.namespace or DEFAULT_NAMESPACE
        async with self._one:
            found = await self._run(_TRIAL_SECONDS, trial.pods_of, text, where, MOST_PODS, {})
            if not isinstance(found, str) and (uids := await known(found[1])):
                found = await self._run(_TRIAL_SECONDS, trial.pods_of, text, where, MOST_PODS, uids)
        if isinstance(found, str):
            raise web.HTTPBadRequest(text=f"{found}\n")
        return found[0]

    async def evaluate(self, request: web.Request) -> TriedDraft:
        """What the draft in a request changes in a cluster. Raises HTTPException."""
        draft = await self._read(request, Trial)
        async with self._turn():
            beside = self._beside(draft, draft.policy if draft.before is not None else "")
            beside = replace(beside, before=draft.before)
            if draft.cluster is None:
                beside = replace(beside, data=await self._data())
            begun = await self._run(_CHECK_SECONDS, trial.begin, beside)
            if isinstance(begun, TriedDraft):
                return begun
            await self._take_cluster(draft.cluster, begun)
            found = await self._run(_TRIAL_SECONDS, trial.finish)
            if isinstance(found, str):
                raise web.HTTPBadRequest(text=f"{found}\n")
            return found

    async def _take_cluster(self, text: str | None, read: Needs) -> None:
        """Gives the process a cluster, which is that of the server without a text."""
        parts = self._cluster(read) if text is None else _one(text.encode())
        try:
            async with asyncio.timeout(_CLUSTER_SECONDS):
                async for part in parts:
                    if (wrong := await self._run(_CHECK_SECONDS, trial.take, part)) is not None:
                        raise web.HTTPBadRequest(text=f"{wrong}\n")
        except EngineError as error:
            raise web.HTTPServiceUnavailable(text=f"{error}\n") from None
        except TimeoutError:
            text = f"the cluster could not be read in {_CLUSTER_SECONDS:g} s (paste a part of it)\n"
            raise web.HTTPServiceUnavailable(text=text) from None

    def _beside(self, draft: DraftText, without: str = "") -> trial.Draft:
        """A draft with the policies in force, without the file or the object of one of them."""
        found, objects = self._read_policies().validation.files, dict(self._objects() or {})
        gone = {
            file.source.name
            for file in found
            if any(each.policy.address == without for each in file.policies)
        }
        files = [
            (file.source.name, file.source.text)
            for file in found
            if not file.private and file.source.name not in {*objects, *gone}
        ]
        others = {name: raw for name, raw in objects.items() if name not in gone}
        return trial.Draft(draft.name, draft.text, files, others)

    @asynccontextmanager
    async def _turn(self) -> AsyncIterator[None]:
        """One draft at a time has the process."""
        if self._one.locked():
            raise web.HTTPTooManyRequests(text="the check of another draft has not ended\n")
        async with self._one:
            yield

    async def _told(self, draft: DraftText, function: Callable[..., T], *more: object) -> T:
        """What a function tells of a draft beside what is in force, when it has its turn."""
        async with self._turn():
            return await self._run(_CHECK_SECONDS, function, self._beside(draft), *more)

    async def _run(self, seconds: float, function: Callable[..., T], *args: object) -> T:
        """The result of a function in the process, given the schema too."""
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

    async def _read(self, request: web.Request, kind: type[T], what: str = "draft") -> T:
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
            raise web.HTTPBadRequest(text=f"the body is no {what}: {error}\n") from None


async def _one(part: bytes) -> AsyncIterator[bytes]:
    yield part
