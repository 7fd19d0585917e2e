"""The policy compiler: every clause has a program, equal to the plain evaluator."""

from __future__ import annotations

from engine.cache.node_table import NodeWithPods
from engine.program.frame import Frame
from engine.program.policy_compiler import compile_policy
from engine.program.program import BoundProgram, Program
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
        'share "s" { of placed pods where peer.labels["team"] != pod.labels["team"]'
        ' on nodes where node.labels["pool"] == "spot" at most 40% strict }'
        ' share "r" { of replicas on nodes where true at least 2 best effort weight 3 }'
    )
    share, replicas = program.shares
    frame = frame_for(program)
    assert share.on(frame) is True
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
        'spread "s" { over node.zone skew at most 2 min domains 3 best effort weight 1 }'
        ' limit "l" { all pods where peer.priority > 5 per domain node.labels["pool"]'
        ' at most 1 best effort weight 1 } limit "n" { per node at least 1 best effort weight 1 }'
    )
    (spread,), (limit, per_node) = program.spreads, program.limits
    frame = frame_for(program)
    assert (spread.domain(frame), spread.skew, spread.min_domains) == ("z", 2, 3)
    assert spread.count.peers.where is None
    assert limit.domain is not None
    assert limit.domain(frame) == "spot"
    assert limit.count.peers.everywhere
    assert (per_node.per_node, per_node.domain) == (True, None)
    assert not program.strict


def test_preempt() -> None:
    """Protection is about one victim, `allow` and `keep` about all of them."""
    program = compiled(
        'preempt "x" { protect victim where victim.labels["tier"] == "db"'
        " allow when size(victims) <= 3 keep 2 by victims.map(v, v.priority).max() }"
    )
    (preempt,) = program.preempts
    frame = frame_for(program)
    assert [p(frame) for p in preempt.protects] == [True]
    assert preempt.allows is not None
    assert preempt.allows(frame) is True
    assert preempt.order is not None
    assert (preempt.keep, preempt.order(frame)) == (2, 7)


def test_bind_clauses_filter_too() -> None:
    """And are marked, so that bind can check them again."""
    program = compiled('bind "b" { require node.ready } filter "f" { require node.ready }')
    assert [(f.name, f.at_bind) for f in program.filters] == [("b", True), ("f", False)]
