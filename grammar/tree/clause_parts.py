"""Clause parts: what clauses are made of, and what they say of themselves.

The same rules as in `grammar.tree.ast` hold.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal as OneOf

from grammar.tree.ast import NO_SPAN, Expr
from grammar.tree.source import Span

MissingRule = OneOf["fail", "pass"] | float
# The ranges that compare the nodes of a request.
Order = OneOf["minmax", "greatest", "rank"]
# The pods that are counted: those that are there or on their way, or those in one state.
PodState = OneOf["", "pending", "ready", "ended"]
# The nodes that a spread counts.
NodeSet = OneOf["eligible", "selected", "all"]
# The verbs of kube-scheduler for which clauses are evaluated.
ClauseVerb = OneOf["filter", "prioritize", "preempt"]
# What a kube-scheduler configuration must offer for a clause: one replica that decides, a call
# before each binding, one that may last, a binding of ours that gives cards, a call for scores.
SchedulerNeed = OneOf[
    "one decider", "check at binding", "waiting binding", "binding with cards", "scores"
]
# How long a binding may wait, in seconds.
SHORTEST_WAIT, LONGEST_WAIT = 1.0, 3600.0
# What `missing` in a clause can give: the verdict `fail` or `pass`, or a number of points.
MissingGives = OneOf["verdict", "points"]


@dataclass(frozen=True, slots=True)
class Template:
    """A text with expressions in braces, in order; `{{` and `}}` are already single braces here."""

    parts: tuple[str | Expr, ...]
    span: Span = field(default=NO_SPAN, compare=False)


@dataclass(frozen=True, slots=True)
class Bounds:
    """`range a .. b`: two numbers, quantities or durations, or expressions for them."""

    low: Expr
    high: Expr


@dataclass(frozen=True, slots=True)
class PodSet:
    """`[sum a of] [all|placed] [STATE] pods where e`. `where` is None for the pods of the workload.

    These are all its pods, or with `revision` those of the asked pod's template.
    `amount` is what each of the pods adds; without it each adds one. `namespaces` restricts `all`
    pods to the namespaces for which it is true. Only an object with a `namespaceSelector` has it;
    it reads `namespaceObject`. With a `state` only pods in it count.
    """

    where: Expr | None
    all: bool = False
    placed: bool = False
    revision: bool = False
    namespaces: Expr | None = None
    amount: Expr | None = None
    state: PodState = ""
    span: Span = field(default=NO_SPAN, compare=False)


@dataclass(frozen=True, slots=True)
class Bound:
    """`at most|at least|exactly N` or `N%`. The amount is a number, or an expression for it.

    A percentage that is no whole number of pods is rounded: `rounding` says whether up or down; if
    it does not, up for `at least`, and down otherwise.
    """

    kind: OneOf["at most", "at least", "exactly"]
    amount: float | Expr
    percent: bool = False
    rounding: OneOf["up", "down"] | None = None
    span: Span = field(default=NO_SPAN, compare=False)


@dataclass(frozen=True, slots=True)
class Strength:
    """`strict`, or `best effort weight N` with its weight, or the parameter that gives it."""

    weight: float | None = None
    span: Span = field(default=NO_SPAN, compare=False)
    weight_from: Expr | None = None

    @property
    def strict(self) -> bool:
        return self.weight is None


@dataclass(frozen=True, slots=True)
class Per:
    """`per node`, `per cluster`, `per domain e`; or `used|empty nodes where e`, to count nodes.

    `per group g` names the `group`. Its domain is what the group is by, once that is checked.
    `amount` is what each of the used nodes adds; without it each adds one.
    """

    scope: OneOf["node", "cluster", "domain", "group", "used nodes", "empty nodes"]
    domain: Expr | None = None
    where: Expr | None = None
    group: str = ""
    amount: Expr | None = None
    group_span: Span = field(default=NO_SPAN, compare=False)

    @property
    def of_nodes(self) -> bool:
        return self.scope in ("used nodes", "empty nodes")


@dataclass(frozen=True, slots=True)
class Keep:
    """`keep N by e`."""

    count: int
    by: Expr


@dataclass(frozen=True, slots=True)
class Pick:
    """`pick least e` or `pick most e`: the order in which cards are taken."""

    order: OneOf["least", "most"]
    by: Expr


@dataclass(frozen=True, slots=True)
class WaitUntil:
    """`wait until e for at most 60s`: what a binding waits for, and how long."""

    condition: Expr
    seconds: float
    span: Span = field(default=NO_SPAN, compare=False)


@dataclass(frozen=True, slots=True)
class WrittenCondition:
    """A condition: its expression, the keyword before it, and the rule for missing values."""

    expr: Expr
    word: str
    missing: MissingRule | None = None


@dataclass(frozen=True, slots=True)
class TestedPart:
    """A part of a clause whose outcomes tests cover; `expr` is None for the clause as a whole.

    A `condition` is true or false, and `word` is the keyword before it. A `requirement` passes or
    fails. A `value` is computed. A `verdict` and a `bound` accept or reject a node; a bound is seen
    in the answers, and each other part where it is evaluated.
    """

    kind: OneOf["condition", "requirement", "value", "verdict", "bound"]
    expr: Expr | None = None
    word: str = ""
