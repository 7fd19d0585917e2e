"""Calls of the admission webhooks: who may make them, how they fail, how long they take."""

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
    return await serve(examiner=Examiner(SCHEMA, nothing))


def nothing() -> Validation:
    return Validation(())


def edited(**request: Any) -> bytes:
    return msgspec.json.encode(review(placement_policy(GOOD), **request))


@pytest.mark.parametrize(
    ("body", "text"),
    [
        (b"", "the request has no body"),
        (b"{", "the request is not JSON: "),
        (b"\xff", "the request is not JSON: "),
        (b"[]", "the request does not follow the protocol: "),
        (b"{}", "the request is `` of ``, not `AdmissionReview` of `admission.k8s.io/v1`"),
        (edited().replace(b"k8s.io/v1", b"k8s.io/v1beta1", 1), "the request is `AdmissionReview` "),
        (edited().replace(b'"AdmissionReview"', b'"Review"'), "the request is `Review` of "),
        (
            b'{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview"}',
            "the review has no `request`",
        ),
        (edited(uid=""), "the request does not follow the protocol: "),
        (edited(operation="PATCH"), "the request does not follow the protocol: "),
        (edited(resource=None), "the request does not follow the protocol: "),
        (raw_review(b'{"kind":"\\ud800"}'), "the request is not JSON: "),
        (raw_review(b"[" * 100_000 + b"]" * 100_000), "the request is nested too deeply"),
    ],
    ids=lambda value: value.decode("latin-1")[:40] if isinstance(value, bytes) else None,
)
@pytest.mark.parametrize("path", ["mutate", "validate"])
async def test_what_is_no_review_is_told_so(
    served: Served, body: bytes, text: str, path: str
) -> None:
    answer = await served.post(f"/admission/{path}", body)
    assert answer.status == 400
    assert answer.body.decode().startswith(text)
    assert answer.body.count(b"\n") == 1


async def test_a_review_of_nine_megabytes(served: Served) -> None:
    body = io.BytesIO(raw_review(b'"' + b"x" * 9_000_000 + b'"'))
    async with served.session.post("/admission/validate", data=body) as answer:
        assert answer.status == 400
        assert await answer.text() == "the body of the request is larger than 8388608 bytes\n"


async def test_other_methods_and_packed_bodies(served: Served) -> None:
    packed = {"Content-Encoding": "gzip"}
    assert (await served.get("/admission/validate")).status == 405
    assert (await served.post("/admission/validate", edited(), packed)).status == 415


async def test_the_api_server_needs_no_certificate(tmp_path: Path) -> None:
    """It has one only if it was started with a file that names one for this webhook."""
    keyring = Keyring(tmp_path)
    keyring.write()
    examiner = Examiner(SCHEMA, nothing)
    async with (
        secured(keyring.mutual("system:kube-scheduler"), examiner) as server,
        server.session(keyring.client()) as session,
    ):
        for path in ("mutate", "validate"):
            async with session.post(f"/admission/{path}", data=edited()) as answer:
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
    labels = {"verb": "validate", "code": "200", "outcome": "answered"}
    assert served.metric("placet_requests_total", **labels) == 2


class Slow(Examiner):
    """Knows what there is once a test says so."""

    def __init__(self) -> None:
        super().__init__(SCHEMA, self._wait)
        self.go = threading.Event()
        self.asked = 0

    def _wait(self) -> Validation:
        self.asked += 1
        self.go.wait(20)
        return nothing()


async def test_nobody_waits_longer_than_there_is_time(serve: Serve) -> None:
    """And a flood of objects does not take more threads than it may."""
    slow = Slow()
    served = await serve(examiner=slow)
    path, body = "/admission/validate?timeout=500ms", edited()
    started = time.monotonic()
    answers = await asyncio.gather(*(served.post(path, body) for _ in range(5)))
    assert time.monotonic() - started < 3
    assert slow.asked == 2
    for answer in answers:
        found = answer.json["response"]
        assert not found["allowed"]
        assert (found["status"]["code"], found["status"]["reason"]) == (504, "Timeout")
        assert found["status"]["message"].startswith("the check did not finish in time: try again")
    assert (await served.get("/livez")).status == 200
    labels = {"verb": "validate", "code": "200", "outcome": "deadline"}
    assert served.metric("placet_requests_total", **labels) == 5
    slow.go.set()
    assert (await served.post(path, body)).json["response"]["allowed"]


@pytest.mark.parametrize("query", ["", "?timeout=", "?timeout=never", "?timeout=300s"])
async def test_own_limit_holds_whatever_is_asked_for(serve: Serve, query: str) -> None:
    slow = Slow()
    served = await serve(examiner=slow, settings=Settings(http_timeout=0.5))
    answer = await served.post(f"/admission/validate{query}", edited())
    slow.go.set()
    assert answer.json["response"]["status"]["code"] == 504


def broken() -> Validation:
    raise ZeroDivisionError("secret")


async def test_a_fault_of_ours_is_no_answer(serve: Serve, caplog: pytest.LogCaptureFixture) -> None:
    """The webhook's failurePolicy says what follows."""
    served = await serve(examiner=Examiner(SCHEMA, broken))
    answer = await served.post("/admission/validate", edited())
    assert (answer.status, b"secret" in answer.body) == (500, False)
    assert answer.body == b"internal error: see the log of Placet\n"
    assert "unexpected error in validate" in caplog.text


async def test_without_an_examiner_there_are_no_webhooks(serve: Serve) -> None:
    served = await serve()
    assert (await served.post("/admission/validate", edited())).status == 404


@pytest.mark.parametrize(
    "file", sorted((ROOT / "deploy" / "admission").iterdir()), ids=lambda file: file.stem
)
def test_shipped_configurations_lead_here(file: Path) -> None:
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
