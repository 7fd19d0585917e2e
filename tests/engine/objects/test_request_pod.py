"""The pod of a request, decoded once, and pods that have failed."""

from __future__ import annotations

from typing import Any

import pytest

from engine.cache.ended_pods import failed_at
from engine.errors import BadObjectError
from engine.objects.peer import Peer, Workload
from engine.objects.request_pod import RequestPod, RequestPodReader
from grammar.values.time import Timestamp
from tests.support.builders import Object, controller, pod, raw
from tests.support.engines import CODEC, peer_of

SET = controller("ReplicaSet", "web-1")
UID = SET["metadata"]["uid"]
ROOT = Workload("Deployment", "web", "root-uid", 3)


def read(made: Object) -> RequestPod:
    return RequestPodReader(CODEC).read(raw(made))


def test_identity() -> None:
    made = pod("a", "shop", labels={"app": "web"}, owner=SET)
    made["metadata"] |= {"uid": "u", "resourceVersion": "17"}
    found = read(made)
    assert (found.namespace, found.name, found.uid) == ("shop", "a", "u")
    assert (found.labels, found.revision, found.controller) == ({"app": "web"}, 17, UID)


def test_a_pod_without_metadata_has_an_empty_identity() -> None:
    found = RequestPodReader(CODEC).read(b"{}")
    assert (found.namespace, found.name, found.uid, found.controller) == ("", "", "", "")
    assert (found.labels, found.revision, found.bypass) == ({}, 0, "")


def test_a_reader_keeps_the_last_pod() -> None:
    """The verbs ask about one pod after another, each with the same body."""
    reader = RequestPodReader(CODEC)
    first = reader.read(raw(pod("a")))
    assert reader.read(raw(pod("a"))) is first
    assert reader.read(raw(pod("b"))).name == "b"
    assert reader.read(raw(pod("a"))) is not first


def test_what_is_no_pod_is_refused_and_does_not_replace_the_last_one() -> None:
    reader = RequestPodReader(CODEC)
    first = reader.read(raw(pod("a")))
    with pytest.raises(BadObjectError):
        reader.read(b"[]")
    assert reader.read(raw(pod("a"))) is first


# ---- the peer and its root controller


def test_the_peer_has_the_root_controller_where_it_is_known() -> None:
    found = read(pod("a", owner=SET))
    direct, root = found.rooted(None).workload, found.rooted(ROOT).workload
    assert direct is not None
    assert root is not None
    assert (direct.name, root.name) == ("web-1", "web")


def test_a_pod_without_a_controller_has_no_root() -> None:
    assert read(pod("a")).rooted(None).workload is None


def test_the_peer_is_made_once_for_a_root() -> None:
    """Tallies and pods in flight hold it for long."""
    found = read(pod("a", owner=SET))
    first = found.rooted(ROOT)
    assert found.rooted(ROOT) is first
    other = Workload("Deployment", "other", "other-uid", 1)
    second = found.rooted(other)
    assert second.workload is not None
    assert second.workload.name == "other", "another root: another peer"
    assert found.rooted(other) is second
    assert found.rooted(None).workload == found.peer.workload


# ---- the shape


def test_the_shape_is_taken_once_for_the_same_policies() -> None:
    class Shapes:
        def __init__(self, shape: bytes) -> None:
            self.shape = shape
            self.bodies: list[bytes] = []

        def of(self, body: bytes) -> bytes:
            self.bodies.append(body)
            return self.shape

    found, before, after = read(pod("a")), Shapes(b"1"), Shapes(b"2")
    assert [found.shape(before) for _ in range(2)] == [b"1", b"1"]
    assert [found.shape(after) for _ in range(2)] == [b"2", b"2"]
    assert before.bodies == after.bodies == [found.body]


# ---- failed pods: when and why a pod failed, and whose it is


EARLY, LATE = "2026-11-26T10:00:00Z", "2026-11-26T11:00:00Z"


def ended(at: str, reason: str) -> dict[str, Any]:
    return {"state": {"terminated": {"finishedAt": at, "reason": reason, "exitCode": 1}}}


def failed(**status: Any) -> Peer:
    found = pod("job-1", "shop", on="n")
    found["metadata"]["ownerReferences"] = [
        {"kind": "Node", "name": "n", "uid": "uid-n"},
        {"kind": "Job", "name": "job", "uid": "uid-job", "controller": True},
    ]
    found["metadata"]["creationTimestamp"] = "2026-11-26T09:00:00Z"
    return peer_of({**found, "status": {"phase": "Failed", **status}})


@pytest.mark.parametrize(
    ("status", "time", "reason"),
    [
        ({}, "2026-11-26T09:00:00Z", ""),
        (
            {"conditions": [{"lastTransitionTime": EARLY}, {"lastTransitionTime": LATE}, {}]},
            LATE,
            "",
        ),
        (
            {
                "reason": "Evicted",
                "conditions": [{"lastTransitionTime": LATE}],
                "containerStatuses": [ended(EARLY, "Error")],
            },
            EARLY,
            "Evicted",
        ),
        (
            {
                "containerStatuses": [ended(EARLY, "OOMKilled"), ended(LATE, "Completed")],
                "initContainerStatuses": [ended("2026-11-26T09:30:00Z", "Error"), {}],
            },
            LATE,
            "OOMKilled",
        ),
        ({"reason": "x" * 1000}, "2026-11-26T09:00:00Z", "x" * 128),
    ],
)
def test_when_and_why_a_pod_failed(status: dict[str, Any], time: str, reason: str) -> None:
    found = failed(**status)
    assert (found.controller, found.name, found.nodeName) == ("uid-job", "job-1", "n")
    assert (failed_at(found), found.reason) == (Timestamp.parse(time), reason)


@pytest.mark.parametrize("phase", ["Running", "Pending", "", None])
def test_a_pod_of_another_phase_has_not_ended(phase: str | None) -> None:
    found = failed(phase=phase, reason="NodeLost")
    assert (found.ended, found.reason) == (None, "")
