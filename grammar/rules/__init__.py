"""Rules: the mistakes of a policy that type-checks, each with a wrong and a right example.

Belongs here: what is legal, and seldom what its author means. Must not: evaluate against a cluster,
be imported by anybody but `policies`.
"""

from __future__ import annotations

from collections.abc import Iterable

from grammar.checker.policy_checker import Checked
from grammar.meaning.costs import LIMIT, ClusterFacts, ClusterSize
from grammar.messages.diagnostics import Diagnostic
from grammar.rules import (
    absence,
    always,
    bounds,
    calendar,
    constant_conditions,
    contradictions,
    costs,
    counts_in_filters,
    directions,
    domains,
    gangs,
    labels,
    mutual,
    patterns,
    populations,
    scores,
    shares,
    text_orders,
    units,
    without_effect,
    words,
)
from grammar.rules.rule import Rule, Tree, tree_of

# Of the rules with the same code, the first has the example of the book of diagnostics.
RULES: tuple[Rule, ...] = (
    absence.AbsentNegation(),
    absence.AbsentProtection(),
    absence.NullComparison(),
    constant_conditions.ConstantCondition(),
    constant_conditions.UnusedDefinition(),
    contradictions.NoNodePasses(),
    contradictions.NeverRejects(),
    always.AlwaysTheSame(),
    shares.ConflictingShares(),
    shares.ShareWithoutPercent(),
    bounds.BadNumber(),
    bounds.EmptyRange(),
    bounds.DeadlockedLimit(),
    domains.NodesWithoutDomain(),
    without_effect.BoundWithoutEffect(),
    counts_in_filters.SumInFilter(),
    counts_in_filters.CountInFilter(),
    populations.NeverCounts(),
    populations.AboutThePodAlone(),
    populations.FilterOfOnePod(),
    mutual.MutualParts(),
    mutual.MutualReads(),
    gangs.NoGangs(),
    gangs.TwoGangs(),
    words.UnknownWord(),
    words.UnknownResource(),
    labels.OtherName(),
    populations.StateAfterPlacement(),
    patterns.BadPattern(),
    patterns.PatternAsText(),
    patterns.TemplateInText(),
    patterns.PlaceholderInText(),
    scores.PercentageOfPart(),
    scores.PartAsScore(),
    scores.NarrowScore(),
    without_effect.EqualScore(),
    text_orders.NumbersAsTexts(),
    text_orders.SuffixedVersion(),
    units.AmountWithoutUnit(),
    units.BoundWithoutUnit(),
    directions.WrongCondition(),
    directions.TwoResources(),
    calendar.UnknownTime(),
    calendar.UnknownZone(),
    domains.ConstantDomain(),
    costs.TooManySteps(),
)
# The rules about a policy in a cluster.
IN_CLUSTER: tuple[Rule, ...] = (
    domains.UnknownLabel(),
    shares.VanishingPercentage(),
    costs.SlowPolicy(),
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
    return [*costs.SlowPolicy().look(tree)]


def _once(found: Iterable[Diagnostic]) -> list[Diagnostic]:
    """The findings in the order of the text; one of a definition is told once, whoever uses it."""
    unique = {(d.code, d.span, d.message): d for d in found}
    return sorted(unique.values(), key=lambda d: d.span.start)
