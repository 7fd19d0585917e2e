"""Answers about nodes of the cache, put together from JSON that was made once per node.

Thousands of names are in an answer, and the same ones in the next: encoding them costs more than
deciding about them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec
import numpy as np
import numpy.typing as npt

from engine.cache.listed_names import ListedNames, Where
from engine.verdict import Decision, Feasible, Rejected, Scores

_Pieces = npt.NDArray[np.object_]
_Rows = npt.NDArray[np.uint8]

_BEST = 10
# All of one width, as rows are.
_POINTS: _Rows = np.array([list(b"%2d}," % score) for score in range(_BEST + 1)], np.uint8)
# Rows are filled up with spaces. No answer is to become so many times as large by that.
_MOST_SPACE = 2


class Fragments:
    """Encodes answers whose nodes are places of the cache (`Where`)."""

    def __init__(self) -> None:
        self._nodes: Mapping[str, int] = {}
        self._names: _Pieces = np.empty(0, object)
        self._hosts: _Rows | None = None

    def filter(
        self, decided: Decision, where: Where, *, resolvable_rejections: bool
    ) -> tuple[bytes, ListedNames | None]:
        """As `partition` and `wire.encode_filter` have it, and the names that are accepted."""
        self._look(where)
        places, codes = where.places, decided.codes
        failed: dict[bool, list[bytes]] = {True: [], False: []}
        if np.logical_or.reduce(codes):
            for code, verdict in enumerate(decided.verdicts):
                if isinstance(verdict, Feasible):
                    continue
                here: list[bytes] = self._names[places[codes == code]].tolist()
                if here:
                    reason = b":" + msgspec.json.encode(verdict.reason)
                    curable = isinstance(verdict, Rejected) and verdict.resolvable
                    # Every name but the last is followed by the reason and a comma.
                    pairs = (reason + b",").join(here) + reason
                    failed[resolvable_rejections and curable].append(pairs)
            places = places[codes == 0]
        listed = b"".join((b"[", b",".join(self._names[places].tolist()), b"]"))
        accepted = ListedNames(listed, Where(places, where.nodes)) if len(places) else None
        return filtered(listed, failed[True], failed[False]), accepted

    def priorities(self, scores: Scores, where: Where) -> bytes | None:
        """As `wire.encode_priorities` has it, but for spaces; None if they would be too many."""
        self._look(where)
        if self._hosts is None:
            return None
        rows = self._hosts.take(where.places, axis=0)
        rows[:, -_POINTS.shape[1] :] = _POINTS.take(scores.points, axis=0)
        return b"".join((b"[", rows.data.cast("B")[:-1], b"]"))

    def _look(self, where: Where) -> None:
        """Encodes the names of the cluster if they are others than those at the last call."""
        nodes = where.nodes
        if nodes is self._nodes:
            return
        encoded = [msgspec.json.encode(name) for name in nodes]
        places = np.fromiter(nodes.values(), np.intp, len(nodes))
        self._names = np.empty(places.max() + 1, object)
        self._names[places] = encoded
        hosts = [b'{"Host":%b,' % name for name in encoded]
        scores = b'"Score":%b' % bytes(_POINTS.shape[1])
        width = max(map(len, hosts))
        self._hosts = None
        if width * len(hosts) <= _MOST_SPACE * sum(map(len, hosts)):
            rows = b"".join(host.ljust(width) + scores for host in hosts)
            self._hosts = np.empty((len(self._names), width + len(scores)), np.uint8)
            self._hosts[places] = np.frombuffer(rows, np.uint8).reshape(len(hosts), -1)
        self._nodes = nodes


def echoed(names: ListedNames) -> bytes:
    """The answer to a filter call that accepts every node."""
    return filtered(names.json, (), ())


def filtered(names: bytes, resolvable: Sequence[bytes], unresolvable: Sequence[bytes]) -> bytes:
    """The answer to a filter call, from JSON: a list of names, and parts of the two objects."""
    return b"".join(
        (
            b'{"Nodes":null,"NodeNames":',
            names,
            b',"FailedNodes":{',
            b",".join(resolvable),
            b'},"FailedAndUnresolvableNodes":{',
            b",".join(unresolvable),
            b'},"Error":""}',
        )
    )
