"""The policy compiler: every clause has a program, equal to the plain evaluator."""

from __future__ import annotations

from engine.cache.node_table import NodeWithPods
from engine.clauses.gang import GangProgram
from engine.clauses.programs import compile_policy
from engine.objects.pod_group import LABEL
from engine.program.frame import Frame
from engine.program.program import (
    BoundProgram,
    FilterProgram,
    PreemptProgram,
    Program,
)
from grammar.checker.policy_checker import check_policy
from grammar.syntax.parser import parse_file
from grammar.tree.source import Source
from grammar.values.time import Timestamp
from tests.support.builders import node, pod, raw
from tests.support.engines import CODEC, SCHEMA, evaluation_of, snapshot_of

NOW = Timestamp.parse("2026-11-21T12:00:00Z")


def compiled(clauses: str) -> Program:
    text = f'policy p in namespace "default" {{ {clauses} }}'
    file, found = parse_file(Source("t", text))
    assert not found
    checked = check_policy(file.policies[0], SCHEMA)
    assert not checked.broken, checked.diagnostics
    return compile_policy(checked)


def frame_for(program: Program) -> Frame:
    frame = Frame(CODEC.pod(raw(pod("p", labels={"team": "a"}))), NOW, slots=program.slots)
    other = pod("q", on="n1", labels={"team": "b", "tier": "db"}, priority=7)
    nodes = [node("n1", zone="z", labels={"pool": "spot"})]
    view: NodeWithPods = snapshot_of(nodes, [other]).nodes["n1"]
    assert view.pods is not None
    frame.node, frame.peer, frame.victim = view, view.pods[0], view.pods[0]
    frame.victims = view.pods
    return frame


def test_share() -> None:
    """The side is about the node, the pods are about peers and the pod."""
    program = compiled(
        'share "s" { placed pods where peer.labels["team"] != pod.labels["team"]'
        ' on nodes where node.labels["pool"] == "spot" at most 40% strict }'
        ' share "r" { of replicas on nodes where true at least 2 weight 3 }'
    )
    share, replicas = program.counts
    frame = frame_for(program)
    assert share.place(frame) is True
    assert share.count.peers.where is not None
    assert share.count.peers.where(frame) is True
    assert (share.count.peers.placed, share.count.peers.replicas) == (True, False)
    assert share.bound == BoundProgram("at most", 40, percent=True)
    assert share.count.message(evaluation_of(frame)) == "policy p: s"
    assert (replicas.count.weight, replicas.count.peers.replicas) == (3, True)
    assert program.strict


def test_spread_and_limit() -> None:
    """Domains are read from the node; without a `pods` line the workload's pods count."""
    program = compiled(
        'spread "s" { over node.zone at least 3 skew at most 2 weight 1 }'
        ' limit "l" { all pods where peer.priority > 5 per node.labels["pool"]'
        ' at most 1 weight 1 } limit "n" { per node at least 1 weight 1 }'
    )
    spread, limit, _ = program.counts
    frame = frame_for(program)
    assert (spread.place(frame), spread.bound.amount, spread.min_domains) == ("z", 2, 3)
    assert spread.count.peers.where is None
    assert limit.place(frame) == "spot"
    assert limit.count.peers.everywhere
    assert [each.groups_are for each in program.counts] == ["domains", "domains", "nodes"]
    assert not program.strict


def test_a_gang_has_the_key_of_a_peer_and_the_number_of_the_pod() -> None:
    """Its number is a constant, or computed; its parts are None where they are not written."""
    program = compiled(
        'gang "g" when pod.labels["team"] == "a" { of pods by peer.labels["tier"]'
        ' at least 2 + size(pod.labels) within node.labels["pool"] for at most 90s message "m" }'
        ' gang "w" when pod.labels["team"] == "b" { at least 40% }'
    )
    by, whole = program.of(GangProgram)
    frame = frame_for(program)
    assert by.by is not None
    assert by.domain is not None
    assert by.when is not None
    assert callable(by.number)
    found = by.by(frame), by.number(frame), by.domain(frame), by.when.evaluate(frame)
    assert found == ("db", 3, "spot", True)
    assert (by.seconds, by.percent, by.message(evaluation_of(frame))) == (90, False, "m")
    assert (whole.by, whole.number, whole.percent, whole.domain) == (None, 40, True, None)
    assert (whole.seconds, whole.message(evaluation_of(frame))) == (60, "policy p: w")
    assert program.strict


def test_pods_of_one_shape_are_in_one_gang() -> None:
    """What `by` reads of a peer is read of the asked pod; without it, its group and workload."""
    by = compiled('gang "g" { of pods by peer.labels["job"] + string(peer.priority) at least 2 }')
    assert by.reads == {("metadata", "labels", "job"), ("spec", "priority")}
    assert compiled('gang "g" { }').reads == {
        ("metadata", "ownerReferences"),
        ("spec", "schedulingGroup"),
        ("metadata", "labels", LABEL),
    }
    named = compiled('let job = peer.annotations["job"] gang "g" { of pods by job at least 2 }')
    assert named.reads == {("metadata", "annotations", "job")}


def test_a_wait_is_beside_what_decides_about_nodes() -> None:
    """It needs no `require`. What it reads of pod and node is asked for at bind alone."""
    program = compiled(
        'bind "b" { wait until pod.annotations["ready"] == node.labels["pool"] for at most 1m }'
        ' bind "c" { require node.ready wait until pod.labels["team"] == "a" for at most 1h }'
    )
    waiting, both = program.of(FilterProgram)
    assert waiting.wait is not None
    assert both.wait is not None
    assert (waiting.requires, waiting.at_bind, waiting.reads_node) == ((), True, False)
    assert (waiting.wait.seconds, waiting.wait.until.per_node) == (60, True)
    assert (both.wait.seconds, both.wait.until.per_node, len(both.requires)) == (3600, False, 1)
    assert both.wait.until.evaluate(frame_for(program)) is True
    assert program.reads == frozenset()


def test_preempt() -> None:
    """Protection is about one victim, `allow` and `keep` about all of them."""
    program = compiled(
        'preempt "x" { protect pods where victim.labels["tier"] == "db"'
        " require size(victims) <= 3 pick 2 least victims.map(v, v.priority).max() }"
    )
    (preempt,) = program.of(PreemptProgram)
    frame = frame_for(program)
    assert [p(frame) for p in preempt.protects] == [True]
    (require,) = preempt.requires
    assert require(frame) is True
    assert preempt.order is not None
    assert (preempt.keep, preempt.order(frame)) == (2, 7)


def test_bind_clauses_filter_too() -> None:
    """And are marked, so that bind can check them again."""
    program = compiled('bind "b" { require node.ready } filter "f" { require node.ready }')
    assert [(f.name, f.at_bind) for f in program.of(FilterProgram)] == [("b", True), ("f", False)]
