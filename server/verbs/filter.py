"""Filter: the nodes of a request that a pod may run on, each accepted or rejected with a reason.

The answer accepts names by the fragments of names mode where the nodes are known by rows; any other
answer is encoded name by name. A node is in exactly one part of the answer (C22, C24).
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Mapping, Sequence
from dataclasses import dataclass
from itertools import compress

import msgspec
import numpy as np
from aiohttp import web
from msgspec import Struct

from engine.cache.names import ListedNames
from engine.cluster.client import TokenBucket
from engine.decision.verdict import Decision, Feasible, texts
from engine.errors import BriefWaitError
from server.call import CallRecord
from server.errors import CallFailure
from server.verbs.answering import Decider, DecisionQueue, json_response
from server.verbs.names_mode import AnsweredNames, NameFragments, echoed
from server.wire import ExtenderArgs

# The pause before each further look of a call, and the most looks. kube-scheduler asks about no
# other pod meanwhile, so all calls together wait for a tenth of the time at most.
_PAUSE_SECONDS, _MOST_LOOKS = 0.01, 10
_LOOKS_PER_SECOND, _LOOKS_AT_ONCE = 10.0, 20
_ENCODER = msgspec.json.Encoder()


class FilterVerb:
    """The verb filter. It remembers the accepted names for prioritize."""

    def __init__(
        self,
        decider: Decider,
        queue: DecisionQueue,
        answered: AnsweredNames,
        fragments: NameFragments,
        *,
        resolvable_rejections: bool,
    ) -> None:
        self._decider = decider
        self._queue = queue
        self._answered = answered
        self._fragments = fragments
        self._resolvable = resolvable_rejections
        self._looks = TokenBucket(_LOOKS_PER_SECOND, _LOOKS_AT_ONCE, time.monotonic)

    def decide(self, body: bytes, call: CallRecord) -> bytes | Awaitable[bytes]:
        args = self._answered.decode(body, call)
        try:
            return self._decided(args, call)
        except BriefWaitError:
            if not self._looks.try_take():
                raise
        return self._waited(args, call)

    def decide_at_once(self, body: bytes, call: CallRecord) -> bytes:
        return self._decided(self._answered.decode(body, call), call)

    async def _waited(self, args: ExtenderArgs, call: CallRecord) -> bytes:
        """The answer once in-flight pods are bound, or the pod's ReplicaSet is known.

        After an error, kube-scheduler would ask again after one to ten seconds, about all pods of a
        burst at once.
        """
        looks = 1
        while True:
            await asyncio.sleep(_PAUSE_SECONDS)
            await self._queue.begin(call.deadline, call.client)
            try:
                return self._decided(args, call)
            except BriefWaitError:
                if looks == _MOST_LOOKS or not self._looks.try_take():
                    raise
            finally:
                self._queue.end()
            looks += 1

    def _decided(self, args: ExtenderArgs, call: CallRecord) -> bytes:
        answered = self._answered
        answered.names = None
        decided = self._decider.filter(args.pod, args.names, args.nodes, call.deadline)
        call.returned = len(decided.codes) - int(np.count_nonzero(decided.codes))
        if call.returned == call.offered and type(args.names) is ListedNames:
            answered.names = args.names
            return echoed(args.names)
        if decided.known_rows is not None:
            answer, answered.names = self._fragments.filter(
                decided, decided.known_rows, resolvable_rejections=self._resolvable
            )
            return answer
        parts = partition(args.names, decided, resolvable_rejections=self._resolvable)
        call.returned = len(parts.accepted)
        return encode_filter(args, parts)

    def refuse(self, failure: CallFailure) -> web.Response:
        return json_response(self.refusal(failure))

    def refusal(self, failure: CallFailure) -> bytes:
        return encode_filter_error(failure.text)


class _FilterResult(Struct, rename="pascal"):
    nodes: None
    node_names: Sequence[str] | None
    failed_nodes: Mapping[str, str]
    failed_and_unresolvable_nodes: Mapping[str, str]
    error: str


@dataclass(frozen=True, slots=True)
class Partition:
    """Accepted names in the order of the request, and rejected names with their reasons.

    A name is in exactly one of the three. In none, its node would fail without a reason (C22); in
    two, it would be both feasible and failed (C24).
    """

    accepted: Sequence[str]
    resolvable: Mapping[str, str]
    unresolvable: Mapping[str, str]


def partition(names: Sequence[str], decided: Decision, *, resolvable_rejections: bool) -> Partition:
    """The names by their verdicts; of a repeated name the first counts.

    Every rejection is unresolvable unless `resolvable_rejections`: kube-scheduler up to 1.36 would
    look for victims on nodes that only we reject, find none, and ask again at once (C48).

    Raises ValueError if there are not as many names as verdicts.
    """
    codes = decided.codes
    if len(names) != len(codes):
        raise ValueError(f"{len(names)} names and {len(codes)} verdicts")
    if len(set(names)) != len(names):
        first = dict(zip(reversed(names), range(len(names) - 1, -1, -1), strict=True))
        firsts = sorted(first.values())
        names, codes = [names[i] for i in firsts], codes[firsts]
    # Often every node passes; then there is nothing to sort.
    if not codes.any():
        return Partition(names, {}, {})
    accepted = list(compress(names, (codes == 0).tolist()))
    resolvable: dict[str, str] = {}
    unresolvable: dict[str, str] = {}
    for code, (verdict, text) in enumerate(zip(decided.verdicts, texts(decided), strict=True)):
        if isinstance(verdict, Feasible):
            continue
        here = compress(names, (codes == code).tolist())
        rejected = resolvable if resolvable_rejections and verdict.resolvable else unresolvable
        rejected.update(dict.fromkeys(here, text))
    return Partition(accepted, resolvable, unresolvable)


def encode_filter(args: ExtenderArgs, partition: Partition) -> bytes:
    """The answer in the form of its request, names or nodes (C21)."""
    names = partition.accepted if args.nodes is None else None
    answer = _ENCODER.encode(
        _FilterResult(None, names, partition.resolvable, partition.unresolvable, "")
    )
    if args.nodes is None:
        return answer
    rejected = partition.unresolvable
    if partition.resolvable:
        rejected = {**partition.resolvable, **rejected}
    pairs = zip(args.names, args.nodes, strict=True)
    return _with_nodes(answer, [node for name, node in pairs if name not in rejected])


def encode_filter_error(text: str) -> bytes:
    """The answer without a decision: kube-scheduler tries again later (C30)."""
    return _ENCODER.encode(_FilterResult(None, None, {}, {}, text))


def _with_nodes(answer: bytes, nodes: list[bytes]) -> bytes:
    """The answer with these nodes, byte for byte (C20), in place of null.

    Ten megabytes are ordinary here, and every copy costs as much as decoding them: so one join.
    """
    pieces = [b","] * (2 * len(nodes))
    pieces[1::2] = nodes
    tail = answer.removeprefix(b'{"Nodes":null')
    return b"".join([b'{"Nodes":{"metadata":{},"items":[', *pieces[1:], b"]}", tail])
