"""Answers about nodes of the cache, put together from JSON that was made once per node.

Thousands of names are in an answer, and the same ones in the next: encoding them costs more than
deciding about them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec
import numpy as np
import numpy.typing as npt

from engine.verdict import Decision, Feasible, Rejected, Scores, Where

_Pieces = npt.NDArray[np.object_]
_BEST = 10
_POINTS: _Pieces = np.array([b"%d}" % score for score in range(_BEST + 1)], object)


class Fragments:
    """Encodes answers whose nodes are places of the cache (`Where`)."""

    def __init__(self) -> None:
        self._nodes: Mapping[str, int] = {}
        self._names: _Pieces = np.empty(0, object)
        self._hosts: _Pieces = np.empty(0, object)

    def filter(self, decided: Decision, where: Where, *, resolvable_rejections: bool) -> bytes:
        """As `partition` and `wire.encode_filter` have it."""
        self._look(where)
        names, codes = self._names[where.places], decided.codes
        failed: dict[bool, list[bytes]] = {True: [], False: []}
        if codes.any():
            for code, verdict in enumerate(decided.verdicts):
                if isinstance(verdict, Feasible):
                    continue
                here: list[bytes] = names[codes == code].tolist()
                if here:
                    reason = b":" + msgspec.json.encode(verdict.reason)
                    curable = isinstance(verdict, Rejected) and verdict.resolvable
                    # Every name but the last is followed by the reason and a comma.
                    pairs = (reason + b",").join(here) + reason
                    failed[resolvable_rejections and curable].append(pairs)
            names = names[codes == 0]
        return b"".join(
            (
                b'{"Nodes":null,"NodeNames":[',
                b",".join(names.tolist()),
                b'],"FailedNodes":{',
                b",".join(failed[True]),
                b'},"FailedAndUnresolvableNodes":{',
                b",".join(failed[False]),
                b'},"Error":""}',
            )
        )

    def priorities(self, scores: Scores, where: Where) -> bytes:
        """As `wire.encode_priorities` has it."""
        self._look(where)
        pieces: _Pieces = np.empty(2 * len(scores), object)
        pieces[::2] = self._hosts[where.places]
        pieces[1::2] = _POINTS[scores.points]
        text = b"".join(pieces.tolist())
        return b"[" + text[1:] + b"]"

    def _look(self, where: Where) -> None:
        """Encodes the names of the cluster if they are others than those at the last call."""
        nodes = where.nodes
        if nodes is self._nodes:
            return
        size = max(nodes.values(), default=0) + 1
        self._names, self._hosts = np.empty(size, object), np.empty(size, object)
        for name, encoded in zip(nodes, _encoded(nodes), strict=True):
            self._names[nodes[name]] = encoded
            self._hosts[nodes[name]] = b',{"Host":' + encoded + b',"Score":'
        self._nodes = nodes


def _encoded(names: Mapping[str, int]) -> Sequence[bytes]:
    return [msgspec.json.encode(name) for name in names]
