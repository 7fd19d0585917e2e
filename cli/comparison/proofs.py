"""Proofs about two versions of a policy, for all worlds, by an SMT solver.

What is translated is exact: labels and annotations as partial maps, texts, whole numbers, amounts
and lengths of time, and what an error means. Anything else is a variable, the same one in both
versions where these have the same text for it. So a proof is about more worlds than there are.
"""

from __future__ import annotations

import json
import operator
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from fractions import Fraction
from typing import Any, NamedTuple, TypeVar

import z3

from cli.comparison.worlds import Direction, Json, Pair, SmallWorld, Thing, amount, put
from engine.program.program import text_of
from grammar.checker.policy_checker import Checked
from grammar.clauses.filter import Filter
from grammar.clauses.limit import Limit
from grammar.clauses.share import Share
from grammar.meaning.schema import Schema
from grammar.tree import ast
from grammar.tree.clause_parts import ClauseThatCounts
from grammar.tree.policy import Count, Data, Def, Group
from grammar.tree.types import BOOL, DURATION, INT, QUANTITY, STRING, Type
from grammar.tree.walk import children, rewritten, roots, walk

T = TypeVar("T")
# How long the solver looks for an answer to one question, in milliseconds.
_MOST_TIME = 5_000
_NUMBERS = INT, QUANTITY, DURATION
_SORTS: Mapping[Type, Any] = {
    BOOL: z3.BoolSort(),
    STRING: z3.StringSort(),
    **dict.fromkeys(_NUMBERS, z3.IntSort()),
}
_VALUES: Mapping[type, Callable[[Any], Any]] = {
    bool: z3.BoolVal,
    int: z3.IntVal,
    str: z3.StringVal,
}
_OF_ALL: Mapping[str, Callable[..., Any]] = {
    "==": operator.eq,
    "!=": operator.ne,
    "in": lambda it, *of: z3.Or(*(it == each for each in of)),
}
_OF_NUMBERS: Mapping[str, Callable[..., Any]] = {
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}
# The operations that have a value whenever their operands have, by the one type of these.
_OPERATIONS: Mapping[tuple[str | Type, ...], Callable[..., Any]] = {
    ("!", BOOL): z3.Not,
    ("-", QUANTITY): operator.sub,
    ("startsWith", STRING): lambda text, part: z3.PrefixOf(part, text),
    ("endsWith", STRING): lambda text, part: z3.SuffixOf(part, text),
    ("contains", STRING): z3.Contains,
    **{(name, kind): call for name, call in _OF_ALL.items() for kind in _SORTS},
    **{(name, kind): call for name, call in _OF_NUMBERS.items() for kind in _NUMBERS},
}
_NEVER, _ALWAYS = z3.BoolVal(False), z3.BoolVal(True)
# Why there is no value; any other error is a failure.
_NONE, _MISSING = z3.BitVecVal(0, 2), z3.BitVecVal(1, 2)
_NAMESPACE = ("string", "pod", "metadata", "namespace")
# What z3 writes for a character of a text.
_CODE = re.compile(r"\\u\{([0-9a-f]+)\}")


class _Term(NamedTuple):
    """A term: a value, and why there is none."""

    value: Any
    error: Any = _NONE

    def has(self, truth: Any) -> Any:
        """When the term has this truth."""
        return z3.And(self.value == truth, self.error == _NONE)

    @property
    def fails(self) -> Any:
        """When there is no value for another reason than that it is missing."""
        return z3.UGT(self.error, _MISSING)


def _first_error(terms: Sequence[_Term]) -> Any:
    error = _NONE
    for each in reversed(terms):
        error = z3.If(each.error == _NONE, error, each.error)
    return error


def _variable(sort: Any, *key: object) -> Any:
    """The variable of a key, which is the same one for parts of a tree with the same text."""
    # The solver reads a name up to a zero byte.
    return z3.Const(text_of(key).replace(b"\0", b"\n").decode(), sort)


# ---- expressions


class _Translator:
    """A translator of the expressions of a policy, in which each `let` is written out.

    `usual` gets what holds in most worlds.
    """

    def __init__(self, part: Checked, schema: Schema, usual: list[Any]) -> None:
        self._environment, self._schema, self._usual = part.environment, schema, usual
        named = Def | Group | Count | Data
        self.definitions = self.written_out(
            tuple(each for each in part.policy.items if isinstance(each, named))
        )

    def written_out(self, tree: T) -> T:
        """The tree with the value of each `let` in the place of its name."""
        lets = self._environment.lets

        def change(node: object) -> object:
            return self.written_out(lets[node.name]) if isinstance(node, ast.LetReference) else node

        return rewritten(tree, change)

    def variable(self, sort: Any, tree: object, *more: object) -> Any:
        """The variable of a tree, with all definitions if it reads any."""
        names = self._environment.defs.keys() | self._environment.variables.keys()
        read = {getattr(each, "name", "") for each in walk(tree)}
        is_plain = read & names <= {"pod", "node", "now"}
        return _variable(sort, tree, () if is_plain else self.definitions, *more)

    def counts(self, tree: tuple[object, ...]) -> bool:
        """Whether a tree reads groups of nodes, or numbers of pods."""
        named = self._environment.groups.keys() | self._environment.counts.keys()
        return not named.isdisjoint(roots(children(tree), self._environment.definitions))

    def term(self, expr: ast.Expr | None) -> _Term:
        """The term of an expression. Raises LookupError for a value that is no single one."""
        if expr is None:
            return _Term(_ALWAYS)
        try:
            return self._exact(expr)
        except LookupError:
            sort, error = _SORTS[expr.type], self.variable(z3.BitVecSort(2), expr)
            self._usual.append(error == _NONE)
            return _Term(self.variable(sort, expr), error)

    def _exact(self, expr: ast.Expr) -> _Term:
        match expr:
            case ast.Literal(value, kind) if kind in _SORTS:
                value = getattr(value, "nanos", value)
                if isinstance(value, str) and not (value.isascii() and "\\" not in value):
                    raise LookupError  # the solver reads this text in another way
                return _Term(_VALUES[type(value)](value))
            case ast.Has(read):
                return self._presence(read)
            case ast.Binary("in", ast.Literal(str()) as key, of) if of.type.name == "map":
                return self._presence(ast.Index(of, key, type=of.type.args[1]))
            case ast.Call("orValue", ast.Index() | ast.Select() as read, (other,)):
                held, instead = self._read(read, other.type), self.term(other)
                is_there, values = held.error == _NONE, (held.value, instead.value)
                return _Term(z3.If(is_there, *values), z3.If(is_there, _NONE, instead.error))
            case ast.Index() | ast.Select():
                return self._read(expr, expr.type)
            case ast.Chain("&&" | "||" as op, operands):
                # A deciding value wins over errors around it.
                way, terms = op == "||", [self.term(each) for each in operands]
                decided = z3.Or(*(each.has(way) for each in terms))
                return _Term(decided == way, z3.If(decided, _NONE, _first_error(terms)))
            case ast.Binary("in", left, ast.ListLiteral(elements, ())):
                return self._called("in", left, *elements)
            case ast.Unary("!" as name) | ast.Binary(name) | ast.Call(name):
                return self._called(name, *children(expr))
            case _:
                raise LookupError

    def _called(self, name: str, *operands: ast.Expr) -> _Term:
        """An operation that has a value whenever its operands have."""
        call = _OPERATIONS[name, *dict.fromkeys(each.type for each in operands)]
        terms = [self.term(each) for each in operands]
        return _Term(call(*(each.value for each in terms)), _first_error(terms))

    def _presence(self, read: ast.Expr) -> _Term:
        if read.type == QUANTITY:
            raise LookupError  # an amount that an object does not name may be 0
        return _Term(self._read(read, read.type).error == _NONE)

    def _read(self, read: ast.Expr, kind: Type) -> _Term:
        """The value of a field, or of a key of a map, that a pod or a node may have."""
        path, is_sure = self._path(read)
        value = z3.Const(json.dumps([kind.name, *path]), _SORTS[kind])
        if kind == QUANTITY and path[1] in ("requests", "allocatable"):
            # What an object does not name is 0, and the API takes no amount below.
            return _Term(z3.If(value < 0, 0, value))
        has = z3.Bool(json.dumps(["has", *path]))
        return _Term(value, _NONE if is_sure else z3.If(has, _NONE, _MISSING))

    def _path(self, read: ast.Expr) -> tuple[tuple[str, ...], bool]:
        """The path of a value, and whether it is always there; all before it is."""
        match read:
            case ast.Ident("pod" | "node" as name):
                return (name,), True
            case ast.Index(of, ast.Literal(str(name))) | ast.Select(of, name):
                path, is_sure = self._path(of)
                known = self._schema.field(of.type.name, name)
                if not is_sure or (known is None and of.type.name != "map"):
                    raise LookupError
                # The pods of a cluster are known.
                return (*path, name), known is not None and (known.native or not known.optional)
            case _:
                raise LookupError


# ---- policies


class Prover:
    """A prover of how two versions of a policy differ; `worlds` are those in which they may."""

    def __init__(self, versions: Pair, schema: Schema) -> None:
        self.worlds = list[SmallWorld]()
        # What holds in most worlds.
        self._usual = list[Any]()
        self._rejects = [self._rejecting(at, each, schema) for at, each in enumerate(versions)]

    def excludes(self, direction: Direction) -> bool:
        """Whether no node is decided differently in this direction; else `worlds` may get one."""
        old, new = self._rejects if direction == "stricter" else self._rejects[::-1]
        solver = z3.Solver()
        solver.set("timeout", _MOST_TIME)
        solver.add(new, z3.Not(old))
        for assumed in (self._usual, ()):
            if (found := solver.check(*assumed)) == z3.sat:
                self.worlds.append(_world(solver.model()))
                return False
        return bool(found == z3.unsat)

    def _rejecting(self, side: int, version: Checked | None, schema: Schema) -> Any:
        """When a version rejects the node."""
        if version is None or version.policy.setting("mode", "enforce") == "audit":
            return _NEVER
        policy, found = version.policy, [_NEVER]
        parts = [(_Translator(p, schema, self._usual), p) for p in (version, *version.uses)]
        clauses = [(by, by.written_out(c)) for by, p in parts for c in p.policy.clauses]
        shares = [c for _, c in clauses if isinstance(c, Share) and c.verb == "filter"]
        for by, clause in clauses:
            if clause.verb != "filter":
                continue
            is_mutual = isinstance(clause, Limit) and clause.mutual
            if is_mutual or not isinstance(clause, Filter | ClauseThatCounts):
                # It asks what the policy says of other pods, so that all of its parts matter.
                return _variable(z3.BoolSort(), side)
            bare = replace(clause, name="", missing=None, message=None, detail=None)
            passes = policy.passes_missing(clause)
            if isinstance(clause, Share) and len(shares) > 1:
                # Shares of one policy are judged together.
                all_ = [each.definitions for each, _ in parts]
                found.append(_variable(z3.BoolSort(), bare, policy.cluster, passes, shares, all_))
            elif by.counts((clause.when, clause.requirements)):
                # With pods on their way there is more than one number of a count.
                found.append(by.variable(z3.BoolSort(), bare, policy.cluster, passes))
            elif isinstance(bare, Filter):
                found.append(_filtered(by, bare, passes=passes))
            else:
                found.append(_counted(by, bare, policy.cluster, passes))
        by, own = parts[0][0], _ALWAYS
        selector = by.term(by.written_out(policy.selector))
        if policy.namespace is not None:
            own = z3.String(json.dumps(_NAMESPACE)) == policy.namespace
        unknown = z3.And(selector.fails, not policy.passes_missing())
        return z3.And(own, z3.Or(unknown, z3.And(selector.has(True), z3.Or(found))))


def _filtered(by: _Translator, clause: Filter, *, passes: bool) -> Any:
    """When a filter rejects the node; what has no value may pass."""
    when, terms = by.term(clause.when), [by.term(each) for each in clause.requires]
    rejects = z3.Or(*(e.has(False) if passes else z3.Not(e.has(True)) for e in terms))
    return z3.Or(z3.And(when.fails, not passes), z3.And(when.has(True), rejects))


def _counted(by: _Translator, clause: ClauseThatCounts, *rule: bool) -> Any:
    """When a clause that counts rejects the node; `rule` is what the policy says of it."""
    when, clause = by.term(clause.when), replace(clause, when=None)
    if not isinstance(clause, Limit | Share):
        return z3.And(when.has(True), by.variable(z3.BoolSort(), clause, rule))
    bound = clause.bound
    amount = getattr(bound.amount, "value", bound.amount)
    number = getattr(amount, "nanos", amount)
    # The whole is counted in another way than a part.
    is_other = bound.kind == "exactly" or (bound.percent and number == 100)
    if is_other or not isinstance(number, int | float):
        return z3.And(when.has(True), by.variable(z3.BoolSort(), clause, rule))
    # It rejects from a number on, which is not known.
    unbound = replace(clause, bound=replace(bound, amount=0))
    limit, number = by.variable(z3.RealSort(), unbound, rule), z3.RealVal(str(Fraction(number)))
    return z3.And(when.has(True), number > limit if bound.kind == "at least" else number < limit)


def _world(model: Any) -> SmallWorld:
    """The world of a model: one node, and a pod."""
    values = {tuple(json.loads(e.name())): model[e] for e in model.decls() if e.name()[0] == "["}
    fields: dict[str, dict[str, Json]] = {"pod": {}, "node": {}}
    for (kind, root, *path), value in values.items():
        if kind == "has" or z3.is_false(values.get(("has", root, *path))) or path[0] == "requested":
            continue
        names = path[path[0] == "metadata" and len(path) > 2 :]
        names = ["allocatable", *names[1:]] if names[0] == "free" else names
        found: Json = z3.is_true(value)
        if z3.is_string_value(value):
            found = _CODE.sub(lambda match: chr(int(match[1], 16)), value.as_string())
        elif z3.is_int_value(value):
            found = amount(value.as_long()) if kind == "quantity" else value.as_long()
        put(fields[root], names, found)
    own = fields["pod"].pop("metadata", {})
    pod = f"{own.get('namespace') or 'default'}/{own.get('name') or 'web-1'}"
    node = fields["node"].pop("metadata", {}).get("name") or "node-1"
    return SmallWorld((Thing("node", node, fields["node"]), Thing("pod", pod, fields["pod"])))
