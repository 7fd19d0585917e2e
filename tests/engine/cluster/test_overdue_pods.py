"""Overdue and unseen pods: the API server is asked before a pod on its way counts no longer."""

from __future__ import annotations

import numpy as np
import pytest

from engine.cache.reflector import unreported
from engine.cluster.requeue import PodEnds
from engine.counting.in_flight_pods import AskedPod, InFlightPods, Schedulers
from engine.errors import ApiError, ApiUnreachableError
from engine.objects.peer import Peer
from tests.support.builders import Object, pod
from tests.support.engines import peer_of, table_of
from tests.support.reviews import OneAnswerApi
from tests.support.rows import rows

SCHEDULERS = Schedulers(is_watched=True)
TABLE = table_of([])
MADE = pod("a")
BOUND = pod("a", on="n1")
OTHER = {**MADE, "metadata": MADE["metadata"] | {"uid": "another"}}


async def unlisted() -> None:
    raise AssertionError("few pods are asked for one by one")


def seen(_: Peer) -> bool:
    return True


@rows(
    ("answer", "counts"),
    {
        "it has no node": (MADE, False),
        "it is bound, and the watch is late": (BOUND, True),
        "another pod has its name": (OTHER, False),
        "it is gone": (ApiError(404, "NotFound", "no such pod"), False),
        "nobody knows": (ApiError(503, "Unavailable", "later"), True),
        "no answer": (ApiUnreachableError("nobody there"), True),
    },
)
async def test_a_pod_whose_time_is_over(answer: Object | Exception, counts: bool) -> None:
    seconds, api = 0.0, OneAnswerApi(answer)
    pods = InFlightPods(lambda: seconds, SCHEDULERS)
    pods.take_over([peer_of(MADE)], TABLE)
    overdue = PodEnds(api, pods, unlisted, seen, unreported)
    await overdue.look()
    assert api.asked == [], "its time is not over"
    seconds = 30.0
    assert len(pods.others("", TABLE)) == 1, "it counts until the API server is asked"
    await overdue.look()
    assert api.asked == ["/api/v1/namespaces/default/pods/a"]
    assert bool(pods.others("", TABLE)) is counts


async def test_a_later_offer_is_not_ended() -> None:
    """The pod is asked about while the API server answers."""
    seconds = 0.0
    pods = InFlightPods(lambda: seconds, SCHEDULERS)
    peer = peer_of(MADE)
    pods.take_over([peer], TABLE)
    seconds = 30.0
    (known,) = pods.overdue()
    pods.offer(AskedPod(peer.uid, lambda: peer, 1), TABLE, np.array([1]), 1, is_narrow=False)
    pods.end(known)
    assert len(pods.others("", TABLE)) == 1


async def test_pods_of_an_ended_scheduler_are_overdue_at_once() -> None:
    pods = InFlightPods(lambda: 5.0, SCHEDULERS)
    pods.take_over([peer_of(MADE)], TABLE)
    assert pods.overdue() == []
    pods.scheduler_replaced(6.0)
    assert len(pods.others("", TABLE)) == 1
    await PodEnds(OneAnswerApi(MADE), pods, unlisted, seen, unreported).look()
    assert pods.others("", TABLE) == []


async def test_a_failure_is_reported_until_the_server_answers() -> None:
    seconds, api, reports = 0.0, OneAnswerApi(MADE), list[str]()
    pods = InFlightPods(lambda: seconds, SCHEDULERS)
    pods.take_over([peer_of(MADE)], TABLE)
    seconds = 30.0
    overdue = PodEnds(api, pods, unlisted, seen, lambda _, failure: reports.append(failure))
    for answer in (ApiUnreachableError("nobody there"), BOUND):
        api.answer = answer
        await overdue.look()
    assert reports == ["cannot see whether pods on their way are bound: nobody there", ""]


async def test_many_pods_are_listed_once() -> None:
    """One of them is bound: the list shows it, and the cache counts it from then on."""
    seconds, api, lists = 0.0, OneAnswerApi(MADE), list[int]()
    pods = InFlightPods(lambda: seconds, SCHEDULERS)
    peers = [peer_of(pod(f"p{number}")) for number in range(200)]
    pods.take_over(peers, TABLE)
    seconds = 30.0

    async def list_anew() -> None:
        lists.append(len(pods.others("", TABLE)))
        pods.pod_changed(peers[0], peer_of(pod("p0", on="n1")), 9)
        pods.offer_all(AskedPod(peers[1].uid, lambda: peers[1], 9), TABLE, lambda: np.array([1]), 1)

    await PodEnds(api, pods, list_anew, seen, unreported).look()
    assert (lists, api.asked) == ([200], [])
    assert [each.uid for each in pods.others("", TABLE)] == [peers[1].uid]


# ---- pods that no watch has shown


@pytest.mark.parametrize("seen", [False, True], ids=["missed", "seen"])
@rows(
    ("answer", "counts"),
    {
        "it waits": (MADE, True),
        "it is bound": (BOUND, True),
        "another pod has its name": (OTHER, False),
        "it is gone": (ApiError(404, "NotFound", "no such pod"), False),
        "no answer": (ApiUnreachableError("nobody there"), True),
    },
)
async def test_a_pod_that_no_watch_has_shown(
    answer: Object | Exception, *, counts: bool, seen: bool
) -> None:
    seconds, api = 0.0, OneAnswerApi(answer)
    pods = InFlightPods(lambda: seconds, SCHEDULERS)
    unseen = PodEnds(api, pods, unlisted, lambda _: seen, unreported, lambda: seconds)
    peer = peer_of(MADE)
    pods.offer(AskedPod(peer.uid, lambda: peer, 1), TABLE, np.array([1]), 1, is_narrow=False)
    seconds = 9.0
    await unseen.look()
    assert api.asked == [], "a watch may show it soon"
    seconds = 20.0
    await unseen.look()
    await unseen.look()
    assert api.asked == ([] if seen else ["/api/v1/namespaces/default/pods/a"])
    assert bool(pods.others("", TABLE)) is (counts or seen)


async def test_a_pod_that_is_asked_about_meanwhile_counts() -> None:
    seconds, api = 20.0, OneAnswerApi(ApiError(404, "NotFound", "no such pod"))
    pods = InFlightPods(lambda: seconds, SCHEDULERS)
    unseen = PodEnds(api, pods, unlisted, lambda _: False, unreported, lambda: seconds)
    peer = peer_of(MADE)
    pods.offer(AskedPod(peer.uid, lambda: peer, 1), TABLE, np.array([1]), 1, is_narrow=False)
    seconds = 30.5
    pods.offer(AskedPod(peer.uid, lambda: peer, 1), TABLE, np.array([1]), 1, is_narrow=False)
    await unseen.look()
    assert api.asked == []
    assert len(pods.others("", TABLE)) == 1
