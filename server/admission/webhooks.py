"""Admission webhooks: the API server asks about policy objects before it stores them.

The API server also asks about new pods of namespaces that opt in. The first part is the wire format
of `admission.k8s.io/v1`, the second the webhooks.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Annotated, Any, Literal
from weakref import WeakValueDictionary

import msgspec
from aiohttp import web
from msgspec import Meta, Raw, Struct

from engine.objects.gate import NewPod, marking
from engine.objects.peer import DEFAULT_SCHEDULER
from grammar.messages.texts import shown
from grammar.values.errors import EvaluationError
from grammar.values.time import SECOND, Duration
from policies.admission import Examiner, check_new, lines
from policies.manifest_text import GROUP
from policies.validation import CheckedFile
from server.admission.checking_process import CheckingProcess, CheckStoppedError, CheckTimeoutError
from server.call import CallRecord, ReviewedObject
from server.errors import Outcome, RequestError
from server.http.bodies import BodyReader, refuse_encoded
from server.http.middleware import VerbHandler
from server.metrics.metrics import Metrics
from server.settings import DECISION_SHARE, Settings
from server.wire import decode

API_VERSION = "admission.k8s.io/v1"
KIND = "AdmissionReview"
# A review has up to two objects, and an API server accepts no larger ones.
MOST_BYTES = 8 * 1024 * 1024
# The API server passes on 4096 characters of warnings, and of longer ones 256 characters each.
WARNING_LENGTH, MOST_WARNINGS = 256, 16
LINE_LENGTH, MOST_LINES = 1024, 64

Operation = Literal["CREATE", "UPDATE", "DELETE", "CONNECT"]


class _Resource(Struct):
    resource: str
    group: str = ""


class Review(Struct, rename="camel"):
    """The `request` of a review."""

    uid: Annotated[str, Meta(min_length=1)]
    operation: Operation
    resource: _Resource
    sub_resource: str = ""
    namespace: str = ""
    name: str = ""
    object: Raw = Raw()
    old_object: Raw = Raw()

    @property
    def key(self) -> str:
        """`resource/namespace/name`, the same as for watched objects."""
        parts = (self.resource.resource, self.namespace, self.name)
        return "/".join(part for part in parts if part)

    @property
    def is_new_pod(self) -> bool:
        is_pod = (self.resource.group, self.resource.resource) == ("", "pods")
        return is_pod and self.operation == "CREATE" and not self.sub_resource

    @property
    def new(self) -> bytes:
        """The JSON of the object; empty if there is none."""
        return _present(self.object)

    @property
    def old(self) -> bytes:
        """The JSON of the object that it replaces; empty if there is none."""
        return _present(self.old_object)


class _ReviewRequest(Struct, rename="camel"):
    api_version: str = ""
    kind: str = ""
    request: Review | None = None


_REVIEW = msgspec.json.Decoder(_ReviewRequest)
_NEW_POD = msgspec.json.Decoder(NewPod)


def decode_review(body: bytes) -> Review:
    """The review in a request. Raises RequestError."""
    review = decode(_REVIEW, body)
    if (review.api_version, review.kind) != (API_VERSION, KIND):
        found = f"`{review.kind[:100]}` of `{review.api_version[:100]}`"
        raise RequestError(f"the request is {found}, not `{KIND}` of `{API_VERSION}`")
    if review.request is None:
        raise RequestError("the review has no `request`")
    return review.request


def _present(raw: Raw) -> bytes:
    found = bytes(raw)
    return b"" if found == b"null" else found


def _few(texts: Sequence[str], most: int, length: int) -> tuple[str, ...]:
    """At most so many texts, each one line and at most so long; the last counts the others."""
    # The API server drops a warning with a control character.
    kept = [shown(text, length) for text in texts[:most]]
    if len(texts) > most:
        kept[-1] = f"and {len(texts) - most + 1} more"
    return tuple(kept)


# ---- the webhooks


@dataclass(frozen=True, slots=True)
class Ruling:
    """The ruling of a review: with `errors` an object is refused, else allowed and patched."""

    errors: Sequence[str] = ()
    warnings: Sequence[str] = ()
    patch: Sequence[Any] = ()
    outcome: Outcome = Outcome.ANSWERED

    def answer(self, review: Review) -> bytes:
        """The answer; the user sees each error as one line."""
        response: dict[str, Any] = {"uid": review.uid, "allowed": not self.errors}
        if self.errors:
            is_late = self.outcome is Outcome.DEADLINE
            code, reason = (504, "Timeout") if is_late else (422, "Invalid")
            # kubectl does not show the message if the status has `details`.
            message = "\n".join(_few(self.errors, MOST_LINES, LINE_LENGTH))
            status = {"status": "Failure", "code": code, "reason": reason, "message": message}
            response["status"] = status
        if self.patch:
            response |= {"patch": msgspec.json.encode(self.patch), "patchType": "JSONPatch"}
        if self.warnings:
            response["warnings"] = _few(self.warnings, MOST_WARNINGS, WARNING_LENGTH)
        whole = {"apiVersion": API_VERSION, "kind": KIND, "response": response}
        return msgspec.json.encode(whole)


# The last part of the path of each webhook.
WEBHOOK_VERBS = ("validate", "pods", "gate")
# The JSON patch of a new pod by portable policies.
Tell = Callable[[bytes], Sequence[Any]]
Decide = Callable[[Review, float], Awaitable[Ruling]]


@dataclass(frozen=True, slots=True)
class WebhookParts:
    """What the webhooks work with: who examines policies, and in which processes.

    `scheduler` is the `schedulerName` of the pods of namespaces that opt in. `tell` gives new pods
    what portable policies say about them.
    """

    examiner: Examiner
    processes: Sequence[CheckingProcess] = ()
    scheduler: str = DEFAULT_SCHEDULER
    tell: Tell = lambda _: ()


class AdmissionWebhooks:
    """The webhooks as HTTP handlers. They change nothing, so a dry run is a call like any other.

    Policies are read in processes that can be killed; a namespace has one check at a time.

    A request that cannot be read gets 400, a fault of Placet 500; the failurePolicy of the webhook
    then decides about the object.
    """

    def __init__(
        self, parts: WebhookParts, settings: Settings, metrics: Metrics, bodies: BodyReader
    ) -> None:
        self._parts = parts
        self._settings = settings
        self._metrics = metrics
        self._bodies = bodies
        self._free = asyncio.Semaphore(len(parts.processes))
        # The last one is taken first, so that the others run only if checks come together.
        self._processes = [*parts.processes]
        self._turns: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()

    @property
    def handlers(self) -> Mapping[str, VerbHandler]:
        """The handler of each webhook, by its verb."""
        decided: tuple[Decide, ...] = (self._ruling, self._assigned, self._marked)
        made = (partial(self._answer, decide) for decide in decided)
        return dict(zip(WEBHOOK_VERBS, made, strict=True))

    async def _answer(self, decide: Decide, request: web.Request, call: CallRecord) -> web.Response:
        try:
            if (refusal := refuse_encoded(request, call)) is not None:
                return refusal
            limit = min(self._settings.body_limit, MOST_BYTES)
            body = await self._bodies.read(request, call, limit)
            review = decode_review(body)
            ruling = await decide(review, call.arrived + self._seconds(request))
        except Exception as error:  # noqa: BLE001  # the API server always gets an answer
            failure = call.fail(error)
            status = 500 if failure.outcome is Outcome.INTERNAL else 400
            return web.Response(status=status, text=f"{failure.text}\n")
        call.outcome, call.error = ruling.outcome, next(iter(ruling.errors), "")
        call.reviewed = ReviewedObject(review.operation, review.key, allowed=not ruling.errors)
        labels = call.verb, review.operation, "false" if ruling.errors else "true"
        self._metrics.count("placet_admissions_total", *labels)
        return web.Response(body=ruling.answer(review), content_type="application/json")

    async def _marked(self, review: Review, _deadline: float) -> Ruling:
        """Marks a new pod, so that kube-scheduler asks about it, and tells others of policies."""
        if not review.is_new_pod:
            return Ruling()
        return Ruling(patch=[*marking(decode(_NEW_POD, review.new)), *self._parts.tell(review.new)])

    async def _assigned(self, review: Review, _deadline: float) -> Ruling:
        """Gives a new pod that names no scheduler the one that calls this server."""
        # The scheduler of a pod never changes.
        if not review.is_new_pod:
            return Ruling()
        named, own = decode(_NEW_POD, review.new).spec.scheduler_name, self._parts.scheduler
        if named not in ("", DEFAULT_SCHEDULER) or own == DEFAULT_SCHEDULER:
            return Ruling()
        change = {"op": "add", "path": "/spec/schedulerName", "value": own}
        return Ruling(patch=[change])

    async def _ruling(self, review: Review, deadline: float) -> Ruling:
        """Refuses an object that is not a valid policy."""
        if review.resource.group != GROUP:
            # A webhook whose rules match too much must not stop the cluster.
            group = review.resource.group or "the core group"
            return Ruling(warnings=[f"Placet does not check objects of {group}"])
        if review.operation not in {"CREATE", "UPDATE"} or review.sub_resource:
            return Ruling()
        try:
            file = await self._in_turn(review, deadline)
        except CheckStoppedError as error:
            is_late = isinstance(error, CheckTimeoutError)
            outcome = Outcome.DEADLINE if is_late else Outcome.ANSWERED
            return Ruling([f"{error.message}: {error.hint}"], outcome=outcome)
        if file is None:
            return Ruling()
        return Ruling(lines(file, "error"), lines(file, "warning"))

    async def _in_turn(self, review: Review, deadline: float) -> CheckedFile | None:
        """The result of a thread that waits for a process. Raises CheckStoppedError."""
        turn = self._turns.setdefault(review.namespace, asyncio.Lock())
        try:
            async with asyncio.timeout_at(deadline):
                await turn.acquire()
                try:
                    await self._free.acquire()
                except BaseException:
                    turn.release()
                    raise
        except TimeoutError:
            hint = "try again later"
            raise CheckTimeoutError("other checks did not finish in time", hint) from None
        process = self._processes.pop()

        def done(_: object) -> None:
            self._processes.append(process)
            self._free.release()
            turn.release()

        seconds = deadline - asyncio.get_running_loop().time()
        working = asyncio.ensure_future(asyncio.to_thread(self._checked, review, process, seconds))
        # A caller that is gone leaves the process busy.
        working.add_done_callback(done)
        return await asyncio.shield(working)

    def _checked(
        self, review: Review, process: CheckingProcess, seconds: float
    ) -> CheckedFile | None:
        """The object as it would stand beside the others; None if nothing is to be checked."""
        arguments = (review.key, review.new, review.old, process.schema)
        file = process.run(seconds, check_new, *arguments)
        return None if file is None else self._parts.examiner.examine(file)

    def _seconds(self, request: web.Request) -> float:
        """Seconds for an answer: the API server sends its own timeout, as `?timeout=5s`."""
        most = self._settings.decision_seconds
        try:
            asked = Duration.parse(request.query["timeout"]).nanos / SECOND
        except (KeyError, EvaluationError):
            return most
        return min(most, asked * DECISION_SHARE)
