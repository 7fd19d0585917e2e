"""Large pods: what they say of themselves is on the account of their namespace."""

from __future__ import annotations

import json

from engine.cache.cache import Cache
from engine.cache.store import pods
from engine.objects.peer import Peer
from tests.support.engines import CODEC

MANY = {f"label-{number}": "x" * 60 for number in range(2000)}


def a_pod(name: str, version: int, **labels: str) -> bytes:
    metadata = {"name": name, "namespace": "a", "uid": name, "resourceVersion": str(version)}
    spec = {"nodeName": "n1", "containers": [{"name": "c", "image": "i"}]}
    return json.dumps({"metadata": {**metadata, "labels": labels}, "spec": spec}).encode()


def known(cache: Cache, name: str) -> Peer:
    found = cache.pod(f"a/{name}")
    assert found is not None
    return found


def test_beyond_the_account_a_pod_has_the_labels_that_policies_read() -> None:
    cache = Cache()
    cache.read_labels = {"app"}
    store, room = pods(CODEC, cache), cache.accounts.room("a", "")
    store.upsert("a/first", "1", a_pod("first", 1, app="web", **MANY))
    assert known(cache, "first").labels == {"app": "web", **MANY}
    taken = room - cache.accounts.room("a", "")
    assert taken > 300_000
    cache.accounts.keep("a", "other", cache.accounts.room("a", "") - 1000)
    body = a_pod("second", 2, app="web", **MANY)
    store.upsert("a/second", "2", body)
    assert known(cache, "second").labels == {"app": "web"}
    assert store.holds("a/second", CODEC.peer(body))
    store.upsert("a/small", "3", a_pod("small", 3, app="web"))
    assert known(cache, "small").labels == {"app": "web"}
    assert known(cache, "small").containers

    store.remove("a/first", "4")
    store.upsert("a/second", "5", a_pod("second", 5, app="web", **MANY))
    assert known(cache, "second").labels == {"app": "web", **MANY}
    store.remove("a/second", "6")
    cache.accounts.drop("other")
    assert cache.accounts.room("a", "") == room
