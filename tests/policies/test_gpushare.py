"""Gpushare: what its device plugin reads from the annotations that Placet's Binding has.

The rules of the plugin are those of the table in docs/gpu-sharing.md.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import pytest

from engine.cards.node_cards import TAKEN
from engine.clauses.programs import compile_policy
from engine.decision.registry import Registry
from engine.enforced import needs
from engine.engine import Engine
from engine.objects.request_pod import ObjectCodec
from engine.program.policy_time import DecisionTime
from grammar.tree.source import Source
from grammar.values.time import Timestamp
from policies.validation import Validator
from tests.support import builders
from tests.support.engines import SCHEMA, Known, Silent, cache_of

MEMORY, COUNT = "aliyun.com/gpu-mem", "aliyun.com/gpu-count"
KEY = "ALIYUN_COM_GPU_MEM_"
PAGE = Path(__file__).parents[2] / "docs" / "gpu-sharing.md"

Pod = dict[str, Any]


# ---- the device plugin, by its rules


def limits(pod: Pod) -> int:
    found = (c.get("resources", {}).get("limits", {}) for c in pod["spec"]["containers"])
    return sum(int(each.get(MEMORY, 0)) for each in found)


def is_candidate(pod: Pod) -> bool:
    has: Mapping[str, str] = pod["metadata"]["annotations"]
    is_assumed = f"{KEY}ASSUME_TIME" in has and has.get(f"{KEY}ASSIGNED") == "false"
    return pod["status"]["phase"] == "Pending" and limits(pod) > 0 and is_assumed


def assume_time(pod: Pod) -> int:
    text: str = pod["metadata"]["annotations"][f"{KEY}ASSUME_TIME"]
    return int(text) if re.fullmatch("[0-9]+", text) and int(text) < 2**64 else 0


def served(pods: Iterable[Pod], amount: int) -> Pod | None:
    """The pod that the plugin takes for the one that starts, for which kubelet asks so much."""
    candidates = sorted(filter(is_candidate, pods), key=assume_time)
    found = next((pod for pod in candidates if limits(pod) == amount), None)
    if found is not None:
        found["metadata"]["annotations"][f"{KEY}ASSIGNED"] = "true"
    return found


def card(pod: Pod) -> int:
    text = pod["metadata"]["annotations"][f"{KEY}IDX"]
    return int(text) if re.fullmatch("[+-]?[0-9]+", text) else -1


# ---- the policy


class Cluster:
    """A node with cards of as much memory, to which pods are bound one after the other."""

    def __init__(self, cards: int, memory: int) -> None:
        (text,) = re.findall(
            r"(?ms)^```placet\n(cluster policy gpushare .*?)^```$", PAGE.read_text(encoding="utf-8")
        )
        policies = Validator(SCHEMA).validate([Source("p.policy", text)]).policies
        read = needs(part.policy for p in policies for part in (p, *p.uses))
        self.codec = ObjectCodec(SCHEMA, read.annotations)
        resources = {MEMORY: str(cards * memory), COUNT: str(cards)}
        self.cache = cache_of([builders.node("n1", resources=resources)])
        self.now = Timestamp.parse("2026-11-21T12:00:00.25Z")
        registry = Registry(map(compile_policy, policies))
        known = Known(self.cache)
        self.engine = Engine(
            registry, known, self.codec, Silent(), time=DecisionTime(now=lambda: self.now)
        )

    def bound(self, name: str, memory: int) -> Pod:
        amounts = {MEMORY: str(memory)}
        made = builders.pod(name)
        made["spec"]["containers"][0]["resources"] = {"limits": amounts, "requests": amounts}
        admission = self.engine.admit(builders.raw(made), "n1", math.inf)
        made["metadata"]["annotations"] = dict(admission.annotations)
        made["spec"]["nodeName"] = "n1"
        self.cache.put_pod(self.codec.peer(builders.raw(made)))
        self.now = Timestamp(self.now.nanos + 10**6)
        return made


def test_the_annotations_of_a_binding() -> None:
    assert Cluster(2, 8).bound("a", 3)["metadata"]["annotations"] == {
        f"{KEY}IDX": "0",
        f"{KEY}DEV": "8",
        f"{KEY}POD": "3",
        f"{KEY}ASSIGNED": "false",
        f"{KEY}ASSUME_TIME": "1795262400250000000",
        TAKEN: '{"gpu":{"cards":[0],"take":{"mem":3}}}',
    }


@pytest.mark.parametrize("order", [(0, 1, 2, 3), (3, 2, 1, 0), (2, 0, 3, 1)])
def test_the_plugin_finds_each_pod_and_its_card(order: tuple[int, ...]) -> None:
    """Whichever kubelet starts first."""
    cluster = Cluster(2, 8)
    pods = [cluster.bound(f"p{memory}", memory) for memory in (5, 3, 6, 2)]
    assert [card(pod) for pod in pods] == [0, 0, 1, 1]
    for number in order:
        assert served(pods, limits(pods[number])) is pods[number]
    assert served(pods, 5) is None


def test_the_plugin_takes_the_older_of_two_pods_with_as_much() -> None:
    """They may get each other's card: see the page."""
    cluster = Cluster(2, 8)
    older, newer = cluster.bound("older", 5), cluster.bound("newer", 5)
    assert (card(older), card(newer)) == (0, 1)
    assert served([newer, older], 5) is older
    assert served([newer, older], 5) is newer


def test_an_unhealthy_card_takes_nothing_from_the_others() -> None:
    """Kubelet leaves its memory out of what is allocatable, not of the capacity."""
    cluster = Cluster(2, 8)
    made = builders.node("n1", resources={MEMORY: "16", COUNT: "2"})
    made["status"]["allocatable"] = made["status"]["allocatable"] | {MEMORY: "8"}
    cluster.cache.put_node(cluster.codec.node(builders.raw(made)))
    assert cluster.bound("a", 7)["metadata"]["annotations"][f"{KEY}DEV"] == "8"


def test_a_pod_without_such_memory_gets_no_annotation() -> None:
    cluster = Cluster(2, 8)
    admission = cluster.engine.admit(builders.raw(builders.pod("web")), "n1", math.inf)
    assert admission.annotations == {}
