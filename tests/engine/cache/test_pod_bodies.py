"""The JSON of waiting pods: large pods of one namespace take none of another's."""

import pytest

from engine.cache.cache import Cache
from tests.support.builders import pod
from tests.support.engines import peer_of

LARGE = b"x" * (1 << 20)


def wait(cache: Cache, namespace: str, name: str, body: bytes, on: str = "") -> str:
    """A pod that waits, or is on a node; its uid."""
    peer = peer_of(pod(name, namespace, on=on or None))
    cache.put_pod(peer, body=body)
    return peer.uid


@pytest.mark.parametrize("is_first", [True, False])
def test_large_pods_of_one_namespace_leave_room_for_those_of_another(*, is_first: bool) -> None:
    cache = Cache()
    if is_first:
        good = wait(cache, "shop", "web", b"{}")
    large = [wait(cache, "hostile", f"p{n}", LARGE) for n in range(100)]
    if not is_first:
        good = wait(cache, "shop", "web", b"{}")
    assert cache.body(good) == b"{}"
    kept = [uid for uid in large if cache.body(uid) is not None]
    assert kept == large[: len(kept)]
    assert 20 < len(kept) < 40


def test_the_room_of_a_pod_is_given_back_when_it_waits_no_more() -> None:
    cache = Cache()
    for turn in range(10):
        uids = [wait(cache, "shop", f"p{turn}-{n}", LARGE) for n in range(16)]
        assert all(cache.body(uid) == LARGE for uid in uids)
        for n in range(8):
            wait(cache, "shop", f"p{turn}-{n}", LARGE, on="n1")
        for n in range(8, 16):
            cache.remove_pod(f"shop/p{turn}-{n}")
        assert not any(cache.body(uid) for uid in uids)
