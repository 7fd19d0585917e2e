"""Static checks beyond types: functions from a checked policy to diagnostics, by topic.

Belongs here: mistakes of a policy that type-checks. Must not: evaluate against a cluster.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

from grammar.checker.policy_checker import Checked
from grammar.checks.absence import comparisons_with_null, has_below_absent
from grammar.checks.calendar import (
    contradicted_calendars,
    days_of_one_side,
    unknown_times,
    unknown_zones,
)
from grammar.checks.clause_numbers import (
    bounds,
    conflicting_shares,
    light_weights,
    vanishing_percentages,
)
from grammar.checks.conditions import (
    absent_negations,
    constant_conditions,
    contradictions,
    misread_operators,
    silent_protections,
)
from grammar.checks.costs import expensive_expressions
from grammar.checks.counts_in_filters import counts_in_filters
from grammar.checks.directions import contradicted_names, reversed_conditions, unreachable_bounds
from grammar.checks.fixed_forms import parts_of_values
from grammar.checks.gangs import gang_keys, gangs_of_the_same_pods
from grammar.checks.known_labels import (
    empty_labels,
    impossible_labels,
    impossible_names,
    impossible_namespaces,
    known_otherwise,
    misplaced_keys,
    phases_of_nodes,
    states_after_placement,
)
from grammar.checks.known_words import unknown_resources, unknown_words
from grammar.checks.mutual import mutual_limits
from grammar.checks.node_conditions import conditions_without_status
from grammar.checks.patterns import patterns_as_texts, placeholders_as_texts, templates_in_texts
from grammar.checks.populations import (
    conditions_on_the_pod_alone,
    deadlocked_limits,
    filters_of_one_pod,
    pods_that_never_count,
)
from grammar.checks.ranges import equal_scores, impossible_ranges, narrow_scores
from grammar.checks.references import (
    bad_patterns,
    constant_domains,
    nodes_without_domain,
    unused_definitions,
)
from grammar.checks.repairs import repairs_of_nothing
from grammar.checks.scales import (
    numbers_as_texts,
    parts_as_scores,
    percentages_of_parts,
    provider_versions,
    short_ranges,
)
from grammar.checks.summed_requests import sums_in_filters
from grammar.checks.units import (
    amounts_without_unit,
    divisions_without_rest,
    ranges_without_unit,
    shares_without_percent,
    sums_of_resources,
    sums_without_unit,
)
from grammar.meaning.costs import LIMIT
from grammar.meaning.environment import Environment
from grammar.meaning.written_out import write_out
from grammar.messages.diagnostics import Diagnostic
from grammar.tree import ast
from grammar.tree.walk import walk

Check = Callable[[Checked], Iterator[Diagnostic]]
ExpressionCheck = Callable[[ast.Expr, Environment], Iterator[Diagnostic]]

CHECKS: tuple[Check, ...] = (
    absent_negations,
    constant_conditions,
    contradictions,
    misread_operators,
    bad_patterns,
    bounds,
    conflicting_shares,
    unused_definitions,
    light_weights,
    sums_in_filters,
    mutual_limits,
    templates_in_texts,
    shares_without_percent,
    equal_scores,
    repairs_of_nothing,
    impossible_namespaces,
)

# The checks that see through definitions, and so get the policy written out.
WRITTEN_OUT: tuple[Check, ...] = (
    counts_in_filters,
    deadlocked_limits,
    gang_keys,
    gangs_of_the_same_pods,
    pods_that_never_count,
    conditions_on_the_pod_alone,
    filters_of_one_pod,
    silent_protections,
    vanishing_percentages,
    has_below_absent,
    parts_as_scores,
    narrow_scores,
    nodes_without_domain,
    ranges_without_unit,
    short_ranges,
    sums_without_unit,
    impossible_ranges,
    contradicted_names,
    reversed_conditions,
    unreachable_bounds,
    days_of_one_side,
    contradicted_calendars,
)

# The checks of single expressions of a policy written out, and the classes of expressions that
# these checks look at.
OF_EXPRESSIONS: tuple[ExpressionCheck, ...] = (
    comparisons_with_null,
    unknown_words,
    unknown_resources,
    unknown_times,
    unknown_zones,
    percentages_of_parts,
    numbers_as_texts,
    provider_versions,
    amounts_without_unit,
    divisions_without_rest,
    sums_of_resources,
    patterns_as_texts,
    placeholders_as_texts,
    known_otherwise,
    impossible_labels,
    impossible_names,
    misplaced_keys,
    phases_of_nodes,
    empty_labels,
    states_after_placement,
    parts_of_values,
    conditions_without_status,
)
_LOOKED_AT = (
    ast.Binary,
    ast.Call,
    ast.Chain,
    ast.Comprehension,
    ast.Has,
    ast.Index,
    ast.Select,
)


def run(checked: Checked, cost_limit: int = LIMIT) -> list[Diagnostic]:
    """The diagnostics of all checks, in the order of the text; `cost_limit` is in steps."""
    found = [d for check in CHECKS for d in check(checked)]
    out = replace(checked, policy=write_out(checked.policy, checked.environment))
    found.extend(constant_domains(checked, out))
    # What a definition says is found wherever it is used, and told once.
    seen = [d for check in WRITTEN_OUT for d in check(out)]
    for expr in walk(out.policy):
        if isinstance(expr, _LOOKED_AT):
            seen.extend(d for check in OF_EXPRESSIONS for d in check(expr, out.environment))
    found.extend({(d.code, d.span): d for d in seen}.values())
    found.extend(expensive_expressions(checked, cost_limit))
    return sorted(found, key=lambda d: d.span.start)
