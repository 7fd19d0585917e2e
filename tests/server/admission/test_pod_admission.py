"""The webhook for new pods: which get the scheduler that calls Placet; its configuration."""

from __future__ import annotations

import base64
from pathlib import Path
from typing import Any

import msgspec
import pytest
import yaml

from grammar.meaning.schema import load_schema
from policies.admission import Examiner
from policies.validation import Validation
from server.app import PODS
from tests.server.conftest import Serve
from tests.support.builders import Object
from tests.support.reviews import responded, review
from tests.support.served import Served

SHIPPED = Path(__file__).parents[3] / "deploy" / "admission" / "pods.yaml"
EXAMINER = Examiner(load_schema(), lambda: Validation(()))
ON_PODS = {"group": "", "version": "v1", "resource": "pods"}


@pytest.fixture
async def served(serve: Serve) -> Served:
    return await serve(examiner=EXAMINER, scheduler="placet")


def created(spec: Object, operation: str = "CREATE", **request: Any) -> Object:
    value = {"apiVersion": "v1", "kind": "Pod", "metadata": {"generateName": "web-"}, "spec": spec}
    return review(value, operation, **{"resource": ON_PODS, "namespace": "shop", **request})


def changes(found: Object) -> Any:
    assert found["allowed"]
    if "patch" not in found:
        return []
    assert found["patchType"] == "JSONPatch"
    return msgspec.json.decode(base64.b64decode(found["patch"]))


@pytest.mark.parametrize(
    "spec", [{}, {"schedulerName": ""}, {"schedulerName": "default-scheduler"}]
)
async def test_a_pod_that_names_no_scheduler_gets_the_one_that_calls_placet(
    served: Served, spec: Object
) -> None:
    found = await responded(served, created(spec), "pods")
    wanted = {"op": "add", "path": "/spec/schedulerName", "value": "placet"}
    assert changes(found) == [wanted]
    assert (
        served.metric("placet_admissions_total", verb="pods", operation="CREATE", allowed="true")
        == 1
    )


@pytest.mark.parametrize(
    "body",
    [
        created({"schedulerName": "other"}),
        created({"schedulerName": "placet"}),
        created({}, "UPDATE"),
        created({}, subResource="binding"),
        created({}, resource=ON_PODS | {"resource": "nodes"}),
        created({}, resource=ON_PODS | {"group": "metrics.k8s.io"}),
        review(None, "DELETE", resource=ON_PODS),
    ],
    ids=["other", "ours", "update", "binding", "nodes", "metrics", "delete"],
)
async def test_whatever_else_stays_as_it_is(served: Served, body: Object) -> None:
    assert changes(await responded(served, body, "pods")) == []


async def test_without_a_scheduler_of_its_own_nothing_changes(serve: Serve) -> None:
    served = await serve(examiner=EXAMINER, scheduler="default-scheduler")
    assert changes(await responded(served, created({}), "pods")) == []


async def test_what_is_no_pod_is_an_error_and_the_failure_policy_decides(served: Served) -> None:
    answer = await served.post(PODS, created({"schedulerName": 7}))
    assert answer.status == 400
    assert answer.text.startswith("placet: the request does not follow the protocol: ")


def test_the_shipped_configuration_matches_the_server() -> None:
    configuration = yaml.safe_load(SHIPPED.read_text(encoding="utf-8"))
    (webhook,) = configuration["webhooks"]
    assert webhook["clientConfig"]["service"]["path"] == PODS
    (own,) = webhook["namespaceSelector"].pop("matchExpressions")
    assert (own["operator"], own["values"]) == ("NotIn", ["kube-system"])
    assert webhook["namespaceSelector"] == {"matchLabels": {"placet.dev/scheduling": "enabled"}}
    (rule,) = webhook["rules"]
    assert (rule["apiGroups"], rule["resources"], rule["operations"]) == (
        [""],
        ["pods"],
        ["CREATE"],
    )
    assert (webhook["failurePolicy"], webhook["sideEffects"]) == ("Fail", "None")
