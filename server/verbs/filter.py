"""Filter: the nodes of a request that a pod may run on, each accepted or rejected with a reason.

A node is in exactly one part of the answer (C22, C24): in none, it would fail without a reason.
Thousands of names are in an answer, and the same ones in the next: encoding them costs more than
the decision. So NameFragments puts the answer together from JSON, which it makes once per node
where the nodes are known by rows.

kube-scheduler asks prioritize about the pod that filter was asked about, and about the nodes that
filter has accepted, in that order. AnsweredNames recognises both by their bytes. It and the
NameFragments belong to the server, and live as long as it does; prioritize has the same ones.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import msgspec
import numpy as np
import numpy.typing as npt

from engine.cache.node_table import KnownRows, ListedNames
from engine.cluster.client import TokenBucket
from engine.decision.verdict import FEW_NODES, FEW_VERDICTS, Decision, Feasible, Scores, texts
from engine.errors import BriefWaitError
from server.call import CallRecord
from server.errors import CallFailure
from server.verbs.answering import Answer, Decider, DecisionQueue
from server.wire import ExtenderArgs, decode_args

# The pause before each further look of a call, and the most looks. kube-scheduler asks about no
# other pod meanwhile, so all calls together wait for a tenth of the time at most.
_PAUSE_SECONDS, _MOST_LOOKS = 0.01, 10
_LOOKS_PER_SECOND, _LOOKS_AT_ONCE = 10.0, 20


@dataclass(eq=False, slots=True)
class FilterVerb:
    """The verb filter. It remembers the accepted names for prioritize."""

    decider: Decider
    queue: DecisionQueue
    answered: AnsweredNames
    fragments: NameFragments
    resolvable_rejections: bool
    _looks: TokenBucket = field(
        default_factory=lambda: TokenBucket(_LOOKS_PER_SECOND, _LOOKS_AT_ONCE, time.monotonic),
        init=False,
    )

    def decide(self, body: bytes, call: CallRecord) -> Answer:
        args = self.answered.decode(body, call)
        try:
            return self._decided(args, call)
        except BriefWaitError as error:
            return self._waited(args, call, error)

    async def _waited(self, args: ExtenderArgs, call: CallRecord, why: BriefWaitError) -> bytes:
        """The answer once in-flight pods are bound, or the pod's ReplicaSet is known.

        After an error, kube-scheduler would ask again after one to ten seconds, about all pods of a
        burst at once.
        """
        looks = 0
        while looks < _MOST_LOOKS and self._looks.try_take():
            looks += 1
            await asyncio.sleep(_PAUSE_SECONDS)
            await self.queue.begin(call.deadline, call.client)
            try:
                return self._decided(args, call)
            except BriefWaitError as error:
                why = error
            finally:
                self.queue.end()
        raise why

    def _decided(self, args: ExtenderArgs, call: CallRecord) -> bytes:
        answered = self.answered
        answered.names = None
        decided = self.decider.filter(args.pod, args.names, args.nodes, call.deadline)
        call.returned = len(decided.codes) - int(np.count_nonzero(decided.codes))
        if call.returned == call.offered and type(args.names) is ListedNames:
            answered.names = args.names
            return echoed(args.names)
        answer, answered.names, call.returned = self.fragments.filter(
            args, decided, resolvable_rejections=self.resolvable_rejections
        )
        return answer

    def refuse(self, failure: CallFailure) -> tuple[int, bytes]:
        return 200, encode_filter_error(failure.text)


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
        self, args: ExtenderArgs, decided: Decision, *, resolvable_rejections: bool
    ) -> tuple[bytes, ListedNames | None, int]:
        """The answer of filter, the accepted names if their rows are known, and their number.

        Every rejection is unresolvable unless `resolvable_rejections`: kube-scheduler up to 1.36
        would look for victims on nodes that only we reject, find none, and ask again at once (C48).
        Raises ValueError if there are not as many names as verdicts.
        """
        codes, known = decided.codes, decided.known_rows
        if known is not None:
            self._update(known)
            names, rows = self._names, known.rows
        else:
            if len(args.names) != len(codes):
                raise ValueError(f"{len(args.names)} names and {len(codes)} verdicts")
            names, rows = _encoded(args.names)
            codes = codes[rows]
        failed: dict[bool, list[bytes]] = {True: [], False: []}
        if np.count_nonzero(codes):
            is_long = len(decided.verdicts) > FEW_VERDICTS or len(codes) > FEW_NODES
            bounded = texts(decided) if is_long else ()
            for code, verdict in enumerate(decided.verdicts):
                if isinstance(verdict, Feasible):
                    continue
                here: list[bytes] = names.take(rows[codes == code]).tolist()
                if here:
                    text = bounded[code] if bounded else verdict.reason
                    reason = b":" + msgspec.json.encode(spelled(text))
                    # Every name but the last is followed by the reason and a comma.
                    members = (reason + b",").join(here) + reason
                    failed[resolvable_rejections and verdict.resolvable].append(members)
            rows = rows[codes == 0]
        if args.nodes is not None:
            nodes = [args.nodes[row] for row in rows.tolist()]
            return filtered(b"null", failed[True], failed[False], nodes), None, len(rows)
        listed = b"".join((b"[", b",".join(names.take(rows).tolist()), b"]"))
        accepted = (
            ListedNames(listed, KnownRows(rows, known.nodes)) if known and len(rows) else None
        )
        return filtered(listed, failed[True], failed[False]), accepted, len(rows)

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


def encode_filter_error(text: str) -> bytes:
    """The answer without a decision: kube-scheduler tries again later (C30)."""
    return filtered(b"null", (), (), error=msgspec.json.encode(spelled(text)))


def spelled(text: str) -> str:
    """The text of an answer without `%`, since kube-scheduler takes it as a format (C23)."""
    return text.replace(" %", "%").replace("%", " percent")


def filtered(
    names: bytes,
    resolvable: Sequence[bytes],
    unresolvable: Sequence[bytes],
    nodes: Sequence[bytes] | None = None,
    error: bytes = b'""',
) -> bytes:
    """The answer of a filter call, from JSON: a list of names, and members of the two objects.

    It has the form of its request, names or nodes (C21), and nodes byte for byte (C20): ten
    megabytes are ordinary, and every copy costs as much as decoding them, so there is one join.
    """
    items = [b"null"]
    if nodes is not None:
        pieces = [b","] * (2 * len(nodes))
        pieces[1::2] = nodes
        items = [b'{"metadata":{},"items":[', *pieces[1:], b"]}"]
    return b"".join(
        (
            b'{"Nodes":',
            *items,
            b',"NodeNames":',
            names,
            b',"FailedNodes":{',
            b",".join(resolvable),
            b'},"FailedAndUnresolvableNodes":{',
            b",".join(unresolvable),
            b'},"Error":',
            error,
            b"}",
        )
    )


def _encoded(names: Sequence[str]) -> tuple[_Pieces, npt.NDArray[np.intp]]:
    """The JSON of each name, and the positions of the names; of a repeated name the first counts.

    A name in two parts of an answer would be both feasible and failed (C24).
    """
    pieces = np.empty(len(names), object)
    pieces[:] = [msgspec.json.encode(name) for name in names]
    first = dict(zip(reversed(names), range(len(names) - 1, -1, -1), strict=True))
    return pieces, np.array(sorted(first.values()), np.intp)
