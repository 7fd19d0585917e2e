"""Rules: the mistakes of a policy that type-checks.

Belongs here: texts that are legal, and seldom what their author means. Must not: evaluate against a
cluster, be imported by anybody but `policies`.
"""

from __future__ import annotations

from collections.abc import Iterable

from grammar.checker.policy_checker import Checked
from grammar.meaning.environment import ClusterFacts
from grammar.messages.diagnostics import Diagnostic
from grammar.rules import amounts, conditions, counts, pods, texts, words
from grammar.rules.rule import Rule, tree_of

# The rule about a policy in a cluster.
IN_CLUSTER = words.unknown_label
# All others. Of those with the same code, the first one's line is the heading in the book.
RULES = tuple(
    each
    for topic in (conditions, counts, pods, words, texts, amounts)
    for each in vars(topic).values()
    if isinstance(each, Rule) and each is not IN_CLUSTER
)


def run(checked: Checked) -> list[Diagnostic]:
    """What the rules find, in the order of the text."""
    tree = tree_of(checked)
    return _once(found for rule in RULES for found in rule.look(tree))


def run_in_cluster(checked: Checked, cluster: ClusterFacts) -> list[Diagnostic]:
    """What is found in a cluster, also of a broken policy."""
    return _once(IN_CLUSTER.look(tree_of(checked, cluster)))


def _once(found: Iterable[Diagnostic]) -> list[Diagnostic]:
    """The findings in the order of the text; one of a definition is told once, whoever uses it."""
    unique = {(d.code, d.span, d.message): d for d in found}
    return sorted(unique.values(), key=lambda d: d.span.start)
