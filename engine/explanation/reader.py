"""Reader: for whom an answer is made. Of other namespaces it has numbers, and names nothing.

Whoever makes a part of an answer asks the reader for each pod, and evaluates expressions in the
frame of the reader, where what is of other namespaces has no value. So nothing is taken out of an
answer that is made. A reader without bounds reads everything.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, cast

from engine.cache.node_table import NodeWithPods
from engine.objects.peer import Peer
from engine.program.frame import Frame, GroupsOfCall
from engine.program.tables import TableSpec
from grammar.tree.policy import FromConfigMap, FromMetrics
from grammar.values.errors import EvaluationError
from grammar.values.nodes import GroupOfNodes

_ERROR = "you may not list the pods of all namespaces, so the reason is not shown"


class HiddenError(EvaluationError):
    """A hidden value, which the reader may not see."""


class HiddenPod:
    """A pod of which a reader knows that it is there, and nothing else."""

    __slots__ = ()

    def __getattr__(self, _: str) -> object:
        raise HiddenError("the pod is of a namespace whose pods you may not list")


_HIDDEN_POD = HiddenPod()


@dataclass(frozen=True, slots=True)
class Reader:
    """The reader of an answer, who may list the pods of these namespaces; None is of all.

    The `owner` of questions, who take turns, is the namespace, or a user who may list all pods:
    whoever writes a namespace makes any number of users there. It is empty on this host.
    """

    namespaces: frozenset[str] | None = None
    owner: str = ""

    def may_list(self, namespace: str | None) -> bool:
        """Whether the reader may list the pods of a namespace; without a name, of all of them."""
        return self.namespaces is None or namespace in self.namespaces

    def may_name(self, key: str) -> bool:
        """Whether an answer may name a pod, or another object, as `namespace/name`."""
        return self.may_list(key.partition("/")[0])

    def may_read(self, spec: TableSpec) -> bool:
        """Whether an answer may have what is in a table: operators declare what is of nobody."""
        match spec.source:
            case FromMetrics():
                return True
            case FromConfigMap(name=name):
                return self.may_name(name)
            case _:
                return self.may_list(None)

    def error(self, text: str) -> str:
        """What an answer says of an error that may be about anything."""
        return text if self.namespaces is None else _ERROR

    def frame(self, frame: Frame) -> Frame:
        """The frame in which expressions are evaluated for the reader."""
        # It has what the reader may see, and nothing else that a frame may have.
        namespace, slots = frame.namespaceObject, len(frame.locals)
        own = Frame(frame.pod, frame.now, slots=slots, namespace=namespace)
        own.cardFacts, own.tables = frame.cardFacts, _OwnTables(frame.tables, self)
        own.groups, own.node = _OwnGroups(frame.groups, self), self.node(frame.node)
        return own

    def node(self, node: object) -> object:
        """A node with the pods that the reader may list, and one that is hidden for each other."""
        if not isinstance(node, NodeWithPods) or node.pods is None:
            return node
        pods = [pod if self.may_list(pod.namespace) else _HIDDEN_POD for pod in node.pods]
        return replace(node, pods=cast("Sequence[Peer]", tuple(pods)))


EVERYTHING = Reader()


class _OwnTables(Mapping[str, Any]):
    """The tables of a frame; those that the reader may not see have no value."""

    def __init__(self, tables: Mapping[str, Any], reader: Reader) -> None:
        self._tables = tables
        self._reader = reader

    def __getitem__(self, digest: str) -> Any:
        table = self._tables[digest]
        if not self._reader.may_read(table.spec):
            raise HiddenError(f"`data.{table.spec.name}` is of a namespace that is not yours")
        return table

    def __iter__(self) -> Iterator[str]:
        return iter(self._tables)

    def __len__(self) -> int:
        return len(self._tables)


class _GroupByPods(GroupOfNodes):
    """A group by what pods on its nodes may have said."""

    __slots__ = ()

    def __getattribute__(self, name: str) -> Any:
        if name == "value":
            raise HiddenError("what the group is by may be of a pod that you may not list")
        return super().__getattribute__(name)


class _OwnGroups(GroupsOfCall):
    """The groups of a frame, with the nodes of the reader. Their numbers are for everybody."""

    def __init__(self, groups: GroupsOfCall, reader: Reader) -> None:
        self._groups = groups
        self._reader = reader

    def of(self, digest: str, node: str) -> GroupOfNodes | None:
        group = self._groups.of(digest, node)
        if group is None:
            return None
        members = [self._reader.node(each) for each in group.members]
        texts = {text for each in members for text in _texts(each)}
        is_of_nodes = not isinstance(group.value, str) or group.value in texts
        made = GroupOfNodes if is_of_nodes else _GroupByPods
        return made(
            group.value,
            lambda: members,
            group.nodes,
            group.ready,
            group.labels,
            group.allocatable,
            group.capacity,
            group.requested,
        )

    def number(self, digest: str, frame: Frame) -> object:
        return self._groups.number(digest, frame)

    def ways(self, counts: Sequence[str], *, strict: bool) -> Sequence[GroupsOfCall]:
        return [_OwnGroups(each, self._reader) for each in self._groups.ways(counts, strict=strict)]


def _texts(node: Any) -> Iterator[str]:
    """The texts of the object of a node."""
    annotations = (node.metadata and node.metadata.annotations) or {}
    return iter((node.name, *node.labels.values(), *annotations.values()))
