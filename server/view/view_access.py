"""Access: who may see what in a view that users of the cluster share.

The API server says who somebody is (TokenReview) and what they may see (SubjectAccessReview): who
may list the pods of all namespaces sees everything, and who may list those of a namespace sees what
is about that namespace. Answers are kept for a while. A hostile client cannot have Placet ask more
than a few times a second, and keeps nobody else from being asked about.

The token comes as a bearer token, as programs send it, or as the password of HTTP's own
authentication, for which browsers ask. Every call has it; there is no session.
"""

from __future__ import annotations

import base64
import hashlib
import time
from collections.abc import Callable, Hashable, Mapping
from typing import Literal

import msgspec
from aiohttp import web
from aiohttp.typedefs import Handler, Middleware
from cachetools import TTLCache

from engine.cluster.client import Api, TokenBucket
from engine.errors import ApiError, EngineError
from engine.explanation.reader import Reader
from grammar.messages.texts import shown
from server.http.places import address_of
from server.view.routes import API, ROUTES

# The kinds of questions to the API server: the version of their API, and the name.
_Kind = tuple[str, str]
_TOKENS: _Kind = ("authentication.k8s.io/v1", "TokenReview")
_ACCESS: _Kind = ("authorization.k8s.io/v1", "SubjectAccessReview")
# What was answered holds for so long; a token that was not accepted is asked about again sooner.
_KEPT_SECONDS, _REFUSED_SECONDS = 60.0, 5.0
# While there is no newer answer, it holds for so long, and is asked for again after that.
_GOOD_SECONDS, _AGAIN_SECONDS = 600.0, 10.0
_MOST_KEPT = 1000
_LONGEST_TOKEN, _LONGEST_NAMESPACE = 16 * 1024, 63
# Questions to the API server in a second, on average and in a burst: of one client, and of all of a
# kind that have asked before.
_OF_ONE, _OF_ALL = (2.0, 20), (10.0, 40)
_REVIEW_SECONDS = 5.0
_CHALLENGE = {
    "WWW-Authenticate": 'Basic realm="any name, and a token of the cluster as the password"'
}
# Where a request has its reader.
READER = web.RequestKey("reader", Reader)
# The rights that paths take; all others are about the cluster.
_RIGHTS = {f"{API}{each.path}": each.right for each in ROUTES}


class User(msgspec.Struct, frozen=True):
    """The user of a token, as the API server says it (authentication.k8s.io/v1)."""

    username: str = ""
    uid: str = ""
    groups: tuple[str, ...] = ()
    extra: dict[str, list[str]] = {}


class _ReviewStatus(msgspec.Struct, frozen=True):
    """The status of a TokenReview, or of a SubjectAccessReview, which has `allowed` alone."""

    authenticated: bool = False
    user: User = User()
    allowed: bool = False
    evaluationError: str = ""


class _Review(msgspec.Struct, frozen=True):
    status: _ReviewStatus = _ReviewStatus()


class _KnownReview(msgspec.Struct):
    """A known review: an answer of the API server, and until when nobody asks for a newer one."""

    status: _ReviewStatus
    until: float


# What questions are bounded by: the address of an unknown token, or a user whose token was good.
_Client = tuple[Literal["address", "user"], str]
_Reviews = TTLCache[Hashable, _KnownReview]


class ViewAccess:
    """The access to one shared view, by what the API server says of users. On one event loop."""

    def __init__(self, api: Api, clock: Callable[[], float] = time.monotonic) -> None:
        self._api = api
        self._clock = clock
        self._all = {kind: TokenBucket(*_OF_ALL, clock) for kind in ("address", "user")}
        self._clients: TTLCache[_Client, TokenBucket] = TTLCache(_MOST_KEPT, _KEPT_SECONDS, clock)
        # By a digest of the token, so that no token is kept.
        self._users: _Reviews = TTLCache(_MOST_KEPT, _GOOD_SECONDS, clock)
        self._refused: TTLCache[bytes, None] = TTLCache(_MOST_KEPT, _REFUSED_SECONDS, clock)
        # By the digest and the namespace, which is empty for all.
        self._rights: _Reviews = TTLCache(_MOST_KEPT, _GOOD_SECONDS, clock)

    async def check(self, request: web.Request) -> Reader:
        """The reader of the answer. Raises HTTPException for who may not see it."""
        token = _token(request)
        digest = hashlib.sha256(token.encode(errors="surrogatepass")).digest()
        user = await self._user(token, digest, request.remote or "")
        # A file of the page, and what leads to it, is the same for every cluster.
        is_for_all = request.path in ("/", "/ui") or request.path.startswith("/ui/")
        if is_for_all or await self._may(user, digest, ""):
            return Reader(owner=f"user {user.uid or user.username}")
        namespace = _namespace(request)
        if not namespace:
            raise _forbidden(user, "all namespaces, which this answer is about")
        is_name = len(namespace) <= _LONGEST_NAMESPACE
        if not is_name or not await self._may(user, digest, namespace):
            raise _forbidden(user, f"the namespace `{shown(namespace)}`")
        return Reader(frozenset({namespace}), namespace)

    async def _user(self, token: str, digest: bytes, host: str) -> User:
        known = self._users.get(digest)
        if known is None and digest in self._refused:
            raise _unauthorized("the API server does not accept this token")
        client = _client(known.status.user) if known is not None else ("address", address_of(host))
        status = await self._review(self._users, digest, client, _TOKENS, {"token": token})
        if not status.authenticated:
            self._users.pop(digest, None)
            self._refused[digest] = None
            raise _unauthorized("the API server does not accept this token")
        return status.user

    async def _may(self, user: User, digest: bytes, namespace: str) -> bool:
        """Whether a user may list the pods of a namespace, or of all."""
        about = {"verb": "list", "resource": "pods", "version": "v1", "namespace": namespace}
        spec = {
            "user": user.username,
            "uid": user.uid,
            "groups": user.groups,
            "extra": user.extra,
            "resourceAttributes": about,
        }
        key, client = (digest, namespace), _client(user)
        return (await self._review(self._rights, key, client, _ACCESS, spec)).allowed

    async def _review(
        self,
        reviews: _Reviews,
        key: Hashable,
        client: _Client,
        kind: _Kind,
        spec: Mapping[str, object],
    ) -> _ReviewStatus:
        """The answer that is known, or a new one; the known one where there is no new one."""
        known, now = reviews.get(key), self._clock()
        if known is not None:
            if now < known.until:
                return known.status
            # Others need not wait for the new one.
            known.until = now + _AGAIN_SECONDS
        try:
            status = await self._ask(client, kind, spec)
        except web.HTTPException:
            if known is None:
                raise
            return known.status
        # Who could not be looked up in full may be allowed the next time.
        is_sure = status.allowed or not status.evaluationError
        kept = _KEPT_SECONDS if is_sure else _REFUSED_SECONDS
        reviews[key] = _KnownReview(status, now + kept)
        return status

    def _may_ask(self, client: _Client) -> bool:
        """Whether there may be another question; the first one of a client never waits for others.

        So neither an address with many tokens nor many addresses keep out the next one.
        """
        if (own := self._clients.get(client)) is None:
            own = self._clients[client] = TokenBucket(*_OF_ONE, self._clock)
            return own.try_take()
        return own.try_take() and self._all[client[0]].try_take()

    async def _ask(self, client: _Client, kind: _Kind, spec: Mapping[str, object]) -> _ReviewStatus:
        if not self._may_ask(client):
            raise web.HTTPTooManyRequests(
                text="too many users at once are unknown: try again in a second\n"
            )
        version, name = kind
        path, seconds = f"/apis/{version}/{name.lower()}s", _REVIEW_SECONDS
        body = msgspec.json.encode({"apiVersion": version, "kind": name, "spec": spec})
        try:
            found = await self._api.request("POST", path, body=body, timeout_seconds=seconds)
            return msgspec.json.decode(found, type=_Review).status
        except EngineError as error:
            why = f"{error}"
            if isinstance(error, ApiError) and error.status == 403:
                why += " (apply deploy/rbac/view, or `rbac.view` of the chart)"
        except ValueError:
            why = "the API server gives no review"
        raise web.HTTPServiceUnavailable(text=f"cannot ask who you are: {why}\n")


def guard(access: ViewAccess) -> Middleware:
    """The middleware of a shared view."""

    @web.middleware
    async def guarded(request: web.Request, handler: Handler) -> web.StreamResponse:
        request[READER] = await access.check(request)
        return await handler(request)

    return guarded


def _client(user: User) -> _Client:
    return "user", user.uid or user.username


def _token(request: web.Request) -> str:
    """The token of a request. Raises HTTPUnauthorized."""
    scheme, _, given = request.headers.get("Authorization", "").partition(" ")
    token = ""
    if scheme.lower() == "bearer":
        token = given.strip()
    elif scheme.lower() == "basic":
        try:
            _, _, token = base64.b64decode(given, validate=True).decode().partition(":")
        except ValueError:
            raise _unauthorized("the name and password cannot be read") from None
    if not token:
        raise _unauthorized("this view wants a token of the cluster: kubectl create token NAME")
    if len(token) > _LONGEST_TOKEN:
        raise _unauthorized("the API server does not accept this token")
    return token


def _namespace(request: web.Request) -> str:
    """The namespace that an answer is about; empty where it is about the cluster."""
    resource = request.match_info.route.resource
    match _RIGHTS.get(resource.canonical) if resource is not None else None:
        case "path":
            return request.match_info["namespace"]
        case "query":
            return request.query.get("namespace", "")
        case "policy":
            namespace, slash, _ = request.query.get("policy", "").partition("/")
            return namespace if slash else ""
        case _:
            return ""


def _unauthorized(text: str) -> web.HTTPUnauthorized:
    return web.HTTPUnauthorized(text=f"{text}\n", headers=_CHALLENGE)


def _forbidden(user: User, where: str) -> web.HTTPForbidden:
    return web.HTTPForbidden(text=f"`{shown(user.username)}` may not list the pods of {where}\n")
