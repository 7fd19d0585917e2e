"""From a checked policy to its program."""

from __future__ import annotations

from itertools import chain

from engine.program.compiler import Compiler
from engine.program.fast_paths import FAST_PATHS
from engine.program.frame import Evaluate, Frame, LazyFrame
from engine.program.pod_shape import Path, PodReads
from engine.program.program import (
    Condition,
    CountProgram,
    FilterProgram,
    LimitProgram,
    Message,
    Peers,
    PreemptProgram,
    Program,
    ScoreProgram,
    ShareProgram,
    SpreadProgram,
    magnitude,
)
from grammar.ast import Expr, Literal
from grammar.clauses import (
    Bounds,
    CountingClause,
    Filter,
    Limit,
    PodSet,
    Policy,
    Preempt,
    Score,
    Share,
    Spread,
    Template,
)
from grammar.errors import EvaluationError
from grammar.policy_checker import Checked
from grammar.values.format import show
from grammar.walk import Definitions, children, reads

DEFAULT_WEIGHT = 101


def compile_policy(checked: Checked) -> Program:
    """The program of a policy without errors, with the clauses of the policies it uses."""
    parts = [_PolicyCompiler(c, checked.policy) for c in (checked, *checked.uses)]
    filters = tuple(f for part in parts for f in part.filters())
    shares = tuple(s for part in parts for s in part.shares())
    spreads = tuple(s for part in parts for s in part.spreads())
    limits = tuple(c for part in parts for c in part.limits())
    counts = [*(s.count for s in shares), *(s.count for s in spreads), *(c.count for c in limits)]
    policy = checked.policy
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
        scores=tuple(s for part in parts for s in part.scores()),
        shares=shares,
        spreads=spreads,
        limits=limits,
        preempts=tuple(p for part in parts for p in part.preempts()),
        strict=bool(filters) or any(c.weight is None for c in counts),
        slots=max(part.slots for part in parts),
        reads=frozenset().union(*(part.pod_reads() for part in parts)),
        time_dependent=any(part.time_dependent() for part in parts),
    )


class _PolicyCompiler:
    """Compiles the clauses of one policy, in its own environment, for the policy they decide in."""

    def __init__(self, checked: Checked, owner: Policy) -> None:
        policy = checked.policy
        self._clauses = policy.clauses
        self._selector = policy.selector
        self._policy = owner
        self._compiler = Compiler(checked.environment, fast_paths=FAST_PATHS)
        environment = checked.environment
        self._definitions = Definitions(environment.lets, environment.defs)
        self._pod_reads = PodReads(self._definitions)

    @property
    def slots(self) -> int:
        return self._compiler.slots

    def pod_reads(self) -> frozenset[Path]:
        """What of the pod decides; a message only says so."""
        deciders = children((self._selector, self._clauses), skip=(Template,))
        read = frozenset(chain.from_iterable(map(self._pod_reads.paths, deciders)))
        spreads = any(isinstance(clause, Spread) for clause in self._clauses)
        return read | _ELIGIBILITY if spreads else read

    def time_dependent(self) -> bool:
        whens = (c.when for c in self._clauses if isinstance(c, Score))
        return any(e is not None and self._reads_time(e) for e in (self._selector, *whens))

    def selector(self) -> Evaluate | None:
        return self._compiler.compile(self._selector) if self._selector is not None else None

    def filters(self) -> tuple[FilterProgram, ...]:
        return tuple(self._filter(c) for c in self._clauses if isinstance(c, Filter))

    def scores(self) -> tuple[ScoreProgram, ...]:
        return tuple(self._score(c) for c in self._clauses if isinstance(c, Score))

    def shares(self) -> tuple[ShareProgram, ...]:
        found = (c for c in self._clauses if isinstance(c, Share))
        return tuple(
            ShareProgram(self._count(c), self._compiler.compile(c.on), c.bound) for c in found
        )

    def spreads(self) -> tuple[SpreadProgram, ...]:
        found = (c for c in self._clauses if isinstance(c, Spread))
        return tuple(
            SpreadProgram(self._count(c), self._compiler.compile(c.over), c.skew, c.min_domains)
            for c in found
        )

    def limits(self) -> tuple[LimitProgram, ...]:
        found = (c for c in self._clauses if isinstance(c, Limit))
        return tuple(
            LimitProgram(
                self._count(c),
                c.per.scope == "node",
                self._optional(c.per.domain),
                c.bound,
            )
            for c in found
        )

    def preempts(self) -> tuple[PreemptProgram, ...]:
        return tuple(self._preempt(c) for c in self._clauses if isinstance(c, Preempt))

    def _preempt(self, clause: Preempt) -> PreemptProgram:
        keep = clause.keep
        return PreemptProgram(
            policy=self._policy.address,
            name=clause.name,
            when=self._condition(clause.when),
            protects=tuple(self._compiler.compile(p) for p in clause.protect),
            allows=self._optional(clause.allow),
            keep=keep.count if keep is not None else None,
            order=self._compiler.compile(keep.by) if keep is not None else None,
        )

    def _count(self, clause: CountingClause) -> CountProgram:
        return CountProgram(
            policy=self._policy.address,
            name=clause.name,
            when=self._condition(clause.when),
            peers=self._peers(clause.pods) if clause.pods is not None else Peers(),
            weight=clause.strength.weight,
            message=self._message(clause.message, clause.name),
            missing=clause.missing,
            # As for PodTopologySpread and InterPodAffinity.
            terminating=isinstance(clause, Limit),
        )

    def _peers(self, pods: PodSet) -> Peers:
        where = pods.where
        paths = self._paths(where) if where is not None else set()
        read = {path[0] for path in paths}
        return Peers(
            where=self._optional(where),
            by_pod=not read.isdisjoint({"pod", "namespaceObject"}),
            by_labels=all(p[:2] == ("peer", "labels") for p in paths if p[0] == "peer"),
            time_dependent="now" in read,
            everywhere=pods.all,
            namespaces=self._optional(pods.namespaces),
            placed=pods.placed,
            replicas=where is None,
        )

    def _optional(self, expr: Expr | None) -> Evaluate | None:
        return self._compiler.compile(expr) if expr is not None else None

    def _filter(self, clause: Filter) -> FilterProgram:
        paths = {p for e in clause.requires for p in self._paths(e)}
        return FilterProgram(
            policy=self._policy.address,
            name=clause.name,
            when=self._condition(clause.when),
            requires=tuple(self._compiler.compile(e) for e in clause.requires),
            reads_node=any(p[0] == "node" for p in paths),
            message=self._message(clause.message, clause.name),
            passes_missing=clause.missing == "pass",
            ignores_errors=self._policy.setting("failure", "fail") == "ignore",
            # What depends on the pods of a node can change when some of them leave.
            resolvable=any(p[:2] in _OCCUPANCY for p in paths),
            at_bind=clause.at_bind,
            time_dependent=any(map(self._reads_time, children(clause, skip=(Template,)))),
        )

    def _score(self, clause: Score) -> ScoreProgram:
        bounds = clause.range
        edges = (_edge(bounds.low), _edge(bounds.high)) if isinstance(bounds, Bounds) else bounds
        return ScoreProgram(
            policy=self._policy.address,
            name=clause.name,
            weight=clause.weight,
            when=self._condition(clause.when),
            value=self._compiler.compile(clause.value),
            range=edges,
            missing=float(clause.missing or 0),
            time_dependent=self._reads_time(clause.value),
        )

    def _condition(self, when: Expr | None) -> Condition | None:
        if when is None:
            return None
        return Condition(
            self._compiler.compile(when), any(p[0] == "node" for p in self._paths(when))
        )

    def _reads_time(self, expr: Expr) -> bool:
        return any(path[0] == "now" for path in self._paths(expr))

    def _paths(self, expr: Expr) -> set[tuple[str, ...]]:
        return {r.path for r in reads(expr, self._definitions)}

    def _message(self, template: Template | None, clause: str) -> Message:
        given = template.parts if template else (f"policy {self._policy.name}: {clause}",)
        parts = tuple(p if isinstance(p, str) else self._compiler.compile(p) for p in given)
        texts = [part for part in parts if isinstance(part, str)]
        if len(texts) == len(parts):
            constant = "".join(texts)
            return lambda _: constant

        def message(frame: LazyFrame) -> str:
            made = frame()
            return "".join(p if isinstance(p, str) else _shown(p, made) for p in parts)

        return message


# What says which nodes' domains a spread compares.
_ELIGIBILITY = frozenset(
    {
        ("spec", "nodeSelector"),
        ("spec", "affinity", "nodeAffinity"),
        ("spec", "tolerations"),
    }
)
_OCCUPANCY = frozenset({("node", "requested"), ("node", "free"), ("node", "pods")})


def _shown(hole: Evaluate, frame: Frame) -> str:
    """A hole's text; one that cannot be evaluated never hides the rejection."""
    try:
        return show(hole(frame))
    except EvaluationError:
        return "{?}"


def _edge(expr: Expr) -> float:
    """The number of a range's edge, which the parser made a constant."""
    assert isinstance(expr, Literal)
    return magnitude(expr.value)
