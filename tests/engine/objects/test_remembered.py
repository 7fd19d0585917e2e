"""Memories with a bound in bytes."""

import sys
import tracemalloc
from collections import deque
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import pytest

from engine.cards.node_cards import taken
from engine.objects.peer import PeerDecoder
from engine.objects.remembered import Memory, Remembered, bytes_of
from tests.support.builders import pod, raw


def test_what_was_used_least_recently_goes_first() -> None:
    kept: Remembered[str, int] = Remembered(1000, lambda _, value: value)
    for key in "abc":
        kept.put(key, 200)
    assert kept.get("a") == 200
    kept.put("d", 200)
    assert list(kept) == ["a", "c", "d"]
    assert kept.bytes == 3 * (200 + 128)


def test_a_value_in_place_of_another_takes_its_bytes() -> None:
    kept: Remembered[str, int] = Remembered(1000, lambda _, value: value)
    kept.put("a", 200)
    kept.put("a", 100)
    assert (kept.get("a"), kept.bytes, len(kept)) == (100, 228, 1)
    assert (kept.pop("a"), kept.pop("a"), kept.bytes) == (100, None, 0)


def test_an_entry_that_is_too_large_drives_out_no_other() -> None:
    kept: Remembered[str, int] = Remembered(1000, lambda _, value: value)
    kept.put("a", 100)
    assert kept.put("b", 501) == 501
    assert list(kept) == ["a"]
    # The old value is not the value of the key any more.
    kept.put("a", 501)
    assert (list(kept), kept.bytes) == ([], 0)


def test_the_key_counts() -> None:
    kept: Remembered[str, None] = Remembered(10_000)
    for number in range(20):
        kept.put(f"{number:02}" + "x" * 3000, None)
    assert len(kept) < 10


@pytest.fixture
def memory(memory_of: Callable[[int], Memory]) -> Memory:
    """The memory of this thread, for a hundred of `of_owners`."""
    return memory_of(100_000)


def of_owners() -> Remembered[str, str]:
    """Values that are named `owner/…`, of 872 bytes and 128 for the entry."""
    return Remembered(10**9, lambda *_: 872, lambda value: value.split("/")[0])


def fill(kept: Remembered[str, str], owner: str, number: int) -> None:
    for each in range(number):
        kept.put(f"{owner}/{each}", f"{owner}/{each}")


def owned(kept: Remembered[str, str], owner: str) -> list[str]:
    return [key for key in kept if key.startswith(f"{owner}/")]


@pytest.mark.usefixtures("memory")
def test_the_owner_of_the_most_loses_what_it_used_least_recently() -> None:
    kept = of_owners()
    fill(kept, "small", 20)
    fill(kept, "large", 60)
    kept.get("large/0")
    fill(kept, "small", 20)
    fill(kept, "hostile", 10_000)
    assert len(owned(kept, "small")) == 20
    of_each = [len(owned(kept, owner)) for owner in ("large", "hostile")]
    assert 70 <= sum(of_each) <= 80
    assert min(of_each) >= 30
    assert {"large/0", "large/59", "hostile/9999"} <= {*kept}
    assert "large/1" not in kept


def test_memories_of_one_thread_have_a_bound_together(memory: Memory) -> None:
    others = [of_owners() for _ in range(5)]
    for each in others:
        fill(each, "a", 10)
    large = of_owners()
    fill(large, "a", 1000)
    assert [len(each) for each in others] == [10] * 5
    assert 30 <= len(large) <= 50
    assert memory.bytes == sum(each.bytes for each in (*others, large)) <= memory.most


@pytest.mark.usefixtures("memory")
def test_memories_that_are_gone_leave_their_room() -> None:
    gone = of_owners()
    fill(gone, "a", 90)
    del gone
    kept = of_owners()
    fill(kept, "a", 90)
    assert len(kept) == 90


def test_each_thread_has_a_memory_of_its_own() -> None:
    with ThreadPoolExecutor() as other:
        elsewhere: Remembered[str, str] = other.submit(Remembered[str, str]).result()
    here = Remembered[str, str]()
    assert here.memory is Remembered[str, str]().memory
    assert here.memory is not elsewhere.memory


@pytest.mark.usefixtures("memory")
def test_who_has_many_memories_has_one_share() -> None:
    kept, hostile = of_owners(), [of_owners() for _ in range(50)]
    fill(kept, "small", 40)
    for each in hostile:
        fill(each, "hostile", 100)
    assert len(kept) == 40
    assert 50 <= sum(map(len, hostile)) <= 60


def test_the_owner_of_the_most_loses_where_a_memory_has_its_own_bound() -> None:
    kept = Remembered[str, str](20_000, lambda *_: 872, lambda value: value.split("/")[0])
    fill(kept, "small", 5)
    fill(kept, "hostile", 100)
    fill(kept, "small", 6)
    assert [len(owned(kept, owner)) for owner in ("small", "hostile")] == [6, 14]


@pytest.mark.usefixtures("memory")
def test_owners_of_one_value_each_do_not_lose_all_at_once() -> None:
    kept = of_owners()
    for number in range(1000):
        fill(kept, f"n{number}", 1)
        assert len(kept) >= min(number, 90)


@pytest.mark.parametrize("owners", [1, 50, 1000])
def test_a_full_memory_is_not_searched_for_each_entry(owners: int, memory: Memory) -> None:
    memory.most, kept, calls = 2_000_000, of_owners(), 0

    def step(*_: object) -> None:
        nonlocal calls
        calls += 1

    for number in range(2 * owners):
        fill(kept, f"n{number % owners}", 2000 // owners)
    sys.setprofile(step)
    for number in range(500):
        kept.put(f"more/{number}", f"n{number % owners}/more")
    sys.setprofile(None)
    assert calls < 500 * 100


@pytest.mark.parametrize(
    "value",
    [
        "x" * 5000,
        b"x" * 5000,
        ("x" * 5000,),
        ["x" * 5000],
        {"x" * 5000: 1},
        {"a": {"b": ("x" * 5000,)}},
        frozenset({"x" * 5000}),
        deque(["x" * 5000]),
        PeerDecoder(["a"]).decode(raw(pod("p", annotations={"a": "x" * 5000}))),
        taken('{"gpu": {"cards": [0], "take": {"%s": 1}}}' % ("x" * 5000)),
    ],
    ids=lambda value: type(value).__name__,
)
def test_the_bytes_of_a_value_are_those_of_all_that_it_holds(value: object) -> None:
    assert 5000 <= bytes_of(value) < 15_000


@pytest.mark.process
@pytest.mark.parametrize("what", ["labels", "annotations", "images", "requests"])
def test_pods_that_change_again_and_again_leave_nothing(what: str) -> None:
    """One pod is patched 300 times, each time with 300 KB of other texts."""

    def patched(number: int) -> bytes:
        texts = {f"k{index}": f"{number}-{index}-" + "x" * 3000 for index in range(100)}
        if what == "labels":
            return raw(pod("p", labels=texts))
        if what == "annotations":
            return raw(pod("p", annotations={"a": " ".join(texts.values())}))
        if what == "images":
            images = [{"name": name, "image": text} for name, text in texts.items()]
            return raw({"metadata": {"name": "p"}, "spec": {"containers": images}})
        requests = {f"example.com/{number}-{index}-" + "x" * 3000: "1" for index in range(100)}
        containers = [{"name": "c", "resources": {"requests": requests}}]
        return raw({"metadata": {"name": "p"}, "spec": {"containers": containers}})

    decoder = PeerDecoder(["a"])
    decoder.decode(patched(-1))
    tracemalloc.start()
    try:
        for number in range(300):
            decoder.decode(patched(number))
        held, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert held < 60 << 20
