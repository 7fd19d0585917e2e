"""The pod of a request: its identity, and what is decoded only once."""

from __future__ import annotations

import pytest

from engine.errors import BadObjectError
from engine.objects.peer import Workload
from engine.objects.request_pod import RequestPod, RequestPodReader
from tests.support.builders import Object, controller, pod, raw
from tests.support.engines import CODEC

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
