"""Policy compiler: what the clauses of one policy are compiled with.

The kinds of clauses (`engine.clauses`) have the rest: each makes its programs with these parts.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from copy import copy
from dataclasses import replace
from itertools import chain
from operator import attrgetter
from typing import Any, TypeVar

from engine.objects.peer import reads_of_kind
from engine.program import operations
from engine.program.columns import ColumnRoom, NodeKey, node_key
from engine.program.compiler import OF_PODS, Compiler
from engine.program.frame import Evaluate, Message
from engine.program.node_groups import GroupSpec, number_of_sum
from engine.program.node_groups import digest_of as digest_of_group
from engine.program.pod_shape import Path, PodReads, node_parts, pod_parts
from engine.program.program import (
    NO_READS,
    BoundProgram,
    Condition,
    CountProgram,
    GroupReads,
    NamedCountProgram,
    Peers,
    Reads,
    text_of,
)
from engine.program.tables import TableSpec
from engine.program.tables import digest_of as digest_of_table
from grammar.checker.declarations import OBJECT
from grammar.checker.expression_checker import Checker
from grammar.checker.policy_checker import Checked
from grammar.meaning.access import kept
from grammar.meaning.constants import constant
from grammar.meaning.costs import Estimator
from grammar.tree.ast import Expr, Ident, Index, LetReference, Literal, Select
from grammar.tree.clause_parts import (
    AnyClause,
    Bound,
    ClauseThatCounts,
    PodSet,
    Template,
    WaitUntil,
)
from grammar.tree.policy import COUNT_OF_NODES, DATA, Count, Data, FromMetrics, FromObjects, Policy
from grammar.tree.printer import print_expression
from grammar.tree.types import DYN
from grammar.tree.walk import children, reads, walk

T = TypeVar("T")
R = TypeVar("R")

# What a node itself has.
_OF_OBJECT = (("metadata",), ("spec",), ("status",), ("allocatable",))
# About a millisecond.
_STEPS_PER_LOOK = 10_000


def group_specs(compiler: Compiler) -> Iterator[GroupSpec]:
    """What the groups of nodes of an environment are by."""
    environment = compiler.environment
    for group in environment.groups.values():
        by = compiler.compile(group.by)
        yield GroupSpec(digest_of_group(group, environment), by, compiler.slots)


# ---- one policy


def _once(function: Callable[[T], R]) -> Callable[[T], R]:
    """The function with its results kept, for parts of a tree."""
    known: dict[int, tuple[T, R]] = {}

    def run(part: T) -> R:
        if (found := known.get(id(part))) is None:
            # The part is kept, so that no other one gets its id.
            found = known[id(part)] = part, function(part)
        return found[1]

    return run


class PolicyCompiler:
    """A compiler of the parts of one policy in the environment of that policy.

    `policy` is the policy that has the clauses, which may use the other one. `compiled`, `shared`
    and `optional` give the closure of an expression.
    """

    def __init__(self, checked: Checked, room: ColumnRoom | None = None) -> None:
        self.policy = policy = checked.policy
        self._items = policy.items
        self.clauses = policy.clauses
        self._selector = policy.selector
        self._estimator = Estimator(checked.environment)
        self.compiler = Compiler(checked.environment, room=room)
        self.environment = environment = self.compiler.environment
        self._definitions = environment.definitions
        self.compiled = _once(self.compiler.compile)
        self._pod_reads = PodReads(self._definitions)
        self.peer_reads = PodReads(self._definitions, "peer")
        self._known: dict[str, Evaluate] = {}
        self.paths = _once(self._read_paths)
        self._text = _once(text_of)

    def owned_by(self, policy: Policy) -> PolicyCompiler:
        """The compiler for the clauses in a policy that uses them; what is compiled stays."""
        owned = copy(self)
        owned.policy = policy
        return owned

    @property
    def items(self) -> bytes:
        """The text of the items, for digests."""
        return self._text(self._items)

    def pod_reads(self) -> frozenset[Path]:
        """The paths of the pod that a decision reads; messages do not decide."""
        counts = tuple(self.environment.counts.values())
        deciders = children((self._selector, self.clauses, counts), skip=UNDECIDING)
        read = frozenset(chain.from_iterable(map(self._pod_reads.paths, deciders)))
        of_pod = any(clause.counts_where_pod_may_be for clause in self.clauses)
        return read | _ELIGIBILITY if of_pod else read

    def reads(self, *exprs: Expr | None) -> Reads | None:
        """What expressions read of pods that are there; None if it is not known of them."""
        given = [expr for expr in exprs if expr is not None]
        roots = self._roots(*given)
        of_pod = {kept(path) for expr in given for path in self._pod_reads.written(expr)}
        if None in of_pod or "now" in roots:
            return None
        return Reads(
            frozenset(path for path in of_pod if path is not None),
            frozenset().union(*map(self.peer_reads.written, given)),
            "namespaceObject" in roots,
        )

    def count(
        self, clause: ClauseThatCounts, number: float | Expr, *, terminating: bool = False
    ) -> CountProgram:
        """The common part of a clause that counts; `number` is that of its bound."""
        weight = clause.strength.weight
        assert not isinstance(weight, Expr), "parameters are filled"
        computed = self.number(number)
        exprs = tuple(children(clause, skip=(*UNDECIDING, PodSet)))
        deciding = [each for each in exprs if each is not clause.when]
        groups = self._group_reads([number]) if isinstance(number, Expr) else NO_READS
        tables, timed = self._tables_of(*exprs), any(map(self._reads_time, deciding))
        read = self._roots(*deciding)
        constant_number = isinstance(computed, int | float)
        return CountProgram(
            policy=self.policy.address,
            name=clause.name,
            word=clause.keyword,
            when=self.condition(clause.when),
            peers=Peers() if clause.pods is None else self._peers(clause.pods),
            weight=weight,
            number=None if isinstance(computed, int | float) else computed,
            message=self.message(clause.message, clause.name),
            missing="pass" if self.policy.passes_missing(clause) else clause.missing,
            terminating=terminating,
            nodes_per_look=self._nodes_per_look(clause),
            needs_workloads=clause.needs_workloads,
            groups=groups,
            tables=tables,
            time_dependent=timed,
            of_nodes=constant_number
            and not (groups or tables or timed or read & {"pod", "namespaceObject"}),
        )

    def bound(self, bound: Bound, *, is_sum: bool = False) -> BoundProgram:
        amount = constant(bound.amount, self.environment)
        if is_sum and amount is not None:
            amount = operations.sum_bound(amount, up=bound.kind == "at least")
        return BoundProgram(bound.kind, amount, bound.percent, bound.rounding)

    def number(self, number: float | Expr) -> float | Evaluate:
        """A constant, or a closure."""
        if (known := constant(number, self.environment)) is not None:
            return known
        assert isinstance(number, Expr), "a number is a constant"
        return self.compiled(number)

    def _peers(self, pods: PodSet) -> Peers:
        where = pods.where
        paths = self.paths(where) if where is not None else set()
        read = {path[0] for path in paths}
        tables = self._tables_of(*children(pods))
        of_peer = {path[1:2] for path in paths if path[0] == "peer"}
        given = (expr for expr in (where, pods.amount) if expr is not None)
        reads = reads_of_kind(frozenset().union(*map(self.peer_reads.written, given)))
        is_timed = "now" in read or bool(tables) or pods.state == "ended"
        state = "" if pods.state == "placed" else pods.state
        return Peers(
            where=self.shared(where) if where is not None else None,
            by_pod=not read.isdisjoint({"pod", "namespaceObject"}),
            of_pod=pod_parts(self.compiler, [where] if where is not None else []),
            by_labels=not state and of_peer <= {_LABELS},
            time_dependent=is_timed,
            everywhere=pods.all,
            namespaces=self.optional(pods.namespaces),
            placed=pods.state == "placed",
            replicas=where is None,
            revision=pods.revision,
            state=state,
            amount=self.optional(pods.amount),
            reads=None if is_timed else reads,
            tables=tuple(sorted(tables)),
        )

    def shared(self, expr: Expr) -> Evaluate:
        """The closure, the same one for equal expressions: these share tallies and groups."""
        # Trees with 1 and with 1.0 are equal, their texts are not.
        text = print_expression(expr)
        if (found := self._known.get(text)) is None:
            found = self._known[text] = self.compiled(expr)
        return found

    def checked(self, expr: Expr) -> Expr:
        """An expression that a checked clause stands for."""
        return Checker(self.environment).check(expr)

    def optional(self, expr: Expr | None) -> Evaluate | None:
        return self.compiled(expr) if expr is not None else None

    def on_nodes(self, clause: AnyClause, parts: Iterable[Expr]) -> dict[str, Any]:
        """What filters and scores have in common; the parts of the clause decide about nodes."""
        exprs = tuple(parts)
        timed, groups = any(map(self._reads_time, exprs)), self._group_reads(exprs)
        return {
            "policy": self.policy.address,
            "name": clause.name,
            "when": self.condition(clause.when),
            "time_dependent": timed,
            "tables": self._tables_of(*exprs),
            "nodes_per_look": self._nodes_per_look(clause),
            "of_pod": self._of_pod(exprs),
            "of_node": None if timed or groups else self._of_node(exprs),
            "groups": groups,
        }

    def _group_reads(self, exprs: Iterable[Expr]) -> GroupReads:
        """What expressions read of groups of nodes."""
        exprs = tuple(exprs)
        paths = {path for expr in exprs for path in self.paths(expr)}
        known, counts = self.environment.groups, self._counts_in(exprs)
        names = sorted(self._roots(*exprs) & known.keys())
        of_nodes = {c.name for c in counts if c.stands_for == COUNT_OF_NODES}
        others = self._roots(*exprs) - {*names, *of_nodes, "pod", "namespaceObject"}
        counted = tuple(digest_of_group(count, self.environment) for count in counts)
        groups = tuple(digest_of_group(known[name], self.environment) for name in names)
        return GroupReads(
            groups + counted,
            counted,
            of_nodes=bool(names) or bool(of_nodes),
            pods=bool(counts) or any(p[0] in names and p[1:2] in OF_PODS for p in paths),
            alone=len(names) + len(of_nodes) == 1 and not others,
        )

    def _counts_in(self, exprs: Iterable[Expr]) -> list[Count]:
        """The named counts that expressions read."""
        known = self.environment.counts
        return [known[name] for name in sorted(self._roots(*exprs) & known.keys())]

    def _of_pod(self, exprs: Iterable[Expr]) -> tuple[Evaluate, ...]:
        """The parts of expressions, and of the counts that they read, that read only the pod."""
        exprs = tuple(exprs)
        of_counts = (self._count_of_pod(count) for count in self._counts_in(exprs))
        return (*pod_parts(self.compiler, exprs), *chain.from_iterable(of_counts))

    def _count_of_pod(self, count: Count) -> tuple[Evaluate, ...]:
        found = pod_parts(self.compiler, children(count.pods))
        return found if count.pods.all else (*found, attrgetter("pod.namespace"))

    def named(self) -> Iterator[NamedCountProgram]:
        """What the `count`s count."""
        for item in self.environment.counts.values():
            group = self.environment.groups.get(item.per.group)
            yield NamedCountProgram(
                digest=digest_of_group(item, self.environment),
                name=item.name,
                count=CountProgram(
                    policy=self.policy.address,
                    name=item.name,
                    word="count",
                    peers=self._peers(item.pods),
                    message=self.message(None, item.name),
                ),
                scope="group" if isinstance(item.per.place, Expr) else item.per.place,
                group="" if group is None else digest_of_group(group, self.environment),
                of_pod=self._count_of_pod(item),
                value=number_of_sum(item.type, is_sum=item.pods.amount is not None),
            )

    def is_of_nodes(self, expr: Expr) -> bool:
        """Whether an expression reads objects of nodes, and neither pods on them nor tables."""
        return all(path[0] == "node" and path[1:2] in _OF_OBJECT for path in self.paths(expr))

    def _of_node(self, exprs: Iterable[Expr]) -> NodeKey | None:
        """What tells nodes apart to expressions; None if more of them is read, or nothing."""
        parts = node_parts(self.compiler, exprs)
        return node_key(parts) if parts else None

    def _nodes_per_look(self, clause: AnyClause) -> int:
        """The number of nodes for which the clause takes about a millisecond at most."""
        steps = sum(map(self._estimator.steps, children(clause, skip=UNDECIDING)))
        return max(1, _STEPS_PER_LOOK // max(1, steps))

    def condition(self, when: Expr | None) -> Condition | None:
        if when is None:
            return None
        of_node = {"node", *self.environment.groups, *self.environment.counts}
        per_node = not self._roots(when).isdisjoint(of_node)
        return Condition(self.compiled(when), per_node, self._group_reads((when,)).counts)

    def _reads_time(self, expr: Expr) -> bool:
        """Whether its value may change with the time alone; rows become stale."""
        return "now" in self._roots(expr) or bool(self._tables_of(expr))

    def _tables_of(self, *exprs: Expr) -> frozenset[str]:
        """The digests of the tables that expressions read."""
        known = self.environment.tables
        names = self._roots(*exprs) & known.keys()
        return frozenset(digest_of_table(known[name]) for name in names)

    def tables(self) -> Iterator[TableSpec]:
        """What the `data` blocks declare."""
        for data in self.environment.tables.values():
            yield self._table(data)

    def _table(self, data: Data) -> TableSpec:
        by, values, slots = None, tuple[Evaluate, ...](), 0
        if isinstance(data.source, FromObjects):
            environment = replace(self.environment, variables={OBJECT: DYN}, lets={}, defs={})
            compiler = Compiler(environment)
            by = compiler.compile(data.source.by)
            columns = [column.value for column in data.columns]
            values = tuple(compiler.compile(value) for value in columns if value is not None)
            slots = compiler.slots
        return TableSpec(
            name=data.name,
            digest=digest_of_table(data),
            source=data.source,
            columns=data.columns,
            every=data.every,
            stale=data.stale,
            by=by,
            values=values,
            slots=slots,
            keys=frozenset(self._keys_of_nodes(data)),
        )

    def _keys_of_nodes(self, data: Data) -> Iterator[str]:
        """What of a node is the key of a row that is read: a label, or the name, which is empty."""
        if isinstance(data.source, FromMetrics):
            yield ""
        for expr in walk(self._items):
            match expr:
                case Index(Ident(name), key) if name == f"{DATA}{data.name}":
                    while isinstance(key, LetReference):
                        key, _ = self._definitions.body(key.name)
                    match key, self.paths(key):
                        case Select(), paths if paths == {("node", "metadata", "name")}:
                            yield ""
                        case Index(_, Literal(str() as label)), paths if paths == {_LABELS_OF_NODE}:
                            yield label

    def _roots(self, *exprs: Expr) -> set[str]:
        """The names of what expressions read."""
        return {path[0] for expr in exprs for path in self.paths(expr)}

    def _read_paths(self, expr: Expr) -> set[tuple[str, ...]]:
        return {r.path for r in reads(expr, self._definitions)}

    def message(self, template: Template | None, clause: str) -> Message:
        given = template.parts if template else (f"policy {self.policy.name}: {clause}",)
        parts = tuple(p if isinstance(p, str) else self.compiled(p) for p in given)
        return operations.message(self.policy.address, clause, parts)


# What decides about no node: texts, and what a binding waits for.
UNDECIDING = (Template, WaitUntil)
_LABELS, _LABELS_OF_NODE = ("labels",), ("node", "metadata", "labels")
# The paths of the pod that select the nodes that a spread counts.
_ELIGIBILITY = frozenset(
    {("spec", "nodeSelector"), ("spec", "affinity", "nodeAffinity"), ("spec", "tolerations")}
)
