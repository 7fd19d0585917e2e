"""What a running program reads: the pod, the node at hand, and the values of local names."""

from __future__ import annotations

from collections.abc import Callable

from grammar.values.timestamp import Timestamp

# How many steps of comprehensions one request may take.
FUEL = 10_000_000

Evaluate = Callable[["Frame"], object]


class Frame:
    """One request's state.

    Mutable on purpose: per node only `node` changes, and closures keep their locals in it.

    `locals` has a place for every comprehension variable and parameter of every program; `memo` one
    for every part that is worked out once per pod. `fuel` falls by one per step of a comprehension.
    """

    __slots__ = (
        "fuel",
        "locals",
        "memo",
        "namespaceObject",
        "node",
        "now",
        "peer",
        "pod",
        "victim",
        "victims",
    )

    def __init__(
        self, pod: object, now: Timestamp, *, places: int, namespace: object = None
    ) -> None:
        self.pod = pod
        self.node: object = None
        self.now = now
        self.namespaceObject = namespace
        self.peer: object = None
        self.victim: object = None
        self.victims: object = None
        self.locals: list[object] = [None] * places
        self.memo: dict[object, object] = {}
        self.fuel = FUEL
