"""Calls of the admission webhooks: access, failures, timeouts and shipped configurations."""

from __future__ import annotations

import asyncio
import io
import re
import resource
import time
from pathlib import Path
from typing import Any

import msgspec
import pytest
import yaml

from grammar.meaning.schema import load_schema
from policies.admission import Examiner
from policies.manifest_text import GROUP
from policies.resource import VERSIONS
from policies.validation import Validation
from server.app import VALIDATE
from server.settings import Settings
from tests.server.conftest import Serve
from tests.support.builders import Object, on_wanted, placement_policy
from tests.support.certificates import Keyring, secured
from tests.support.definitions import definitions
from tests.support.reviews import raw_review, refused, responded, review
from tests.support.served import PROCESSES, Served

pytestmark = pytest.mark.process

ROOT = Path(__file__).parents[3]
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
        (raw_review(b"[" * 400_000 + b"]" * 400_000), "the request is nested too deeply"),
    ],
    ids=lambda value: value.decode("latin-1")[:40] if isinstance(value, bytes) else None,
)
async def test_a_body_that_is_not_a_review(served: Served, body: bytes, text: str) -> None:
    answer = await served.post("/admission/validate", body)
    assert answer.status == 400
    assert answer.text.startswith(f"placet: {text}")
    assert answer.body.count(b"\n") == 1


async def test_a_review_of_nine_megabytes(served: Served) -> None:
    body = io.BytesIO(raw_review(b'"' + b"x" * 9_000_000 + b'"'))
    answer = await served.request("POST", "/admission/validate", body)
    assert answer.status == 400
    assert answer.text == "placet: the body of the request is larger than 8388608 bytes\n"


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
        for path in ("pods", "validate"):
            async with session.post(f"/admission/{path}", data=request_with()) as answer:
                assert (await answer.json())["response"]["allowed"]


async def test_admissions_are_counted_and_logged(
    served: Served, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO", "placet")
    bad = placement_policy(GOOD | {"weight": 1}, namespace="shop")
    await refused(served, review(bad))
    await responded(served, review(placement_policy(GOOD), "UPDATE"))
    await responded(served, review(placement_policy(GOOD)), "pods")
    counted = [
        ("validate", "CREATE", "false"),
        ("validate", "UPDATE", "true"),
        ("pods", "CREATE", "true"),
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


TOO_SLOW = re.compile(
    r"the check took longer than (0\.\d+) s"
    ": try again, or shorten the rules"
)


def slow_review(namespace: str, parts: int = 2_000) -> Object:
    """A review whose check takes half a millisecond for each part, or more."""
    alternatives = " || ".join(f'node.name == "a{i}"' for i in range(parts))
    spec = {"podSelector": {}, "rules": f'filter "f" {{ require {alternatives} }}'}
    return review(placement_policy(spec), namespace=namespace)


async def test_an_answer_comes_in_time(serve: Serve) -> None:
    """Two objects are checked at a time, and one of a namespace; each is killed in time."""
    served = await serve(examiner=Examiner(SCHEMA, no_policies), settings=Settings(http_timeout=60))
    path = "/admission/validate?timeout=500ms"
    await warm(served)
    started = time.monotonic()
    names = ["shop", "shop", "mall", "mall", "park"]
    answers = await asyncio.gather(*(served.post(path, slow_review(name)) for name in names))
    assert time.monotonic() - started < 3
    found = [answer.json["response"] for answer in answers]
    assert {each["allowed"] for each in found} == {False}
    statuses = [each["status"] for each in found]
    assert {(each["code"], each["reason"]) for each in statuses} == {(504, "Timeout")}
    messages = [each["message"] for each in statuses]
    assert messages.count("other checks did not finish in time: try again later") == 3
    slow = [float(match[1]) for message in messages if (match := TOO_SLOW.fullmatch(message))]
    # A check has what is left of four fifths of the timeout when it begins.
    assert len(slow) == 2
    assert all(0 < seconds <= 0.4 for seconds in slow)
    assert served.calls("validate", "deadline") == 5
    found = await responded(served, review(placement_policy(GOOD)))
    assert found["allowed"]


async def warm(served: Served) -> None:
    """Both processes have started, however busy the machine is."""
    for process in PROCESSES:
        await asyncio.to_thread(process.run, 60, len, "")


@pytest.mark.parametrize("query", ["", "?timeout=", "?timeout=never", "?timeout=300s"])
async def test_the_server_s_own_timeout_holds(serve: Serve, query: str) -> None:
    served = await serve(
        examiner=Examiner(SCHEMA, no_policies), settings=Settings(http_timeout=0.2)
    )
    await warm(served)
    answer = await served.post(f"/admission/validate{query}", slow_review("shop"))
    assert answer.json["response"]["status"]["code"] == 504


@pytest.mark.fake_clock
async def test_a_namespace_waits_only_for_itself(serve: Serve) -> None:
    """Its next object is checked after its last one, and those of others meanwhile."""
    served = await serve(examiner=Examiner(SCHEMA, no_policies), settings=Settings(http_timeout=60))
    await warm(served)
    hostile = [asyncio.create_task(responded(served, slow_review("shop", 300))) for _ in range(5)]
    await served.until("placet_requests_in_flight", 5, verb="validate")
    assert (await responded(served, review(placement_policy(GOOD), namespace="mall")))["allowed"]
    # In one queue for all, it would be answered after the last of them.
    assert [task.done() for task in hostile].count(False) >= 2
    assert all([(await task)["allowed"] for task in hostile])


async def test_the_loop_runs_while_hostile_texts_are_checked(serve: Serve) -> None:
    served = await serve(examiner=Examiner(SCHEMA, no_policies), settings=Settings(http_timeout=60))
    await warm(served)
    checks = asyncio.gather(*(responded(served, slow_review(f"n{n}", 300)) for n in range(10)))
    turns: list[float] = []
    while not checks.done():
        before = time.process_time()
        await asyncio.sleep(0.005)
        turns.append(time.process_time() - before)
    assert all(found["allowed"] for found in await checks)
    # A check in a thread would work for 5 ms while the loop sleeps. What remains is the reading of
    # results; the machine's other work is not in this process's time.
    assert sorted(turns)[len(turns) // 2] < 0.0025


# Decoded, nested objects take forty times as much memory as their text.
NESTED = b'{"":' * 400 + b"0" + b"}" * 400
BOMB = b'{"apiVersion":"%s/v1","kind":"PlacementPolicy","spec":{"rules":[%s0]}}' % (
    GROUP.encode(),
    (NESTED + b",") * 4_000,
)


async def test_an_object_that_needs_much_memory(serve: Serve) -> None:
    served = await serve(examiner=Examiner(SCHEMA, no_policies), settings=Settings(http_timeout=60))
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    body = raw_review(BOMB).replace(b'"oldObject":null', b'"oldObject":{}')
    answer = await served.request("POST", "/admission/validate?timeout=30s", io.BytesIO(body))
    found = answer.json["response"]
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 100 * 1024
    assert not found["allowed"]
    assert found["status"]["message"] == (
        "the check needed more memory than 128 MiB:"
        " shorten the object, or divide it into several policies"
    )
    assert (await responded(served, review(placement_policy(GOOD))))["allowed"]


def broken() -> Validation:
    raise ZeroDivisionError("secret")


async def test_an_internal_error(serve: Serve, caplog: pytest.LogCaptureFixture) -> None:
    """The webhook's failurePolicy decides about the object."""
    served = await serve(examiner=Examiner(SCHEMA, broken))
    answer = await served.post("/admission/validate", request_with())
    assert (answer.status, b"secret" in answer.body) == (500, False)
    assert answer.body == b"placet: internal error: see the log of Placet\n"
    assert "unexpected error in validate" in caplog.text


async def test_without_an_examiner_there_are_no_webhooks(serve: Serve) -> None:
    served = await serve()
    assert (await served.post("/admission/validate", request_with())).status == 404


def test_the_shipped_configuration_matches_the_server() -> None:
    file = ROOT / "deploy" / "admission" / "validating.yaml"
    configuration = yaml.safe_load(file.read_text(encoding="utf-8"))
    (webhook,) = configuration["webhooks"]
    assert webhook["clientConfig"]["service"]["path"] == VALIDATE
    (rule,) = webhook["rules"]
    made = [each["spec"] for each in definitions().values()]
    assert rule["apiGroups"] == [GROUP]
    assert rule["apiVersions"] == [*VERSIONS]
    assert rule["resources"] == [spec["names"]["plural"] for spec in made]
    assert (webhook["failurePolicy"], webhook["sideEffects"]) == ("Ignore", "None")
    assert (webhook["timeoutSeconds"], webhook["matchPolicy"]) == (5, "Equivalent")
    assert webhook["admissionReviewVersions"] == ["v1"]
