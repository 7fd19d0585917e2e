"""Compiler: checked expressions to closures; names and overloads are resolved once, not per node.

The plain evaluator (`grammar.meaning.evaluator`) defines what each expression means;
`tests/properties` compares the two. Tracing is a compiler with a wrap around each closure, not a
flag inside closures.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from functools import partial
from typing import Literal, assert_never

from engine.cards.fragmentation import with_cards
from engine.program import item_kinds, macros, moments, operations
from engine.program.columns import ColumnRoom, once_per_node, once_per_pod, with_own_steps
from engine.program.frame import Evaluate, Frame
from engine.program.item_kinds import ItemKinds
from engine.program.node_groups import digest_of, once_per_group, read_count, read_group
from engine.program.tables import read_table
from grammar.checker.expression_checker import Checker
from grammar.clauses.cards import FACTS
from grammar.meaning.costs import GREATEST, Estimate, Estimator
from grammar.meaning.environment import Environment
from grammar.meaning.schema import short_form
from grammar.tree import ast
from grammar.tree.printer import print_expression
from grammar.tree.types import BOOL, DYN, STRING, Type, Work
from grammar.tree.walk import children, reads
from grammar.values.errors import MissingError
from grammar.values.kinds import equals
from grammar.values.maps import lookup, read_field
from grammar.values.sizes import CHARACTERS, PARSED, equated

# ---- stages


class Stage(Enum):
    """The stage of a kept part: how often it is evaluated.

    `now` and tables have one value per request, so they count as the pod's. An age, which reads the
    node and `now`, has no stage.
    """

    POD = "once per request"
    NODE = "once per version of a node"
    GROUP = "once per state of a group of nodes"


_OF_POD = frozenset({"pod", "namespaceObject"})
_PER_REQUEST = _OF_POD | {"now"}
_OF_NODE = (frozenset({"node"}), frozenset({"node", FACTS}))
# What a group has of the pods on its nodes.
OF_PODS = (("requested",), ("free",), ())
# The types whose values tell items apart, and the fields that tell each item from all others.
_VALUES = frozenset({"string", "bool", "int", "quantity", "duration", "timestamp"})
_TEXTS = Type("map", (STRING, STRING))
_OWN = frozenset({"name", "uid"})


@dataclass(frozen=True, slots=True)
class _Needs:
    """The needs of a part: the declared names and locals that it reads, and its size in nodes."""

    roots: frozenset[str] = frozenset()
    local: frozenset[str] = frozenset()
    steps: int = 0


class Stages:
    """The stages of the expressions of one environment. Each part is examined once."""

    def __init__(self, environment: Environment) -> None:
        self._environment = environment
        self._needs: dict[int, tuple[ast.Expr, _Needs]] = {}
        self._named: dict[str, _Needs] = {}

    def stage(self, expr: ast.Expr, hidden: Collection[str]) -> Stage | None:
        """The stage of a part; None for a constant, and for a part that depends on more than one.

        `hidden` are the variables and parameters around it, which may hide a declared name. A part
        that depends on them has no stage.
        """
        needs = self._of(expr)
        if needs.local or not needs.roots or not needs.roots.isdisjoint(hidden):
            return None
        if needs.roots - self._environment.tables.keys() <= _PER_REQUEST:
            return Stage.POD
        if needs.roots in _OF_NODE:
            return Stage.NODE
        is_of_group = len(needs.roots) == 1 and needs.roots <= self._environment.groups.keys()
        return Stage.GROUP if is_of_group and expr.type.name in _SMALL else None

    def item_test(
        self, expr: ast.Comprehension, hidden: Collection[str]
    ) -> tuple[ast.Expr, tuple[ast.Expr, ...]] | None:
        """A test that is the same for items that are alike, and the parts that tell them apart.

        The parts are the largest ones that read the item alone. Where the test is not the body of
        the macro, it is made of some of what the body joins: an item that does not pass it does not
        pass the body. None if there is none, or the macro is no test of items of a list of the
        node.
        """
        if expr.macro not in ("all", "exists", "filter") or expr.target.type.name != "list":
            return None
        if len(expr.variables) != 1 or len(expr.body) != 1 or expr.body[0].type != BOOL:
            return None
        if self.stage(expr.target, hidden) is not Stage.NODE or self.reads(expr.target, FACTS):
            return None
        (item,), (body,) = expr.variables, expr.body
        others = {*hidden, item}
        op: Literal["||", "&&"] = "||" if expr.macro == "all" else "&&"
        is_chain = isinstance(body, ast.Chain) and body.op == op
        joined = body.operands if isinstance(body, ast.Chain) and is_chain else (body,)
        kept, found = list[ast.Expr](), list[ast.Expr]()
        for each in joined:
            needs, parts = self._of(each), list[ast.Expr]()
            if each.type != BOOL or needs.local - {item} or not needs.roots <= _OF_POD - others:
                continue
            if self._are_values(each, item, parts):
                kept.append(each)
                found += parts
        # A body that reads the item alone is kept as a part of the whole macro.
        if not found or not self._of(body).roots:
            return None
        if len(kept) == len(joined):
            return body, tuple(found)
        test = kept[0] if len(kept) == 1 else ast.Chain(op, tuple(kept), span=body.span, type=BOOL)
        return test, tuple(found)

    def _are_values(self, expr: ast.Expr, item: str, found: list[ast.Expr]) -> bool:
        """Whether an expression reads only values of the item; adds the parts that read them."""
        needs = self._of(expr)
        if item not in needs.local:
            return True
        is_value = expr.type.name in _VALUES or expr.type == _TEXTS
        if is_value and needs.local == {item} and not needs.roots:
            found.append(expr)
            return not _tells_each(expr, item)
        if isinstance(expr, ast.Ident):
            return False
        return all(self._are_values(child, item, found) for child in children(expr))

    def scoped(
        self, expr: ast.Expr, hidden: frozenset[str]
    ) -> Iterator[tuple[ast.Expr, frozenset[str]]]:
        """The direct parts, definitions included, each with the names that are hidden there."""
        match expr:
            case ast.LetReference(name):
                yield self._environment.lets[name], frozenset()
            case ast.DefCall(name, args):
                known = self._environment.defs[name]
                yield known.body, frozenset(p.name for p in known.parameters)
                for arg in args:
                    yield arg, hidden
            case ast.Comprehension(_, target, variables, body):
                yield target, hidden
                for part in body:
                    yield part, hidden.union(variables)
            case _:
                for child in children(expr):
                    yield child, hidden

    def roots(self, expr: ast.Expr) -> frozenset[str]:
        """The declared names that a part reads, `let`s and `def`s included."""
        return self._of(expr).roots

    def is_local(self, expr: ast.Expr) -> bool:
        """Whether a part reads a variable or parameter from around it."""
        return bool(self._of(expr).local)

    def reads(self, expr: ast.Expr, name: str) -> bool:
        """Whether a part reads a declared name, or a variable or parameter of this name."""
        needs = self._of(expr)
        return name in needs.roots or name in needs.local

    def steps(self, expr: ast.Expr) -> int:
        """The size of the tree, `let`s and `def`s included: the work that keeping it saves."""
        return self._of(expr).steps

    def _of(self, expr: ast.Expr) -> _Needs:
        known = self._needs.get(id(expr))
        # The expression is kept too, so that no other one gets its id.
        if known is not None and known[0] is expr:
            return known[1]
        needs = self._examined(expr)
        self._needs[id(expr)] = (expr, needs)
        return needs

    def _examined(self, expr: ast.Expr) -> _Needs:
        match expr:
            case ast.Ident(name):
                if name in self._environment.variables:
                    return _Needs(roots=frozenset({name}), steps=1)
                constant = self._environment.constant(name) is not None
                return _Needs(local=frozenset() if constant else frozenset({name}), steps=1)
            case ast.LetReference(name):
                return self._definition(name, self._environment.lets[name], frozenset())
            case ast.DefCall(name, args):
                known = self._environment.defs[name]
                body = self._definition(
                    name, known.body, frozenset(p.name for p in known.parameters)
                )
                return _sum([body, *map(self._of, args)])
            case ast.Comprehension(_, target, variables, body_parts):
                inner = _sum([self._of(p) for p in body_parts])
                hidden = frozenset(variables)
                # A macro evaluates its body many times.
                part = _Needs(inner.roots - hidden, inner.local - hidden, 10 * inner.steps)
                return _sum([self._of(target), part])
            case _:
                return _sum([self._of(c) for c in children(expr)])

    def _definition(self, name: str, body: ast.Expr, parameters: frozenset[str]) -> _Needs:
        if name not in self._named:
            inner = self._of(body)
            self._named[name] = _Needs(inner.roots - parameters, frozenset(), inner.steps)
        return self._named[name]


def _sum(parts: list[_Needs]) -> _Needs:
    roots = frozenset[str]().union(*(p.roots for p in parts))
    local = frozenset[str]().union(*(p.local for p in parts))
    return _Needs(roots, local, 1 + sum(p.steps for p in parts))


def _tells_each(expr: ast.Expr, item: str) -> bool:
    """Whether a part reads a field of the item that no other item has the same."""
    if isinstance(expr, ast.Select) and expr.name in _OWN and isinstance(expr.operand, ast.Ident):
        return expr.operand.name == item
    return any(_tells_each(child, item) for child in children(expr))


# ---- closures

Wrap = Callable[[ast.Expr, Evaluate], Evaluate]
# Below this size a lookup costs as much as the evaluation.
_WORTH_KEEPING = 6
# The types whose values are always kept.
_SMALL = frozenset({"bool", "int", "double", "quantity", "duration", "timestamp"})


class Compiler:
    """Compiles the expressions of one policy; `slots` is the number of locals that they need.

    `read` makes the closure of a declared name. `wrap` gets every expression with its closure and
    may return another closure; with it no values are kept. Others are kept in `room`.
    """

    def __init__(
        self,
        environment: Environment,
        *,
        read: Callable[[str], Evaluate] = operations.variable,
        wrap: Wrap | None = None,
        room: ColumnRoom | None = None,
    ) -> None:
        self.environment = environment = with_cards(environment)
        self._read = read
        self._wrap = wrap
        self._locals: dict[str, int] = {}
        # With whether the closure takes steps. By name, and by `_is_timed`.
        self._lets: dict[tuple[str, bool], tuple[Evaluate, bool]] = {}
        self._defs: dict[tuple[str, bool], tuple[tuple[int, ...], Evaluate, bool]] = {}
        self.stages = Stages(environment)
        # Whether what is around the part works out how long its result lasts.
        self._is_timed = False
        self._estimator = Estimator(environment, GREATEST, by_call=False)
        self._room = room or ColumnRoom()
        # What is kept per version of a node, which may stand in several clauses. By its text, with
        # whether the closure may take steps of who asks.
        self._of_nodes: dict[str, tuple[Evaluate, bool]] = {}
        self._keeping = False
        self._spends = False
        self.slots = 0

    def compile(self, expr: ast.Expr) -> Evaluate:
        """A closure with the value of the expression, or an EvaluationError.

        Each evaluation has a number of steps of its own.
        """
        self._estimator.of(expr)
        run, spends = self._spending(lambda: self.part(expr))
        return operations.with_steps(run) if spends else run

    def part(self, expr: ast.Expr) -> Evaluate:
        """The closure of a part of an expression, which spends the steps of the whole."""
        if self._wrap is not None:
            return self._wrap(expr, self._compile(expr))
        return self._kept(expr) or self._compile(expr)

    def _spending(self, make: Callable[[], Evaluate]) -> tuple[Evaluate, bool]:
        """A closure, and whether it takes steps of who asks; kept parts have their own."""
        outer, self._spends = self._spends, False
        try:
            return make(), self._spends
        finally:
            self._spends = outer

    def _kept(self, expr: ast.Expr) -> Evaluate | None:
        """The closure of a part whose values are kept per request or per node; None for any other.

        The largest part of this sort is kept, and no part inside it.
        """
        if self._keeping or self.stages.steps(expr) < _WORTH_KEEPING:
            return None
        stage = self.stages.stage(expr, self._locals)
        # What reads the time says at each use how long that holds; rows of tables become stale.
        timed = {"now", *self.environment.tables}
        if stage is None or not self.stages.roots(expr).isdisjoint(timed):
            return None
        text = print_expression(expr) if stage is Stage.NODE else ""
        if text in self._of_nodes:
            known, charges = self._of_nodes[text]
            self._spends |= charges
            return known
        self._keeping = True
        try:
            compiled, charges = self._spending(lambda: self._compile(expr))
        finally:
            self._keeping = False
        # A value that may be too large to keep takes the steps of who asks.
        spends = charges and expr.type.name not in _SMALL
        self._spends |= spends
        if stage is Stage.GROUP:
            (name,) = self.stages.roots(expr)
            compiled = with_own_steps(compiled) if charges else compiled
            of_nodes = not any(
                read.path[1:2] in OF_PODS for read in reads(expr, self.environment.definitions)
            )
            return once_per_group(compiled, self._group(name), of_nodes=of_nodes)
        if stage is Stage.NODE:
            reads_facts = self.stages.reads(expr, FACTS)
            found = once_per_node(compiled, self._room, charges=charges, reads_facts=reads_facts)
            self._of_nodes[text] = found, spends
            return found
        return once_per_pod(compiled, charges=charges)

    def _group(self, name: str) -> Evaluate:
        group = self.environment.groups[name]
        return read_group(digest_of(group, self.environment), name)

    def _timed(self, make: Callable[[ast.Expr], Evaluate], expr: ast.Expr) -> Evaluate:
        """The closure of a part of what works out how long its result lasts."""
        outer, self._is_timed = self._is_timed, True
        try:
            return make(expr)
        finally:
            self._is_timed = outer

    def _item_kinds(self, expr: ast.Comprehension, target: Evaluate, slot: int) -> ItemKinds | None:
        """The kinds of the items of a macro with one variable, a test, over a list of the node.

        None where no part of its body is the same for items that are alike.
        """
        if self._keeping or self._wrap is not None:
            return None
        if (found := self.stages.item_test(expr, self._locals)) is None:
            return None
        body, parts = found
        names, weight = {expr.variables[0]: slot}, self.weight(expr)
        test, charges = self._spending(lambda: self.with_locals(names, body))
        keys = []
        for part in parts:
            made, spends = self._spending(partial(self.with_locals, names, part))
            keys.append(item_kinds.value_key(made, part.type, charges=spends))
        self._spends |= charges
        items, passive = macros.list_items(target, weight), expr.macro == "all"
        wanted = [*self._equal(body, parts, expr.variables[0], holds=expr.macro != "all")]
        read = item_kinds.MacroItems(items, slot, keys, weight, wanted)
        return ItemKinds(read, test, self._room, passive=passive, charges=charges)

    def _equal(
        self, body: ast.Expr, parts: Sequence[ast.Expr], item: str, *, holds: bool
    ) -> Iterator[tuple[int, Evaluate]]:
        """The indexes of parts, with texts: the body holds only where the part is that text.

        If not `holds`, it is false only there.
        """
        match body:
            case ast.Unary("!", operand):
                yield from self._equal(operand, parts, item, holds=not holds)
            case ast.Chain(op, operands) if op == ("&&" if holds else "||"):
                for each in operands:
                    yield from self._equal(each, parts, item, holds=holds)
            case ast.Binary(op, left, right) if op == ("==" if holds else "!="):
                for one, other in ((left, right), (right, left)):
                    at = next((i for i, part in enumerate(parts) if part is one), None)
                    if at is None or not one.type == other.type == STRING:
                        continue
                    if self.stages.reads(other, item):
                        continue
                    text, spends = self._spending(partial(self.part, other))
                    # Who asks first about a request may not have more steps than others.
                    if not spends:
                        yield at, text

    def weight(self, expr: ast.Comprehension) -> int:
        """The steps of a macro for each item."""
        self._spends = True
        return 1 + sum(self._estimator.of(part).own for part in expr.body)

    def slot(self) -> int:
        """The slot of a new local."""
        self.slots += 1
        return self.slots - 1

    def with_locals(self, names: Mapping[str, int], expr: ast.Expr) -> Evaluate:
        """The closure of an expression in which `names` are locals, with their slots."""
        outer = self._locals
        self._locals = {**outer, **names}
        try:
            return self.part(expr)
        finally:
            self._locals = outer

    def _compile(self, expr: ast.Expr) -> Evaluate:
        match expr:
            case ast.Binary(op, left, right) if (rises := self._rises(expr)) is not None:
                sides = self._timed(self.part, left), self._timed(self.part, right)
                return moments.until_it_turns(op, *sides, rises=rises)
            case ast.Call(function, ast.Ident("now") as target) if (
                function in moments.OF_MINUTES and (target.absolute or "now" not in self._locals)
            ):
                return moments.until_the_next_minute(self._timed(self._general, expr))
            case _:
                return self._general(expr)

    def _rises(self, expr: ast.Binary) -> bool | None:
        """Whether a comparison follows `now`, and how; see `Following.rises`."""
        is_hidden = "now" in self._locals
        return moments.Following(self.environment, self.stages.reads, is_hidden).rises(expr)

    def _general(self, expr: ast.Expr) -> Evaluate:
        """The closure of an expression over the closures of its parts."""
        match expr:
            case ast.Literal(value):
                return operations.constant(value)
            case ast.Ident():
                return self._ident(expr)
            case ast.Select():
                return self._select(expr)
            case ast.Index():
                return self._index(expr)
            case ast.Call():
                return self._call(expr)
            case ast.Unary(op, operand):
                return self._apply(expr, f"{op}_", (operand,), member=False)
            case ast.Binary():
                return self._binary(expr)
            case ast.Chain("+", operands):
                return self._total(expr, operands)
            case ast.Chain(op, operands):
                parts = tuple(operations.must_be_bool(self.part(o), o.type) for o in operands)
                return operations.logic(parts, decisive=op == "||")
            case ast.Conditional(condition, then, otherwise):
                test = operations.must_be_bool(self.part(condition), condition.type)
                return operations.conditional(test, self.part(then), self.part(otherwise))
            case ast.ListLiteral(elements, marked):
                return operations.list_literal(
                    tuple(self.part(e) for e in elements), frozenset(marked)
                )
            case ast.MapLiteral(entries):
                pairs = tuple((self.part(e.key), self.part(e.value), e.optional) for e in entries)
                return operations.map_literal(pairs)
            case ast.Comprehension():
                return self._comprehension(expr)
            case ast.Has(operand):
                return self._has(operand)
            case ast.LetReference(name):
                key = name, self._is_timed
                if key not in self._lets:
                    body = self.environment.lets[name]
                    made = self._spending(lambda: self._closed(body, {}))
                    self._lets[key] = self._burning(expr, made, self._estimator.let(name))
                found, spends = self._lets[key]
                self._spends |= spends
                return found
            case ast.DefCall():
                return self._def_call(expr)
            case _:
                assert_never(expr)

    def _ident(self, expr: ast.Ident) -> Evaluate:
        if not expr.absolute and (slot := self._locals.get(expr.name)) is not None:
            return lambda frame: frame.locals[slot]
        if (constant := self.environment.constant(expr.name)) is not None:
            return operations.constant(constant)
        if (table := self.environment.tables.get(expr.name)) is not None:
            return read_table(table)
        if expr.name in self.environment.groups:
            return self._group(expr.name)
        if (count := self.environment.counts.get(expr.name)) is not None:
            return read_count(digest_of(count, self.environment), expr.name)
        read = self._read(expr.name)
        return moments.brief(read) if expr.name == "now" and not self._is_timed else read

    def _closed(self, body: ast.Expr, names: Mapping[str, int]) -> Evaluate:
        """The closure of the body of a let or def, which sees only its own locals."""
        outer, self._locals = self._locals, {}
        try:
            return self.with_locals(names, body)
        finally:
            self._locals = outer

    def _burning(
        self, use: ast.Expr, made: tuple[Evaluate, bool], estimate: Estimate
    ) -> tuple[Evaluate, bool]:
        """The closure of a definition; one of many steps takes them when it is used."""
        if self._estimator.of(use).charged:
            return operations.burning(made[0], estimate.own), True
        return made

    def _comprehension(self, expr: ast.Comprehension) -> Evaluate:
        target = self.part(expr.target)
        slots = tuple(self.slot() for _ in expr.variables)
        names = dict(zip(expr.variables, slots, strict=True))
        body = [self.with_locals(names, part) for part in expr.body]
        kinds = self._item_kinds(expr, target, slots[0])
        items = None if kinds is None else kinds.items
        return macros.comprehension(expr, target, slots, body, self.weight(expr), items)

    def _def_call(self, expr: ast.DefCall) -> Evaluate:
        key = expr.name, self._is_timed
        if key not in self._defs:
            known = self.environment.defs[expr.name]
            slots = tuple(self.slot() for _ in known.parameters)
            names = dict(zip((p.name for p in known.parameters), slots, strict=True))
            made = self._spending(lambda: self._closed(known.body, names))
            estimate = self._estimator.call(expr.name, ())
            self._defs[key] = (slots, *self._burning(expr, made, estimate))
        slots, body, spends = self._defs[key]
        self._spends |= spends
        return operations.call_def(slots, tuple(self.part(a) for a in expr.args), body)

    def _select(self, expr: ast.Select) -> Evaluate:
        kind = expr.operand.type
        if kind.is_record and not expr.optional:
            known = self.environment.field(kind, expr.name)
            assert known is not None, "the checker knows every field"
            zero = self.environment.zero(known)
            return operations.field(
                self.part(expr.operand), known.name, zero, optional=known.optional
            )
        pick = self._choice(kind, expr.name, set_only=False)
        return operations.member(self.part(expr.operand), pick, optional=expr.optional)

    def _choice(self, kind: Type, name: str, *, set_only: bool) -> operations.Pick:
        """The choice of a field from a value of the type, a record or a map, or an optional one.

        With `set_only` a field that is not set is missing, for `has`.
        """
        inner = kind.args[0] if kind.name == "optional" else kind
        if inner == DYN:
            return self._member(name, set_only=set_only)
        known = self.environment.field(inner, name) if inner.is_record else None
        if known is None:
            return lambda _, value: operations.key_of(value, name)
        if set_only:
            return operations.set_field(name)
        zero = self.environment.zero(known)
        return lambda _, value: read_field(value, name, zero, optional=known.optional)

    def _member(self, name: str, *, set_only: bool) -> operations.Pick:
        """The choice of a key of a map, or of a field of a record, whose type shows at run time.

        With `set_only` a field that is not set is missing, for `has`.
        """
        environment, slot = self.environment, self.slot()
        records = environment.schema.records if environment.schema is not None else {}
        forms = {
            record: self._short_form(record, its.derived, slot, set_only=set_only)
            for record in records
            if (its := records[record].fields.get(name)) is not None and its.derived is not None
        }

        def pick(frame: Frame, value: object) -> object:
            if isinstance(value, Mapping):
                return lookup(value, name)
            record, known = environment.member(value, name)
            if record in forms:
                frame.locals[slot] = value
                found = forms[record](frame)
                if set_only and found is False:
                    raise MissingError(f"there is no `{name}`")
                return found
            zero = environment.zero(known)
            return read_field(value, name, zero, optional=set_only or known.optional)

        return pick

    def _short_form(self, record: str, derived: str, slot: int, *, set_only: bool) -> Evaluate:
        """The closure of a short form of the record in a slot; of `has` of it with `set_only`."""
        form = short_form(derived)
        if set_only and isinstance(form, ast.Select | ast.Index):
            form = ast.Has(form)
        elif set_only:
            form = ast.Literal(True, BOOL)
        checker = Checker(self.environment)
        with checker.scope({"self": Type(record)}):
            checked = checker.check(form)
        self._estimator.of(checked)
        return self.with_locals({"self": slot}, checked)

    def _index(self, expr: ast.Index) -> Evaluate:
        operand, index = expr.operand, expr.index
        if (
            operand.type.name == "map"
            and isinstance(index, ast.Literal)
            and isinstance(index.value, str)
            and not expr.optional
        ):
            return operations.key(self.part(operand), index.value)
        return operations.index(self.part(operand), self.part(index), optional=expr.optional)

    def _has(self, operand: ast.Select | ast.Index) -> Evaluate:
        held, kind = self.part(operand.operand), operand.operand.type
        if isinstance(operand, ast.Index):
            return operations.has_index(held, self.part(operand.index))
        if kind.is_record:
            return operations.has_field(held, operand.name)
        return operations.has_member(held, self._choice(kind, operand.name, set_only=True))

    def _binary(self, expr: ast.Binary) -> Evaluate:
        left, right = self.part(expr.left), self.part(expr.right)
        kinds = expr.left.type, expr.right.type
        charged = self._estimator.of(expr).charged
        if expr.op in ("==", "!="):
            wanted = expr.op == "=="
            if charged:
                return self._charged(lambda a, b: equals(a, b) is wanted, equated, (left, right))
            return operations.equality(left, right, kinds, negated=not wanted)
        fast = operations.comparison(expr.op, left, right, kinds)
        if fast is not None and not charged:
            return fast
        overload = self.environment.overload(expr.op, kinds, member=False)
        if charged and overload.work is not None:
            return self._charged(overload.call, overload.work, (left, right))
        return operations.apply(overload.call, (left, right))

    def _call(self, expr: ast.Call) -> Evaluate:
        if expr.target is not None and expr.function in ("or", "orValue") and len(expr.args) == 1:
            kinds = (expr.target.type, expr.args[0].type)
            call = self.environment.overload(expr.function, kinds, member=True).call
            target, other = self.part(expr.target), self.part(expr.args[0])
            return operations.alternative(target, other, call, inner=expr.function == "orValue")
        if expr.target is not None:
            return self._apply(expr, expr.function, (expr.target, *expr.args), member=True)
        return self._apply(expr, expr.function, expr.args, member=False)

    def _apply(
        self, expr: ast.Expr, function: str, args: tuple[ast.Expr, ...], *, member: bool
    ) -> Evaluate:
        overload = self.environment.overload(function, [a.type for a in args], member=member)
        if overload.work is not None and self._estimator.of(expr).charged:
            return self._charged(overload.call, overload.work, tuple(self.part(a) for a in args))
        call = overload.call
        if overload.short is not None and all(
            self._estimator.of(a).size.length <= PARSED for a in args
        ):
            call = overload.short
        return operations.apply(call, tuple(self.part(a) for a in args))

    def _charged(
        self, call: Callable[..., object], work: Work, args: tuple[Evaluate, ...]
    ) -> Evaluate:
        self._spends = True
        return operations.charged(call, work, args)

    def _total(self, expr: ast.Expr, operands: tuple[ast.Expr, ...]) -> Evaluate:
        parts = tuple(self.part(o) for o in operands)
        same = len({o.type for o in operands}) == 1
        kind = operands[0].type if same else DYN
        add = self.environment.overload("+", (kind, kind), member=False)
        estimate = self._estimator.of(expr)
        if add.work is not None and estimate.charged:
            self._spends = True
            return operations.total(parts, add.call, add.work)
        is_short = add.short is not None and estimate.size.length < CHARACTERS
        return operations.total(parts, add.short if is_short and add.short else add.call)
