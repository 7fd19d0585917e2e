"""Places: the open connections of a server by address, and which of them goes when one more comes.

They belong to `Connections`. When all places are taken, the address with the most connections gives
one up, the longest silent. So an address with few connections keeps them, and always finds a place
for one more. Behind address translation many clients are one.

Where all clients have one address, as on loopback, each finds a place: the longest silent gives up
its own, and if all wait for answers, one that has had an answer before.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from ipaddress import ip_network
from typing import Protocol

from engine.cluster.client import TokenBucket

# How often an address may replace a connection of its own. To make one takes up to 2 ms with TLS.
_REPLACED_A_SECOND, _REPLACED_AT_ONCE = 100.0, 100
# Whoever has one address of IPv6 has all of its network.
_IPV6_PREFIX = 64


class Place(Protocol):
    """A connection as its places see it."""

    @property
    def silent_since(self) -> float:
        """When its last call was answered, or it connected, in seconds of the clock."""
        ...

    @property
    def has_answered(self) -> bool:
        """Whether it has answered a call."""
        ...

    @property
    def is_busy(self) -> bool:
        """Whether it has sent a whole request and waits for the answer."""
        ...

    def refuse(self, reason: str) -> None:
        """Ends the connection at once."""
        ...


@dataclass(slots=True)
class _Address:
    """The connections of one address; it is forgotten with the last of them."""

    # In the order in which they came.
    connections: dict[Place, None] = field(default_factory=dict)
    # Made at the first need.
    replaced: TokenBucket | None = None


class Places:
    """So many places, half of them per address, or all of them for the only address.

    A burst of connections that find no place is refused in constant time, on average.
    """

    def __init__(self, most: int, clock: Callable[[], float], *, one_address: bool = False) -> None:
        self.most = most
        self._one_address = one_address
        self._clock = clock
        self._addresses: dict[str, _Address] = {}
        self._by_place: dict[Place, str] = {}
        # How many addresses have so many connections.
        self._sizes: Counter[int] = Counter()
        # The connections of the addresses with the most, the longest silent first, and since when
        # they were silent at the last look, when the addresses had so many.
        self._silent: deque[tuple[Place, float]] = deque()
        self._size_of_silent = 0

    def __len__(self) -> int:
        return len(self._by_place)

    def __iter__(self) -> Iterator[Place]:
        return iter(self._by_place)

    def refusal(self, host: str, *, has_spoken: bool = True) -> str:
        """Makes a place for a connection of this address; the reason if there is none for it.

        Another connection may be refused for that. One that has sent nothing replaces none of its
        own address.
        """
        own = self._addresses.get(address_of(host))
        count = len(own.connections) if own is not None else 0
        share = self.most if self._one_address else max(self.most // 2, 1)
        if own is not None and count >= share:
            return "" if has_spoken and self._replace(own) else "too_many_of_address"
        if len(self) < self.most:
            return ""
        # Two addresses with as many do not take places from each other in turn.
        if own is not None and count > max(self._sizes) - 2:
            return "" if has_spoken and self._replace(own) else "too_many"
        return "" if self._give_up(count) else "too_many"

    def enter(self, place: Place, host: str) -> None:
        """Takes a place that `refusal` has made."""
        key = address_of(host)
        connections = self._addresses.setdefault(key, _Address()).connections
        self._resized(len(connections), len(connections) + 1)
        connections[place] = None
        self._by_place[place] = key

    def leave(self, place: Place) -> bool:
        """Forgets a connection; whether it had a place."""
        key = self._by_place.pop(place, None)
        if key is None:
            return False
        connections = self._addresses[key].connections
        self._resized(len(connections), len(connections) - 1)
        del connections[place]
        if not connections:
            del self._addresses[key]
        return True

    def _resized(self, before: int, after: int) -> None:
        self._sizes[after] += 1
        self._sizes[before] -= 1
        if not self._sizes[before]:
            del self._sizes[before]
        del self._sizes[0]

    def _replace(self, own: _Address) -> bool:
        """Ends a connection of the address itself, which does not cost the others much time."""
        if own.replaced is None:
            own.replaced = TokenBucket(_REPLACED_A_SECOND, _REPLACED_AT_ONCE, self._clock)
        if not own.replaced.try_take():
            return False
        silent = [each for each in own.connections if not each.is_busy]
        if not silent and self._one_address:
            silent = [each for each in own.connections if each.has_answered]
        if not silent:
            return False
        longest = min(silent, key=_worth)
        self._end(longest)
        return True

    def _give_up(self, count: int) -> bool:
        """Ends the longest silent connection of the address that has the most, if it has one.

        That is of an address with more than `count`.
        """
        for size in sorted(self._sizes, reverse=True):
            if size <= count:
                return False
            if self._end_one(size):
                return True
        return False

    def _end_one(self, size: int) -> bool:
        """Ends the longest silent connection of the addresses with so many, if they have one."""
        for has_looked in (False, True):
            while self._silent and self._size_of_silent == size:
                place, since = self._silent.popleft()
                key = self._by_place.get(place)
                is_there = key is not None and len(self._addresses[key].connections) == size
                if is_there and not place.is_busy and place.silent_since == since:
                    self._end(place)
                    return True
            if not has_looked:
                self._look(size)
        return False

    def _look(self, size: int) -> None:
        """Looks which connections of the addresses with so many are silent."""
        every = (each.connections for each in self._addresses.values())
        places = (place for some in every if len(some) == size for place in some)
        silent = sorted((place for place in places if not place.is_busy), key=_worth)
        self._silent = deque((place, place.silent_since) for place in silent)
        self._size_of_silent = size

    def _end(self, place: Place) -> None:
        self.leave(place)
        place.refuse("silent")


def _worth(place: Place) -> tuple[bool, float]:
    """The order in which silent connections go: before all others those without an answer yet."""
    return place.has_answered, place.silent_since


def address_of(host: str) -> str:
    """The address of a client, or of its whole network."""
    if ":" not in host:
        return host
    try:
        return str(ip_network((host.partition("%")[0], _IPV6_PREFIX), strict=False))
    except ValueError:
        return host
