"""Filter, also as a `bind`: it becomes a program by itself, and node affinity for others."""

from __future__ import annotations

from engine.clauses.meaning import ClauseMeaning
from engine.program.policy_compiler import UNDECIDING, PolicyCompiler
from engine.program.program import FilterProgram, GroupReads, WaitProgram
from engine.selectors.terms import Part, Telling, UnportableError
from grammar.clauses.filter import Filter
from grammar.tree.clause_parts import WaitUntil
from grammar.tree.walk import children

# The paths of the node that depend on the pods on it.
_OCCUPANCY = frozenset({("node", "requested"), ("node", "free"), ("node", "pods")})


def filter_program(clause: Filter, compiler: PolicyCompiler) -> FilterProgram:
    paths = {p for e in clause.requires for p in compiler.paths(e)}
    on_nodes = compiler.on_nodes(clause, children(clause, skip=UNDECIDING))
    groups: GroupReads = on_nodes["groups"]
    return FilterProgram(
        **on_nodes,
        requires=tuple(compiler.compiled(e) for e in clause.requires),
        reads_node=groups.of_nodes or any(p[0] == "node" for p in paths),
        message=compiler.message(clause.message, clause.name),
        passes_missing=compiler.policy.passes_missing(clause),
        # A result that depends on the pods of a node may change when some of them leave.
        resolvable=groups.pods or any(p[:2] in _OCCUPANCY or p == ("node",) for p in paths),
        at_bind=clause.at_bind,
        wait=_wait(clause.wait, compiler) if clause.wait is not None else None,
    )


def _wait(wait: WaitUntil, compiler: PolicyCompiler) -> WaitProgram:
    until = compiler.condition(wait.condition)
    assert until is not None, "a wait has a condition"
    return WaitProgram(until, wait.seconds)


def _portable(clause: Filter, telling: Telling) -> Part:
    if clause.wait is not None:
        raise UnportableError("a binding that waits has no equivalent")
    conditions, algebra = telling.conditions, telling.conditions.algebra
    passes = telling.policy.passes_missing(clause)
    sides = [conditions.of_node(expr) for expr in clause.requires]
    if passes:
        if any(each.may_fail for each in sides):
            raise UnportableError("`missing pass` passes nodes for which it may fail")
        accepted = algebra.both(algebra.others(each.false) for each in sides)
    else:
        accepted = algebra.both(each.true for each in sides)
    if clause.when is None:
        return Part(clause.name, exact=True, nodes=accepted)
    when = conditions.of_node(clause.when)
    # Where the condition is missing, the clause does not apply.
    elsewhere = algebra.others(when.true)
    exact = passes or not when.may_fail
    return Part(clause.name, exact, nodes=algebra.either((elsewhere, accepted)))


FILTER = ClauseMeaning(
    kind=Filter, programs=lambda *given: (filter_program(*given),), portable=_portable
)
