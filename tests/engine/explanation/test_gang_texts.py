"""The sentence about the gang of a pod, with the key and the number that hold for it."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from engine.cache.cluster_copy import ClusterDocuments
from engine.enforced import enforced
from engine.explanation.evidence import counted_on
from engine.explanation.inspection import ClauseResults, Inspection, Objection
from engine.explanation.written import Values, WrittenClauses
from engine.offline import offline_engine
from engine.program.policy_compiler import compile_policy
from engine.work import finished
from grammar.tree.source import Source
from policies.validation import Validator
from tests.support.builders import kubectl_list, node, pod, raw
from tests.support.engines import CODEC, SCHEMA

BY = 'of pods by peer.labels["job"]'


def text_of(parts: str, **labels: str) -> str:
    """What is said of a node that the gang of these parts rejects for a pod with these labels."""
    source = Source("p.policy", f'cluster policy p {{ gang "g" {{ {parts} }} }}')
    policies = enforced(Validator(SCHEMA).validate([source]))
    items = [
        {"apiVersion": "v1", "kind": "Node", **node("a")},
        {"apiVersion": "v1", "kind": "Pod", **pod("asked", labels=labels)},
    ]
    file = Path("cluster.json")
    cluster = ClusterDocuments([file], [(file, raw(kubectl_list(items)))]).cluster(CODEC)
    engine = offline_engine(policies.registry, cluster, CODEC)
    inspection = Inspection.of(engine, raw(pod("asked", labels=labels)))
    (gang,) = compile_policy(policies.policies[0]).gangs
    objection = Objection("p", "g", gang, np.array([True]), {}, "6 of 8 members fit")
    written = WrittenClauses(policies.policies, policies.texts, Values(SCHEMA)).find("p", "g")
    found = finished(counted_on(objection, written, ClauseResults(inspection, [objection]), "a"))
    assert found is not None
    return found.text


@pytest.mark.parametrize(
    ("parts", "wanted"),
    [
        (
            f"{BY} at least 8",
            'its gang has the pods with j1 as `peer.labels["job"]`, and needs at least 8 of them: ',
        ),
        (
            f'{BY} at least int(pod.labels["n"]) * 2',
            'its gang has the pods with j1 as `peer.labels["job"]`, and needs at least 6 of them: ',
        ),
        ("at least 50%", "its gang has the pods of its workload, and needs at least 50% of them: "),
        ("", "its gang has the pods of its workload, and needs all of them: "),
    ],
)
def test_a_text_has_the_gang_and_its_number(parts: str, wanted: str) -> None:
    assert text_of(parts, job="j1", n="3") == f"{wanted}6 of 8 members fit"


def test_a_text_says_what_is_missing() -> None:
    """Of a number that the pod does not have."""
    assert "`n`" in text_of(f'{BY} at least int(pod.labels["n"])', job="j1")
