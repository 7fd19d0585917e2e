"""Requests with names, as kube-scheduler writes them: little of them has to be looked at.

kube-scheduler asks prioritize about the pod that filter was asked about, and about the nodes that
filter has answered, in that order. Both are recognised by their bytes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec
import numpy as np
import numpy.typing as npt

from engine.cache.names import KnownRows, ListedNames
from engine.decision.verdict import Decision, Feasible, Rejected, Scores
from server.wire import ExtenderArgs

_POD = b'{"Pod":'
_NAMES = b',"Nodes":null,"NodeNames":'
_ANYTHING = msgspec.json.Decoder(msgspec.Raw)


class NamesMode:
    """Reads requests; `answered` are the names that filter has answered last, if there are some."""

    def __init__(self) -> None:
        self.answered: ListedNames | None = None
        self._pod = b""

    def read(self, body: bytes) -> ExtenderArgs | None:
        """What `wire.decode_args` makes of it; None where that has to take a look."""
        if not body.startswith(_POD):
            return None
        # Go's encoder ends what it writes with a line.
        end = b"}\n" if body.endswith(b"\n") else b"}"
        parts = self._known(body, end) or _split(body, end)
        if parts is None:
            return None
        at, names = parts
        pod = body[len(_POD) : at]
        if pod != self._pod:
            if not _is_object(pod):
                return None
            self._pod = pod
        return ExtenderArgs(self._pod, names, None)

    def _known(self, body: bytes, end: bytes) -> tuple[int, ListedNames] | None:
        if self.answered is None:
            return None
        first = len(body) - len(end) - len(self.answered.json)
        at = first - len(_NAMES)
        if at < 0 or body[at:first] != _NAMES or not body.endswith(end):
            return None
        same = body.startswith(self.answered.json, first)
        return (at, self.answered) if same else None


def _split(body: bytes, end: bytes) -> tuple[int, ListedNames] | None:
    """Where the pod ends, and the names.

    The same text may be in a pod: what is before it is no JSON then.
    """
    at = body.find(_NAMES)
    if at < 0 or not body.endswith(end):
        return None
    names = ListedNames.of(body[at + len(_NAMES) : len(body) - len(end)])
    return None if names is None else (at, names)


def _is_object(text: bytes) -> bool:
    try:
        # Nothing around it: its bytes are what the pod is known by.
        return text.startswith(b"{") and text.endswith(b"}") and bool(_ANYTHING.decode(text))
    except (ValueError, RecursionError):
        return False


# ---- Answers about nodes of the cache, put together from JSON that was made once per node.
#
# Thousands of names are in an answer, and the same ones in the next: encoding them costs more than
# deciding about them.

_Pieces = npt.NDArray[np.object_]
_Rows = npt.NDArray[np.uint8]

_BEST = 10
# All of one width, as rows are.
_POINTS: _Rows = np.array([list(b"%2d}," % score) for score in range(_BEST + 1)], np.uint8)
# Rows are filled up with spaces. No answer is to become so many times as large by that.
_MOST_SPACE = 2


class NameFragments:
    """Encodes answers whose nodes are rows of the cache (`KnownRows`)."""

    def __init__(self) -> None:
        self._nodes: Mapping[str, int] = {}
        self._names: _Pieces = np.empty(0, object)
        self._hosts: _Rows | None = None

    def filter(
        self, decided: Decision, where: KnownRows, *, resolvable_rejections: bool
    ) -> tuple[bytes, ListedNames | None]:
        """As `partition` and `wire.encode_filter` have it, and the names that are accepted."""
        self._look(where)
        rows, codes = where.rows, decided.codes
        failed: dict[bool, list[bytes]] = {True: [], False: []}
        if np.logical_or.reduce(codes):
            for code, verdict in enumerate(decided.verdicts):
                if isinstance(verdict, Feasible):
                    continue
                here: list[bytes] = self._names[rows[codes == code]].tolist()
                if here:
                    reason = b":" + msgspec.json.encode(verdict.reason)
                    curable = isinstance(verdict, Rejected) and verdict.resolvable
                    # Every name but the last is followed by the reason and a comma.
                    pairs = (reason + b",").join(here) + reason
                    failed[resolvable_rejections and curable].append(pairs)
            rows = rows[codes == 0]
        listed = b"".join((b"[", b",".join(self._names[rows].tolist()), b"]"))
        accepted = ListedNames(listed, KnownRows(rows, where.nodes)) if len(rows) else None
        return filtered(listed, failed[True], failed[False]), accepted

    def priorities(self, scores: Scores, where: KnownRows) -> bytes | None:
        """As `wire.encode_priorities` has it, but for spaces; None if they would be too many."""
        self._look(where)
        if self._hosts is None:
            return None
        filled = self._hosts.take(where.rows, axis=0)
        filled[:, -_POINTS.shape[1] :] = _POINTS.take(scores.points, axis=0)
        return b"".join((b"[", filled.data.cast("B")[:-1], b"]"))

    def _look(self, where: KnownRows) -> None:
        """Encodes the names of the cluster if they are others than those at the last call."""
        nodes = where.nodes
        if nodes is self._nodes:
            return
        encoded = [msgspec.json.encode(name) for name in nodes]
        rows = np.fromiter(nodes.values(), np.intp, len(nodes))
        self._names = np.empty(rows.max() + 1, object)
        self._names[rows] = encoded
        hosts = [b'{"Host":%b,' % name for name in encoded]
        scores = b'"Score":%b' % bytes(_POINTS.shape[1])
        width = max(map(len, hosts))
        self._hosts = None
        if width * len(hosts) <= _MOST_SPACE * sum(map(len, hosts)):
            hosts_text = b"".join(host.ljust(width) + scores for host in hosts)
            self._hosts = np.empty((len(self._names), width + len(scores)), np.uint8)
            self._hosts[rows] = np.frombuffer(hosts_text, np.uint8).reshape(len(hosts), -1)
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
