"""Calls of the admission webhooks: access, failures, timeouts and shipped configurations."""

from __future__ import annotations

import asyncio
import io
import threading
import time
from pathlib import Path
from typing import Any

import msgspec
import pytest
import yaml

from grammar.schema import load_schema
from policies.admission import Examiner
from policies.crds import definitions
from policies.forms import GROUP
from policies.resource import VERSIONS
from policies.validation import Validation
from server.app import MUTATE, VALIDATE
from server.settings import Settings
from tests.server.conftest import Serve
from tests.support.certificates import Keyring
from tests.support.manifests import on_wanted, placement_policy
from tests.support.reviews import raw_review, refused, responded, review
from tests.support.secured import secured
from tests.support.served import Served

ROOT = Path(__file__).parents[2]
SCHEMA = load_schema()
GOOD = on_wanted(3)


@pytest.fixture
async def served(serve: Serve) -> Served:
    return await serve(examiner=Examiner(SCHEMA, no_policies))


def no_policies() -> Validation:
    return Validation(())


def request_with(**request: Any) -> bytes:
    return msgspec.json.encode(review(placement_policy(GOOD), **request))


@pytest.mark.parametrize(
    ("body", "text"),
    [
        (b"", "the request has no body"),
        (b"{", "the request is not JSON: "),
        (b"\xff", "the request is not JSON: "),
        (b"[]", "the request does not follow the protocol: "),
        (b"{}", "the request is `` of ``, not `AdmissionReview` of `admission.k8s.io/v1`"),
        (
            request_with().replace(b"k8s.io/v1", b"k8s.io/v1beta1", 1),
            "the request is `AdmissionReview` ",
        ),
        (
            request_with().replace(b'"AdmissionReview"', b'"Review"'),
            "the request is `Review` of ",
        ),
        (
            b'{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview"}',
            "the review has no `request`",
        ),
        (request_with(uid=""), "the request does not follow the protocol: "),
        (request_with(operation="PATCH"), "the request does not follow the protocol: "),
        (request_with(resource=None), "the request does not follow the protocol: "),
        (raw_review(b'{"kind":"\\ud800"}'), "the request is not JSON: "),
        (raw_review(b"[" * 100_000 + b"]" * 100_000), "the request is nested too deeply"),
    ],
    ids=lambda value: value.decode("latin-1")[:40] if isinstance(value, bytes) else None,
)
@pytest.mark.parametrize("path", ["mutate", "validate"])
async def test_a_body_that_is_not_a_review(
    served: Served, body: bytes, text: str, path: str
) -> None:
    answer = await served.post(f"/admission/{path}", body)
    assert answer.status == 400
    assert answer.text.startswith(text)
    assert answer.body.count(b"\n") == 1


async def test_a_review_of_nine_megabytes(served: Served) -> None:
    body = io.BytesIO(raw_review(b'"' + b"x" * 9_000_000 + b'"'))
    answer = await served.request("POST", "/admission/validate", body)
    assert answer.status == 400
    assert answer.text == "the body of the request is larger than 8388608 bytes\n"


async def test_other_methods_and_compressed_bodies(served: Served) -> None:
    compressed = {"Content-Encoding": "gzip"}
    assert (await served.get("/admission/validate")).status == 405
    assert (await served.post("/admission/validate", request_with(), compressed)).status == 415


async def test_the_api_server_needs_no_certificate(tmp_path: Path) -> None:
    """It has one only if it is configured for this webhook."""
    keyring = Keyring(tmp_path)
    keyring.write()
    examiner = Examiner(SCHEMA, no_policies)
    async with (
        secured(keyring.mutual("system:kube-scheduler"), examiner) as server,
        server.session(keyring.client()) as session,
    ):
        for path in ("mutate", "validate"):
            async with session.post(f"/admission/{path}", data=request_with()) as answer:
                assert (await answer.json())["response"]["allowed"]


async def test_admissions_are_counted_and_logged(
    served: Served, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO", "placet")
    bad = placement_policy(GOOD | {"weight": 1}, namespace="shop")
    await refused(served, review(bad))
    await responded(served, review(placement_policy(GOOD), "UPDATE"))
    await responded(served, review(placement_policy(GOOD)), "mutate")
    counted = [
        ("validate", "CREATE", "false"),
        ("validate", "UPDATE", "true"),
        ("mutate", "CREATE", "true"),
    ]
    for verb, operation, allowed in counted:
        labels = {"verb": verb, "operation": operation, "allowed": allowed}
        assert served.metric("placet_admissions_total", **labels) == 1
    assert caplog.messages[0].startswith(
        'answered verb="validate" operation="CREATE" object="placementpolicies/shop/web"'
        ' allowed=false code=200 outcome="answered" '
    )
    assert 'err="spec.weight error[P0503]: ' in caplog.messages[0]
    assert served.calls("validate", "answered") == 2


class WaitingExaminer(Examiner):
    """An examiner that waits until the test sets `go`, and counts its checks."""

    def __init__(self) -> None:
        super().__init__(SCHEMA, self._wait)
        self.go = threading.Event()
        self.checks = 0

    def _wait(self) -> Validation:
        self.checks += 1
        self.go.wait(20)
        return no_policies()


async def test_an_answer_comes_in_time(serve: Serve) -> None:
    """Two objects are checked at a time, however many come."""
    examiner = WaitingExaminer()
    served = await serve(examiner=examiner)
    path, body = "/admission/validate?timeout=500ms", request_with()
    started = time.monotonic()
    answers = await asyncio.gather(*(served.post(path, body) for _ in range(5)))
    assert time.monotonic() - started < 3
    assert examiner.checks == 2
    for answer in answers:
        found = answer.json["response"]
        assert not found["allowed"]
        assert (found["status"]["code"], found["status"]["reason"]) == (504, "Timeout")
        assert found["status"]["message"].startswith("the check did not finish in time: try again")
    assert (await served.get("/livez")).status == 200
    assert served.calls("validate", "deadline") == 5
    examiner.go.set()
    assert (await served.post(path, body)).json["response"]["allowed"]


@pytest.mark.parametrize("query", ["", "?timeout=", "?timeout=never", "?timeout=300s"])
async def test_the_server_s_own_timeout_holds(serve: Serve, query: str) -> None:
    examiner = WaitingExaminer()
    served = await serve(examiner=examiner, settings=Settings(http_timeout=0.5))
    answer = await served.post(f"/admission/validate{query}", request_with())
    examiner.go.set()
    assert answer.json["response"]["status"]["code"] == 504


def broken() -> Validation:
    raise ZeroDivisionError("secret")


async def test_an_internal_error(serve: Serve, caplog: pytest.LogCaptureFixture) -> None:
    """The webhook's failurePolicy decides about the object."""
    served = await serve(examiner=Examiner(SCHEMA, broken))
    answer = await served.post("/admission/validate", request_with())
    assert (answer.status, b"secret" in answer.body) == (500, False)
    assert answer.body == b"internal error: see the log of Placet\n"
    assert "unexpected error in validate" in caplog.text


async def test_without_an_examiner_there_are_no_webhooks(serve: Serve) -> None:
    served = await serve()
    assert (await served.post("/admission/validate", request_with())).status == 404


@pytest.mark.parametrize(
    "file", sorted((ROOT / "deploy" / "admission").iterdir()), ids=lambda file: file.stem
)
def test_shipped_configurations_match_the_server(file: Path) -> None:
    configuration = yaml.safe_load(file.read_text(encoding="utf-8"))
    (webhook,) = configuration["webhooks"]
    path = {"mutating": MUTATE, "validating": VALIDATE}[file.stem]
    assert webhook["clientConfig"]["service"]["path"] == path
    (rule,) = webhook["rules"]
    made = [each["spec"] for each in definitions().values()]
    assert rule["apiGroups"] == [GROUP]
    assert rule["apiVersions"] == [*VERSIONS]
    assert rule["resources"] == [spec["names"]["plural"] for spec in made]
    assert (webhook["failurePolicy"], webhook["sideEffects"]) == ("Ignore", "None")
    assert (webhook["timeoutSeconds"], webhook["matchPolicy"]) == (5, "Equivalent")
    assert webhook["admissionReviewVersions"] == ["v1"]
