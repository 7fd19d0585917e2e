"""Tests of portable spreads and limits: what they become, and why others stay in Placet."""

from __future__ import annotations

import pytest

from engine.clauses.limit import HOST
from engine.portable.portable_clauses import Left, parts_of
from engine.selectors.terms import Frozen, Json, Part
from tests.support.builders import pod, raw
from tests.support.engines import CODEC, checked

POD = pod("web", namespace="shop", labels={"app": "web", "team": "ads", "other": "y"})
FROZEN = Frozen(labels=frozenset({"app", "team"}))
ZONE = "topology.kubernetes.io/zone"
WEB: Json = {"matchExpressions": [{"key": "app", "operator": "In", "values": ["web"]}]}
SAME = 'pods where peer.labels["app"] == pod.labels["app"]'


def part(clause: str, head: str = "cluster policy p") -> Part | Left:
    (policy,) = checked(f"{head} {{ {clause} }}")
    (found,) = parts_of(policy, CODEC.pod(raw(POD)), FROZEN, ("kube-system",))
    return found


@pytest.mark.parametrize(
    ("nodes", "affinity", "taints"),
    [
        ("", "Honor", "Honor"),
        ("nodes eligible", "Honor", "Honor"),
        ("nodes selected", "Honor", "Ignore"),
        ("nodes all", "Ignore", "Ignore"),
    ],
)
def test_a_spread_is_a_spread_constraint(nodes: str, affinity: str, taints: str) -> None:
    found = part(f'spread "c" {{ {SAME} {nodes} over node.zone at least 3 skew at most 2 strict }}')
    constraint = {
        "maxSkew": 2,
        "topologyKey": ZONE,
        "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": WEB,
        "nodeAffinityPolicy": affinity,
        "nodeTaintsPolicy": taints,
        "minDomains": 3,
    }
    assert found == Part("c", exact=True, spread=(constraint,))


def test_a_mutual_limit_is_anti_affinity() -> None:
    found = part(f'limit "c" {{ {SAME} per node at most 1 strict mutual }}')
    assert found == Part("c", exact=True, away=({"topologyKey": HOST, "labelSelector": WEB},))


def test_a_limit_of_all_pods_keeps_away_from_all_but_exempt_namespaces() -> None:
    clause = f'limit "c" {{ all {SAME} per zone at most 1 strict mutual missing pass }}'
    namespaces = {
        "matchExpressions": [
            {"key": "kubernetes.io/metadata.name", "operator": "NotIn", "values": ["kube-system"]}
        ]
    }
    term = {"topologyKey": ZONE, "labelSelector": WEB}
    everywhere = term | {"namespaceSelector": namespaces}
    # Pods of exempt namespaces count, and are not to be kept out.
    assert part(clause) == Part("c", exact=False, away=(everywhere,))
    # A policy of a namespace keeps out nobody else.
    assert part(clause, 'policy p in namespace "shop"') == Part("c", exact=False, away=(term,))


def test_several_conditions_are_several_terms_of_anti_affinity() -> None:
    where = 'peer.labels["app"] == "db" || "noisy" in peer.labels'
    found = part(f'limit "c" {{ pods where {where} per node at most 0 strict mutual }}')
    assert isinstance(found, Part)
    selectors = [term["labelSelector"]["matchExpressions"] for term in found.away]
    assert selectors == [
        [{"key": "app", "operator": "In", "values": ["db"]}],
        [{"key": "noisy", "operator": "Exists"}],
    ]
    # The pod's label `noisy` could be set.
    assert not found.exact


def test_at_least_one_is_affinity() -> None:
    where = 'all pods where peer.labels["app"] == "db"'
    clause = f'limit "c" {{ {where} per zone at least 1 strict }}'
    found = part(clause)
    selector = {"matchExpressions": [{"key": "app", "operator": "In", "values": ["db"]}]}
    term = {"topologyKey": ZONE, "labelSelector": selector, "namespaceSelector": {}}
    assert found == Part("c", exact=True, near=(term,))


def test_a_clause_that_does_not_apply_says_nothing() -> None:
    when = 'when pod.labels["team"] == "shop"'
    found = part(f'limit "c" {when} {{ {SAME} per node at most 1 strict mutual }}')
    assert isinstance(found, Part)
    assert found.says_nothing


@pytest.mark.parametrize(
    ("clause", "reason"),
    [
        (
            f'limit "c" {{ {SAME} per node at most 1 strict }}',
            "pod anti-affinity keeps others out, too, as a `mutual` limit does",
        ),
        (
            f'limit "c" {{ {SAME} per node at most 2 strict mutual }}',
            "anti-affinity leaves no room for one more of the pods",
        ),
        (
            'limit "c" { pods where peer.labels["other"] == "y" per node at most 1 strict mutual }',
            "anti-affinity leaves no room for one more of the pods",
        ),
        (
            (
                'limit "c" { pods where peer.labels["app"] == pod.labels["other"] per node'
                " at most 0 strict mutual }"
            ),
            '`pod.labels["other"]` can change',
        ),
        (
            'limit "c" { pods where peer.priority > 3 per node at most 0 strict mutual }',
            "`peer.priority` is no label of the peer",
        ),
        (
            'limit "c" { pods where int(peer.labels["app"]) > 3 per node at most 0 strict mutual }',
            "a selector of pods has no comparisons of numbers",
        ),
        (
            f'limit "c" {{ {SAME} per cluster at most 1 strict mutual }}',
            "a number of pods per cluster has no equivalent",
        ),
        (
            f'limit "c" {{ {SAME} used node at most 3 strict }}',
            "pod anti-affinity keeps others out, too, as a `mutual` limit does",
        ),
        (
            'limit "c" { per node at most 1 strict }',
            "the pods of a workload have no selector: write `pods where`",
        ),
        (
            f'limit "c" {{ {SAME} per node at least 1 strict }}',
            "a number of pods per node has no equivalent",
        ),
        (
            f'limit "c" {{ {SAME} per zone at least 2 strict }}',
            "pod affinity needs one pod, and no more",
        ),
        (
            'limit "c" { sum peer.requests["cpu"] of pods where true per node at most 3 strict }',
            "a sum has no equivalent",
        ),
        (
            f'limit "c" {{ {SAME} per node at most int(node.labels["slots"]) strict }}',
            "its number is not constant",
        ),
        (
            f'spread "c" {{ {SAME} over node.name skew at most 1 strict }}',
            "`node.metadata.name` is no label of the node",
        ),
        (
            f'spread "c" {{ all {SAME} over node.zone skew at most 1 strict }}',
            "a spread constraint counts the pods of one namespace",
        ),
        (
            f'spread "c" {{ {SAME} over node.zone skew at most 1 strict missing pass }}',
            "`missing pass` passes nodes without the label",
        ),
        (
            (
                'spread "c" { pods where peer.labels["app"] == "a" || peer.labels["team"] == "b"'
                " over node.zone skew at most 1 strict }"
            ),
            "a selector of pods has no `||`",
        ),
        (
            'share "c" { of replicas on nodes where node.zone == "a" at most 40% strict }',
            "a number of pods on some nodes has no equivalent",
        ),
        (
            'gang "c" { of pods by peer.labels["job"] at least 3 }',
            "pods that are bound together have no equivalent",
        ),
        (
            'bind "c" { require node.zone == "a" wait until node.ready for at most 1m }',
            "a binding that waits has no equivalent",
        ),
    ],
)
def test_what_stays_in_placet(clause: str, reason: str) -> None:
    assert part(clause) == Left("c", reason)


def test_a_preference_is_no_part() -> None:
    (policy,) = checked(
        f'cluster policy p {{ limit "c" {{ {SAME} per node at most 1 weight 5 }} }}'
    )
    assert [*parts_of(policy, CODEC.pod(raw(POD)), FROZEN, ())] == []
