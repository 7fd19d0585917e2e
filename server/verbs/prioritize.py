"""Prioritize: a score 0..10 for each node of a request.

kube-scheduler ignores errors of this verb (C28): without scores, the other plugins decide.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
from aiohttp import web
from msgspec import Struct

from server.call import CallRecord
from server.errors import CallFailure
from server.verbs.answering import Decider, json_response
from server.verbs.names_mode import AnsweredNames, NameFragments

NO_SCORES = b"[]"
_ENCODER = msgspec.json.Encoder()


class PrioritizeVerb:
    """The verb prioritize. It recognises the names that filter accepted."""

    def __init__(self, decider: Decider, answered: AnsweredNames, fragments: NameFragments) -> None:
        self._decider = decider
        self._answered = answered
        self._fragments = fragments

    def decide(self, body: bytes, call: CallRecord) -> bytes:
        args = self._answered.decode(body, call)
        scores = self._decider.prioritize(args.pod, args.names, args.nodes, call.deadline)
        if scores is None:
            return NO_SCORES
        call.returned = call.offered
        answer = None
        if scores.known_rows is not None:
            answer = self._fragments.priorities(scores, scores.known_rows)
        if answer is None:
            by_name = dict(zip(args.names, scores, strict=True))
            call.returned = len(by_name)
            answer = encode_priorities(list(by_name), list(by_name.values()))
        call.scores = scores.points
        return answer

    def refuse(self, _failure: CallFailure) -> web.Response:
        return json_response(NO_SCORES)


# An answer has thousands of them for microseconds: the garbage collector need not track them.
class _HostPriority(Struct, rename="pascal", gc=False):
    host: str
    score: int


def encode_priorities(names: Sequence[str], scores: Sequence[int]) -> bytes:
    """The answer with a score per host. Raises ValueError if the lengths differ."""
    if len(names) != len(scores):
        raise ValueError(f"{len(scores)} scores for {len(names)} nodes")
    return _ENCODER.encode(list(map(_HostPriority, names, scores)))
