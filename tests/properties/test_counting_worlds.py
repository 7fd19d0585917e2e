"""In thousands of small worlds no strict bound is passed, and no pod is stuck."""

from __future__ import annotations

from collections import Counter
from random import Random

import pytest

from engine.decision.registry import Registry
from tests.support.books import examples
from tests.support.builders import Object, node
from tests.support.engines import CODEC, registry_of
from tests.support.worlds import World, apps

WEB = 'peer.labels["app"] == "web"'
SPOT = 'node.labels["cap"] == "spot"'
WORLDS = examples(60)


def registry(*clauses: str) -> Registry:
    text = 'policy p { for pods where pod.labels["app"] == "web"\n' + "\n".join(clauses) + "\n}"
    return registry_of(text)


def cluster(random: Random) -> list[Object]:
    count = random.randint(2, 6)
    return [
        node(f"n{i}", f"z{i % random.randint(1, 3)}", labels={"cap": "spot" if i % 2 else "od"})
        for i in range(count)
    ]


def label(nodes: list[Object], name: str, key: str) -> str:
    (found,) = (n for n in nodes if n["metadata"]["name"] == name)
    labels: dict[str, str] = found["metadata"]["labels"]
    return labels[key]


def web(bound: list[Object]) -> list[str]:
    return [p["spec"]["nodeName"] for p in bound if p["metadata"]["labels"]["app"] == "web"]


@pytest.mark.parametrize("seed", range(WORLDS))
def test_exact_share(seed: int) -> None:
    """Never more than the part on either side, and in the end all of it."""
    random = Random(seed)
    nodes, count, percent = cluster(random), random.randint(1, 12), random.choice((0, 30, 40, 100))
    most = count * percent // 100
    rules = registry(
        f'share "s" {{ pods where {WEB} on nodes where {SPOT} exactly {percent}% strict }}'
    )

    def broken(bound: list[Object]) -> str | None:
        on = sum(label(nodes, n, "cap") == "spot" for n in web(bound))
        off = len(web(bound)) - on
        return f"{on} and {off}" if on > most or off > count - most else None

    world = World(seed, rules, CODEC, nodes, apps(count, "web"), broken)
    world.play()
    on = [label(nodes, n, "cap") for n in web(world.server.bound())]
    assert Counter(on) == Counter({"spot": most, "od": count - most}) or not most * (count - most)
    assert len(on) == count


@pytest.mark.parametrize("seed", range(WORLDS))
def test_ceiling(seed: int) -> None:
    """`at most`: the other side is open to all, so nobody ever waits for long."""
    random = Random(seed)
    nodes, count, most = cluster(random), random.randint(1, 12), random.randint(0, 4)
    rules = registry(
        f'share "s" {{ pods where {WEB} on nodes where {SPOT} at most {most} strict }}'
    )

    def broken(bound: list[Object]) -> str | None:
        on = sum(label(nodes, n, "cap") == "spot" for n in web(bound))
        return f"{on} of {most}" if on > most else None

    world = World(seed, rules, CODEC, nodes, apps(count, "web"), broken)
    world.play()
    assert len(web(world.server.bound())) == count


@pytest.mark.parametrize("seed", range(WORLDS))
def test_spread(seed: int) -> None:
    random = Random(seed)
    nodes, count, skew = cluster(random), random.randint(1, 12), random.randint(1, 2)
    zones = {label(nodes, n["metadata"]["name"], "topology.kubernetes.io/zone") for n in nodes}
    rules = registry(f'spread "z" {{ pods where {WEB} over node.zone skew at most {skew} strict }}')

    def broken(bound: list[Object]) -> str | None:
        found = Counter(label(nodes, n, "topology.kubernetes.io/zone") for n in web(bound))
        least = min(found[zone] for zone in zones)
        return str(found) if max(found.values()) - least > skew else None

    world = World(seed, rules, CODEC, nodes, apps(count, "web"), broken)
    world.play()
    assert len(web(world.server.bound())) == count


@pytest.mark.parametrize("seed", range(WORLDS))
def test_spread_within_a_group(seed: int) -> None:
    """Each zone has racks of the same names, which are compared with each other alone."""
    random = Random(seed)
    nodes, count = cluster(random), random.randint(1, 12)
    racks = dict[str, tuple[str, str]]()
    for number, each in enumerate(nodes):
        each["metadata"]["labels"]["rack"] = rack = str(number % 2)
        name = each["metadata"]["name"]
        racks[name] = label(nodes, name, "topology.kubernetes.io/zone"), rack
    rules = registry(
        "group zone by node.zone",
        f'spread "racks" {{ pods where {WEB} over node.labels["rack"] within zone',
        "skew at most 1 strict }",
    )

    def broken(bound: list[Object]) -> str | None:
        found = Counter(racks[node] for node in web(bound))
        every = [(one, other) for one in racks.values() for other in racks.values()]
        skews = [found[one] - found[other] for one, other in every if one[0] == other[0]]
        return str(found) if max(skews) > 1 else None

    world = World(seed, rules, CODEC, nodes, apps(count, "web"), broken)
    world.play()
    assert len(web(world.server.bound())) == count


@pytest.mark.parametrize("seed", range(WORLDS))
def test_limit_per_node(seed: int) -> None:
    """And none beside a database."""
    random = Random(seed)
    nodes, count, most = cluster(random), random.randint(1, 12), random.randint(1, 3)
    taken = nodes[0]["metadata"]["name"]
    rules = registry(
        f'limit "few" {{ pods where {WEB} per node at most {most} strict }}',
        'limit "apart" { pods where peer.labels["app"] == "db" per node at most 0 strict }',
    )

    def broken(bound: list[Object]) -> str | None:
        found = Counter(web(bound))
        return str(found) if found[taken] or max(found.values()) > most else None

    world = World(seed, rules, CODEC, nodes, apps(count, "web"), broken, apps(1, "db", on=[taken]))
    world.play(1500)
    assert len(web(world.server.bound())) == min(count, most * (len(nodes) - 1))


@pytest.mark.parametrize("seed", range(WORLDS))
def test_limit_by_a_label(seed: int) -> None:
    """Each node has its own number of places, and no place stays empty."""
    random = Random(seed)
    nodes, count = cluster(random), random.randint(1, 12)
    slots = {n["metadata"]["name"]: random.randint(0, 3) for n in nodes}
    for each in nodes:
        each["metadata"]["labels"]["slots"] = str(slots[each["metadata"]["name"]])
    rules = registry(
        f'limit "few" {{ pods where {WEB} per node at most int(node.labels["slots"]) strict }}'
    )

    def broken(bound: list[Object]) -> str | None:
        found = Counter(web(bound))
        return str(found) if any(found[name] > slots[name] for name in found) else None

    world = World(seed, rules, CODEC, nodes, apps(count, "web"), broken)
    world.play(1500)
    assert len(web(world.server.bound())) == min(count, sum(slots.values()))


@pytest.mark.parametrize("seed", range(WORLDS))
def test_affinity_to_the_own_kind(seed: int) -> None:
    """The first pod decides about the zone, whichever it is, and all others follow."""
    random = Random(seed)
    nodes, count = cluster(random), random.randint(1, 12)
    rules = registry(f'limit "one zone" {{ pods where {WEB} per zone at least 1 strict }}')

    def broken(bound: list[Object]) -> str | None:
        zones = {label(nodes, n, "topology.kubernetes.io/zone") for n in web(bound)}
        return str(zones) if len(zones) > 1 else None

    world = World(seed, rules, CODEC, nodes, apps(count, "web"), broken)
    world.play()
    assert len(web(world.server.bound())) == count


@pytest.mark.parametrize("seed", range(WORLDS))
def test_used_nodes(seed: int) -> None:
    """Never more nodes of the pool than allowed, however many pods are in flight."""
    random = Random(seed)
    nodes, count, most = cluster(random), random.randint(1, 12), random.randint(0, 3)
    spot = {n["metadata"]["name"] for n in nodes if n["metadata"]["labels"]["cap"] == "spot"}
    rules = registry(
        f'limit "few" {{ pods where {WEB} used node where {SPOT} at most {most} strict }}'
    )

    def broken(bound: list[Object]) -> str | None:
        found = {node for node in web(bound) if node in spot}
        return str(found) if len(found) > most else None

    world = World(seed, rules, CODEC, nodes, apps(count, "web"), broken)
    world.play()
    assert len(web(world.server.bound())) == count


@pytest.mark.parametrize("seed", range(WORLDS))
def test_cores_of_used_nodes(seed: int) -> None:
    """Never more cores on used nodes than allowed, whichever nodes the pods in flight take."""
    random = Random(seed)
    nodes, count, most = cluster(random), random.randint(1, 12), random.randint(0, 9)
    cores = {n["metadata"]["name"]: random.choice((0, 1, 2, 5)) for n in nodes}
    for each in nodes:
        each["metadata"]["labels"]["cores"] = str(cores[each["metadata"]["name"]])
    rules = registry(
        f'limit "licences" {{ pods where {WEB} sum int(node.labels["cores"]) over used node',
        f"at most {most} strict }}",
    )

    def broken(bound: list[Object]) -> str | None:
        found = {node: cores[node] for node in web(bound)}
        return str(found) if sum(found.values()) > most else None

    world = World(seed, rules, CODEC, nodes, apps(count, "web"), broken)
    world.play(1500)
    assert len(web(world.server.bound())) == (count if min(cores.values()) <= most else 0)


@pytest.mark.parametrize("seed", range(WORLDS))
def test_empty_nodes(seed: int) -> None:
    """The spare nodes stay empty of web pods, and all others are used if there are enough pods."""
    random = Random(seed)
    nodes, count, least = cluster(random), random.randint(1, 12), random.randint(0, 3)
    rules = registry(f'limit "spare" {{ pods where {WEB} empty node at least {least} strict }}')

    def broken(bound: list[Object]) -> str | None:
        empty = len(nodes) - len(set(web(bound)))
        return f"{empty} of {len(nodes)}" if empty < least else None

    world = World(seed, rules, CODEC, nodes, apps(count, "web"), broken, apps(1, "db", on=["n0"]))
    world.play(4000 if least < len(nodes) else 300)
    assert len(web(world.server.bound())) == (count if least < len(nodes) else 0)


@pytest.mark.parametrize("seed", range(WORLDS))
def test_mutual_limit(seed: int) -> None:
    """No web pod and no database with more than so many others, whichever comes first."""
    random = Random(seed)
    nodes, most = cluster(random), random.randint(0, 2)
    rules = registry_of(
        'cluster policy p { for pods where pod.labels["app"] == "db"\n'
        'limit "quiet" { all pods where peer.labels["app"] != pod.labels["app"]'
        f" per node at most {most} strict mutual }} }}"
    )

    def broken(bound: list[Object]) -> str | None:
        apps_of = Counter((p["spec"]["nodeName"], p["metadata"]["labels"]["app"]) for p in bound)
        crowded = [n for n, app in apps_of if app == "db" and apps_of[n, "web"] > most]
        return str(apps_of) if crowded else None

    waiting = [*apps(random.randint(1, 5), "web"), *apps(random.randint(1, 5), "db")]
    random.shuffle(waiting)
    world = World(seed, rules, CODEC, nodes, waiting, broken)
    world.play(400)
    assert world.server.bound()
