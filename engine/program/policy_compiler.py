"""Policy compiler: a checked policy to its program."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from copy import copy
from dataclasses import replace
from itertools import chain
from typing import Any, TypeVar
from typing import Literal as OneOf

from engine.program import operations
from engine.program.columns import NodeKey, node_key
from engine.program.compiler import OF_PODS, Compiler
from engine.program.frame import Evaluate, Message
from engine.program.node_groups import GroupSpec, namespace_of_pod, number_of_sum
from engine.program.node_groups import digest_of as digest_of_group
from engine.program.pod_shape import COMPUTED, Path, PodReads, node_parts, paths_as_peer, pod_parts
from engine.program.program import (
    NO_READS,
    BoundProgram,
    CardsProgram,
    ClauseProgram,
    Condition,
    CountClause,
    CountProgram,
    FilterProgram,
    GangProgram,
    GroupReads,
    LimitProgram,
    Mutual,
    NamedCountProgram,
    Peers,
    PreemptProgram,
    Program,
    Range,
    Reads,
    ScoreProgram,
    ShareProgram,
    SpreadProgram,
    WaitProgram,
    digest_of,
    text_of,
)
from engine.program.tables import TableSpec
from engine.program.tables import digest_of as digest_of_table
from grammar.checker.declarations import OBJECT
from grammar.checker.expression_checker import Checker
from grammar.checker.policy_checker import Checked
from grammar.clauses.cards import Cards
from grammar.clauses.filter import Filter
from grammar.clauses.gang import Gang
from grammar.clauses.limit import Limit
from grammar.clauses.preempt import Preempt
from grammar.clauses.score import Score
from grammar.clauses.share import Share
from grammar.clauses.spread import Spread
from grammar.meaning import card_forms as cards
from grammar.meaning.access import kept
from grammar.meaning.constants import constant, literal
from grammar.meaning.costs import Estimator
from grammar.tree.ast import Expr, Ident, Literal
from grammar.tree.clause_parts import (
    AnyClause,
    Bound,
    Bounds,
    ClauseThatCounts,
    Order,
    PodSet,
    Template,
    WaitUntil,
)
from grammar.tree.clauses import Policy, of_kind
from grammar.tree.data import COUNT_OF_NODES, Count, Data, FromObjects
from grammar.tree.printer import print_expression
from grammar.tree.types import DYN
from grammar.tree.walk import children, reads

T = TypeVar("T")
R = TypeVar("R")

DEFAULT_WEIGHT = 101
# About a millisecond.
_STEPS_PER_LOOK = 10_000


def compile_policy(checked: Checked) -> Program:
    """The program of a policy without errors, with the clauses of the policies that it uses."""
    return _program(checked, [_PolicyCompiler(part) for part in (checked, *checked.uses)])


def compiled_together(policies: Sequence[Checked]) -> Iterator[Program]:
    """The programs of policies; parts that several have in common are compiled once.

    Such parts are policies that several use, and the rules of policies that differ in nothing but
    their namespace.
    """
    keys = (_key(part) for checked in policies for part in (checked, *checked.uses))
    common = {key for key, number in Counter(keys).items() if number > 1}
    known: dict[object, _PolicyCompiler] = {}

    def compiler(part: Checked) -> _PolicyCompiler:
        # What is known of cards is known of the clauses of each policy.
        if (key := _key(part)) not in common or part.environment.cards:
            return _PolicyCompiler(part)
        if key not in known:
            known[key] = _PolicyCompiler(part)
        return known[key]

    for checked in policies:
        yield _program(checked, [compiler(part) for part in (checked, *checked.uses)])


def _key(part: Checked) -> object:
    """What makes two policies the same to a compiler: their trees, not only equal ones."""
    return id(part.policy.items), id(part.environment), part.policy.name


def _program(checked: Checked, compilers: Iterable[_PolicyCompiler]) -> Program:
    policy = checked.policy
    parts = [compiler.owned_by(policy) for compiler in compilers]
    clauses = [clause for part in parts for clause in part.clauses()]
    filters, shares = of_kind(clauses, FilterProgram), of_kind(clauses, ShareProgram)
    spreads, limits = of_kind(clauses, SpreadProgram), of_kind(clauses, LimitProgram)
    gangs = of_kind(clauses, GangProgram)
    counting: tuple[CountClause, ...] = (*shares, *spreads, *limits)
    return Program(
        address=policy.address,
        name=policy.name,
        namespace=policy.namespace,
        cluster=policy.cluster,
        weight=int(policy.setting("weight", DEFAULT_WEIGHT)),
        audit=policy.setting("mode", "enforce") == "audit",
        ignores_errors=policy.setting("failure", "fail") == "ignore",
        only_used=policy.only_used,
        select=parts[0].selector(),
        filters=filters,
        scores=of_kind(clauses, ScoreProgram),
        shares=shares,
        spreads=spreads,
        limits=limits,
        cards=of_kind(clauses, CardsProgram),
        gangs=gangs,
        preempts=of_kind(clauses, PreemptProgram),
        strict=bool(filters or gangs) or any(each.count.weight is None for each in counting),
        slots=max(part.slots for part in parts),
        reads=frozenset().union(*(part.pod_reads() for part in parts)),
        digest=digest_of(
            (part.policy, each.items)
            for part, each in zip((checked, *checked.uses), parts, strict=True)
        ),
        selects_by=parts[0].selects_by(),
        tables=tuple(table for part in parts for table in part.tables()),
        groups=tuple(group for part in parts for group in part.groups()),
        named=tuple(count for part in parts for count in part.named()),
        source=checked,
    )


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


class _PolicyCompiler:
    """Compiles the clauses of one policy in its own environment, for the policies that use them."""

    def __init__(self, checked: Checked) -> None:
        self._policy = policy = checked.policy
        self._items = policy.items
        self._clauses = policy.clauses
        self._selector = policy.selector
        self._estimator = Estimator(checked.environment)
        self._compiler = Compiler(checked.environment)
        self._environment = environment = self._compiler.environment
        self._definitions = environment.definitions
        self._compiled = _once(self._compiler.compile)
        self._pod_reads = PodReads(self._definitions)
        self._peer_reads = PodReads(self._definitions, "peer")
        self._known: dict[str, Evaluate] = {}
        self._paths = _once(self._read_paths)
        self._text = _once(text_of)

    def owned_by(self, policy: Policy) -> _PolicyCompiler:
        """The compiler for the clauses in a policy that uses them; what is compiled stays."""
        owned = copy(self)
        owned._policy = policy  # noqa: SLF001 - it is its own class
        return owned

    @property
    def items(self) -> bytes:
        """The text of the items, for digests."""
        return self._text(self._items)

    @property
    def slots(self) -> int:
        return self._compiler.slots

    def pod_reads(self) -> frozenset[Path]:
        """The paths of the pod that a decision reads; messages do not decide."""
        counts = tuple(self._environment.counts.values())
        deciders = children((self._selector, self._clauses, counts), skip=_UNDECIDING)
        read = frozenset(chain.from_iterable(map(self._pod_reads.paths, deciders)))
        gangs = (clause for clause in self._clauses if isinstance(clause, Gang))
        read |= frozenset(chain.from_iterable(map(self._member_reads, gangs)))
        of_pod = any(clause.counts_where_pod_may_be for clause in self._clauses)
        return read | _ELIGIBILITY if of_pod else read

    def _member_reads(self, gang: Gang) -> Iterator[Path]:
        """The paths of the pod that say in which gang it is: it is a `peer`, too."""
        if gang.by is None:
            yield from (*COMPUTED["workload"], *COMPUTED["group"])
            return
        for path in self._peer_reads.written(gang.by):
            yield from paths_as_peer(path)

    def selector(self) -> Evaluate | None:
        """The closure of the selector; None if the policy selects every pod."""
        return self._optional(self._selector)

    def clauses(self) -> Iterator[ClauseProgram]:
        compiled = self._compiled
        for clause in self._clauses:
            match clause:
                case Filter():
                    yield self._filter(clause)
                case Score():
                    yield self._score(clause)
                case Share(on=on, bound=bound):
                    count = self._count(clause, bound.amount)
                    yield ShareProgram(count, compiled(on), self._bound(bound))
                case Spread():
                    yield self._spread(clause)
                case Limit(per=per, bound=bound):
                    # As for InterPodAffinity, where a terminating pod is there until it is gone.
                    count = self._count(clause, bound.amount, terminating=True)
                    domain = self._optional(per.domain)
                    is_sum = clause.added is not None
                    yield LimitProgram(
                        count,
                        per.scope == "node",
                        domain,
                        self._bound(bound, is_sum=is_sum),
                        _OF_NODES.get(per.scope),
                        self._optional(per.where),
                        self._mutual(clause) if clause.mutual else None,
                        self._optional(per.amount),
                    )
                case Cards():
                    yield self._room(clause)
                    yield self._cards(clause)
                case Gang():
                    yield self._gang(clause)
                case Preempt():
                    yield self._preempt(clause)
                case _:
                    raise TypeError(clause.keyword)

    def selects_by(self) -> Reads | None:
        """What the selector reads of a pod that is there; None if that is not known of it."""
        return self._reads(self._selector)

    def _mutual(self, clause: Limit) -> Mutual:
        where = clause.pods.where if clause.pods is not None else None
        applies, counts = self._reads(clause.when), self._reads(where)
        assert applies is not None, "a check refuses it"
        assert counts is not None, "a check refuses it"
        return Mutual(applies, counts)

    def _reads(self, expr: Expr | None) -> Reads | None:
        """What an expression reads of pods that are there; None if it is not known of them."""
        if expr is None:
            return Reads()
        roots = self._roots(expr)
        of_pod = {kept(path) for path in self._pod_reads.written(expr)}
        if None in of_pod or "now" in roots:
            return None
        return Reads(
            frozenset(path for path in of_pod if path is not None),
            self._peer_reads.written(expr),
            "namespaceObject" in roots,
        )

    def _reads_of_all(self, exprs: Iterable[Expr | None]) -> Reads | None:
        """What expressions read of the `pod`; None if that is not known of pods that are there."""
        found = [self._reads(each) for each in exprs]
        known = [each for each in found if each is not None and not each.namespace]
        if len(known) < len(found):
            return None
        return Reads(frozenset().union(*(each.pod for each in known)))

    def _preempt(self, clause: Preempt) -> PreemptProgram:
        keep = clause.keep
        return PreemptProgram(
            policy=self._policy.address,
            name=clause.name,
            when=self._condition(clause.when),
            protects=tuple(self._compiled(p) for p in clause.protect),
            allows=self._optional(clause.allow),
            keep=keep.count if keep is not None else None,
            order=self._compiled(keep.by) if keep is not None else None,
            passes_missing=clause.missing == "pass",
        )

    def _count(
        self, clause: ClauseThatCounts, number: float | Expr, *, terminating: bool = False
    ) -> CountProgram:
        """The common part of a clause that counts; `number` is that of its bound."""
        weight = clause.strength.weight
        assert not isinstance(weight, Expr), "parameters are filled"
        computed = self._number(number)
        exprs = tuple(children(clause, skip=(*_UNDECIDING, PodSet)))
        deciding = [each for each in exprs if each is not clause.when]
        groups = self._group_reads([number]) if isinstance(number, Expr) else NO_READS
        tables, timed = self._tables_of(*exprs), any(map(self._reads_time, deciding))
        read = self._roots(*deciding)
        constant_number = isinstance(computed, int | float)
        return CountProgram(
            policy=self._policy.address,
            name=clause.name,
            when=self._condition(clause.when),
            peers=Peers() if clause.pods is None else self._peers(clause.pods),
            weight=weight,
            number=None if isinstance(computed, int | float) else computed,
            message=self._message(clause.message, clause.name),
            missing=clause.missing,
            terminating=terminating,
            nodes_per_look=self._nodes_per_look(clause),
            needs_workloads=clause.needs_workloads,
            groups=groups,
            tables=tables,
            time_dependent=timed,
            of_nodes=constant_number
            and not (groups or tables or timed or read & {"pod", "namespaceObject"}),
        )

    def _spread(self, clause: Spread) -> SpreadProgram:
        least = clause.min_domains
        # PodTopologySpread does not count a terminating pod.
        count = self._count(clause, clause.skew)
        if clause.pods is None:
            # With those of other revisions, a rollout would end with a greater skew.
            count = replace(count, peers=Peers(revision=True))
        return SpreadProgram(
            count,
            self._shared(clause.over),
            constant(clause.skew, self._environment),
            self._number(least) if least is not None else None,
            clause.nodes or "eligible",
            None if clause.within is None else self._shared(clause.within),
        )

    def _bound(self, bound: Bound, *, is_sum: bool = False) -> BoundProgram:
        amount = constant(bound.amount, self._environment)
        if is_sum and amount is not None:
            amount = operations.sum_bound(amount, up=bound.kind == "at least")
        return BoundProgram(bound.kind, amount, bound.percent, bound.rounding)

    def _number(self, number: float | Expr) -> float | Evaluate:
        """A constant, or a closure."""
        if (known := constant(number, self._environment)) is not None:
            return known
        assert isinstance(number, Expr), "a number is a constant"
        return self._compiled(number)

    def _peers(self, pods: PodSet) -> Peers:
        where = pods.where
        paths = self._paths(where) if where is not None else set()
        read = {path[0] for path in paths}
        tables = self._tables_of(*children(pods))
        is_timed = "now" in read or bool(tables) or pods.state == "ended"
        return Peers(
            where=self._shared(where) if where is not None else None,
            by_pod=not read.isdisjoint({"pod", "namespaceObject"}),
            of_pod=pod_parts(self._compiler, [where] if where is not None else []),
            by_labels=not pods.state
            and all(p[:2] == ("peer", "labels") for p in paths if p[0] == "peer"),
            time_dependent=is_timed,
            everywhere=pods.all,
            namespaces=self._optional(pods.namespaces),
            placed=pods.placed,
            replicas=where is None,
            revision=pods.revision,
            state=pods.state,
            amount=self._optional(pods.amount),
            tables=tuple(sorted(tables)),
        )

    def _shared(self, expr: Expr) -> Evaluate:
        """The closure, the same one for equal expressions: these share tallies and groups."""
        # Trees with 1 and with 1.0 are equal, their texts are not.
        text = print_expression(expr)
        if (found := self._known.get(text)) is None:
            found = self._known[text] = self._compiled(expr)
        return found

    def _room(self, clause: Cards) -> FilterProgram:
        """The filter for nodes where as many cards have room as the pod takes."""
        requires = self._checked(cards.room(clause, _NODE, clause.name_span))
        found = Filter(
            name=clause.name,
            requires=(requires,),
            when=clause.when,
            missing=clause.missing,
            message=self._no_room(clause),
        )
        return self._filter(found)

    def _no_room(self, clause: Cards) -> Template:
        return clause.message or Template((f"policy {self._policy.name}: {_NO_ROOM}",))

    def _cards(self, clause: Cards) -> CardsProgram:
        span, compiled = clause.name_span, self._compiled
        entries = clause.writes.entries if clause.writes is not None else ()
        written = [(e.key.value, e.value) for e in entries if isinstance(e.key, Literal)]
        # What others may take of the cards of a node; it is kept by node.
        spare = self._checked(cards.spare(clause, _NODE, span))
        return CardsProgram(
            policy=self._policy.address,
            name=clause.name,
            when=self._condition(clause.when),
            message=self._message(self._no_room(clause), clause.name),
            number=compiled(self._checked(cards.number(clause, span))),
            take=compiled(clause.take),
            cards=compiled(self._checked(cards.cards(clause, _NODE, span))),
            chosen=compiled(self._checked(cards.chosen(clause, _NODE, span))),
            spare=self._score(Score(clause.name, 1.0, spare)),
            index=clause.index,
            writes=tuple((str(key), compiled(value)) for key, value in written),
            reads=self._reads_of_all((clause.when, clause.take, clause.number)),
        )

    def _gang(self, clause: Gang) -> GangProgram:
        number = clause.at_least
        return GangProgram(
            policy=self._policy.address,
            name=clause.name,
            when=self._condition(clause.when),
            message=self._message(clause.message, clause.name),
            by=self._optional(clause.by),
            number=None if number is None else self._number(number),
            percent=clause.percent,
            domain=None if clause.within is None else self._shared(clause.within),
            seconds=clause.seconds,
        )

    def _wait(self, wait: WaitUntil) -> WaitProgram:
        until = self._condition(wait.condition)
        assert until is not None, "a wait has a condition"
        return WaitProgram(until, wait.seconds)

    def _checked(self, expr: Expr) -> Expr:
        """An expression that a checked clause stands for."""
        return Checker(self._environment).check(expr)

    def _optional(self, expr: Expr | None) -> Evaluate | None:
        return self._compiled(expr) if expr is not None else None

    def _filter(self, clause: Filter) -> FilterProgram:
        paths = {p for e in clause.requires for p in self._paths(e)}
        on_nodes = self._on_nodes(clause, tuple(children(clause, skip=_UNDECIDING)))
        groups: GroupReads = on_nodes["groups"]
        return FilterProgram(
            **on_nodes,
            requires=tuple(self._compiled(e) for e in clause.requires),
            reads_node=groups.of_nodes or any(p[0] == "node" for p in paths),
            message=self._message(clause.message, clause.name),
            passes_missing=clause.missing == "pass",
            ignores_errors=self._policy.setting("failure", "fail") == "ignore",
            # A result that depends on the pods of a node may change when some of them leave.
            resolvable=groups.pods or any(p[:2] in _OCCUPANCY or p == ("node",) for p in paths),
            at_bind=clause.at_bind,
            wait=self._wait(clause.wait) if clause.wait is not None else None,
        )

    def _on_nodes(self, clause: Filter | Score, exprs: tuple[Expr, ...]) -> dict[str, Any]:
        """What filters and scores have in common; the expressions decide about nodes."""
        timed, groups = any(map(self._reads_time, exprs)), self._group_reads(exprs)
        return {
            "policy": self._policy.address,
            "name": clause.name,
            "when": self._condition(clause.when),
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
        paths = {path for expr in exprs for path in self._paths(expr)}
        known, counts = self._environment.groups, self._counts_in(exprs)
        names = sorted(self._roots(*exprs) & known.keys())
        of_nodes = {c.name for c in counts if c.stands_for == COUNT_OF_NODES}
        others = self._roots(*exprs) - {*names, *of_nodes, "pod", "namespaceObject"}
        counted = tuple(digest_of_group(count, self._environment) for count in counts)
        groups = tuple(digest_of_group(known[name], self._environment) for name in names)
        return GroupReads(
            groups + counted,
            counted,
            of_nodes=bool(names) or bool(of_nodes),
            pods=bool(counts) or any(p[0] in names and p[1:2] in OF_PODS for p in paths),
            alone=len(names) + len(of_nodes) == 1 and not others,
        )

    def _counts_in(self, exprs: Iterable[Expr]) -> list[Count]:
        """The named counts that expressions read."""
        known = self._environment.counts
        return [known[name] for name in sorted(self._roots(*exprs) & known.keys())]

    def _of_pod(self, exprs: Iterable[Expr]) -> tuple[Evaluate, ...]:
        """The parts of expressions, and of the counts that they read, that read only the pod."""
        exprs = tuple(exprs)
        of_counts = (self._count_of_pod(count) for count in self._counts_in(exprs))
        return (*pod_parts(self._compiler, exprs), *chain.from_iterable(of_counts))

    def _count_of_pod(self, count: Count) -> tuple[Evaluate, ...]:
        found = pod_parts(self._compiler, children(count.pods))
        return found if count.pods.all else (*found, namespace_of_pod)

    def named(self) -> Iterator[NamedCountProgram]:
        """What the `count`s count."""
        for item in self._environment.counts.values():
            group = self._environment.groups.get(item.per.group)
            scope = item.per.scope
            yield NamedCountProgram(
                digest=digest_of_group(item, self._environment),
                name=item.name,
                count=CountProgram(
                    policy=self._policy.address,
                    name=item.name,
                    when=None,
                    peers=self._peers(item.pods),
                    weight=None,
                    number=None,
                    message=self._message(None, item.name),
                    missing=None,
                    terminating=True,
                    nodes_per_look=1,
                    needs_workloads=False,
                ),
                scope=scope if scope in ("node", "group") else "cluster",
                group="" if group is None else digest_of_group(group, self._environment),
                of_pod=self._count_of_pod(item),
                value=number_of_sum(item.type, is_sum=item.pods.amount is not None),
            )

    def groups(self) -> Iterator[GroupSpec]:
        """What the `group`s are by."""
        return group_specs(self._compiler)

    def _of_node(self, exprs: Iterable[Expr]) -> NodeKey | None:
        """What tells nodes apart to expressions; None if more of them is read, or nothing."""
        parts = node_parts(self._compiler, exprs)
        return node_key(parts) if parts else None

    def _score(self, clause: Score) -> ScoreProgram:
        assert not isinstance(clause.weight, Expr), "parameters are filled"
        value, scale = self._ranged(clause.value, clause.range)
        return ScoreProgram(
            **self._on_nodes(clause, tuple(children((clause.value, clause.range)))),
            weight=clause.weight,
            value=value,
            range=scale,
            missing=float(clause.missing or 0),
        )

    def _ranged(self, value: Expr, scale: Bounds | Order | None) -> tuple[Evaluate, Range]:
        """The closure of a value, and its range. A computed range is a part of the closure."""
        compiled = self._compiled
        if not isinstance(scale, Bounds):
            return compiled(value), scale
        low, high = (literal(end, self._environment) for end in (scale.low, scale.high))
        if low is not None and high is not None:
            return compiled(value), (operations.magnitude(low), operations.magnitude(high))
        return operations.ranged(compiled(value), compiled(scale.low), compiled(scale.high)), None

    def _nodes_per_look(self, clause: AnyClause) -> int:
        """The number of nodes for which the clause takes about a millisecond at most."""
        steps = sum(map(self._estimator.steps, children(clause, skip=_UNDECIDING)))
        return max(1, _STEPS_PER_LOOK // max(1, steps))

    def _condition(self, when: Expr | None) -> Condition | None:
        if when is None:
            return None
        of_node = {"node", *self._environment.groups, *self._environment.counts}
        per_node = not self._roots(when).isdisjoint(of_node)
        return Condition(self._compiled(when), per_node, self._group_reads((when,)).counts)

    def _reads_time(self, expr: Expr) -> bool:
        """Whether its value may change with the time alone; rows become stale."""
        return "now" in self._roots(expr) or bool(self._tables_of(expr))

    def _tables_of(self, *exprs: Expr) -> frozenset[str]:
        """The digests of the tables that expressions read."""
        known = self._environment.tables
        names = self._roots(*exprs) & known.keys()
        return frozenset(digest_of_table(known[name]) for name in names)

    def tables(self) -> Iterator[TableSpec]:
        """What the `data` blocks declare."""
        for data in self._environment.tables.values():
            yield self._table(data)

    def _table(self, data: Data) -> TableSpec:
        by, values, slots = None, tuple[Evaluate, ...](), 0
        if isinstance(data.source, FromObjects):
            environment = replace(self._environment, variables={OBJECT: DYN}, lets={}, defs={})
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
        )

    def _roots(self, *exprs: Expr) -> set[str]:
        """The names of what expressions read."""
        return {path[0] for expr in exprs for path in self._paths(expr)}

    def _read_paths(self, expr: Expr) -> set[tuple[str, ...]]:
        return {r.path for r in reads(expr, self._definitions)}

    def _message(self, template: Template | None, clause: str) -> Message:
        given = template.parts if template else (f"policy {self._policy.name}: {clause}",)
        parts = tuple(p if isinstance(p, str) else self._compiled(p) for p in given)
        return operations.message(self._policy.address, clause, parts)


_NODE = Ident("node")
# What decides about no node: texts, and what a binding waits for.
_UNDECIDING = (Template, WaitUntil)
_NO_ROOM = "no card has room"
# The paths of the pod that select the nodes that a spread counts.
_ELIGIBILITY = frozenset(
    {
        ("spec", "nodeSelector"),
        ("spec", "affinity", "nodeAffinity"),
        ("spec", "tolerations"),
    }
)
_OF_NODES: Mapping[str, OneOf["used", "empty"]] = {"used nodes": "used", "empty nodes": "empty"}
# The paths of the node that depend on the pods on it.
_OCCUPANCY = frozenset({("node", "requested"), ("node", "free"), ("node", "pods")})
