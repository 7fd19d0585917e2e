"""Environment: the names and functions that an expression may use, for all that works on it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import MappingProxyType

from grammar.clauses.cards import Cards
from grammar.meaning import card_forms
from grammar.meaning.added_functions import added_functions
from grammar.meaning.schema import Field, Schema
from grammar.tree.ast import Call, Expr, Ident, Select
from grammar.tree.policy import Count, Data, Def, Group, Let, is_group
from grammar.tree.types import (
    BOOL,
    DYN,
    INT,
    POISON,
    TYPE,
    Overload,
    Type,
    list_of,
    map_of,
    optional_of,
    resolve,
)
from grammar.tree.walk import Definitions
from grammar.values import (
    addresses,
    kinds,
    lists,
    maps,
    nodes,
    numbers,
    optional,
    quantity,
    semver,
    strings,
    time,
)
from grammar.values import format as format_
from grammar.values.errors import EvaluationError
from grammar.values.kinds import TYPE_NAMES, TypeValue, kind
from grammar.values.maps import record_names
from grammar.values.sizes import Size

Functions = Mapping[str, tuple[Overload, ...]]

_TOPICS = (
    *(numbers, time, quantity, semver, strings, format_, lists, maps, optional, addresses),
    *(nodes, kinds),
)


def table(overloads: Iterable[Overload]) -> Functions:
    """The overloads by name, in order."""
    found: dict[str, list[Overload]] = {}
    for overload in overloads:
        found.setdefault(overload.name, []).append(overload)
    return MappingProxyType({name: tuple(its) for name, its in found.items()})


FUNCTIONS: Functions = table(
    (*(o for topic in _TOPICS for o in topic.OVERLOADS), *added_functions())
)
# The functions of a policy with a `cards` clause. The engine gives those of cards their values.
FUNCTIONS_OF_CARDS: Functions = MappingProxyType({**FUNCTIONS, **table(card_forms.DECLARED)})


def select(overloads: Sequence[Overload], args: Sequence[object], *, member: bool) -> Overload:
    """The first overload that accepts the values; raises EvaluationError if there is none."""
    for overload in overloads:
        params = overload.params
        fits = overload.member is member and len(params) == len(args)
        if fits and all(map(_admits, params, args)):
            return overload
    names = ", ".join(map(kind, args))
    raise EvaluationError(f"no such overload for {names or 'no arguments'}")


def _by_values(overloads: Sequence[Overload], kinds: Sequence[Type], *, member: bool) -> Overload:
    """The overload that selects one by the values of each call."""

    def work(*args: object) -> int:
        if any(isinstance(a, Size) for a in args):
            fitting = (o.work for o in overloads if len(o.params) == len(args))
            return max((w(*args) for w in fitting if w is not None), default=0)
        chosen = select(overloads, args, member=member)
        return chosen.work(*args) if chosen.work is not None else 0

    def call(*args: object) -> object:
        return select(overloads, args, member=member).call(*args)

    charged = work if any(o.work is not None for o in overloads) else None
    return Overload("", tuple(kinds), DYN, call, charged, member)


def _admits(parameter: Type, value: object) -> bool:
    if parameter.is_record:
        return parameter.name in record_names(value)
    name = kind(value)
    if parameter.is_parameter or parameter.name in (name, "dyn"):
        return True
    return parameter.name == "number" and name in ("int", "double")


@dataclass(frozen=True, slots=True)
class ClusterFacts:
    """One cluster as rules know it: how many nodes have a label key, by key, of how many nodes."""

    labels: Mapping[str, int]
    nodes: int


@dataclass(frozen=True, slots=True)
class Environment:
    """The environment of expressions: the meaning of names, to check, evaluate and compile.

    With `uniform_literals`, as in Kubernetes, the items of a list and the values of a map have one
    type. `cards` are the clauses of this kind, by name, as they are written; `tables` are the
    `data` blocks by the names that expressions read, `groups` those of nodes and `counts` those of
    pods by their names.
    """

    variables: Mapping[str, Type]
    schema: Schema | None = None
    functions: Functions = field(default_factory=lambda: FUNCTIONS)
    lets: Mapping[str, Expr] = field(default_factory=dict)
    defs: Mapping[str, Def] = field(default_factory=dict)
    uniform_literals: bool = False
    cards: Mapping[str, Cards] = field(default_factory=dict)
    tables: Mapping[str, Data] = field(default_factory=dict)
    groups: Mapping[str, Group] = field(default_factory=dict)
    counts: Mapping[str, Count] = field(default_factory=dict)

    @property
    def definitions(self) -> Definitions:
        """Its `let`s and `def`s, for whoever asks what expressions read."""
        return Definitions(self.lets, self.defs)

    def defining(self, item: Let | Def) -> Environment:
        """The environment with this definition, also in the place of another of its name."""
        if isinstance(item, Let):
            return replace(self, lets={**self.lets, item.name: item.value})
        return replace(self, defs={**self.defs, item.name: item})

    # ---- names

    def variable(self, name: str) -> Type | None:
        """The type of a variable or of a type's name, or None."""
        return self.variables.get(name, TYPE if name in TYPE_NAMES else None)

    def constant(self, name: str) -> TypeValue | None:
        """The type that a name stands for, if it is not a variable."""
        return TYPE_NAMES.get(name) if name not in self.variables else None

    def function_name(self, call: Call) -> str | None:
        """The full name of a function called without a receiver: `size`, `math.greatest`."""
        name = call.function
        if call.target is not None:
            root, namespace = dotted(call.target)
            if root is None:
                return None
            name = f"{namespace}.{name}"
        return name if any(not o.member for o in self.functions.get(name, ())) else None

    # ---- functions

    def overloads(self, name: str, *, member: bool) -> list[Overload]:
        return [o for o in self.functions.get(name, ()) if o.member is member]

    def function_names(self, *, member: bool) -> set[str]:
        """The names of functions, without operators."""
        return {n for n in self.functions if n[0].isalpha() and self.overloads(n, member=member)}

    def overload(self, name: str, kinds: Sequence[Type], *, member: bool) -> Overload:
        """The overload that the types select, or one that selects it by the values."""
        overloads = self.overloads(name, member=member)
        if not any(k in (DYN, POISON) for k in kinds):
            for overload in overloads:
                if resolve([overload], kinds) is not None:
                    return overload
        return _by_values(overloads, kinds, member=member)

    # ---- records

    def field(self, record: Type, name: str) -> Field | None:
        return self.schema.field(record.name, name) if self.schema is not None else None

    def member(self, value: object, name: str) -> tuple[str, Field]:
        """The record that a value is, and its field, where the type is known only at run time.

        Raises EvaluationError for a value without fields, and for a field that it does not have.
        """
        records = self.schema.records if self.schema is not None else {}
        record = next((n for n in record_names(value) if n in records), None)
        if record is None:
            raise EvaluationError(f"no such overload: `.{name}` of a value without fields")
        known = records[record].fields.get(name)
        if known is None or known.parameter is not None:
            raise EvaluationError(f"{record} has no field `{name}`")
        return record, known

    def zero(self, known: Field) -> object:
        """The value of an absent field; None for an optional one, which is missing then."""
        if self.schema is None or known.optional:
            return None
        return self.schema.zero(known.type)


def dotted(expr: Expr) -> tuple[Ident | None, str]:
    """The name `a.b.c` that an expression spells, after its first part; None for any other."""
    parts: list[str] = []
    while isinstance(expr, Select) and not expr.optional:
        parts.append(expr.name)
        expr = expr.operand
    if not isinstance(expr, Ident):
        return None, ""
    return expr, ".".join((expr.name, *reversed(parts)))


# ---- macros

# The macros whose last argument is a condition, and those that go over a list.
TESTS = frozenset({"all", "exists", "exists_one", "existsOne", "filter"})
MACROS = TESTS | {"map", "sortBy"}
RELATIONS = frozenset({"==", "!=", "<", "<=", ">", ">=", "in"})
# The items of a group of nodes.
NODE = Type("Node")
_OPTIONAL = frozenset({"optMap", "optFlatMap"})


def inside(found: Type) -> Type:
    """The type inside an optional; any other type as it is."""
    return found.args[0] if found.name == "optional" else found


def variables_of_macro(macro: str, target: Type, count: int) -> tuple[Type, ...] | None:
    """The types of a macro's variables; None if the macro does not accept the target."""
    if macro == "cel.bind":
        return (target,)
    if macro in _OPTIONAL:
        return (inside(target),) if target.name in ("optional", "dyn", "error") else None
    if is_group(target):
        return (INT, NODE)[-count:]
    match target:
        case Type("list", (item,)):
            return (INT, item)[-count:]
        case Type("map", args):
            return args[:count]
        case Type("dyn" | "error"):
            return (DYN,) * count
        case _:
            return None


def result_of_macro(macro: str, target: Type, kinds: tuple[Type, ...], made: Type) -> Type | None:
    """The type of a macro whose body has the type `made`; None if `made` must be an optional."""
    match macro:
        case "all" | "exists" | "exists_one" | "existsOne":
            return BOOL
        case "map" | "transformList":
            return list_of(made)
        case "filter":
            return list_of(kinds[0])
        case "sortBy":
            return list_of(kinds[0]) if is_group(target) else target
        case "transformMap":
            return map_of(kinds[0], made)
        case "transformMapEntry":
            return made if made.name == "map" else map_of(DYN, DYN)
        case "optMap":
            return optional_of(made)
        case "optFlatMap":
            return made if made.name in ("optional", "dyn", "error") else None
        case _:  # cel.bind
            return made
