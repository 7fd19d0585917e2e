"""Portable pods: the patch of a new pod, its cost, and what statuses say of a portable policy."""

from __future__ import annotations

from typing import Any

import pytest

from engine.cache.cache import Cache
from engine.decision.registry import Registry
from engine.engine import Engine
from engine.errors import ExpensivePolicyError
from engine.objects.peer import Peer
from engine.objects.request_pod import FORM, ObjectCodec
from engine.program.policy_time import PolicyTimes
from engine.selectors.terms import Frozen
from policies.resource import PolicyStatus, StatusCondition
from server.app import GATE as PATH
from server.capabilities.policy_statuses import Statuses
from server.capabilities.portable import PortablePods, portable_part
from tests.server.admission.test_gate import EXAMINER
from tests.server.admission.test_pod_admission import changes, created
from tests.server.capabilities.test_missed_pods import no_time
from tests.server.conftest import Serve
from tests.server.runtime.test_objects import Read, stored
from tests.support import builders
from tests.support.builders import Object
from tests.support.engines import CODEC, SCHEMA, Known, Silent, cache_of, programs_of
from tests.support.reviews import responded

POOL = 'filter "pool" { require node.labels["pool"] == pod.namespace }'
APART = (
    'limit "apart" { pods where peer.labels["app"] == pod.labels["app"] per node at most 1 strict'
    " mutual }"
)
ROOM = 'filter "room" { require node.free["cpu"] > 1 }'


def times(seconds: float = 0.0) -> PolicyTimes:
    """The time of policies, of which each block uses so many seconds."""
    clock = iter(range(1000))
    return PolicyTimes(
        lambda: 0.0, lambda: next(clock) * seconds, lambda _: None, lambda *_: None, lambda: 0
    )


def portable(policies: str, used: float = 0.0) -> tuple[PortablePods, Registry]:
    registry = Registry(programs_of(policies))
    engine = Engine(registry, Known(cache_of([])), CODEC, Silent())
    made = PortablePods(engine, ObjectCodec(SCHEMA), Frozen.of(["app"], []), times(used))
    return made, registry


async def test_a_new_pod_is_marked_and_gets_the_form(serve: Serve) -> None:
    pods, _ = portable(f"cluster policy p {{ portable {POOL} }}")
    served = await serve(examiner=EXAMINER, tell=pods.patch)
    body = created({"containers": [{"name": "a"}]})
    body["request"]["object"]["metadata"] = {"name": "a", "namespace": "shop", "annotations": {}}
    paths = [change["path"] for change in changes(await responded(served, body, "gate"))]
    assert paths == [
        "/spec/containers/0/resources",
        f"/metadata/annotations/{FORM.replace('/', '~1')}",
        "/spec/affinity",
    ]
    refused = await served.post(PATH, created({"containers": [], "affinity": 7}))
    assert refused.status == 400


def test_a_policy_of_a_namespace_pays_for_its_time() -> None:
    pods, _ = portable(f'policy p in namespace "shop" {{ portable {POOL} }}', used=60.0)
    body = builders.raw(builders.pod("web", "shop"))
    # It has used its time before its clauses are reached.
    assert pods.patch(body) == []
    free, _ = portable(f'policy p in namespace "shop" {{ portable {POOL} }}')
    assert free.patch(body)


def test_what_can_be_told_is_worked_out_once() -> None:
    pods, registry = portable(f"cluster policy p {{ portable {POOL} {ROOM} }}")
    (program,) = registry.programs
    found = pods.portability(program)
    assert [(v.clause, v.exact, v.reason) for v in found] == [
        ("pool", True, ""),
        ("room", False, "`node.free` is no label of the node"),
    ]
    assert pods.portability(program) is found


def test_a_policy_without_time_is_told_of_later() -> None:
    pods, registry = portable(f'policy p in namespace "shop" {{ portable {POOL} }}', used=60.0)
    (program,) = registry.programs
    pods.patch(builders.raw(builders.pod("web", "shop")))
    (verdict,) = pods.portability(program)
    assert verdict.reason == "the policy takes too much time"


def peer(name: str, annotation: str = "", **more: Any) -> Peer:
    value = builders.pod(name, "shop", **more)
    if annotation:
        value["metadata"]["annotations"] = {FORM: annotation}
    return ObjectCodec(SCHEMA, {FORM}).peer(builders.raw(value))


def status(cache: Cache, spec: Object) -> tuple[PolicyStatus, str]:
    """The status of the policy shop/web, and its digest."""
    read = Read()
    objects = stored("", spec=spec)
    read.read(objects)
    assert read.last is not None
    pods, _ = portable("")
    statuses = Statuses(cache, no_time, [lambda: portable_part(cache, pods.portability)])
    (report,) = statuses.reports(read.last, objects, cache.snapshot())
    (program,) = read.last.programs.values()
    return report.wanted, program.digest


def condition(found: PolicyStatus) -> StatusCondition:
    (portable,) = (each for each in found.conditions if each.type == "Portable")
    return portable


@pytest.mark.parametrize(
    ("rules", "outcome", "reason", "message"),
    [
        (POOL, "True", "Told", "new pods say all of it in Kubernetes' own words"),
        (f"{POOL} {ROOM}", "True", "ToldInPart", "room: `node.free` is no label of the node"),
        (ROOM, "False", "StaysInPlacet", "room: `node.free` is no label of the node"),
        (f"{POOL} {APART}", "True", "Told", "new pods say all of it in Kubernetes' own words"),
    ],
)
def test_the_condition_says_what_is_told(
    rules: str, outcome: str, reason: str, message: str
) -> None:
    found, _ = status(Cache(), {"podSelector": {}, "portable": True, "rules": rules})
    told = condition(found)
    assert (told.status, told.reason, told.message) == (outcome, reason, message)


def test_pending_pods_of_another_version_are_counted() -> None:
    spec = {"podSelector": {}, "portable": True, "rules": POOL}
    _, digest = status(Cache(), spec)
    cache = Cache()
    cache.put_node(CODEC.node(builders.raw(builders.node("n1"))))
    cache.put_pod(peer("now", f"shop/web@{digest}"))
    cache.put_pod(peer("before", "other@0123,shop/web@0123456789ab"))
    cache.put_pod(peer("placed", "shop/web@0123456789ab", on="n1"))
    cache.put_pod(peer("never"))
    found, _ = status(cache, spec)
    assert found.outdatedPods == 1


def test_of_other_policies_the_status_says_nothing() -> None:
    found, _ = status(Cache(), {"podSelector": {}, "rules": POOL})
    assert found.outdatedPods is None
    assert all(each.type != "Portable" for each in found.conditions)


def test_the_error_has_a_policy() -> None:
    with pytest.raises(ExpensivePolicyError), times(60.0).using("shop/p"):
        raise ExpensivePolicyError("shop/p")
