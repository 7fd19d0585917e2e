"""Clause parts: what clauses are made of, and what every kind of clause says of itself.

Most modules ask a clause, and do not tell its kind. `grammar.clauses` has the kinds; the same rules
as in `grammar.tree.ast` hold.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import KW_ONLY, dataclass, replace
from typing import ClassVar, Self
from typing import Literal as OneOf

from grammar.tree.ast import Expr, Named, Placed

MissingRule = OneOf["fail", "pass"] | float
# The ranges that compare the nodes of a request.
Order = OneOf["minmax", "greatest", "rank"]
# The pods that are counted: those that are there or on their way, or those in one state.
PodState = OneOf["", "placed", "pending", "ready", "ended"]
# The states in which pods can be counted, by the word of what counts them.
STATES: Mapping[str, frozenset[str]] = {
    "share": frozenset({"placed"}),
    "limit": frozenset({"ready", "ended"}),
    "count": frozenset({"pending", "ready", "ended"}),
    "count of a place": frozenset({"ready", "ended"}),
}
# The nodes that a spread counts.
NodeSet = OneOf["eligible", "selected", "all"]
# The verbs of kube-scheduler for which clauses are evaluated.
ClauseVerb = OneOf["filter", "prioritize", "preempt"]
# What a kube-scheduler configuration must offer for a clause: one replica that decides, a call
# before each binding, a binding of ours that gives cards, a call for scores.
SchedulerNeed = OneOf["one decider", "check at binding", "binding with cards", "scores"]
# How long a binding may wait, in seconds.
SHORTEST_WAIT, LONGEST_WAIT = 1.0, 3600.0
# What `missing` in a clause can give: the verdict `fail` or `pass`, or a number of points.
MissingGives = OneOf["verdict", "points"]


@dataclass(frozen=True, slots=True)
class Template(Placed):
    """A template: a text with expressions in braces. `{{` and `}}` are single braces here."""

    parts: tuple[str | Expr, ...]


@dataclass(frozen=True, slots=True)
class Bounds:
    """Bounds, as in `range a .. b`: two numbers, quantities or durations, or expressions."""

    low: Expr
    high: Expr


@dataclass(frozen=True, slots=True)
class PodSet(Placed):
    """A set of pods: `[sum a of] [all] [STATE] pods where e`, or the pods of the workload.

    These have no `where`; with `revision` they are the pods of the asked pod's template.
    `amount` is what each of the pods adds; without it each adds one. `namespaces` restricts `all`
    pods to the namespaces for which it is true. Only an object with a `namespaceSelector` has it;
    it reads `namespaceObject`. With a `state` only pods in it count.
    """

    where: Expr | None
    all: bool = False
    revision: bool = False
    namespaces: Expr | None = None
    amount: Expr | None = None
    state: PodState = ""


@dataclass(frozen=True, slots=True)
class Bound(Placed):
    """A bound: `at most|at least|exactly N` or `N%`. The amount is a number or an expression.

    A percentage that is no whole number of pods is rounded: `rounding` says whether up or down; if
    it does not, up for `at least`, and down otherwise.
    """

    kind: OneOf["at most", "at least", "exactly"]
    amount: float | Expr
    percent: bool = False
    rounding: OneOf["up", "down"] | None = None


@dataclass(frozen=True, slots=True)
class Strength(Placed):
    """The strength: `strict`, or `weight N` with a number or a parameter."""

    weight: float | Expr | None = None

    @property
    def strict(self) -> bool:
        return self.weight is None


@dataclass(frozen=True, slots=True)
class Per:
    """`per PLACE`, or `used|empty PLACE where e`, to count places.

    A place is `node`, `cluster`, or an expression of the node; once that is checked, the name of a
    group is in `group`, and what the group is by in its place. `amount` is what each of the used
    nodes adds; without it each place adds one. `where` says which nodes count.
    """

    place: OneOf["node", "cluster"] | Expr
    counted: OneOf["", "used", "empty"] = ""
    where: Expr | None = None
    amount: Expr | None = None
    group: str = ""

    @property
    def domain(self) -> Expr | None:
        """The value that names the place of a node; None for the node itself and the cluster."""
        return self.place if isinstance(self.place, Expr) else None


@dataclass(frozen=True, slots=True)
class Keep:
    """Keep, `pick N least e`: so many candidates stay."""

    count: int
    by: Expr


@dataclass(frozen=True, slots=True)
class Pick:
    """`pick least e` or `pick most e`: the order in which cards are taken."""

    order: OneOf["least", "most"]
    by: Expr


@dataclass(frozen=True, slots=True)
class WaitUntil(Placed):
    """`wait until e for at most 60s`: what a binding waits for, and how long."""

    condition: Expr
    seconds: float


@dataclass(frozen=True, slots=True)
class WrittenCondition:
    """A condition: its expression, the keyword before it, and the rule for missing values."""

    expr: Expr
    word: str
    missing: MissingRule | None = None


# ---- kinds of clauses


@dataclass(frozen=True, slots=True)
class AnyClause(Named):
    """The parts of every clause; `missing` says what a missing value means for it.

    The properties are what a clause says of itself; a kind overrides those that differ.
    """

    name: str
    _: KW_ONLY
    when: Expr | None = None
    missing: MissingRule | None = None
    # Whether it can add up an amount of the pods that it counts.
    may_sum: ClassVar[bool] = False
    # Whether a negative weight turns its points around.
    weight_may_be_negative: ClassVar[bool] = False

    @property
    def keyword(self) -> str:
        """The word that the clause starts with."""
        return type(self).__name__.lower()

    # ---- its expressions

    @property
    def conditions(self) -> tuple[WrittenCondition, ...]:
        """Its conditions: the `when`, the `where` of the pods that it counts, then its own."""
        found = [] if self.when is None else [WrittenCondition(self.when, "when")]
        if self.counted is not None and self.counted.where is not None:
            found.append(WrittenCondition(self.counted.where, "pods where"))
        return (*found, *self.own_conditions)

    @property
    def own_conditions(self) -> tuple[WrittenCondition, ...]:
        """The conditions that only this kind of clause has."""
        return ()

    @property
    def requirements(self) -> tuple[Expr, ...]:
        """The conditions that reject, one by one, the nodes where they are not true."""
        return ()

    @property
    def ends(self) -> tuple[Expr, ...]:
        """The two ends of its range."""
        return ()

    @property
    def domain(self) -> Expr | None:
        """The value that names the domain of a node."""
        return None

    @property
    def texts(self) -> tuple[tuple[str, Template | None], ...]:
        """Its texts for people, each with its keyword."""
        return ()

    # ---- its effect

    @property
    def verb(self) -> ClauseVerb:
        """The verb for which it is evaluated on each node."""
        return "filter"

    @property
    def missing_gives(self) -> frozenset[MissingGives]:
        """What a `missing` in it can give."""
        return frozenset({"verdict"})

    @property
    def points_weight(self) -> float | Expr | None:
        """The weight of the points that it gives each node; None if it gives none."""
        return None

    def weighing(self, weight: float) -> Self:
        """The same clause with a number as its weight."""
        raise NotImplementedError(f"a {self.keyword} clause has no weight")

    # ---- what it needs

    @property
    def counted(self) -> PodSet | None:
        """The pods that it counts; None if it counts none, or the pods of one workload."""
        return None

    def counting(self, pods: PodSet) -> Self:
        """The same clause about other pods."""
        raise NotImplementedError(f"a {self.keyword} clause counts no pods")

    @property
    def counts_where_pod_may_be(self) -> bool:
        """Whether it counts only on nodes that the pod's own selectors and tolerations allow."""
        return False

    @property
    def needs_workloads(self) -> bool:
        """Whether counts need the workloads of pods: whose they are, or what these want."""
        return False

    @property
    def held_seconds(self) -> float:
        """How long it may hold a binding at most: one that waits has to last."""
        return 0.0

    @property
    def scheduler_needs(self) -> frozenset[SchedulerNeed]:
        """What it needs of the configuration of kube-scheduler, beyond a `filterVerb`."""
        return frozenset()


@dataclass(frozen=True, slots=True)
class ClauseThatRejects(AnyClause):
    """A clause that can reject a node, with the texts for that."""

    _: KW_ONLY
    message: Template | None = None
    detail: Template | None = None

    @property
    def texts(self) -> tuple[tuple[str, Template | None], ...]:
        return (("message", self.message), ("detail", self.detail))


@dataclass(frozen=True, slots=True)
class ClauseThatCounts(ClauseThatRejects):
    """A clause about how many pods there are. Without `pods`, the pods of one workload count."""

    strength: Strength
    _: KW_ONLY
    pods: PodSet | None = None

    @property
    def counts_by_workload(self) -> bool:
        """True for `of replicas`, and for a spread or limit without a `pods` line."""
        return self.pods is None or self.pods.where is None

    @property
    def counted(self) -> PodSet | None:
        return self.pods

    @property
    def added(self) -> Expr | None:
        """What is added up of each pod, or of each node; None where these are counted."""
        return None

    @property
    def needs_workloads(self) -> bool:
        return self.counts_by_workload

    @property
    def verb(self) -> ClauseVerb:
        return "filter" if self.strength.strict else "prioritize"

    @property
    def missing_gives(self) -> frozenset[MissingGives]:
        return frozenset({"verdict"} if self.strength.strict else {"verdict", "points"})

    @property
    def points_weight(self) -> float | Expr | None:
        return self.strength.weight

    def weighing(self, weight: float) -> Self:
        return replace(self, strength=replace(self.strength, weight=weight))

    def counting(self, pods: PodSet) -> Self:
        return replace(self, pods=pods)

    @property
    def scheduler_needs(self) -> frozenset[SchedulerNeed]:
        return frozenset({"one decider" if self.strength.strict else "scores"})


# ---- repair

MINUTES_OF_DAY = 24 * 60
# The most evictions of a minute, and moves at once, of one policy.
MOST_REPAIRS = 1000


@dataclass(frozen=True, slots=True)
class Repair:
    """A repair: at most so many evictions `per_minute`, and `at_once` pods that are on their way.

    With `local_data` pods lose what is on their node. Between two minutes of the day in UTC,
    `begins` and `ends`, pods are evicted, at any time where these are equal.
    """

    per_minute: int
    at_once: int = 1
    local_data: bool = False
    begins: int = 0
    ends: int = 0

    def __str__(self) -> str:
        once = f", at most {self.at_once}" if self.at_once != 1 else ""
        data = " local data" if self.local_data else ""
        window = ""
        if self.begins != self.ends:
            window = f' within "{time_of(self.begins)}" .. "{time_of(self.ends)}"'
        return f"at most {self.per_minute} per minute{once}{data}{window}"

    def allows(self, minute: int) -> bool:
        """Whether pods are evicted in a minute of the day; a window may go over midnight."""
        if self.begins == self.ends:
            return True
        return (minute - self.begins) % MINUTES_OF_DAY < (self.ends - self.begins) % MINUTES_OF_DAY


def time_of(minute: int) -> str:
    """A minute of the day, as in `06:30`."""
    return f"{minute // 60:02}:{minute % 60:02}"


def minute_of(text: str) -> int | None:
    """The minute of a time such as `06:30`; None for another text."""
    hours, colon, minutes = text.partition(":")
    if not colon or not (len(hours) == len(minutes) == 2) or not (hours + minutes).isdecimal():
        return None
    if not text.isascii() or int(hours) > 23 or int(minutes) > 59:
        return None
    return int(hours) * 60 + int(minutes)
