"""Rules: the mistakes of a policy that type-checks, each with a wrong and a right example.

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

# Of the rules with the same code, the first has the example of the book of diagnostics.
RULES: tuple[Rule, ...] = (
    conditions.AbsentNegation(),
    conditions.LabelInProtect(),
    conditions.NullComparison(),
    conditions.ConstantCondition(),
    conditions.UnusedLet(),
    conditions.NoNodePasses(),
    conditions.NeverRejects(),
    conditions.AlwaysTheSame(),
    counts.ConflictingShares(),
    counts.ShareWithoutPercent(),
    counts.BadNumber(),
    counts.EmptyRange(),
    counts.DeadlockedLimit(),
    counts.BoundWithoutEffect(),
    counts.SumInFilter(),
    counts.CountInFilter(),
    pods.PodsThatNeverCount(),
    pods.AboutThePodAlone(),
    pods.FilterOfOnePod(),
    pods.MutualParts(),
    pods.MutualReads(),
    pods.ValueOfNoGang(),
    pods.TwoGangs(),
    words.UnknownWord(),
    words.UnknownResource(),
    words.LabelOfOtherName(),
    pods.StateAfterPlacement(),
    texts.BadRegularExpression(),
    texts.PatternAsText(),
    texts.TemplateInText(),
    texts.PlaceholderInText(),
    amounts.PercentageOfPart(),
    amounts.PartAsScore(),
    amounts.NarrowScore(),
    counts.EqualScore(),
    texts.NumbersAsTexts(),
    texts.SuffixedVersion(),
    amounts.AmountWithoutUnit(),
    amounts.BoundWithoutUnit(),
    amounts.WrongCondition(),
    amounts.TwoResources(),
    words.UnknownTime(),
    words.UnknownZone(),
    counts.ConstantDomain(),
    costs.ExpensiveExpression(),
)
# The rules about a policy in a cluster.
IN_CLUSTER: tuple[Rule, ...] = (
    counts.UnknownLabel(),
    counts.VanishingPercentage(),
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
