"""Costs: how many steps an expression can take at most, computed before it runs.

A step is a read, an operation or a call; functions that work on texts, lists or maps take more. A
macro multiplies by the length of its list. The lengths are the limits of the API and of the
kubelet, not guesses about usual sizes; what has no limit counts as 100 items or 256 characters. The
cost check and the compiler use an Estimator; it belongs to its caller and examines each expression
once.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import reduce

from grammar.meaning.environment import Environment
from grammar.tree import ast
from grammar.tree.clause_parts import AnyClause, Bounds
from grammar.tree.policy import Count, ForPods, Group, Policy, is_group
from grammar.tree.source import Span
from grammar.tree.types import DYN, Type
from grammar.tree.walk import children, walk
from grammar.values.sizes import (
    ATOM,
    CHARACTERS,
    ITEMS,
    RECORD,
    STEPS,
    Size,
    either,
    equated,
    ordered,
)
from grammar.values.strings import replaced_length

# ---- steps

# A call that takes at most this does not charge while it runs: it is a part of what is around it.
FREE = 1000
# A `let` or `def` that takes more charges by itself: one may use others many times.
_MANY = 1000
# Sums stop here, so that definitions which use each other cannot make huge numbers.
_CEILING = 10**15
# The sizes of arguments for which the body of one `def` is examined by itself.
_MOST_CALLS = 64

# The greatest lengths of variables: the pods that a node could evict, and tables of data with
# a row for each node. A group may have all nodes, too.
_OF_VARIABLES = {"victims": (250,), "data": (5000,)}
_OF_GROUP = (5000,)


@dataclass(frozen=True, slots=True)
class Assumptions:
    """Assumptions about the sizes of what an object of the cluster holds.

    A list or map without a length in the schema has the length `items`, and such a text has
    `characters`. What is inside a record counts as `record`. If `any_length`, a list or
    map may be longer than the schema says, which nobody validates.
    """

    items: int
    characters: int
    record: Size = RECORD
    any_length: bool = False

    def size(self, kind: Type, most: tuple[int, ...] = ()) -> Size:
        """The size of a value of a type, with the greatest sizes of the schema."""
        match kind.name:
            case "string":
                return Size(most[0] if most else self.characters)
            case "list":
                return Size(self._length(most), self.size(kind.args[0]))
            case "map":
                key, value = self.size(kind.args[0], most[1:2]), self.size(kind.args[1], most[2:])
                return Size(self._length(most), value, key)
            case "optional":
                return self.size(kind.args[0], most)
            case "dyn" | "error":
                text = Size(self.characters)
                return Size(self.items, text, text)
            case _ if kind.is_parameter:
                return self.size(DYN)
            case _ if is_group(kind):
                return Size(self._length(_OF_GROUP), self.record)
            case _:
                return self.record if kind.is_record else ATOM

    def _length(self, most: tuple[int, ...]) -> int:
        return most[0] if most and not self.any_length else self.items


# The usual sizes, for the cost of a policy; and the greatest that may be, for what runs.
USUAL = Assumptions(100, 256)
GREATEST = Assumptions(ITEMS, CHARACTERS, Size(ITEMS, ATOM), any_length=True)


@dataclass(frozen=True, slots=True)
class Estimate:
    """An estimate of what one expression can take at most.

    `own` are the steps without those that its parts charge while they run: macros, calls that may
    take many steps, and definitions of many. `charged` says whether the expression is such a part.
    `size` is that of its value.
    """

    steps: int = 0
    own: int = 0
    charged: bool = False
    size: Size = ATOM


Scope = Mapping[str, Size]
_NO_SCOPE: Scope = {}


@dataclass(slots=True)
class Estimator:
    """Estimates of the expressions of one environment.

    With `by_call` the body of a `def` is examined for the sizes of each call's arguments, otherwise
    once for any.
    """

    environment: Environment
    assumptions: Assumptions = USUAL
    by_call: bool = True
    _known: dict[int, tuple[ast.Expr, Estimate]] = field(default_factory=dict)
    _lets: dict[str, Estimate] = field(default_factory=dict)
    _defs: dict[str, dict[tuple[Size, ...], Estimate]] = field(default_factory=dict)

    def of(self, expr: ast.Expr) -> Estimate:
        """The estimate of an expression, or of a part of one that was examined."""
        known = self._known.get(id(expr))
        return known[1] if known is not None else self._of(expr, _NO_SCOPE)

    def steps(self, expr: ast.Expr) -> int:
        """The greatest number of steps of an expression, or of a part of one that was examined."""
        return self.of(expr).steps

    def dearest(self, expr: ast.Expr) -> ast.Expr:
        """The innermost part that causes more than half of the steps."""
        total = self.steps(expr)
        dear = (child for child in children(expr) if self.steps(child) * 2 > total)
        child = next(dear, None)
        return expr if child is None else self.dearest(child)

    def let(self, name: str) -> Estimate:
        if name not in self._lets:
            self._lets[name] = self._of(self.environment.lets[name], _NO_SCOPE)
        return self._lets[name]

    def call(self, name: str, args: Sequence[Size]) -> Estimate:
        """The estimate of the body of a `def` for arguments of these sizes."""
        known = self.environment.defs[name]
        calls = self._defs.setdefault(name, {})
        sizes = tuple(map(_rounded, args))
        if not self.by_call or (sizes not in calls and len(calls) >= _MOST_CALLS):
            sizes = tuple(GREATEST.size(p.type) for p in known.parameters)
        if sizes not in calls:
            scope = dict(zip((p.name for p in known.parameters), sizes, strict=True))
            calls[sizes] = self._of(known.body, scope)
        return calls[sizes]

    def _of(self, expr: ast.Expr, scope: Scope) -> Estimate:
        found = self._examined(expr, scope)
        if found.steps > _CEILING:
            found = replace(found, steps=_CEILING, own=min(found.own, _CEILING))
        _, known = self._known.get(id(expr), (expr, found))
        if known != found:
            found = Estimate(
                max(known.steps, found.steps),
                max(known.own, found.own),
                known.charged or found.charged,
                either(known.size, found.size),
            )
        # The expression is kept too, so that no other one gets its id.
        self._known[id(expr)] = expr, found
        return found

    def _examined(self, expr: ast.Expr, scope: Scope) -> Estimate:
        match expr:
            case ast.Literal(value):
                return Estimate(size=_constant(value))
            case ast.Ident(name):
                most = _OF_VARIABLES.get(name.partition(".")[0], ())
                size = scope.get(name) or self.assumptions.size(expr.type, most)
                return Estimate(1, 1, size=size)
            case ast.LetReference(name):
                return _defined(self.let(name), ())
            case ast.DefCall(name, args):
                given = [self._of(a, scope) for a in args]
                return _defined(self.call(name, [g.size for g in given]), given)
            case ast.Comprehension():
                return self._comprehension(expr, scope)
            case _:
                parts = [self._of(c, scope) for c in children(expr)]
                return self._operation(expr, parts)

    def _operation(self, expr: ast.Expr, parts: Sequence[Estimate]) -> Estimate:
        sizes = [p.size for p in parts]
        work = 0
        match expr:
            case ast.Select(operand, name):
                kind, schema = operand.type, self.environment.schema
                record = kind.args[0] if kind.name == "optional" else kind
                if record.is_record:
                    holder = schema.records.get(record.name) if schema is not None else None
                    known = holder.fields.get(name) if holder is not None else None
                    most = known.most if known is not None else ()
                    size = self.assumptions.size(expr.type, most)
                else:
                    size = sizes[0].item or self.assumptions.size(expr.type)
            case ast.Index():
                size = sizes[0].item or self.assumptions.size(expr.type)
            case ast.Call(function, target, args):
                kinds = [a.type for a in ((target, *args) if target is not None else args)]
                overload = self.environment.overload(function, kinds, member=target is not None)
                if overload.work is not None:
                    work = overload.work(*sizes)
                size = self._result(expr, function, sizes)
            case ast.Binary("==" | "!="):
                work, size = equated(*sizes), ATOM
            case ast.Binary(op, left, right):
                overload = self.environment.overload(op, (left.type, right.type), member=False)
                work = overload.work(*sizes) if overload.work is not None else 0
                size = ATOM
            case ast.Chain("+", operands):
                size = sizes[0]
                kind = operands[0].type if len({o.type for o in operands}) == 1 else DYN
                add = self.environment.overload("+", (kind, kind), member=False)
                for each in sizes[1:]:
                    work += add.work(size, each) if add.work is not None else 0
                    size = _sum(size, each)
            case ast.Conditional():
                size = either(sizes[1], sizes[2])
            case ast.ListLiteral():
                size = Size(len(sizes), _any(sizes))
            case ast.MapLiteral():
                size = Size(len(sizes) // 2, _any(sizes[1::2]), _any(sizes[::2]))
            case _:
                size = ATOM
        charged = work > FREE
        return Estimate(
            1 + sum(p.steps for p in parts) + work,
            1 + sum(p.own for p in parts) + (0 if charged else work),
            charged,
            size,
        )

    def _comprehension(self, expr: ast.Comprehension, scope: Scope) -> Estimate:
        target = self._of(expr.target, scope)
        held, single = target.size, expr.macro in ("cel.bind", "optMap", "optFlatMap")
        item = held.item or self.assumptions.size(DYN)
        if single:
            variables: tuple[Size, ...] = (held,)
        elif len(expr.variables) == 2:
            variables = (held.key or ATOM, item)
        else:
            variables = (held.key or item,)
        inner = {**scope, **dict(zip(expr.variables, variables, strict=True))}
        body = [self._of(part, inner) for part in expr.body]
        steps, own = sum(b.steps for b in body), sum(b.own for b in body)
        size = _made(expr.macro, held, variables[0], body[-1].size)
        if single:
            return Estimate(1 + target.steps + steps, 1 + target.own + own, size=size)
        after = 0
        if expr.macro == "sortBy":
            after = ordered(Size(held.length, body[-1].size))
        elif expr.macro == "transformMapEntry":
            after = 4 * held.length * body[-1].size.length
        whole = 1 + target.steps + held.length * (1 + steps) + after
        return Estimate(whole, 1 + target.own, charged=True, size=size)

    def _result(self, expr: ast.Call, function: str, sizes: Sequence[Size]) -> Size:
        """The size of the value of a call."""
        first = sizes[0] if sizes else ATOM
        match function:
            case "substring" | "slice":
                return replace(first, length=_between(first, expr.args, sizes), constant=None)
            case "lowerAscii" | "upperAscii" | "trim" | "reverse" | "find":
                return replace(first, constant=None)
            case "sort" | "distinct" | "dyn" | "value" | "of" | "ofNonZeroValue":
                return first
            case "optional.of" | "optional.ofNonZeroValue" | "unwrapOpt" | "optional.unwrap":
                return first
            case "or" | "orValue":
                return either(first, sizes[1])
            case "first" | "last" | "min" | "max":
                return first.item or self.assumptions.size(expr.type)
            case "math.least":
                several = sizes if len(sizes) > 1 else (first.item or ATOM,)
                ints = [each.greatest for each in several if each.greatest is not None]
                return Size(greatest=min(ints, default=None))
            case "charAt":
                return Size(1)
            case "size":
                return Size(greatest=first.length)
            case "join":
                item = first.item.length if first.item is not None else self.assumptions.characters
                between = sizes[1].length if len(sizes) > 1 else 0
                return Size(min(CHARACTERS, first.length * (item + between)))
            case "replace":
                return Size(replaced_length(first, sizes[1], sizes[2]))
            case "split" | "findAll":
                most = sizes[2].greatest if len(sizes) > 2 else None
                found = min(ITEMS, first.length + 1)
                return Size(
                    found if most is None or most < 0 else min(found, most), Size(first.length)
                )
            case "flatten" if first.item is not None and len(sizes) == 1:
                inner = first.item.item or self.assumptions.size(DYN)
                return Size(min(ITEMS, first.length * max(1, first.item.length)), inner)
            case "format":
                return Size(min(CHARACTERS, first.length + _shown(sizes[1])))
            case "strings.quote":
                return Size(min(CHARACTERS, 2 + 2 * first.length))
            case "string":
                return Size(max(first.length, 128))
            case "lists.range":
                known = first.greatest
                most = self.assumptions.items if known is None else min(ITEMS, max(0, known))
                return Size(most, Size(greatest=most))
            case _:
                return self.assumptions.size(expr.type)


def _made(macro: str, held: Size, variable: Size, body: Size) -> Size:
    """The size of the value of a macro."""
    match macro:
        case "map" | "transformList":
            return Size(held.length, body)
        case "filter" | "sortBy":
            return Size(held.length, variable)
        case "transformMap":
            return Size(held.length, body, variable)
        case "transformMapEntry":
            return Size(min(ITEMS, held.length * body.length), body.item, body.key)
        case "cel.bind" | "optMap" | "optFlatMap":
            return body
        case _:
            return ATOM


def _defined(body: Estimate, given: Sequence[Estimate]) -> Estimate:
    """The estimate of the use of a definition; one of many steps charges by itself."""
    many = body.own > _MANY
    return Estimate(
        sum(g.steps for g in given) + body.steps,
        sum(g.own for g in given) + (1 if many else body.own),
        many,
        body.size,
    )


def _sum(left: Size, right: Size) -> Size:
    if left.item is None or right.item is None:
        return Size(min(CHARACTERS, left.length + right.length))
    return Size(min(ITEMS, left.length + right.length), either(left.item, right.item))


def _between(whole: Size, ends: Sequence[ast.Expr], sizes: Sequence[Size]) -> int:
    """The length of a part of a text or list from one index to another, or to the end."""
    start = ends[0].value if isinstance(ends[0], ast.Literal) else 0
    end = sizes[2].greatest if len(sizes) > 2 else None
    last = whole.length if end is None else min(whole.length, end)
    return max(0, last - start) if isinstance(start, int) else last


def _any(sizes: Sequence[Size]) -> Size:
    return reduce(either, sizes) if sizes else ATOM


def _constant(value: object) -> Size:
    if isinstance(value, str):
        return Size(len(value), constant=value)
    return Size(greatest=value) if isinstance(value, int) else ATOM


def _shown(size: Size) -> int:
    """The characters of a value as text."""
    if size.item is None:
        # A number, or `%x` of a text.
        return 2 * size.length if size.length else 1500
    inner = _shown(size.item) + (_shown(size.key) if size.key is not None else 0) + 4
    return min(CHARACTERS, 2 + size.length * inner)


def _rounded(size: Size) -> Size:
    """A size that is at most an eighth more, so that few are different."""
    places = max(0, size.length.bit_length() - 3)
    return Size(
        -(-size.length // 2**places) * 2**places,
        _rounded(size.item) if size.item is not None else None,
        _rounded(size.key) if size.key is not None else None,
    )


# ---- costs of a policy

# The most steps that an expression may take for one node: as many as it gets when it runs.
LIMIT = STEPS


def expressions(policy: Policy, environment: Environment) -> Iterator[ast.Expr]:
    """The outermost expressions of a policy, of messages and details too; no constant ranges."""
    groups = environment.groups.values()
    for item in policy.items:
        if isinstance(item, ForPods | Group | Count | AnyClause):
            # What a group is by is an expression of the policy once.
            known = () if isinstance(item, Group) else groups
            parts = children(item, skip=(Bounds,))
            yield from (e for e in parts if not any(e is g.by for g in known))
            ends = item.ends if isinstance(item, AnyClause) else ()
            yield from (end for end in ends if not isinstance(end, ast.Literal))


@dataclass(frozen=True, slots=True)
class Cost:
    """The cost of an expression: its greatest number of steps for a node, and its dearest parts."""

    span: Span
    steps: int
    parts: tuple[Cost, ...] = ()


def describe(policy: Policy, environment: Environment) -> list[Cost]:
    """Each expression, the most expensive first, with its three most expensive parts."""
    estimator = Estimator(environment)
    found: list[Cost] = []
    for expr in expressions(policy, environment):
        parts = sorted(walk(expr), key=estimator.steps, reverse=True)
        # All parts of a short form have its span.
        by_span = {part.span: part for part in reversed(parts) if estimator.steps(part)}
        by_span.pop(expr.span, None)
        dear = sorted(by_span.values(), key=parts.index)[:3]
        costs = tuple(Cost(part.span, estimator.steps(part)) for part in dear)
        found.append(Cost(expr.span, estimator.steps(expr), costs))
    return sorted(found, key=lambda cost: -cost.steps)
