"""The places of connections: which one goes when one more comes."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from server.http.places import Places, address_of
from server.settings import Settings, TlsFiles


@dataclass(eq=False)
class Held:
    """A connection that has been silent since a time."""

    host: str
    silent_since: float
    is_busy: bool = False
    has_answered: bool = True
    ended: list[str] = field(default_factory=list)

    def refuse(self, reason: str) -> None:
        self.ended.append(reason)


@dataclass(eq=False)
class Watched:
    """A silent connection that counts how often somebody looks at such ones."""

    looks: list[None]
    silent_since: float = 1.0
    has_answered: bool = False

    @property
    def is_busy(self) -> bool:
        self.looks.append(None)
        return False

    def refuse(self, reason: str) -> None:
        assert reason == "silent"


@pytest.mark.parametrize("addresses", [1, 3, 5000])
def test_a_burst_of_connections_is_refused_without_looking_at_all_of_them(addresses: int) -> None:
    """Else the calls that come after it wait for seconds."""
    places, looks = Places(400, lambda: 2.0), list[None]()
    for number in range(5000):
        host = f"10.0.{number % addresses // 250}.{number % addresses % 250}"
        if not places.refusal(host):
            places.enter(Watched(looks), host)
    assert len(places) >= 200
    assert len(looks) < 10 * 5000, "each new one would look at hundreds"


class Server:
    """Places on a clock that moves by a second with each connection."""

    def __init__(self, most: int, *, one_address: bool = False) -> None:
        self.now = 0.0
        self.places = Places(most, lambda: self.now, one_address=one_address)
        self.open: list[Held] = []

    def connects(self, host: str, *, is_busy: bool = False) -> Held | None:
        self.now += 1.0
        if self.places.refusal(host):
            return None
        held = Held(host, self.now, is_busy)
        self.places.enter(held, host)
        self.open = [each for each in (*self.open, held) if not each.ended]
        return held

    def numbers(self, *hosts: str) -> list[int]:
        return [sum(held.host == host for held in self.open) for host in hosts]


def test_an_address_has_half_of_the_places() -> None:
    server = Server(8)
    first, *_ = [server.connects("a") for _ in range(6)]
    assert first is not None
    assert (first.ended, server.numbers("a")) == (["silent"], [4])


def test_each_client_of_the_only_address_finds_a_place() -> None:
    """Also when others come ten times a second, or ask without a pause."""
    server = Server(4, one_address=True)
    for _ in range(1000):
        server.now -= 0.9
        assert server.connects("a") is not None
    assert server.numbers("a") == [4]
    for held in server.open:
        held.is_busy = True
    late = server.connects("a", is_busy=True)
    assert late is not None
    late.has_answered = False
    assert server.numbers("a") == [4]
    for _ in range(10):
        assert server.connects("a", is_busy=True) is not None
    assert late.ended == [], "it has had no answer yet"


def test_the_address_with_the_most_connections_gives_one_up() -> None:
    """However many addresses are hostile, each has as many places as the others."""
    server = Server(12)
    for host in "aaaaaabbbbbb":
        server.connects(host)
    good = server.connects("good")
    assert good is not None
    for _ in range(5):
        for host in "abcde":
            server.connects(host)
    assert not good.ended
    assert server.connects("good") is not None
    assert max(server.numbers(*"abcde")) <= 3


def test_the_longest_silent_one_goes() -> None:
    server = Server(4)
    one, two = server.connects("a"), server.connects("a")
    assert one is not None
    assert two is not None
    one.silent_since = server.now + 1
    server.connects("a")
    assert (one.ended, two.ended) == ([], ["silent"])
    one.has_answered, silent = False, server.places.refusal("a", has_spoken=False)
    assert (silent, one.ended) == ("too_many_of_address", []), "it has to say something first"
    server.connects("a")
    assert one.ended == ["silent"], "it has had no answer"


def test_who_waits_for_an_answer_does_not_go() -> None:
    server = Server(2)
    busy = [server.connects("a", is_busy=True), server.connects("b", is_busy=True)]
    assert server.connects("a") is None
    assert server.connects("c") is None
    assert all(held is not None and not held.ended for held in busy)


def test_an_address_replaces_few_of_its_own_in_a_second() -> None:
    """To connect and to be refused costs next to nothing; to take a place costs more."""
    server = Server(8)
    taken = 0
    for _ in range(1000):
        server.now -= 1.0
        taken += server.connects("a") is not None
    assert 100 <= taken < 130
    server.now += 60
    assert server.connects("a") is not None


def test_a_network_of_ipv6_is_one_address() -> None:
    assert address_of("2001:db8::1") == address_of("2001:db8::2:3")
    assert address_of("2001:db8:0:1::1") != address_of("2001:db8::1")
    assert address_of("fe80::1%eth0") == address_of("fe80::2")
    assert address_of("10.0.0.1") != address_of("10.0.0.2")


@given(
    st.lists(st.tuples(st.sampled_from("abcdefgh"), st.booleans(), st.booleans()), max_size=200),
    st.integers(1, 12),
)
def test_a_first_connection_finds_a_place(events: list[tuple[str, bool, bool]], most: int) -> None:
    """Unless all wait for answers; and there are never more than so many."""
    server = Server(most)
    for host, is_busy, leaves in events:
        own = [held for held in server.open if held.host == host]
        if leaves and own:
            server.places.leave(own[0])
            server.open.remove(own[0])
            continue
        are_busy = all(held.is_busy for held in server.open)
        found = server.connects(host, is_busy=is_busy)
        assert found is not None or own or are_busy
        assert len(server.open) == len(server.places) <= most


def test_clients_with_a_certificate_have_files_for_their_connections(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Nobody's connections take the files that the process needs."""
    monkeypatch.setattr("server.settings.open_files", lambda: 700)
    own = TlsFiles(Path("crt"), Path("key"), client_ca=Path("ca"))
    plain, mutual = Settings(), Settings(tls=own)
    assert plain.connections == 400
    assert 200 < mutual.connections < 400
    assert plain.spare_files > 100
    assert mutual.spare_files < 2
