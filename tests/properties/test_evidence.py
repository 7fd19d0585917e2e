"""Evidence of explanations: every value is what the plain evaluator gives for its pod and node."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from cli.world import World
from engine.cache.cluster_copy import ClusterDocuments
from engine.cards.fragmentation import with_cards
from engine.enforced import enforced
from engine.explanation.document import NodeCounts
from engine.explanation.inspection import ClauseResults, Inspection
from engine.explanation.written import (
    KEPT_OUT,
    Traced,
    Values,
    Written,
    WrittenClauses,
    clauses_on,
    told,
)
from engine.offline import offline_engine
from engine.work import finished
from grammar.clauses.score import Score
from grammar.meaning.environment import Environment
from grammar.meaning.evaluator import evaluate
from grammar.tree.ast import Expr, Ident
from grammar.tree.source import Source
from grammar.tree.walk import children
from grammar.values.errors import EvaluationError
from policies.validation import Validator
from tests.properties import strategies
from tests.support.books import examples
from tests.support.builders import kubectl_list, raw
from tests.support.engines import CODEC, SCHEMA

# Policies whose strict counts evaluate every node, also after the one that is asked about.
COUNTS = (
    'limit "l" { per node at most 3 strict }',
    'limit "l" { pods where true per node at most size(node.spec.taints) + 1 strict }',
    'limit "l" { pods where true per node.labels["zone"] at most 2 strict }',
    'limit "l" { all pods where true per node at most 0 strict mutual }',
    'limit "l" { pods where true at most 2 used node strict }',
    'share "l" { pods where true on nodes where node.labels["pool"] == "a" at most 50% strict }',
    'spread "l" { pods where true over node.labels["zone"] skew at most 1 strict }',
    'spread "l" { pods where true over node.labels["zone"] skew at most 1 weight 3 }',
    'filter "l" { require size(node.pods) < 3 }',
    'score "l" weight 2 { value size(node.pods) }',
)
VARIABLES = ("pod", "node", "now", "namespaceObject")
Cluster = tuple[list[dict[str, Any]], list[dict[str, Any]]]


def world_of(policies: list[str], pod: dict[str, Any], cluster: Cluster) -> World:
    """Without the policies that do not type-check: a `range` of a bool does not."""
    sources = [Source(f"{i}.policy", text) for i, text in enumerate(policies)]
    validation = Validator(SCHEMA).validate([s for s in sources if is_valid(s)])
    nodes, pods = cluster
    items = [
        *({"apiVersion": "v1", "kind": "Node", **item} for item in nodes),
        *({"apiVersion": "v1", "kind": "Pod", **item} for item in (*pods, pod)),
    ]
    file = Path("cluster.json")
    documents = ClusterDocuments([file], [(file, raw(kubectl_list(items)))])
    made = enforced(validation)
    return World(SCHEMA, CODEC, documents.cluster(CODEC), made)


def is_valid(source: Source) -> bool:
    found = Validator(SCHEMA).validate([source]).findings()
    return not any(diagnostic.severity == "error" for diagnostic, _ in found)


def reads_only_variables(expr: Expr) -> bool:
    if isinstance(expr, Ident):
        return expr.name in VARIABLES
    return all(map(reads_only_variables, children(expr)))


def check(traced: Traced, environment: Environment, variables: dict[str, Any]) -> None:
    for _, text, step in traced.rows:
        if not reads_only_variables(step.expr):
            continue  # an iteration of a macro
        wanted = outcome(step.expr, environment, variables)
        found = step.outcome
        if isinstance(found, EvaluationError):
            found = str(found), type(found)
        assert (found, type(found)) == (wanted, type(wanted)), text


def outcome(expr: Expr, environment: Environment, variables: dict[str, Any]) -> object:
    """The value by the plain evaluator, or the text and kind of its error."""
    try:
        return evaluate(expr, variables, with_cards(environment))
    except EvaluationError as error:
        return str(error), type(error)


def analysed(world: World) -> tuple[ClauseResults, WrittenClauses]:
    """The results of every clause for the asked pod, and the clauses that they are about."""
    engine = offline_engine(world.policies.registry, world.cluster, world.codec)
    inspection = Inspection(engine, world.cluster.pod("shop/p-1").body)
    objections = finished(inspection.objections())
    passing = ClauseResults(inspection, objections).passing()
    given = finished(inspection.contributions(passing))
    policies = world.policies
    written = WrittenClauses(policies.policies, policies.texts, Values(SCHEMA))
    return ClauseResults(inspection, objections, given, passing), written


def shown(
    found: ClauseResults, clauses: WrittenClauses, name: str
) -> Iterator[tuple[Written, Traced]]:
    """The traced expressions of everything that is said of a node."""
    frame = found.inspection.frame_at(name)
    for objection in found.objections:
        written = clauses.find(objection.policy, objection.name)
        for _, expr in told(objection.program, written.clause):
            yield written, written.traced(expr, frame)
    for each in found.given if name in found.scores else ():
        written = clauses.find(each.policy, each.name)
        if isinstance(written.clause, Score):
            yield written, written.traced(written.clause.value, frame)


@settings(max_examples=examples(150), deadline=None)
@given(
    strategies.policies("p0"),
    strategies.policies("p1"),
    st.lists(st.sampled_from(COUNTS), max_size=3, unique=True),
    strategies.pods(),
    strategies.clusters(),
)
def test_a_value_is_that_of_its_pod_and_node_whatever_other_policies_there_are(
    first: str, second: str, counts: list[str], pod: dict[str, Any], cluster: Cluster
) -> None:
    counting = [f"cluster policy c{i} {{ {text} }}" for i, text in enumerate(counts)]
    world = world_of([*counting, first, second], pod, cluster)
    asked = world.cluster.pod("shop/p-1")
    with world.cluster.asking(asked):
        found, clauses = analysed(world)
        for name in found.names:
            variables = {
                "pod": CODEC.pod(asked.body),
                "node": world.cluster.node(name),
                "now": world.cluster.now,
                "namespaceObject": None,
            }
            for written, traced in shown(found, clauses, name):
                check(traced, written.environment, variables)


@settings(max_examples=examples(100), deadline=None)
@given(
    st.sampled_from(COUNTS[:8]),
    strategies.pods(),
    strategies.clusters(),
    st.data(),
)
def test_the_pods_of_a_count_are_as_many_as_it_says(
    text: str, pod: dict[str, Any], cluster: Cluster, data: st.DataObject
) -> None:
    nodes, bound = cluster
    nominated = data.draw(strategies.pods("nominated"))
    nominated["status"]["nominatedNodeName"] = nodes[0]["metadata"]["name"]
    world = world_of([f"cluster policy c {{ {text} }}"], pod, (nodes, [*bound, nominated]))
    assert world.policies.registry.programs
    asked = world.cluster.pod("shop/p-1")
    with world.cluster.asking(asked):
        found, clauses = analysed(world)
        for name in found.names:
            for said in finished(clauses_on(clauses, found, name)):
                if said.counts is not None and said.counts.text != KEPT_OUT:
                    assert_as_many(said.counts)


def assert_as_many(counts: NodeCounts) -> None:
    words = counts.text.split()
    if words[0].isdecimal():
        assert len(counts.pods) == int(words[0])
        names = [each.name for each in counts.pods]
        assert len(names) == len(set(names))
