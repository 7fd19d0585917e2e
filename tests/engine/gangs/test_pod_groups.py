"""Gangs that are the pods of a PodGroup, of Kubernetes or of coscheduling."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import msgspec
import pytest

from engine.decision.preemption import Victims
from engine.gangs.gang import part_of
from engine.objects.pod_group import (
    COSCHEDULING,
    KUBERNETES,
    LABEL,
    GroupName,
    PodGroup,
    decode_group,
)
from tests.engine.gangs.test_gangs import World
from tests.support import builders
from tests.support.engines import registry_of

DEFAULT = 'gang "together" { PARTS }'
OF_KUBERNETES = {"schedulingPolicy": {"gang": {"minCount": 3}}}


def create(world: World, group: GroupName, *names: str) -> None:
    """Pods that name a group, each with a controller of its own."""
    for name in names:
        owner = builders.controller("ReplicaSet", f"of-{name}", "shop", replicas=1)
        own = group.api == KUBERNETES
        world.pods[name] = builders.pod(
            name,
            "shop",
            cpu="1",
            labels={} if own else {LABEL: group.name},
            owner=owner,
            spec={"schedulingGroup": {"podGroupName": group.name}} if own else {},
        )
        world.watch(name)


def decoded(spec: dict[str, Any], **metadata: str) -> PodGroup:
    return decode_group(builders.raw({"metadata": {"name": "g"} | metadata, "spec": spec}))


@pytest.mark.parametrize("mode", ["Pod", "PodGroup", {"single": {}}, {"all": {}}, None])
def test_how_a_group_is_disrupted_and_its_parent(mode: Any) -> None:
    """By 1.36, where it is a word, and by 1.37."""
    found = decoded({"disruptionMode": mode, "parentCompositePodGroupName": "above"})
    assert found.whole is (mode in ("PodGroup", {"all": {}}))
    assert found.parent == "above"


@pytest.mark.parametrize("api", [KUBERNETES, COSCHEDULING])
@pytest.mark.parametrize("how", ["gone", "being deleted"])
def test_a_group_that_is_deleted_ends_its_gang(api: str, how: str) -> None:
    """A finalizer of Kubernetes keeps a group until its pods are gone."""
    world, group = World({"n1": "4"}, gang=DEFAULT), GroupName(api, "g")
    world.cache.put_group("shop", group, PodGroup("g", 3))
    create(world, group, "a0", "a1", "a2")
    assert world.place("a0")
    if how == "gone":
        world.cache.remove_group("shop", group)
    else:
        deleted = decoded(OF_KUBERNETES, deletionTimestamp="2026-11-21T12:00:00Z")
        world.cache.put_group("shop", group, deleted)
    world.gangs.review()
    text = "PodGroup g is not known" if how == "gone" else "PodGroup g is being deleted"
    assert text in world.ended["a0"]
    world.now += 2
    assert world.ask("a0") == f"policy p: together: {text}"


@pytest.mark.parametrize("mode", ["Pod", "PodGroup"])
def test_nobody_of_a_group_that_goes_whole_is_evicted_for_a_gang(mode: str) -> None:
    """kube-scheduler evicts pods, and not groups."""
    world, low = World({"n1": "2", "n2": "2"}), GroupName(KUBERNETES, "low")
    world.cache.put_group("shop", low, decoded({"disruptionMode": mode}))
    for node in ("n1", "n2"):
        spec = {"schedulingGroup": {"podGroupName": "low"}}
        world.pods[f"low-{node}"] = builders.pod(f"low-{node}", "shop", cpu="2", on=node, spec=spec)
        world.watch(f"low-{node}")
    world.create("a0", "a1", "a2", priority=9)
    assert "0 of 3 members fit" in world.ask("a0")
    victims = {
        node: Victims([world.pods[f"low-{node}"]["metadata"]["uid"]], 0) for node in ("n1", "n2")
    }
    kept = world.engine.preempt(builders.raw(world.pods["a0"]), victims, math.inf)
    assert bool(kept) is (mode == "Pod")


@pytest.mark.parametrize("api", [KUBERNETES, COSCHEDULING])
def test_pods_of_a_group_are_a_gang(api: str) -> None:
    """They wait until the group is known, and until as many exist as it says."""
    world, group = World({"n1": "4"}, gang=DEFAULT), GroupName(api, "g")
    create(world, group, "a0", "a1")
    assert world.ask("a0") == "policy p: together: PodGroup g is not known"
    world.cache.accounts.keep("shop", "table", world.cache.accounts.room("shop", "table") - 100)
    assert not world.cache.put_group("shop", group, PodGroup("g", 3))
    text = "PodGroup g is not known, or there is no room for it"
    assert world.ask("a0") == f"policy p: together: {text}"
    world.cache.accounts.drop("table")
    world.cache.put_group("other", group, PodGroup("g", 2))
    assert world.ask("a0") == "policy p: together: PodGroup g is not known"
    world.cache.put_group("shop", group, PodGroup("g", 3))
    assert world.ask("a0") == "policy p: together: 2 of 3 members exist"
    create(world, group, "a2")
    assert world.place("a0")
    assert world.place("a1")
    assert not world.place("a2")
    assert world.ended == {"a0": "", "a1": "", "a2": ""}


def test_groups_of_one_name_of_two_apis_are_two_gangs() -> None:
    world = World({"n1": "4"}, gang=DEFAULT)
    for api in (KUBERNETES, COSCHEDULING):
        world.cache.put_group("shop", GroupName(api, "g"), PodGroup("g", 2))
    create(world, GroupName(KUBERNETES, "g"), "a0")
    create(world, GroupName(COSCHEDULING, "g"), "b0")
    assert world.ask("a0") == "policy p: together: 1 of 2 members exist"
    assert {gang.shown for gang in world.gangs.known} == {"shop/g"}


BASIC: Any = {"schedulingPolicy": {"basic": {}}}


@pytest.mark.parametrize(
    ("parts", "group", "text"),
    [
        ("at least 2", None, "1 of 2 members exist"),
        ("", BASIC, "PodGroup g says no number of members"),
        # The pods of a workload are the gang then, whatever group they name.
        ("at least 100%", None, "the number of its members is not known"),
    ],
)
def test_where_the_number_is_from(parts: str, group: Any, text: str) -> None:
    world, name = World({"n1": "4"}, parts, gang=DEFAULT), GroupName(KUBERNETES, "g")
    create(world, name, "a0")
    if group is not None:
        world.cache.put_group("shop", name, decoded(group))
    assert world.ask("a0") == f"policy p: together: {text}"


def test_policies_read_the_group() -> None:
    """A change of the group is seen, although the pod stays the same."""
    reads = 'filter "f" { require pod.group.minCount == 3 message "is small" }'
    world, group = World({"n1": "4"}, clauses=reads, gang=""), GroupName(KUBERNETES, "g")
    create(world, group, "a0")
    world.create("plain", job="")
    world.cache.put_group("shop", group, PodGroup("g", 2))
    assert world.ask("a0") == "policy p: is small"
    world.cache.put_group("shop", group, PodGroup("g", 3))
    assert world.ask("a0") == ["n1"]
    world.cache.remove_group("shop", group)
    assert world.ask("a0") == "policy p: is small"
    assert world.ask("plain") == "policy p: is small"


@pytest.mark.parametrize(
    ("spec", "number"),
    [
        (OF_KUBERNETES, 3),
        (BASIC, None),
        ({"minMember": 5, "scheduleTimeoutSeconds": 10}, 5),
        ({"minMember": 0}, None),
        ({}, None),
    ],
)
def test_the_number_of_a_group(spec: dict[str, Any], number: int | None) -> None:
    assert decoded(spec) == PodGroup("g", number)


def test_the_namespace_with_the_most_gangs_forgets_its_oldest_ones(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """So one with many takes none away from others."""
    monkeypatch.setattr("engine.gangs.gathering._MOST_KNOWN", 10)
    monkeypatch.setattr("engine.gangs.gathering._FORGOTTEN", 2)
    world = World({"n1": "4"}, gang=DEFAULT)
    create(world, GroupName(KUBERNETES, "g"), "a0")
    world.cache.put_group("shop", GroupName(KUBERNETES, "g"), PodGroup("g", 3))
    world.ask("a0")
    known = world.gangs.known
    (first,) = known
    for number in range(15):
        name = replace(first.name, namespace="many", value=number)
        known.add(replace(first, name=name))
    assert known.find(first.name) is first
    assert [gang.name.value for gang in known if gang is not first] == [*range(6, 15)]


def test_the_group_of_kubernetes_goes_before_the_label() -> None:
    world = World({"n1": "4"}, gang=DEFAULT)
    create(world, GroupName(KUBERNETES, "g"), "a0")
    world.relabel("a0", {LABEL: "other"})
    pod = world.cache.pod("shop/a0")
    assert pod is not None
    assert pod.group == GroupName(KUBERNETES, "g")
    assert world.ask("a0") == "policy p: together: PodGroup g is not known"


@pytest.mark.parametrize("api", [KUBERNETES, COSCHEDULING])
def test_rules_count_the_pods_of_a_group(api: str) -> None:
    """Those of another group, and of none, do not count."""
    limit = (
        'limit "two" { pods where peer.group.name == pod.group.name per node at most 2 strict }'
        ' filter "f" { require pod.group.name != "" }'
    )
    world = World({"n1": "9", "n2": "9"}, clauses=limit, gang="")
    others = GroupName(api, "other")
    create(world, others, "b0", "b1", "b2")
    create(world, GroupName(api, "g"), "a0", "a1", "a2")
    world.create("alone")
    for name in ("b0", "b1", "alone"):
        world.pods[name]["spec"]["nodeName"] = "n1"
        world.watch(name)
    assert world.ask("b2") == ["n2"]
    for name in ("a0", "a1"):
        assert "n1" in world.offered(name, "n1")
        world.pods[name]["spec"]["nodeName"] = "n1"
        world.watch(name)
    assert world.ask("a2") == ["n2"]


RACKS = {"a0": {"rack": "a"}, "b0": {"rack": "b"}, "b1": {"rack": "b"}}


def in_one_rack(parts: str = "", **more: Any) -> World:
    """Two members that fit together in rack b alone, whose group says that they share a rack."""
    gang = DEFAULT.replace("PARTS", parts)
    world = World({"a0": "1", "b0": "1", "b1": "1"}, gang=gang, labels=RACKS)
    spec = OF_KUBERNETES | {"schedulingConstraints": {"topology": [{"key": "rack"}]}} | more
    group = GroupName(KUBERNETES, "g")
    world.cache.put_group("shop", group, msgspec.structs.replace(decoded(spec), minCount=2))
    create(world, group, "m0", "m1")
    return world


@pytest.mark.parametrize("order", ["ab", "ba", "aba"])
def test_a_group_is_placed_by_its_topology_in_a_cycle_of_placements(order: str) -> None:
    """kube-scheduler asks about the members once for each rack, and a rack is chosen at the end."""
    world, found = in_one_rack(), dict[str, str]()
    # A second cycle has the same order, and then the gang gathers already.
    for rack in order * 2:
        nodes = [name for name, labels in RACKS.items() if labels["rack"] == rack]
        for name in ("m0", "m1"):
            offered = world.ask(name, *nodes)
            if isinstance(offered, list):
                (found[name],) = offered
            else:
                assert rack == "a", offered
    assert sorted(found.values()) == ["b0", "b1"]
    assert [world.bind(name, node) for name, node in found.items()] == [True, False]


@pytest.mark.parametrize(
    ("parts", "more", "text"),
    [
        ("", {}, ""),
        ('within node.labels["rack"]', {}, ""),
        ("at least 1", {}, "PodGroup g says minCount 2 and not 1"),
        ("within node.name", {}, "PodGroup g says topology rack, which is not `within`"),
        ("", {"priority": 7}, "PodGroup g says priority 7, and the pod 0"),
        (
            "",
            {"parentCompositePodGroupName": "above"},
            "PodGroup g says parent above, whose other groups are not waited for",
        ),
    ],
)
def test_what_a_group_says_otherwise(parts: str, more: dict[str, Any], text: str) -> None:
    """In an explanation, in the status of the policy for a while, and as a warning of commands."""
    world = in_one_rack(parts, **more)
    world.ask("m0")
    assert [*world.gangs.notes()] == ([f"shop: {text} (shop/p: together)"] if text else [])
    told = {"shop/p": f"shop: {text}"} if text else {}
    assert world.gangs.contradictions() == told
    found = world.gang("m0")
    assert found is not None
    assert found.told.podGroup == text
    assert (text in part_of(found.told, "shop/m0", alone=True).texts) == bool(text)
    world.now += 899
    assert world.gangs.contradictions() == told
    world.now += 2
    assert world.gangs.contradictions() == {}


def test_another_policy_is_not_contradicted_by_what_was_said_before() -> None:
    world = in_one_rack("at least 1")
    world.ask("m0")
    assert world.gangs.contradictions()
    world.engine.adopt(registry_of(world.text.replace("at least 1", "at least 2")))
    assert world.gangs.contradictions() == {}
