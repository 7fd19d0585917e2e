"""The wire format of `admission.k8s.io/v1`: reviews of objects before they are stored."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from logging import Logger
from typing import Annotated, Any, Literal, Protocol

import msgspec
from aiohttp import web
from msgspec import Meta, Raw, Struct

from grammar.errors import EvaluationError
from grammar.values.time import SECOND, Duration
from policies.admission import changes_spec, lines
from policies.forms import GROUP
from policies.manifests import additions
from policies.validation import CheckedFile
from server.call import Admitted, CallRecord, is_encoded, read_body
from server.errors import Outcome, RequestError, failure_of
from server.metrics import Metrics
from server.settings import DECISION_SHARE, Settings
from server.wire import decode

API_VERSION = "admission.k8s.io/v1"
KIND = "AdmissionReview"
# An API server takes no larger objects, and a review has two of them.
MOST_BYTES = 8 * 1024 * 1024
# The API server passes on 4096 characters of warnings, and 256 of each where there are more.
WARNING_LENGTH, MOST_WARNINGS = 256, 16
LINE_LENGTH, MOST_LINES = 1024, 64

Operation = Literal["CREATE", "UPDATE", "DELETE", "CONNECT"]


@dataclass(frozen=True, slots=True)
class Review:
    """What is asked. `raw` and `old` are JSON, and empty where there is no such object."""

    uid: str
    operation: Operation
    group: str
    resource: str
    subresource: str
    namespace: str
    name: str
    raw: bytes
    old: bytes

    @property
    def key(self) -> str:
        """`resource/namespace/name`, as watched objects are called too."""
        return "/".join(part for part in (self.resource, self.namespace, self.name) if part)


class _Resource(Struct):
    resource: str
    group: str = ""


class _Request(Struct, rename="camel"):
    uid: Annotated[str, Meta(min_length=1)]
    operation: Operation
    resource: _Resource
    sub_resource: str = ""
    namespace: str = ""
    name: str = ""
    object: Raw = Raw()
    old_object: Raw = Raw()


class _Asked(Struct, rename="camel"):
    api_version: str = ""
    kind: str = ""
    request: _Request | None = None


class _Status(Struct, frozen=True, kw_only=True):
    status: str = "Failure"
    code: int
    reason: str
    message: str


class _Response(Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    uid: str
    allowed: bool
    status: _Status | None = None
    patch: bytes | None = None  # as base64
    patch_type: str | None = None
    warnings: tuple[str, ...] = ()


class _Answer(Struct, frozen=True, rename="camel"):
    response: _Response
    api_version: str = API_VERSION
    kind: str = KIND


_ASKED = msgspec.json.Decoder(_Asked)
_ENCODER = msgspec.json.Encoder()


def decode_review(body: bytes) -> Review:
    """Raises RequestError."""
    asked = decode(_ASKED, body)
    if (asked.api_version, asked.kind) != (API_VERSION, KIND):
        found = f"`{asked.kind[:100]}` of `{asked.api_version[:100]}`"
        raise RequestError(f"the request is {found}, not `{KIND}` of `{API_VERSION}`")
    request = asked.request
    if request is None:
        raise RequestError("the review has no `request`")
    return Review(
        uid=request.uid,
        operation=request.operation,
        group=request.resource.group,
        resource=request.resource.resource,
        subresource=request.sub_resource,
        namespace=request.namespace,
        name=request.name,
        raw=_given(request.object),
        old=_given(request.old_object),
    )


def allow(review: Review, warnings: Sequence[str] = (), patch: Sequence[Any] = ()) -> bytes:
    """The answer that lets an object pass, changed by a JSON patch if there is one."""
    response = _Response(
        uid=review.uid,
        allowed=True,
        patch=_ENCODER.encode(patch) if patch else None,
        patch_type="JSONPatch" if patch else None,
        warnings=_few(warnings, MOST_WARNINGS, WARNING_LENGTH),
    )
    return _ENCODER.encode(_Answer(response))


def deny(
    review: Review,
    errors: Sequence[str],
    warnings: Sequence[str] = (),
    *,
    code: int = 422,
    reason: str = "Invalid",
) -> bytes:
    """The answer that refuses an object: `errors` are a line each for whoever applied it."""
    # With `details`, kubectl would not show the message.
    message = "\n".join(_few(errors, MOST_LINES, LINE_LENGTH))
    response = _Response(
        uid=review.uid,
        allowed=False,
        status=_Status(code=code, reason=reason, message=message),
        warnings=_few(warnings, MOST_WARNINGS, WARNING_LENGTH),
    )
    return _ENCODER.encode(_Answer(response))


def _given(raw: Raw) -> bytes:
    found = bytes(raw)
    return b"" if found == b"null" else found


def _few(texts: Sequence[str], most: int, length: int) -> tuple[str, ...]:
    """So many at most, each in one line and no longer than that."""
    kept = [_line(text, length) for text in texts[:most]]
    if len(texts) > most:
        kept[-1] = f"and {len(texts) - most + 1} more"
    return tuple(kept)


def _line(text: str, length: int) -> str:
    """The API server drops a warning with a control character in it."""
    line = "".join(c if c.isprintable() else " " for c in text)
    return line if len(line) <= length else f"{line[: length - 1]}…"


# ---- The admission webhooks: the API server asks before it stores an object.

# A check is work for one core, on which kube-scheduler is answered too.
_AT_ONCE = 2


class Examiner(Protocol):
    """Who knows what is wrong with an object."""

    def examine(self, name: str, raw: bytes, old: bytes = b"") -> CheckedFile:
        """All that is, in any thread; `old` is what the object replaces."""


@dataclass(frozen=True, slots=True)
class Ruling:
    """An answer, and what is to be known of it: `error` says why the object is refused."""

    answer: bytes
    error: str = ""
    outcome: Outcome = Outcome.ANSWERED


class Admission:
    """Both webhooks as HTTP calls. Nothing is changed by them: a dry run is a call like any other.

    What cannot be understood is 400, what goes wrong is 500; the failurePolicy of the webhook says
    what follows.
    """

    def __init__(
        self, examiner: Examiner, settings: Settings, metrics: Metrics, log: Logger
    ) -> None:
        self._examiner = examiner
        self._settings = settings
        self._metrics = metrics
        self._log = log
        self._turns = asyncio.Semaphore(_AT_ONCE)

    async def mutate(self, request: web.Request, call: CallRecord) -> web.Response:
        """Fills in what the object leaves out."""
        return await self._answer(request, call, _mutated)

    async def validate(self, request: web.Request, call: CallRecord) -> web.Response:
        """Refuses what is no policy."""
        return await self._answer(request, call, self._validated)

    async def _answer(
        self, request: web.Request, call: CallRecord, decide: Callable[[Review], Ruling]
    ) -> web.Response:
        try:
            if is_encoded(request):
                call.outcome = Outcome.ENCODED_BODY
                return web.Response(status=415, text="the body must not be compressed\n")
            limit = min(self._settings.body_limit, MOST_BYTES)
            body = await read_body(request, limit, self._settings.body_seconds)
            call.received = len(body)
            review = decode_review(body)
            ruling = await self._ruling(review, decide, call.arrived + self._seconds(request))
        except Exception as error:  # noqa: BLE001  # whatever it is, the API server gets its answer
            failure = failure_of(error)
            call.outcome, call.error = failure.outcome, failure.text
            if failure.outcome is Outcome.INTERNAL:
                self._log.error("unexpected error in %s", call.verb, exc_info=error)
            status = 500 if failure.outcome is Outcome.INTERNAL else 400
            return web.Response(status=status, text=f"{failure.text}\n")
        call.outcome, call.error = ruling.outcome, ruling.error
        call.admitted = Admitted(review.operation, review.key, allowed=not ruling.error)
        self._metrics.admitted(call.verb, call.admitted)
        return web.Response(body=ruling.answer, content_type="application/json")

    async def _ruling(
        self, review: Review, decide: Callable[[Review], Ruling], deadline: float
    ) -> Ruling:
        if review.group != GROUP:
            # A webhook with rules that are too wide must not stop the cluster.
            group = review.group or "the core group"
            return Ruling(allow(review, [f"Placet has no say in objects of {group}"]))
        if review.operation not in {"CREATE", "UPDATE"} or review.subresource:
            return Ruling(allow(review))
        try:
            return await self._aside(lambda: decide(review), deadline)
        except TimeoutError:
            text = "there was no time to check this: try again, or with shorter rules"
            answer = deny(review, [text], code=504, reason="Timeout")
            return Ruling(answer, text, Outcome.DEADLINE)

    async def _aside(self, work: Callable[[], Ruling], deadline: float) -> Ruling:
        """What a thread makes of it; it keeps its turn until it ends. Raises TimeoutError."""
        async with asyncio.timeout_at(deadline):
            await self._turns.acquire()
            working = asyncio.ensure_future(asyncio.to_thread(work))
            working.add_done_callback(lambda _: self._turns.release())
            return await asyncio.shield(working)

    def _validated(self, review: Review) -> Ruling:
        # What is stored and broken can still get a label, or lose a finalizer.
        if review.old and not changes_spec(review.raw, review.old):
            return Ruling(allow(review))
        file = self._examiner.examine(review.key, review.raw, review.old)
        warnings = lines(file, "warning")
        if errors := lines(file, "error"):
            return Ruling(deny(review, errors, warnings), errors[0])
        return Ruling(allow(review, warnings))

    def _seconds(self, request: web.Request) -> float:
        """How long an answer may take: the API server says how long it waits, as `?timeout=5s`."""
        most = self._settings.decision_seconds
        try:
            asked = Duration.parse(request.query["timeout"]).nanos / SECOND
        except (KeyError, EvaluationError):
            return most
        return min(most, asked * DECISION_SHARE)


def _mutated(review: Review) -> Ruling:
    if review.old and not changes_spec(review.raw, review.old):
        return Ruling(allow(review))
    try:
        value = msgspec.json.decode(review.raw)
    except (ValueError, RecursionError):
        # What is wrong with it is for the other webhook to say.
        return Ruling(allow(review))
    return Ruling(allow(review, patch=additions(value)))
