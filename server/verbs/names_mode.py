"""Names mode: requests with node names, and answers put together from JSON made once per node.

kube-scheduler asks prioritize about the pod that filter was asked about, and about the nodes that
filter has accepted, in that order. AnsweredNames recognises both by their bytes. Thousands of names
are in an answer, and the same ones in the next: encoding them costs more than the decision, so
NameFragments keeps the JSON of each name. Both belong to the server and live as long as it does.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec
import numpy as np
import numpy.typing as npt

from engine.cache.names import KnownRows, ListedNames
from engine.decision.verdict import FEW_NODES, FEW_VERDICTS, Decision, Feasible, Scores, texts
from server.call import CallRecord
from server.wire import ExtenderArgs, decode_args

_Pieces = npt.NDArray[np.object_]
_Rows = npt.NDArray[np.uint8]

_BEST = 10
# All of one width, because rows of a matrix are.
_POINTS: _Rows = np.array([list(b"%2d}," % score) for score in range(_BEST + 1)], np.uint8)
# Rows are padded with spaces. No answer may become this many times as large.
_MOST_SPACE = 2

_POD = b'{"Pod":'
_NAMES = b',"Nodes":null,"NodeNames":'
_ANYTHING = msgspec.json.Decoder(msgspec.Raw)


class AnsweredNames:
    """The names that filter accepted last and its pod, shared by filter and prioritize.

    `names` is None where the last answer has none, or was not made of names.
    """

    def __init__(self) -> None:
        self.names: ListedNames | None = None
        self._pod = b""

    def decode(self, body: bytes, call: CallRecord) -> ExtenderArgs:
        """The arguments of filter or prioritize; fills in the call. Raises RequestError."""
        args = self.read(body) or decode_args(body)
        call.pod = args.pod
        call.offered = len(args.names)
        call.full_nodes = args.nodes is not None
        return args

    def read(self, body: bytes) -> ExtenderArgs | None:
        """The same as `wire.decode_args`, or None for a body in any other form."""
        if not body.startswith(_POD):
            return None
        # Go's encoder ends a message with a line break.
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
        if self.names is None:
            return None
        first = len(body) - len(end) - len(self.names.json)
        at = first - len(_NAMES)
        if at < 0 or body[at:first] != _NAMES or not body.endswith(end):
            return None
        same = body.startswith(self.names.json, first)
        return (at, self.names) if same else None


def _split(body: bytes, end: bytes) -> tuple[int, ListedNames] | None:
    """The end of the pod, and the names.

    If a pod contains the same text, the bytes before it are not JSON, and the pod is refused.
    """
    at = body.find(_NAMES)
    if at < 0 or not body.endswith(end):
        return None
    names = ListedNames.of(body[at + len(_NAMES) : len(body) - len(end)])
    return None if names is None else (at, names)


def _is_object(text: bytes) -> bool:
    try:
        # No space around it: the bytes identify the pod.
        return text.startswith(b"{") and text.endswith(b"}") and bool(_ANYTHING.decode(text))
    except (ValueError, RecursionError):
        return False


class NameFragments:
    """The JSON of every name of the cluster, and answers made of it (`KnownRows`)."""

    def __init__(self) -> None:
        self._nodes: Mapping[str, int] = {}
        self._names: _Pieces = np.empty(0, object)
        self._hosts: _Rows | None = None

    def filter(
        self, decided: Decision, known: KnownRows, *, resolvable_rejections: bool
    ) -> tuple[bytes, ListedNames | None]:
        """The answer of filter, equal to `encode_filter`'s, and the accepted names."""
        self._update(known)
        rows, codes = known.rows, decided.codes
        failed: dict[bool, list[bytes]] = {True: [], False: []}
        if np.count_nonzero(codes):
            is_long = len(decided.verdicts) > FEW_VERDICTS or len(codes) > FEW_NODES
            bounded = texts(decided) if is_long else ()
            for code, verdict in enumerate(decided.verdicts):
                if isinstance(verdict, Feasible):
                    continue
                here: list[bytes] = self._names.take(rows[codes == code]).tolist()
                if here:
                    text = bounded[code] if bounded else verdict.reason
                    reason = b":" + msgspec.json.encode(text)
                    # Every name but the last is followed by the reason and a comma.
                    members = (reason + b",").join(here) + reason
                    failed[resolvable_rejections and verdict.resolvable].append(members)
            rows = rows[codes == 0]
        listed = b"".join((b"[", b",".join(self._names.take(rows).tolist()), b"]"))
        accepted = ListedNames(listed, KnownRows(rows, known.nodes)) if len(rows) else None
        return filtered(listed, failed[True], failed[False]), accepted

    def priorities(self, scores: Scores, known: KnownRows) -> bytes | None:
        """The answer of prioritize, equal to `encode_priorities`' but for spaces.

        None where spaces would more than double its size.
        """
        self._update(known)
        if self._hosts is None:
            return None
        filled = self._hosts.take(known.rows, axis=0)
        filled[:, -_POINTS.shape[1] :] = _POINTS.take(scores.points, axis=0)
        return b"".join((b"[", filled.data.cast("B")[:-1], b"]"))

    def _update(self, known: KnownRows) -> None:
        """Encodes the names of the cluster if they have changed since the last call."""
        nodes = known.nodes
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
    """The answer of a filter call that accepts every node."""
    return filtered(names.json, (), ())


def filtered(names: bytes, resolvable: Sequence[bytes], unresolvable: Sequence[bytes]) -> bytes:
    """The answer of a filter call, from JSON: a list of names, and members of the two objects."""
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
