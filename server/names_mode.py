"""Requests with names, as kube-scheduler writes them: little of them has to be looked at.

kube-scheduler asks prioritize about the pod that filter was asked about, and about the nodes that
filter has answered, in that order. Both are recognised by their bytes.
"""

from __future__ import annotations

import msgspec

from engine.cache.listed_names import ListedNames
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
