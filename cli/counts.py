"""What a share, spread or limit has counted for one node, in a sentence."""

from __future__ import annotations

from typing import assert_never

from engine.counting.numbers import ON, Numbers, fewest, target
from engine.program.program import CountClause, LimitProgram, ShareProgram, SpreadProgram
from grammar.clauses import Bound


def count_text(clause: CountClause, numbers: Numbers, cell: int) -> str:
    """Counts without this pod; `cell` is the one that the node is in, or -1."""
    if cell < 0:
        return "the node has no value for the domain"
    here = int(numbers.high[cell])
    match clause:
        case ShareProgram(bound=bound):
            side = "one" if cell == ON else "none"
            wanted = target(bound, numbers.total)
            share = f" ({_amount(bound)} of {numbers.total})" if bound.percent else ""
            there = int(numbers.high[ON])
            return f"{there} there, {bound.kind} {wanted}{share}; this node is {side} of those"
        case SpreadProgram(skew=skew):
            least = fewest(clause, numbers)
            return f"{here} in this node's domain, {least} in the least one; skew at most {skew}"
        case LimitProgram(bound=bound, per_node=per_node, domain=domain):
            scope = "on this node" if per_node else "in the cluster"
            where = scope if domain is None else "in this node's domain"
            return f"{here} {where}, {bound.kind} {_amount(bound)} with this pod"
        case _:
            assert_never(clause)


def _amount(bound: Bound) -> str:
    return f"{bound.amount:g}{'%' if bound.percent else ''}"
