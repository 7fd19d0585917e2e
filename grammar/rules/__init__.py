"""Rules: the mistakes of a policy that type-checks.

Belongs here: texts that are legal, and seldom what their author means. Must not: evaluate against a
cluster, be imported by anybody but `policies`.
"""

from __future__ import annotations

from collections.abc import Iterable

from grammar.checker.policy_checker import Checked
from grammar.meaning.costs import LIMIT, ClusterFacts, ClusterSize
from grammar.messages.diagnostics import Diagnostic
from grammar.rules import amounts, conditions, costs, counts, pods, texts, words
from grammar.rules.rule import Rule, Tree, tree_of

# The rules about a policy in a cluster.
IN_CLUSTER = (words.unknown_label, costs.slow_policy)
# All others. Of those with the same code, the first one's line is the heading in the book.
RULES = tuple(
    each
    for topic in (conditions, counts, pods, words, texts, amounts, costs)
    for each in vars(topic).values()
    if isinstance(each, Rule) and each not in IN_CLUSTER
)


def run(checked: Checked, cost_limit: int = LIMIT) -> list[Diagnostic]:
    """What the rules find, in the order of the text; `cost_limit` is in steps."""
    tree = tree_of(checked, cost_limit)
    return _once(found for rule in RULES for found in rule.look(tree))


def run_in_cluster(checked: Checked, cluster: ClusterFacts) -> list[Diagnostic]:
    """What the rules find in a cluster; of a broken policy, only unknown labels."""
    tree = tree_of(checked, cluster=cluster)
    rules = IN_CLUSTER[:1] if checked.broken else IN_CLUSTER
    return _once(found for rule in rules for found in rule.look(tree))


def slow(checked: Checked, size: ClusterSize) -> list[Diagnostic]:
    """The warning that a policy can be slow in a cluster of this size, by size alone."""
    tree = Tree(checked, checked.policy, {}, cluster=ClusterFacts({}, 0, size))
    return [*costs.slow_policy.look(tree)]


def _once(found: Iterable[Diagnostic]) -> list[Diagnostic]:
    """The findings in the order of the text; one of a definition is told once, whoever uses it."""
    unique = {(d.code, d.span, d.message): d for d in found}
    return sorted(unique.values(), key=lambda d: d.span.start)
