"""Program: a compiled policy, with its selector and clauses as closures.

A registry owns it. It is immutable and is replaced when its policy changes.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, fields, is_dataclass, replace
from functools import lru_cache
from typing import Any, ClassVar, TypeVar
from typing import Literal as OneOf

from engine.objects.peer import PeerReads
from engine.program.columns import NodeKey
from engine.program.frame import Evaluate, Evaluation, Frame, Message
from engine.program.node_groups import GroupSpec
from engine.program.pod_shape import Path
from engine.program.tables import TableSpec
from grammar.checker.policy_checker import Checked
from grammar.messages.catalogue import listed
from grammar.tree.clause_parts import MissingRule, NodeSet, Order, PodState, Repair
from grammar.tree.policy import Policy
from grammar.values.errors import EvaluationError, MissingError

K = TypeVar("K")
# The two ends of a score's range, or how it compares the nodes of a request.
Range = tuple[float, float] | Order | None
_ORDER = ("share", "spread", "limit")
# What the groups of a clause that counts are: the two sides of a share, domains, nodes, the whole
# cluster, or the places that the pods use.
GroupKind = OneOf["sides", "domains", "nodes", "cluster", "used places"]


@dataclass(frozen=True, slots=True)
class WaitProgram:
    """A compiled `wait until`: what a binding waits for, and how many seconds at most."""

    until: Condition
    seconds: float


@dataclass(frozen=True, slots=True)
class GroupReads:
    """The groups of nodes that a part of a program reads, and the named counts, by digest.

    `counts` are those of the counts. With `pods` it reads what pods request there, or counts them.
    `of_nodes` says that something of this differs between nodes. `alone` says that it reads one
    group, and else nothing that differs between nodes or with the time.
    """

    digests: tuple[str, ...] = ()
    counts: tuple[str, ...] = ()
    of_nodes: bool = False
    pods: bool = False
    alone: bool = False

    def __bool__(self) -> bool:
        return bool(self.digests)


NO_READS = GroupReads()


@dataclass(frozen=True, slots=True)
class Condition:
    """A condition, the compiled `when`: evaluated once per pod, or per node if it reads that.

    `counts` are the named counts that it reads, by digest. With them, it is evaluated in each call.
    """

    evaluate: Evaluate
    per_node: bool
    counts: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class _NodeProgram:
    """A program on nodes: what filter and score clauses have in common, compiled.

    `time_dependent` says that the outcome may change with the time alone. `tables` has the digests
    of the tables that are read. The time is looked at after `nodes_per_look` nodes. `of_pod` are
    the parts that read only the pod; see `pod_values`. Nodes with equal `of_node` are alike to the
    clause; it is None if more of a node is read, or the time, or a group. `groups` are what it
    reads of these.
    """

    policy: str
    name: str
    when: Condition | None
    time_dependent: bool
    tables: frozenset[str]
    nodes_per_look: int
    of_pod: tuple[Evaluate, ...]
    of_node: NodeKey | None
    groups: GroupReads


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class FilterProgram(_NodeProgram):
    """A compiled filter clause, checked again at bind if `at_bind`; then it may also `wait`.

    A node passes if every one of `requires` is true. `passes_missing` is `missing pass`.
    `resolvable` says that preemption may help.
    """

    requires: tuple[Evaluate, ...]
    reads_node: bool
    message: Message
    passes_missing: bool
    resolvable: bool
    at_bind: bool
    wait: WaitProgram | None
    counts_pods: ClassVar[bool] = False
    kind: ClassVar[str] = "filter"

    def parts(self) -> tuple[FilterProgram, ...]:
        """A filter for each of `requires`, by itself."""
        return tuple(replace(self, requires=(require,)) for require in self.requires)


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class ScoreProgram(_NodeProgram):
    """A compiled score clause. A range that is computed is a part of `value`.

    `missing` are the points of a node without a value. The sign of the weight does not turn them.
    """

    weight: float
    value: Evaluate
    range: Range
    missing: float


@dataclass(frozen=True, slots=True)
class Peers:
    """The peers: the pods that a clause counts.

    `where` reads `peer` and the frame's pod; None means the pods of the same workload. With
    `replicas` the total is the number of pods that the workload wants, not the existing ones; with
    `revision` only those of them count that have the template of the asked pod. With `placed` only
    pods with a node count. With `everywhere` the pods of every namespace count, or of the
    namespaces for which `namespaces` is true. `by_pod` says that the set depends on the frame's
    pod, of which it reads the parts `of_pod`; `by_labels` that peers with equal labels count alike,
    and `time_dependent` that the set may change with the time. With a `state` only pods in it
    count. Each pod adds `amount`, which reads `peer`; None means that it adds one. Peers with equal
    values at the paths of `reads` add the same; it is None where hardly two have these. `tables`
    has the digests of the tables that tell which pods count, and what they add.
    """

    where: Evaluate | None = None
    by_pod: bool = False
    of_pod: tuple[Evaluate, ...] = ()
    by_labels: bool = False
    time_dependent: bool = False
    everywhere: bool = False
    namespaces: Evaluate | None = None
    placed: bool = False
    replicas: bool = False
    revision: bool = False
    state: PodState = ""
    amount: Evaluate | None = None
    reads: PeerReads | None = frozenset()
    tables: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class BoundProgram:
    """A compiled bound: so many pods, or so many percent of them; of a spread, its skew.

    `amount` is None where the clause computes it for each group. A percentage is rounded as
    `rounding` says; without it to the safe side: down for `at most` and `exactly`, up for `at
    least`.
    """

    kind: OneOf["at most", "at least", "exactly"]
    amount: float | None
    percent: bool = False
    rounding: OneOf["up", "down"] | None = None

    def __str__(self) -> str:
        return f"{self.amount:g}{'%' if self.percent else ''}"

    @property
    def rounds_up(self) -> bool:
        return self.rounding == "up" or (self.rounding is None and self.kind == "at least")


@dataclass(frozen=True, slots=True, eq=False)
class CountProgram:
    """The count of share, spread and limit clauses: their common part, as it is compiled.

    `weight` is None for a strict clause, else its weight in the mean. With `terminating` a
    terminating pod counts until it is gone. `number` computes the number of the bound for the
    group of the frame's node; it is None where that number is a constant. `groups` is what it reads
    of groups of nodes. `needs_workloads` says that counts need the workloads of pods. `tables` has
    the digests of the tables that the bound and the groups read. `time_dependent` says that the
    number or the groups may change with the time alone. `of_nodes` says that its groups are the
    same for every pod and at any time, and its number a constant. `word` is that of its clause.
    """

    policy: str
    name: str
    word: str
    peers: Peers
    message: Message
    when: Condition | None = None
    weight: float | None = None
    number: Evaluate | None = None
    missing: MissingRule | None = None
    terminating: bool = True
    nodes_per_look: int = 1
    needs_workloads: bool = False
    groups: GroupReads = NO_READS
    tables: frozenset[str] = frozenset()
    time_dependent: bool = False
    of_nodes: bool = False


@dataclass(frozen=True, slots=True, eq=False)
class NamedCountProgram:
    """A compiled `count`: what is added up for the cluster, for each node, or for each group.

    `digest` is equal for counts of equal meaning, in whichever policy they stand, and `group` that
    of its group. `of_pod` are the parts that read only the pod, which say which pods count. `value`
    makes what expressions read of a number, or of thousandths for a sum.
    """

    digest: str
    name: str
    count: CountProgram
    scope: OneOf["cluster", "node", "group"]
    group: str
    of_pod: tuple[Evaluate, ...]
    value: Callable[[int], object]


@dataclass(frozen=True, slots=True)
class Reads:
    """What a mutual limit reads of pods that are there: paths of peers.

    `pod` are the paths that are read of the pod with the limit, and `peer` the paths of a pod that
    is counted. `namespace` says that it reads the namespace of the pod that has the limit.
    """

    pod: frozenset[Path] = frozenset()
    peer: frozenset[Path] = frozenset()
    namespace: bool = False


@dataclass(frozen=True, slots=True)
class Mutual:
    """What a mutual limit reads: `applies` is its `when`, `counts` its `pods where`."""

    applies: Reads
    counts: Reads


def everywhere(_: Frame) -> object:
    """The place of a node where all nodes are alike."""
    return True


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class CountClause:
    """A compiled clause that counts: a share, a spread or a limit, or what is compiled as one.

    It bounds what is in each group of nodes. `place` says in which group a node is: whether the
    share has the node, or the value of its domain. The bound of a sum is in thousandths, as the sum
    is.

    A spread bounds a domain's count minus the least count of all domains; with `within` only the
    domains are compared whose nodes have the same value of it. `min_domains` may be computed for
    the pod. `nodes` are the nodes on which pods count, and whose domains are compared.

    A limit of used places bounds the number of places with a counted pod, or of `empty` ones, of
    the nodes for which `among` is true. Each place adds one, and each node its `amount`. A `mutual`
    limit of a pod that is there keeps other pods out, too. `of_nodes` says that `place` reads the
    objects of nodes, and neither their pods nor tables. `conditions` are texts that all hold on the
    nodes of a share, and on no others.
    """

    kind: OneOf["share", "spread", "limit"]
    count: CountProgram
    bound: BoundProgram
    groups_are: GroupKind
    place: Evaluate = everywhere
    among: Evaluate = everywhere
    within: Evaluate | None = None
    min_domains: float | Evaluate | None = None
    nodes: NodeSet = "all"
    empty: bool = False
    amount: Evaluate | None = None
    mutual: Mutual | None = None
    of_nodes: bool = False
    conditions: tuple[str, ...] = ()
    counts_pods: ClassVar[bool] = True

    @property
    def needs_company(self) -> bool:
        """Whether a pod may be where it is only because others are there."""
        return self.kind == "limit" and self.bound.kind != "at most"

    @property
    def is_sum(self) -> bool:
        """Whether its bound is one of amounts, in thousandths."""
        return self.amount is not None or self.count.peers.amount is not None

    def parts(self) -> tuple[FilterProgram, ...]:
        """A count has no parts that reject nodes by themselves."""
        return ()


@dataclass(frozen=True, slots=True)
class PreemptProgram:
    """A compiled preempt clause.

    A victim for which one of `protects` is true is spared. A candidate node stays
    if all of `requires` are true. The first `keep` candidates by `order` stay. `passes_missing` is
    `missing pass`: what has no value neither protects nor forbids.
    """

    policy: str
    name: str
    when: Condition | None
    protects: tuple[Evaluate, ...]
    requires: tuple[Evaluate, ...]
    keep: int | None
    order: Evaluate | None
    passes_missing: bool


@dataclass(frozen=True, slots=True, eq=False)
class CardsProgram:
    """A compiled `cards` clause; that cards have room is a filter of the same name.

    `cards` gives the cards of a node, `chosen` the cards that the pod takes, or a MissingError if
    too few have room. The value of `spare` is what others may take while the pod has room, see
    `engine.cards.node_cards.spare`. `number` and `take` are how many cards it takes, and the
    amounts of each. `index` is the annotation for their numbers, and `writes` are others with their
    texts. `reads` has the paths of a pod that is there, which say what the pod takes, None if they
    are more than is known of it.
    """

    policy: str
    name: str
    when: Condition | None
    message: Message
    number: Evaluate
    take: Evaluate
    cards: Evaluate
    chosen: Evaluate
    spare: ScoreProgram
    index: str | None
    writes: tuple[tuple[str, Evaluate], ...]
    reads: Reads | None
    binding_work: ClassVar[str] = "gives cards"


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class PartProgram:
    """A program by which a part of decisions decides; `binding_work` says what is done at bind."""

    policy: str
    name: str
    when: Condition | None
    message: Message
    binding_work: ClassVar[str]
    counts_pods: ClassVar[bool] = True

    def parts(self) -> tuple[FilterProgram, ...]:
        """It has no parts that reject nodes by themselves."""
        return ()


# The programs that can reject a node, and all. Kinds of clauses (`engine.clauses`) become these.
RejectingProgram = FilterProgram | CountClause | PartProgram
ClauseProgram = RejectingProgram | ScoreProgram | CardsProgram | PreemptProgram
# Those that limit where a pod is offered nodes, and those that have work at bind.
LimitingProgram = CountProgram | CardsProgram
BindingProgram = CardsProgram | PartProgram


# ---- digests

_DIGEST_LENGTH = 12


def digest_of(policies: Iterable[tuple[Policy, bytes]]) -> str:
    """The digest of a policy with the policies that it uses, in hexadecimal digits.

    Each comes with the text of its items. The digest changes with the meaning of a policy, and not
    with its layout: it is of the syntax tree without the places in the file. It is the same in
    every process.
    """
    found = hashlib.sha256()
    for policy, items in policies:
        found.update(b"Policy\0")
        for name in _compared(Policy):
            found.update(items if name == "items" else text_of(getattr(policy, name)))
    return found.hexdigest()[:_DIGEST_LENGTH]


def text_of(value: object) -> bytes:
    """A part of a tree as a text: of equal parts, the same."""
    return b"".join(token.encode() + b"\0" for token in _tokens(value))


def _tokens(value: object) -> Iterator[str]:
    """The names of the tree's classes and the values of its leaves, in the order of the tree."""
    if is_dataclass(value):
        kind: Any = value.__class__
        yield kind.__name__
        for name in _compared(kind):
            yield from _tokens(getattr(value, name))
    elif isinstance(value, tuple | list):
        yield f"{len(value)} items"
        for item in value:
            yield from _tokens(item)
    elif isinstance(value, Mapping):
        yield f"{len(value)} entries"
        for key in sorted(value, key=repr):
            yield from _tokens(key)
            yield from _tokens(value[key])
    elif isinstance(value, frozenset | set):
        yield f"{len(value)} members"
        yield from sorted(repr(item) for item in value)
    else:
        yield repr(value)


@lru_cache(maxsize=1024)
def _compared(kind: type[Any]) -> tuple[str, ...]:
    """The fields of a class of the tree without places in the file, which no comparison counts."""
    return tuple(each.name for each in fields(kind) if each.compare)


@dataclass(frozen=True, slots=True, eq=False)
class Program:
    """A program: a compiled policy, with the clauses of the policies that it uses.

    An `only_used` policy governs no pod itself. `reads` are the paths of the pod that its selector
    and clauses read, messages aside. `digest` is the result of `digest_of`. `selects_by` is what
    the selector reads of a pod that is there, None if more than is known of a pod. `tables`
    are of the `data` blocks, `groups` of what each `group` is by, and `named` of each `count`.
    """

    address: str
    name: str
    namespace: str | None
    cluster: bool
    weight: int
    audit: bool
    passes_missing: bool
    only_used: bool
    select: Evaluate | None
    clauses: tuple[ClauseProgram, ...]
    slots: int
    reads: frozenset[Path]
    digest: str
    selects_by: Reads | None
    tables: tuple[TableSpec, ...]
    groups: tuple[GroupSpec, ...]
    named: tuple[NamedCountProgram, ...]
    source: Checked

    @property
    def repair(self) -> Repair | None:
        """How pods that break its clauses may be evicted; None where they may not."""
        return None if self.audit else self.source.policy.repair

    def of(self, kind: type[K]) -> tuple[K, ...]:
        """Its programs of one kind, in their order."""
        return tuple(each for each in self.clauses if isinstance(each, kind))

    @property
    def counts(self) -> tuple[CountClause, ...]:
        """The clauses that count pods: shares, then spreads, then limits."""
        return tuple(sorted(self.of(CountClause), key=lambda each: _ORDER.index(each.kind)))

    @property
    def strict(self) -> bool:
        """Whether it can reject nodes, which decides between policies of equal weight."""
        strict_counts = (each for each in self.counts if each.count.weight is None)
        return any((*self.of(FilterProgram), *self.of(PartProgram), *strict_counts))

    @property
    def conditional(self) -> list[ScoreProgram | CountProgram]:
        """The clauses whose `when` reads named counts."""
        every: list[ScoreProgram | CountProgram] = [
            *self.of(ScoreProgram),
            *(c.count for c in self.counts),
        ]
        return [each for each in every if each.when is not None and each.when.counts]

    @property
    def binding_work(self) -> str:
        """What it does at bind and nowhere else, as words; empty if nothing."""
        work = {each.binding_work for each in self.of(CardsProgram)}
        work |= {each.binding_work for each in self.of(PartProgram)}
        work |= {"waits for conditions" for each in self.of(FilterProgram) if each.wait}
        return listed(sorted(work), "and") if work and not self.audit else ""


def applies(
    clause: ScoreProgram | CountProgram | CardsProgram | PartProgram, evaluation: Evaluation
) -> bool:
    """Whether the `when` of a clause is true for the frame's pod. Raises ExpensivePolicyError.

    That of a strict clause is true if it is for any of the counts that may come out.
    """
    when = clause.when
    if when is None:
        return True
    evaluation.time.charge(clause.policy)
    frame = evaluation.frame()
    outer, strict = frame.groups, isinstance(clause, CountProgram) and clause.weight is None
    found = False
    try:
        for frame.groups in outer.ways(when.counts, strict=strict) if when.counts else (outer,):
            try:
                found |= when.evaluate(frame) is True
            except MissingError:
                continue
            except EvaluationError as error:
                evaluation.report(clause.policy, clause.name, error)
    finally:
        frame.groups = outer
        evaluation.time.rest()
    return found
