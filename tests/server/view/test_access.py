"""ViewAccess: who gets which answer of a shared view, and what the API server is asked for it."""

from __future__ import annotations

import base64
import json
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from typing import Any

import pytest
from aiohttp import ClientSession, web
from aiohttp.test_utils import TestClient, TestServer

from engine.errors import ApiError, ApiUnreachableError
from server.view.routes import API
from server.view.view_access import ViewAccess, guard


@dataclass
class Users:
    """An API server that knows two users: one of the whole cluster, and one of the namespace shop.

    It keeps what it was asked; with `error` it answers with that.
    """

    asked: list[tuple[str, Any]] = field(default_factory=list)
    error: Exception | None = None
    body: bytes | None = None

    async def request(
        self,
        method: str,
        path: str,
        *,
        body: bytes | None = None,
        content_type: str = "application/json",
        timeout_seconds: float = 30.0,
    ) -> bytes:
        assert (method, content_type) == ("POST", "application/json")
        assert timeout_seconds <= 5.0
        review = json.loads(body or b"")
        self.asked.append((review["kind"], review["spec"]))
        if self.error is not None:
            raise self.error
        if self.body is not None:
            return self.body
        if path.endswith("tokenreviews"):
            token = review["spec"]["token"]
            user = {"username": token, "groups": ["team"], "extra": {"scope": ["a"]}}
            known = token in ("admin", "jane")
            return json.dumps({"status": {"authenticated": known, "user": user}}).encode()
        about = review["spec"]["resourceAttributes"]
        assert (about["verb"], about["resource"]) == ("list", "pods")
        user, namespace = review["spec"]["user"], about["namespace"]
        allowed = user == "admin" or (user, namespace) == ("jane", "shop")
        return json.dumps({"status": {"allowed": allowed}}).encode()


@dataclass
class Asked:
    users: Users
    client: ClientSession | TestClient[Any, Any]
    seconds: list[float]

    async def get(self, path: str, token: str = "", **headers: str) -> tuple[int, str]:
        given = {"Authorization": f"Bearer {token}"} if token else {}
        async with self.client.get(path, headers={**given, **headers}) as response:
            return response.status, await response.text()

    async def status(self, path: str, token: str = "") -> int:
        return (await self.get(path, token))[0]


@pytest.fixture
async def view() -> AsyncIterator[Asked]:
    users, seconds = Users(), [0.0]

    async def answer(request: web.Request) -> web.Response:
        reader = await access.check(request)
        found = None if reader.namespaces is None else sorted(reader.namespaces)
        return web.json_response(found, headers={"Owner": reader.owner})

    access = ViewAccess(users, lambda: seconds[0])
    app = web.Application(middlewares=[guard(access)])
    app.add_routes(
        web.get(path, answer)
        for path in (
            *("/", "/ui/{path:.*}", f"{API}/overview"),
            *(f"{API}/explain/{{namespace}}/{{name}}", f"{API}/policies/{{name}}"),
            *(f"{API}/policies/{{namespace}}/{{name}}", f"{API}/decisions", f"{API}/history"),
        )
    )
    async with TestClient(TestServer(app)) as client:
        yield Asked(users, client, seconds)


async def test_readers_of_a_namespace_have_turns_together_and_others_their_own(view: Asked) -> None:
    async def owner(token: str) -> str:
        path, headers = f"{API}/explain/shop/web", {"Authorization": f"Bearer {token}"}
        async with view.client.get(path, headers=headers) as response:
            return response.headers["Owner"]

    assert (await owner("jane"), await owner("admin")) == ("shop", "user admin")


async def test_without_a_token_nothing_is_told_but_how_to_get_one(view: Asked) -> None:
    for path in ("/", "/ui/page.js", f"{API}/overview"):
        async with view.client.get(path) as response:
            assert response.status == 401
            assert response.headers["WWW-Authenticate"].startswith("Basic realm=")
            assert "kubectl create token" in await response.text()
    assert view.users.asked == []


async def test_a_right_that_could_not_be_looked_up_in_full_is_asked_for_again(view: Asked) -> None:
    status = {"allowed": False, "evaluationError": "webhook: context deadline exceeded"}
    assert await view.status("/ui/", "jane") == 200
    view.users.body = json.dumps({"status": status}).encode()
    assert await view.status(f"{API}/overview", "jane") == 403
    view.users.body = b'{"status": {"allowed": true}}'
    view.seconds[0] += 6.0
    assert await view.status(f"{API}/overview", "jane") == 200


async def test_a_token_that_the_cluster_does_not_know(view: Asked) -> None:
    assert await view.status("/ui/", "mallory") == 401
    assert await view.status("/ui/", "mallory") == 401
    assert len(view.users.asked) == 1, "it is not asked about again at once"
    view.seconds[0] += 6.0
    await view.status("/ui/", "mallory")
    assert len(view.users.asked) == 2


@pytest.mark.parametrize(
    "header",
    [
        "Basic " + base64.b64encode(b"me:admin").decode(),
        "basic " + base64.b64encode(b":admin").decode(),
        "bearer admin",
    ],
)
async def test_a_token_may_be_a_password(view: Asked, header: str) -> None:
    assert (await view.get(f"{API}/overview", Authorization=header))[0] == 200


@pytest.mark.parametrize("header", ["Basic !!", "Basic", "Digest a", "Bearer ", "Basic bWU6"])
async def test_a_header_that_is_none(view: Asked, header: str) -> None:
    assert (await view.get("/", Authorization=header))[0] == 401
    assert view.users.asked == []


async def test_who_may_list_all_pods_sees_everything(view: Asked) -> None:
    for path in ("overview", "explain/shop/web-1", "policies/a", "policies/shop/a", "decisions"):
        status, text = await view.get(f"{API}/{path}", "admin")
        assert (status, json.loads(text)) == (200, None)


@pytest.mark.parametrize(
    ("path", "status"),
    [
        ("/", 200),
        ("/ui/page.js", 200),
        (f"{API}/explain/shop/web-1", 200),
        (f"{API}/policies/shop/a", 200),
        (f"{API}/decisions?namespace=shop", 200),
        (f"{API}/explain/bank/vault-1", 403),
        (f"{API}/policies/bank/a", 403),
        (f"{API}/explain/{'a' * 64}/a", 403),
        (f"{API}/policies/a", 403),
        (f"{API}/decisions", 403),
        (f"{API}/decisions?namespace=bank", 403),
        (f"{API}/decisions?namespace=", 403),
        (f"{API}/history?policy=shop/a", 200),
        (f"{API}/history?policy=a", 403),
        (f"{API}/history", 403),
        (f"{API}/overview", 403),
    ],
)
async def test_who_may_list_the_pods_of_a_namespace_sees_that(
    view: Asked, path: str, status: int
) -> None:
    found, text = await view.get(path, "jane")
    assert found == status
    if found == 200 and path.startswith(API):
        assert json.loads(text) == ["shop"], "the answer is made for this namespace"


async def test_a_refusal_says_which_right_is_missing(view: Asked) -> None:
    _, text = await view.get(f"{API}/explain/bank/vault-1", "jane")
    assert text == "`jane` may not list the pods of the namespace `bank`\n"
    _, text = await view.get(f"{API}/overview", "jane")
    assert text == "`jane` may not list the pods of all namespaces, which this answer is about\n"


async def test_rights_are_those_of_the_user_and_kept_for_a_minute(view: Asked) -> None:
    for _ in range(3):
        assert await view.status(f"{API}/explain/shop/web-1", "jane") == 200
    kinds = [kind for kind, _ in view.users.asked]
    assert kinds == ["TokenReview", "SubjectAccessReview", "SubjectAccessReview"]
    spec = view.users.asked[-1][1]
    assert (spec["user"], spec["groups"], spec["extra"]) == ("jane", ["team"], {"scope": ["a"]})
    view.seconds[0] += 61.0
    await view.status(f"{API}/explain/shop/web-1", "jane")
    assert len(view.users.asked) == 6


async def test_many_tokens_do_not_become_many_questions(view: Asked) -> None:
    """The API server has other things to do for Placet."""
    statuses = [await view.status("/ui/", f"guess-{number}") for number in range(100)]
    assert statuses.count(401) == 20
    assert statuses.count(429) == 80
    view.seconds[0] += 1.0
    assert await view.status("/ui/", "admin") == 200


async def test_who_was_known_is_not_kept_out_by_others_of_the_same_address(view: Asked) -> None:
    path = f"{API}/explain/shop/web-1"
    assert await view.status(path, "jane") == 200
    for second in range(200):
        view.seconds[0] += 1.0
        for number in range(5):
            assert await view.status("/ui/", f"guess-{second}-{number}") in (401, 429)
        assert await view.status(path, "jane") == 200
    assert len(view.users.asked) < 1000


async def test_other_addresses_have_questions_of_their_own(
    view: Asked, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also while many of them ask about unknown tokens."""
    host = ["10.0.0.1"]
    monkeypatch.setattr(web.Request, "remote", property(lambda _: host[0]))
    for number in range(2000):
        host[0] = f"10.0.0.{number % 50}"
        await view.status("/ui/", f"guess-{number}")
    assert len(view.users.asked) == 90, "one of each, and those of all"
    host[0] = "10.0.1.1"
    assert await view.status("/ui/", "admin") == 200


async def test_who_was_known_stays_so_for_ten_minutes(view: Asked) -> None:
    """While the API server does not answer; one that says no is believed at once."""
    path = f"{API}/explain/shop/web-1"
    assert await view.status(path, "jane") == 200
    view.users.error = ApiUnreachableError("cannot reach it")
    for _ in range(59):
        view.seconds[0] += 10.0
        assert await view.status(path, "jane") == 200
    assert await view.status(path, "admin") == 503
    view.seconds[0] += 10.0
    assert await view.status(path, "jane") == 503
    view.users.error = None
    view.seconds[0] += 10.0
    assert await view.status(path, "jane") == 200
    view.seconds[0] += 61.0
    view.users.body = b'{"status": {"authenticated": false}}'
    assert await view.status(path, "jane") == 401


@pytest.mark.parametrize(
    ("error", "says"),
    [
        (ApiError(403, "Forbidden", "no"), "apply deploy/rbac/view"),
        (ApiError(500, "InternalError", "etcd is away"), "etcd is away"),
        (ApiUnreachableError("cannot reach it"), "cannot reach it"),
    ],
)
async def test_an_api_server_that_does_not_say(view: Asked, error: Exception, says: str) -> None:
    view.users.error = error
    status, text = await view.get(f"{API}/overview", "admin")
    assert status == 503
    assert says in text


async def test_an_answer_that_is_no_review(view: Asked) -> None:
    view.users.body = b"<html>"
    assert await view.status(f"{API}/overview", "admin") == 503
    view.users.body = b"{}"
    view.seconds[0] += 10.0
    assert await view.status(f"{API}/overview", "admin") == 401
