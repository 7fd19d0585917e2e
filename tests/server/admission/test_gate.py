"""The webhook of the gate: which patch marks a pod, and that nothing else of the pod changes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from engine.objects.gate import GATE, NewPod, is_marked, marking
from engine.objects.request_pod import ObjectCodec
from grammar.meaning.schema import load_schema
from policies.admission import Examiner
from policies.validation import Validation
from server.app import GATE as PATH
from tests.server.admission.test_pod_admission import changes, created
from tests.server.conftest import Serve
from tests.support import builders
from tests.support.builders import Object
from tests.support.reviews import responded
from tests.support.served import Served

SHIPPED = Path(__file__).parents[3] / "deploy" / "admission" / "gate.yaml"
EXAMINER = Examiner(load_schema(), lambda: Validation(()))
CODEC = ObjectCodec(load_schema())
MARKED = {"requests": {GATE: "0"}, "limits": {GATE: "0"}}
_amounts = st.none() | st.dictionaries(
    st.sampled_from(("cpu", "memory", "example.com/gpu", GATE)), st.sampled_from(("1", "0", "2"))
)
_container = st.fixed_dictionaries(
    {"name": st.sampled_from("abc")},
    optional={
        "resources": st.none()
        | st.fixed_dictionaries({}, optional={"requests": _amounts, "limits": _amounts})
    },
)


@pytest.fixture
async def served(serve: Serve) -> Served:
    return await serve(examiner=EXAMINER)


def patched(spec: Object, changes: list[Object]) -> Object:
    """The spec after a patch of `add` operations, as RFC 6902 has them."""
    document: Any = json.loads(json.dumps({"spec": spec}))
    for change in changes:
        assert change["op"] == "add"
        *way, last = (part.replace("~1", "/") for part in change["path"].split("/")[1:])
        at = document
        for part in way:
            at = at[int(part) if isinstance(at, list) else part]
        at[last] = change["value"]
    found: Object = document["spec"]
    return found


def marks(spec: Object) -> list[Object]:
    return marking(msgspec.json.decode(builders.raw({"spec": spec}), type=NewPod))


@given(st.lists(_container, max_size=3), st.lists(_container, max_size=2))
def test_a_marked_pod_is_asked_about_and_is_the_same_otherwise(
    containers: list[Object], others: list[Object]
) -> None:
    spec = {"containers": containers, "initContainers": others}
    was = is_named(*containers, *others)
    after = patched(spec, marks(spec))
    assert is_named(*after["containers"], *others) or not containers
    assert marks(after) == []
    assert after["initContainers"] == others
    assert after["containers"][1:] == containers[1:]
    if was or not containers:
        assert after == spec
    else:
        first = after["containers"][0]["resources"]
        assert first["requests"].pop(GATE) == first["limits"].pop(GATE) == "0"
        before = containers[0].get("resources") or {}
        assert {k: v for k, v in first.items() if v} == {k: v for k, v in before.items() if v}


def is_named(*containers: Object) -> bool:
    sides = [(c.get("resources") or {}).get(s) for c in containers for s in ("requests", "limits")]
    return any(GATE in (side or ()) for side in sides)


def test_an_amount_of_0_is_a_marker() -> None:
    pod = builders.pod("web")
    assert not is_marked(CODEC.peer(builders.raw(pod)))
    pod["spec"]["containers"][0]["resources"] = MARKED
    assert is_marked(CODEC.peer(builders.raw(pod)))


async def test_a_new_pod_is_marked(served: Served) -> None:
    found = await responded(served, created({"containers": [{"name": "a"}]}), "gate")
    add = {"op": "add", "path": "/spec/containers/0/resources", "value": MARKED}
    assert changes(found) == [add]
    assert (
        served.metric("placet_admissions_total", verb="gate", operation="CREATE", allowed="true")
        == 1
    )


@pytest.mark.parametrize(
    "body",
    [
        created({"containers": [{"name": "a", "resources": {"limits": {GATE: "3"}}}]}),
        created({"containers": []}),
        created({}),
        created({"containers": [{"name": "a"}]}, "UPDATE"),
        created({"containers": [{"name": "a"}]}, subResource="ephemeralcontainers"),
    ],
    ids=["marked", "no container", "nothing", "update", "subresource"],
)
async def test_whatever_else_stays_as_it_is(served: Served, body: Object) -> None:
    assert changes(await responded(served, body, "gate")) == []


async def test_what_is_no_pod_is_an_error_and_the_failure_policy_decides(served: Served) -> None:
    answer = await served.post(PATH, created({"containers": 7}))
    assert answer.status == 400
    assert answer.text.startswith("placet: the request does not follow the protocol: ")


def test_the_shipped_configuration_matches_the_server() -> None:
    configuration = yaml.safe_load(SHIPPED.read_text(encoding="utf-8"))
    enabled, strict = configuration["webhooks"]
    for webhook, value, failure in ((enabled, "enabled", "Ignore"), (strict, "strict", "Fail")):
        assert webhook["clientConfig"]["service"]["path"] == PATH
        assert webhook["namespaceSelector"]["matchLabels"] == {"placet.dev/scheduling": value}
        assert webhook["failurePolicy"] == failure
        assert (webhook["sideEffects"], webhook["reinvocationPolicy"]) == ("None", "IfNeeded")
