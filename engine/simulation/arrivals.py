"""Arrivals: in which order pods come, and how many of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from random import Random

import msgspec

from engine.objects.codec import ObjectCodec
from engine.simulation.cycle import Waiting, waiting


def shuffled(pods: Sequence[Waiting], random: Random) -> Sequence[Waiting]:
    """The pods in another order."""
    return random.sample(pods, len(pods))


def grown(
    pods: Sequence[Waiting], random: Random, codec: ObjectCodec, resource: str, most: int
) -> Sequence[Waiting]:
    """The pods and clones of some, which are drawn with replacement.

    It ends before the clone with which all pods would request more than `most` of the resource, in
    its unit (`amount`). Raises ValueError if none of the pods requests it.
    """
    requested = [each.demand.amounts.get(resource, 0) for each in pods]
    if not any(requested):
        raise ValueError(f"no pod requests `{resource}`")
    found, total = list(pods), sum(requested)
    while total + requested[drawn := random.randrange(len(pods))] <= most:
        total += requested[drawn]
        found.append(_clone(pods[drawn], len(found) - len(pods) + 1, codec))
    return found


def _clone(pod: Waiting, number: int, codec: ObjectCodec) -> Waiting:
    document = msgspec.json.decode(pod.body)
    metadata = document["metadata"]
    name = f"{metadata['name']}-clone-{number}"
    document["metadata"] = {**metadata, "name": name, "uid": f"{metadata['uid']}-clone-{number}"}
    return replace(waiting(msgspec.json.encode(document), codec), cards=pod.cards)
