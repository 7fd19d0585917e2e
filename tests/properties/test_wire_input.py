"""Whatever a body holds: it is understood, or refused with one sentence."""

from __future__ import annotations

import json
from collections.abc import Callable

from hypothesis import example, given
from hypothesis import strategies as st

from server.errors import RequestError
from server.verbs.bind import decode_binding
from server.verbs.preempt import decode_preemption
from server.wire import decode_args, pod_key

KEYS = (
    "Pod Nodes NodeNames items metadata name uid Pods UID NumPDBViolations Node PodName PodUID "
    "PodNamespace NodeNameToVictims NodeNameToMetaVictims"
).split()
DECODERS: tuple[Callable[[bytes], object], ...] = (decode_args, decode_preemption, decode_binding)

spelled = st.sampled_from(KEYS).flatmap(
    lambda key: st.sampled_from((key, key, key.lower(), key.upper(), key.swapcase()))
)
scalars = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=4)
values = st.recursive(
    scalars,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(spelled, inner, max_size=4),
    max_leaves=12,
)
# NaN and Infinity among them, which are no JSON although Python writes them.
near_requests = st.dictionaries(spelled, values, max_size=5).map(lambda v: json.dumps(v).encode())
cut = st.builds(lambda body, end: body[:end], near_requests, st.integers(0, 200))


@given(st.binary(max_size=64) | near_requests | cut | values.map(lambda v: json.dumps(v).encode()))
@example(b"{" * 5000)
@example(b'{"Pod":{},"Nodes":{"items":[' + b"[" * 5000)
def test_bodies_are_understood_or_refused(body: bytes) -> None:
    for decode in DECODERS:
        try:
            decode(body)
        except RequestError as error:
            text = str(error)
            assert text.startswith(("the request", "the `"))
            assert not text.endswith(".")
            assert "\n" not in text


@given(st.binary(max_size=32) | near_requests)
def test_any_pod_can_be_logged(body: bytes) -> None:
    assert isinstance(pod_key(body), str)
