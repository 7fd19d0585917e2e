"""Fairness: how namespaces divide what is bounded, so that none displaces another.

A list that is known as a whole is dealt out in turns. FairShares divide places that are given back;
a FairQueue holds entries until their turn. An owner is a namespace; the operator's is empty.
"""

from __future__ import annotations

from collections import Counter, OrderedDict, deque
from collections.abc import Callable, Iterable, Iterator
from itertools import chain
from typing import Generic, TypeVar

T = TypeVar("T")


def in_turns(items: Iterable[T], owner: Callable[[T], str]) -> Iterator[list[T]]:
    """Rounds: in each the next item of every owner, by name. Those of one keep their order."""
    own: dict[str, deque[T]] = {}
    for item in items:
        own.setdefault(owner(item), deque()).append(item)
    while own:
        yield [own[name].popleft() for name in sorted(own)]
        own = {name: left for name, left in own.items() if left}


class FairShares:
    """Fair shares of a number of something, such as calls that wait, or bytes.

    An owner has at most as much as it leaves free: the only one a half, each of two a third. So
    there is always some left for one that comes, and nothing has to be taken back.
    """

    def __init__(self, most: int) -> None:
        self.most = most
        self.taken = 0
        self._taken = Counter[str]()

    def of(self, owner: str) -> int:
        return self._taken[owner]

    def left(self, owner: str) -> int:
        """How many more an owner may have; negative where others have left too few."""
        return (self.most - self.taken - self.of(owner)) // 2

    def has_room(self, owner: str, number: int = 1) -> bool:
        return number <= self.left(owner)

    def add(self, owner: str, by: int) -> None:
        self.taken += by
        self._taken[owner] += by
        if not self._taken[owner]:
            del self._taken[owner]


# The most bytes that a server keeps of all namespaces, with what it makes of them.
MOST_OF_TENANTS = 96 << 20
# The most bind calls that are held; a namespace alone has half of them.
MOST_HELD = 1000


class ByteAccounts:
    """Accounts of the bytes that a server keeps of each namespace, by the keys of things.

    A key is a text that is not that of another thing. What is of no namespace is not counted.
    """

    def __init__(self, most: int = MOST_OF_TENANTS) -> None:
        self._shares = FairShares(most)
        self._sizes: dict[str, tuple[str, int]] = {}

    def room(self, owner: str, key: str) -> int:
        """The most bytes that an owner may keep under a key, in place of what it has there."""
        _, size = self._sizes.get(key, (owner, 0))
        return self._shares.left(owner) + size if owner else self._shares.most

    def keep(self, owner: str, key: str, size: int) -> bool:
        """Whether so many bytes may be kept under a key, in place of what was there."""
        if size > self.room(owner, key):
            return False
        self.drop(key)
        if owner:
            self._shares.add(owner, size)
            self._sizes[key] = owner, size
        return True

    def drop(self, key: str) -> None:
        """What was kept under a key is gone."""
        owner, size = self._sizes.pop(key, ("", 0))
        self._shares.add(owner, -size)


class FairQueue(Generic[T]):
    """A queue of a bounded length, from which owners take turns.

    Beyond the bound, the owner of the most items loses its oldest one.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        # The owner whose turn is next comes first.
        self._own: OrderedDict[str, deque[T]] = OrderedDict()

    def __len__(self) -> int:
        return sum(map(len, self._own.values()))

    def __iter__(self) -> Iterator[T]:
        return chain.from_iterable(self._own.values())

    def put(self, owner: str, item: T) -> T | None:
        """Puts an item at the end of its owner's; gives the one that is lost for it."""
        self._own.setdefault(owner, deque()).append(item)
        if len(self) <= self._most:
            return None
        return self._take_of(max(self._own, key=lambda each: len(self._own[each])))

    def take(self) -> T:
        """The next item, which leaves the queue. There has to be one."""
        return self._take_of(next(iter(self._own)))

    def clear(self) -> None:
        self._own.clear()

    def _take_of(self, owner: str) -> T:
        queue = self._own.pop(owner)
        item = queue.popleft()
        if queue:
            self._own[owner] = queue
        return item
