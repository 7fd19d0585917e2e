"""Unmet shares: which ones pods wait for, and until when."""

from __future__ import annotations

import math

import pytest

from engine.decision.after import AfterDecision
from engine.decision.registry import Registry
from engine.engine import Engine
from tests.support.builders import node, pod, raw
from tests.support.engines import CODEC, Known, Silent, cache_of, peer_of, programs_of

WEB = 'pods where peer.labels["app"] == "web"'
ADDRESS = "guard"


class Asking:
    """An engine about four web pods in two zones, and its clock."""

    def __init__(self, clauses: str) -> None:
        self.seconds = 0.0
        zones = {"a1": "a", "a2": "a", "b1": "b"}
        nodes = [node(name, zone) for name, zone in zones.items()]
        self._pods = [pod(f"p{i}", labels={"app": "web"}) for i in range(4)]
        self.cache = cache_of(nodes, self._pods)
        registry = Registry(programs_of(f"cluster policy {ADDRESS} {{ {clauses} }}"))
        after = AfterDecision(lambda: self.seconds)
        self.engine = Engine(registry, Known(self.cache), CODEC, Silent(), after=after)
        self.cache.add_event_handler(self.engine.in_flight.pod_changed)

    def ask(self, number: int, *names: str) -> bool:
        """Whether a node is offered."""
        decided = self.engine.filter(raw(self._pods[number]), [*names], None, math.inf)
        return 0 in decided.codes

    def bind(self, number: int, on: str) -> None:
        self.cache.put_pod(peer_of(pod(f"p{number}", labels={"app": "web"}, on=on)))


def share(bound: str, name: str = "zone b") -> str:
    return f'share "{name}" {{ of {WEB} on nodes where node.zone == "b" {bound} strict }}'


@pytest.mark.parametrize(
    "clauses",
    [
        share("at least 2"),
        share("exactly 2"),
        share("at least 2") + share("at most 3", "ceiling"),
    ],
)
def test_a_share_is_unmet_while_a_pod_waits_for_its_nodes(clauses: str) -> None:
    asking = Asking(clauses)
    for number in (0, 1):
        assert asking.ask(number, "a1", "a2")
        asking.bind(number, "a1")
    assert asking.engine.unmet == {}
    # The node of zone b is full: kube-scheduler does not offer it.
    assert not asking.ask(2, "a1", "a2")
    assert asking.engine.unmet == {ADDRESS: "zone b"}
    assert asking.ask(2, "a1", "a2", "b1")
    assert asking.engine.unmet == {}


def test_a_pod_that_is_not_asked_about_again_is_forgotten() -> None:
    asking = Asking(share("at least 4"))
    assert not asking.ask(0, "a1")
    asking.seconds = 359.0
    assert asking.engine.unmet == {ADDRESS: "zone b"}
    asking.seconds = 361.0
    assert asking.engine.unmet == {}


@pytest.mark.parametrize(
    "clauses",
    [
        'share "a" { of ' + WEB + ' on nodes where node.zone == "a" at most 0 strict }',
        'filter "f" { require node.zone == "b" }',
        share("at least 4").replace(" strict", " best effort weight 1"),
    ],
)
def test_what_is_no_lower_bound_is_never_unmet(clauses: str) -> None:
    asking = Asking(clauses)
    asking.ask(0, "a1", "a2")
    assert asking.engine.unmet == {}


def test_other_policies_begin_with_nothing() -> None:
    asking = Asking(share("at least 4"))
    assert not asking.ask(0, "a1")
    asking.engine.adopt(
        Registry(programs_of(f"cluster policy {ADDRESS} {{ {share('at least 3')} }}"))
    )
    assert asking.engine.unmet == {}
