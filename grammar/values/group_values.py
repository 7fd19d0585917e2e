"""Node groups: the value of a name that a `group` gives, with what its nodes have in common.

The engine makes them. Each is immutable, so that what is worked out of one can be kept with it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from grammar.values.quantity import Quantity, Resources, less


class GroupOfNodes:
    """A group of nodes at one moment.

    `value` is what its nodes have in common, `nodes` and `ready` are numbers of nodes, and `labels`
    are those that all of its nodes have with the same value. `allocatable`, `capacity` and
    `requested` are sums; `requested` and `free` have the pods on their way too, and are None where
    the pods of the cluster are not known. `members` are the nodes, in the order of their names.

    `kept` has values that depend on nothing else, `kept_of_nodes` those that do not depend on
    `requested` or `free`: a group with the same nodes shares it.
    """

    __slots__ = (
        "_list_members",
        "_members",
        "allocatable",
        "capacity",
        "free",
        "kept",
        "kept_of_nodes",
        "labels",
        "nodes",
        "ready",
        "requested",
        "value",
    )

    def __init__(
        self,
        value: object,
        list_members: Callable[[], Sequence[object]],
        nodes: int,
        ready: int,
        labels: Mapping[str, str],
        allocatable: Resources,
        capacity: Resources,
        requested: Resources | None,
        kept_of_nodes: dict[object, object] | None = None,
    ) -> None:
        """`list_members` is called when the members are first read."""
        self.value = value
        self._list_members = list_members
        self._members: Sequence[object] | None = None
        self.nodes = nodes
        self.ready = ready
        self.labels = labels
        self.allocatable = allocatable
        self.capacity = capacity
        self.requested = requested
        self.free = None if requested is None else less(allocatable, requested)
        self.kept: dict[object, object] = {}
        self.kept_of_nodes = {} if kept_of_nodes is None else kept_of_nodes

    @property
    def members(self) -> Sequence[object]:
        if self._members is None:
            self._members = self._list_members()
        return self._members

    def requesting(self, more: Mapping[str, int]) -> GroupOfNodes:
        """The same nodes with more requests, or fewer, in billionths of each resource."""
        if self.requested is None:
            return self
        requested = Resources(self.requested)
        for resource, nanos in more.items():
            known = requested[resource]
            requested[resource] = Quantity(known.nanos + nanos, known.suffix)
        return GroupOfNodes(
            self.value,
            lambda: self.members,
            self.nodes,
            self.ready,
            self.labels,
            self.allocatable,
            self.capacity,
            requested,
            self.kept_of_nodes,
        )
