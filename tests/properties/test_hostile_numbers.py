"""Numbers that users write: whatever they are, no bound is passed, and no node is closed by them.

A pod of another tenant is on the node, past kube-scheduler, and has a hostile number where a policy
reads numbers of pods. Pods of an honest tenant then come one after the other.
"""

from __future__ import annotations

import math
import re
from functools import cache
from typing import NamedTuple

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from engine.cache.cache import Cache
from engine.cards.node_cards import TAKEN
from engine.decision.registry import Registry
from engine.decision.verdict import Feasible
from engine.enforced import needs
from engine.engine import Engine
from engine.errors import BadObjectError, EngineError
from engine.objects.peer import decode_controller
from engine.objects.request_pod import ObjectCodec
from tests.support.builders import Object, controller, node, pod, raw
from tests.support.engines import SCHEMA, Known, Silent, checked, node_of, registry_of

NUMBER = "example.com/number"
# What the node has in each case, and what each honest pod takes.
_HAS, _TAKES = 1000, 600
# More of a card is a mistake.
_MOST = 2**50


class Place(NamedTuple):
    """A policy that reads a number of pods, and a pod with a text there."""

    policy: str
    pod: str


_CARDS = """cards "gpu" {
  on node 1 of {"milli": 1000}
  take %s of {"milli": %s}
  index "index"
}"""
_SUM = 'limit "l" { sum %s of pods where true per node at most 1000 strict }'
PLACES = {
    "an amount of a card": Place(_CARDS % (1, f'int(pod.annotations["{NUMBER}"])'), "annotation"),
    "an amount of a numbered card": Place(
        _CARDS % (1, f'int(pod.annotations["{NUMBER}"])'), "index"
    ),
    "a number of cards": Place(
        _CARDS % ('"count" in pod.annotations ? int(pod.annotations["count"]) : 1', 600), "count"
    ),
    "the annotation of Placet": Place(_CARDS % (1, 600), "taken"),
    "a sum of annotations": Place(_SUM % f'int(peer.annotations["{NUMBER}"])', "annotation"),
    "a sum of doubles": Place(_SUM % f'double(peer.annotations["{NUMBER}"])', "annotation"),
    "a sum of quantities": Place(_SUM % f'quantity(peer.annotations["{NUMBER}"])', "annotation"),
    "a sum of labels": Place(_SUM % f'int(peer.labels["{NUMBER}"])', "label"),
    "a sum of requests": Place(_SUM % f'peer.requests["{NUMBER}"]', "request"),
    "a sum of limits": Place(_SUM % f'peer.limits["{NUMBER}"]', "limit"),
    "free resources": Place(
        f'filter "f" {{ require node.free["{NUMBER}"] >= pod.requests["{NUMBER}"] }}', "request"
    ),
    "a sum of a filter's own": Place(
        f'filter "f" {{ require quantity("1k") - node.requested["{NUMBER}"] '
        f'>= pod.requests["{NUMBER}"] }}',
        "request",
    ),
}
EDGES = [
    *["-1", "-100000", "-0", "0", "1", "400", "401", "1000", "1001", "NaN", "inf", "-inf", "1e999"],
    *[str(2**number + more) for number in (31, 50, 53, 61, 62, 63, 64) for more in (-1, 0, 1)],
    *[f"-{2**63}", f"-{2**63 + 1}", "1e90", "-1e90", "1e101", "-1e101", "1e9999", "1e-9999"],
    *[
        "9" * 5000,
        "-" + "9" * 5000,
        "0." + "0" * 300 + "1",
        "",
        " 1",
        "0x10",
        "1_0",
        "\u0663",
        "1Ei",
    ],
]
TEXTS = st.one_of(
    st.sampled_from(EDGES),
    st.integers().map(str),
    st.floats().map(str),
    st.from_regex(r"-?[0-9]{1,25}(\.[0-9]{1,3})?(e-?[0-9]{1,4}|Ki|m|Ei)?", fullmatch=True),
)


def _pod(name: str, place: str, text: str, on: str | None = None) -> Object:
    annotations, labels, resources = {NUMBER: str(_TAKES)}, {NUMBER: str(_TAKES)}, {}
    match place:
        case "annotation":
            annotations[NUMBER] = text
        case "index":
            annotations |= {NUMBER: text, "index": "0"}
        case "count":
            annotations["count"] = text
        case "taken":
            annotations[TAKEN] = f'{{"gpu":{{"cards":[0],"take":{{"milli":{text}}}}}}}'
        case "label":
            labels[NUMBER] = text
        case "request" | "limit":
            resources = {f"{place}s": {NUMBER: text}}
        case _:
            """An honest pod where others write a number that has a default."""
    spec = {"containers": [{"name": "main", "resources": resources}]}
    return pod(name, labels=labels, annotations=annotations, on=on, spec=spec)


@cache
def _compiled(clauses: str) -> tuple[ObjectCodec, Registry]:
    text = f"cluster policy p {{ {clauses} }}"
    read = needs(part.policy for c in checked(text) for part in (c, *c.uses))
    return ObjectCodec(SCHEMA, {*read.annotations, TAKEN}), registry_of(text)


class World:
    """One node, and the policy of a place."""

    def __init__(self, place: Place) -> None:
        self.codec, registry = _compiled(place.policy)
        self.cache = Cache()
        made = node("n1")
        made["status"]["allocatable"][NUMBER] = str(_HAS)
        self.cache.put_node(node_of(made))
        self.engine = Engine(registry, Known(self.cache), self.codec, Silent())
        self.cache.add_event_handler(self.engine.in_flight.pod_changed)

    def put(self, made: Object) -> None:
        self.cache.put_pod(self.codec.peer(raw(made)))

    def places(self, made: Object) -> bool:
        """Whether the pod may go to the node, and gets what it needs there."""
        try:
            (verdict,) = self.engine.filter(raw(made), ["n1"], None, math.inf)
            if not isinstance(verdict, Feasible):
                return False
            admission = self.engine.admit(raw(made), "n1", math.inf)
        except EngineError:
            return False
        annotations = {**made["metadata"]["annotations"], **admission.annotations}
        metadata = {**made["metadata"], "annotations": annotations}
        self.put({**made, "metadata": metadata, "spec": {**made["spec"], "nodeName": "n1"}})
        return True


def _amount(text: str, place: str) -> int | None:
    """What the hostile pod takes, if its text is a number that anybody would take for one."""
    if re.fullmatch(r"-?0|[1-9]\d{0,17}", text, re.ASCII) is None:
        return None
    found = int(text)
    if place == "count":
        return found * 600 if found <= 1 else None
    return found if found <= _MOST else None


@pytest.mark.parametrize("name", PLACES)
@settings(deadline=None)
@given(text=TEXTS)
@example(text="-100000")
@example(text="-1")
def test_no_number_of_another_pod_passes_a_bound_or_closes_a_node(name: str, text: str) -> None:
    place = PLACES[name]
    world = World(place)
    try:
        world.put(_pod("hostile", place.pod, text, on="n1"))
    except BadObjectError:
        return  # the API server does not take such a pod
    honest = [_pod(f"h{number}", _honest(place.pod), str(_TAKES)) for number in range(4)]
    placed = sum(world.places(each) for each in honest)
    amount = _amount(text, place.pod)
    assert placed <= 1, "600 and 600 are more than 1000"
    if amount is not None:
        assert placed == (amount + _TAKES <= _HAS)
    elif text.startswith("-") or not any(letter.isdigit() for letter in text):
        assert placed == 1, "it takes nothing"


def _honest(place: str) -> str:
    return {"index": "annotation", "count": "", "taken": ""}.get(place, place)


@pytest.mark.parametrize("name", [n for n in PLACES if PLACES[n].pod not in ("taken", "index")])
@settings(deadline=None)
@given(text=TEXTS)
def test_no_number_of_its_own_gets_a_pod_more(name: str, text: str) -> None:
    """It is asked about as others are, and does not stop them either."""
    place = PLACES[name]
    world = World(place)
    hostile = world.places(_pod("hostile", place.pod, text))
    honest = [_pod(f"h{number}", _honest(place.pod), str(_TAKES)) for number in range(4)]
    placed = sum(world.places(each) for each in honest)
    assert placed <= 1
    if not hostile:
        assert placed == 1


@given(text=TEXTS)
@example(text="9" * 5000 + "%")
@example(text="-5%")
def test_no_surge_of_a_rollout_is_out_of_range(text: str) -> None:
    made = controller("Deployment", "web", replicas=10)
    made["spec"]["strategy"] = {"rollingUpdate": {"maxSurge": text}}
    assert 0 <= decode_controller("Deployment", raw(made)).workload.surge < 2**31
