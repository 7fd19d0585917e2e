"""Policy checker: checks the names, the types and the structure of a whole policy."""

from __future__ import annotations

from collections import ChainMap
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import TypeVar, assert_never

from grammar.checker import declarations
from grammar.checker.declarations import Definition, name_used, reads_cards, too_deep
from grammar.checker.expression_checker import DATA, Checker
from grammar.meaning import access
from grammar.meaning import card_forms as cards
from grammar.meaning.constants import coerce, literal
from grammar.meaning.environment import FUNCTIONS_OF_CARDS, Environment
from grammar.meaning.schema import Schema
from grammar.messages import catalogue
from grammar.messages.diagnostics import Diagnostic
from grammar.messages.helping import helper
from grammar.syntax.parser import MAX_DEPTH, MAX_NAME
from grammar.tree.ast import DefCall, Expr, Ident, LetReference, Literal, MapLiteral
from grammar.tree.clause_parts import Bound, Bounds, Keep, Per, Pick, PodSet, Template, WaitUntil
from grammar.tree.clauses import (
    Cards,
    Clause,
    CountingClause,
    Def,
    Filter,
    ForPods,
    Gang,
    Item,
    Let,
    Limit,
    Policy,
    Preempt,
    RejectingClause,
    Score,
    Setting,
    Share,
    Spread,
    Use,
    of_kind,
)
from grammar.tree.data import COUNT, COUNT_OF_NODES, GROUP, Count, Data, Group
from grammar.tree.source import Span
from grammar.tree.types import (
    BOOL,
    DECLARED,
    DURATION,
    DYN,
    INT,
    POISON,
    QUANTITY,
    STRING,
    TIMESTAMP,
    Type,
    agrees,
    list_of,
    map_of,
    unknown_type,
)
from grammar.tree.walk import Definitions, reads, walk
from grammar.values.named_formats import is_qualified

# ---- the checker

VARIABLES = {
    "pod": Type("Pod"),
    "node": Type("Node"),
    "peer": Type("Peer"),
    "victim": Type("Peer"),
    "victims": list_of(Type("Peer")),
    "domain": DYN,
    "namespaceObject": Type("Namespace"),
    "now": TIMESTAMP,
}
_NAMESPACE = frozenset({"namespaceObject"})
_POD = frozenset({"pod", "namespaceObject", "now"})
_PLACE = _POD | {"node"}
# Where tables can be read: what is evaluated there is forgotten when they change.
_WITH_DATA = frozenset({DATA})
# Where every group of nodes can be read, and every count: that is evaluated for one node.
_WITH_GROUPS = frozenset({GROUP, COUNT, COUNT_OF_NODES})
_READ = _WITH_DATA | _WITH_GROUPS
_PEER = _POD | {"peer"}
# What a pod adds to a sum is the same whichever pod is asked about, and so is its gang.
_PEER_ALONE = frozenset({"peer"})
_LASTING = _POD - {"now"}
# The number of a bound is worked out anew when the time, or the rows of a table, change it.
_COUNT_BOUND = _POD | _WITH_DATA
_NODE_BOUND = _COUNT_BOUND | {"node"} | _WITH_GROUPS
_DOMAIN_BOUND = _COUNT_BOUND | {"domain"}
_NODE = frozenset({"node"})
_VICTIM = _PLACE | {"victim"} | _READ
_VICTIMS = _PLACE | {"victims"} | _READ
# The amounts of a card.
_CARD_AMOUNTS = map_of(STRING, INT)
C = TypeVar("C", bound=RejectingClause)
N = TypeVar("N", int, float)
_RANGE = "the range of a score, which reads `pod` and `node`"
_NUMBERS: tuple[str, ...] = ("int", "double", "dyn", "error")
_KEYS: tuple[str, ...] = ("string", "int", "double", "bool", "dyn", "error")
_AMOUNTS, _AN_AMOUNT = (*_NUMBERS, "quantity"), "an amount: a number or a quantity"


@dataclass(frozen=True, slots=True)
class Checked:
    """A checked policy: typed, with the environment of its expressions and its diagnostics.

    `partial` says that parts of its file could not be parsed, so that not all checks were made.
    `template` is the policy as it is written if it has parameters, which have values in `policy`.
    """

    policy: Policy
    environment: Environment
    diagnostics: tuple[Diagnostic, ...]
    uses: tuple[Checked, ...] = ()
    partial: bool = False
    template: Policy | None = None

    @property
    def broken(self) -> bool:
        return self.partial or any(d.severity == "error" for d in self.diagnostics)


def check_policy(
    policy: Policy, schema: Schema, values: Mapping[str, Expr] | None = None
) -> Checked:
    """Checks every item; one pass reports every error.

    `values` are checked ones of its parameters; the other parameters have their default.
    """
    if not policy.parameters:
        return _PolicyChecker(policy, schema).run()
    defaults, found = declarations.declared(policy, schema)
    filled, wrong = declarations.filled(policy, {**defaults, **(values or {})})
    checked = _PolicyChecker(filled, schema).run()
    diagnostics = sorted((*found, *wrong, *checked.diagnostics), key=lambda d: d.span.start)
    return replace(checked, diagnostics=tuple(diagnostics), template=policy)


def _told(question: str, found: Diagnostic, *about: object) -> Diagnostic:
    """The error, with what to write if somebody looks for hints."""
    asked = helper()
    return found if asked is None else asked.clause(question, found, *about)


def environment_of(policy: Policy, schema: Schema, wrong: list[Diagnostic]) -> Environment:
    """The environment of a policy's expressions, without its definitions.

    `wrong` gets what is wrong in the expressions of its tables.
    """
    found = {c.name: c for c in of_kind(policy.items, Cards)}
    environment = Environment(variables=VARIABLES, schema=schema, uniform_literals=True)
    if found:
        variables = {**VARIABLES, cards.FACTS: cards.FACTS_TYPE}
        functions = FUNCTIONS_OF_CARDS
        environment = replace(environment, variables=variables, functions=functions, cards=found)
    return declarations.with_tables(environment, declarations.tables(policy, environment, wrong))


class _PolicyChecker:
    def __init__(self, policy: Policy, schema: Schema) -> None:
        self._policy = policy
        self._schema = schema
        self._found: list[Diagnostic] = []
        self._environment = environment_of(policy, schema, self._found)
        self._lets = {i.name: i for i in policy.items if isinstance(i, Let)}
        self._defs = {i.name: self._declared(i) for i in policy.items if isinstance(i, Def)}
        self._groups = {i.name: i for i in policy.items if isinstance(i, Group)}
        self._counts = {i.name: i for i in policy.items if isinstance(i, Count)}
        self._named: ChainMap[str, Definition] = ChainMap({**self._lets}, {**self._defs})
        self._named.maps += [{**self._groups}, {**self._counts}]
        self._checked: dict[str, Definition] = {}
        self._open: list[str] = []
        self._definitions = Definitions({}, {})

    def run(self) -> Checked:
        self._structure()
        if (deep := too_deep(self._named)) is not None:
            self._found.append(catalogue.deep_definition(deep.name, MAX_DEPTH, deep.name_span))
            return Checked(self._policy, self._environment, tuple(self._found))
        for named in reversed(self._named.maps):
            for item in named.values():
                self._define(item)
        self._definitions = self._environment.definitions
        policy = replace(self._policy, items=tuple(map(self._item, self._policy.items)))
        closed = access.diagnostics(policy, self._schema, self._definitions)
        # What a part with an error reads is not known: there, a warning would tell it twice.
        is_whole = not self._found
        self._found.extend(d for d in closed if is_whole or d.severity == "error")
        found = tuple(sorted(self._found, key=lambda d: d.span.start))
        return Checked(policy, self._environment, found)

    # ---- the policy as a whole

    def _structure(self) -> None:
        policy = self._policy
        kind = "the cluster policy" if policy.cluster else "the policy"
        self._name(kind, policy.name, policy.name_span)
        for clause in policy.clauses:
            self._name("the clause", clause.name, clause.name_span)
        if policy.namespace is None and not policy.cluster and policy.selector is None:
            self._found.append(catalogue.selects_everything(policy.name, policy.name_span))
        seen: set[tuple[str, str]] = set()
        for parameter in policy.parameters:
            if parameter.name in VARIABLES:
                where = parameter.name_span
                found = catalogue.duplicate_name("the parameter", parameter.name, where)
                self._found.append(found)
        for item in policy.items:
            if isinstance(item, Use):
                names = [argument.name for argument in item.arguments]
                self._found.extend(
                    catalogue.twice(a.name, "the `use`", a.span)
                    for number, a in enumerate(item.arguments)
                    if a.name in names[:number]
                )
                continue
            is_definition = isinstance(item, Definition)
            is_clause = isinstance(item, Clause)
            kind = "name" if is_definition else "clause" if is_clause else "setting"
            kind = "data" if isinstance(item, Data) else kind
            name = "for" if isinstance(item, ForPods) else item.name
            is_known = (kind, name) in seen or (is_definition and name in VARIABLES)
            seen.add((kind, name))
            if not is_known:
                continue
            if isinstance(item, Setting | ForPods):
                self._found.append(catalogue.twice(name, "the policy", item.span))
            else:
                self._found.append(catalogue.duplicate_name(f"the {kind}", name, item.name_span))

    def _name(self, kind: str, name: str, span: Span) -> None:
        if len(name) > MAX_NAME or not name.isprintable():
            self._found.append(catalogue.bad_name(kind, name, MAX_NAME, span))

    def _declared(self, item: Def) -> Def:
        """The definition; an unknown type agrees with every type, so that it is one error."""
        parameters = tuple(
            replace(p, type=self._type(p.type, p.type_span)) for p in item.parameters
        )
        return replace(
            item, parameters=parameters, result=self._type(item.result, item.result_span)
        )

    def _type(self, declared: Type, span: Span) -> Type:
        """The declared type, or the poison type if there is no such type."""
        records = self._schema.records
        if (unknown := unknown_type(declared, records)) is None:
            return declared
        names = (*map(str, DECLARED), "list", "map", *records)
        self._found.append(catalogue.unknown_type(str(unknown), names, span, declared))
        return POISON

    def _define(self, item: Definition) -> None:
        """Checks a definition after the ones it uses, which enter the environment first."""
        if item.name in self._checked:
            return
        if item.name in self._open:
            circle = [*self._open[self._open.index(item.name) :], item.name]
            self._found.append(catalogue.recursion(circle, item.name_span))
            # The name is known, so that its uses are no further errors.
            if isinstance(item, Group | Count):
                self._environment = declarations.with_name(self._environment, item, POISON)
            else:
                self._environment = self._environment.defining(item)
            return
        self._open.append(item.name)
        names = list(map(name_used, walk(item)))
        if isinstance(item, Count):
            names.append(item.per.group)
        if any(map(reads_cards, walk(item))):
            for clause in self._environment.cards.values():
                names += map(name_used, walk(clause))
        for name in names:
            if (used := self._named.get(name)) is not None:
                self._define(used)
        self._open.pop()
        if item.name in self._checked:
            return
        if isinstance(item, Group | Count):
            self._definitions = self._environment.definitions
            named: Group | Count
            if isinstance(item, Count):
                named = self._count(item)
            else:
                named = replace(item, by=self._domain(item.by))
            self._checked[item.name] = named
            self._environment = declarations.with_name(self._environment, named, named.type)
            return
        checked, found = self._definition(item)
        self._checked[item.name] = checked
        self._environment = self._environment.defining(checked)
        self._found.extend(found)

    def _count(self, item: Count) -> Count:
        """The checked count."""
        self._found.extend(declarations.wrong_count(item))
        domain = self._group_of(item.per) if item.per.group else None
        return replace(item, pods=self._pods(item.pods), per=replace(item.per, domain=domain))

    def _definition(self, item: Let | Def) -> tuple[Let | Def, list[Diagnostic]]:
        """The checked definition in the present environment, and its mistakes."""
        checker = Checker(self._environment)
        if isinstance(item, Let):
            return replace(item, value=checker.check(item.value)), checker.found
        with checker.scope({p.name: p.type for p in item.parameters}, closed=True):
            return replace(item, body=checker.check(item.body, item.result)), checker.found

    # ---- items

    def _item(self, item: Item) -> Item:
        match item:
            case Setting() | Use():
                return item
            case Data():
                data = self._environment.tables[item.variable]
                if data.span != item.span:
                    return item  # it has the name of another one
                for _, name in data.names:
                    self._no_parameter(name)
                self._found.extend(declarations.findings(data, self._policy))
                return data
            case ForPods(where):
                where = self._bool(where, _POD, "`for`, which reads only the pod")
                return replace(item, where=where)
            case Let() | Def() | Group() | Count():
                return self._checked.get(item.name, item)
            case _:
                return self._clause(item)

    def _clause(self, item: Clause) -> Clause:
        self._missing(item)
        item = replace(item, when=self._when(item))
        self._no_parameter(item.points_weight)
        if isinstance(item, RejectingClause):
            item = self._texts(item)
        if isinstance(item, CountingClause) and item.pods is not None:
            self._found.extend(declarations.wrong_pods(item, item.pods))
            item = replace(item, pods=self._pods(item.pods))
        match item:
            case Filter():
                place = _PLACE | _READ
                requires = tuple(self._bool(r, place, "`require`") for r in item.requires)
                wait = self._wait(item.wait) if item.wait is not None else None
                return replace(item, requires=requires, wait=wait)
            case Score():
                return self._score(item)
            case Share():
                on = self._bool(item.on, _PLACE | _WITH_DATA, "`on nodes where`")
                return replace(item, on=on, bound=self._bound(item.bound, "share", _COUNT_BOUND))
            case Spread():
                over, within = self._domain(item.over, _WITH_DATA), item.within
                if within is not None:
                    within = self._domain(within, _WITH_DATA)
                with self._domain_typed(over, item.skew):
                    skew = self._number(item.skew, "the skew of a spread", _DOMAIN_BOUND)
                least = item.min_domains
                if least is not None:
                    least = self._number(least, "the number of domains of a spread", _COUNT_BOUND)
                return replace(item, over=over, within=within, skew=skew, min_domains=least)
            case Limit():
                return self._limit(item)
            case Cards():
                return self._cards(item)
            case Gang():
                return self._gang(item)
            case Preempt():
                return self._preempt(item)
            case _:
                assert_never(item)

    def _score(self, item: Score) -> Score:
        value = self._check(item.value, None, _PLACE | _READ, "`value`")
        kind, bounds = value.type, item.range
        if isinstance(bounds, Bounds):
            bounds = self._bounds(bounds, value)
        elif kind in (QUANTITY, DURATION):
            if bounds is None:
                self._found.append(catalogue.needs_range(kind, value.span))
        elif kind.name not in (*_NUMBERS, "bool"):
            wrong = catalogue.wrong_type(kind, "a bool or a number", value.span)
            self._found.append(_told("a score of a text", wrong, value, self._schema))
        return replace(item, value=value, range=bounds)

    def _no_parameter(self, name: float | Expr | None) -> None:
        """An error for a name in place of a weight that is not a parameter."""
        if isinstance(name, Ident):
            names = (parameter.name for parameter in self._policy.parameters)
            wrong = catalogue.unknown_name(name.name, names, name.span)
            self._found.append(_told("a weight in words", wrong, name.name))

    def _bounds(self, bounds: Bounds, value: Expr) -> Bounds:
        """The two ends of a range; strings become quantities or durations like the value."""
        kind = value.type
        low, high = (self._check(e, None, _NODE_BOUND, _RANGE) for e in (bounds.low, bounds.high))
        if kind == BOOL:
            self._found.append(catalogue.range_of_bool(value.span))
            return bounds
        if kind in (QUANTITY, DURATION):
            low, high = coerce(low, kind, self._found), coerce(high, kind, self._found)
        for edge in (low, high):
            if not (agrees(kind, edge.type) or {kind.name, edge.type.name} <= {*_NUMBERS}):
                written = str(edge.value) if isinstance(edge, Literal) else ""
                self._found.append(catalogue.range_type(edge.type, kind, edge.span, written))
        ends = [literal(edge, self._environment) for edge in (low, high)]
        if ends[0] is not None and ends[0] == ends[1]:
            self._found.append(catalogue.empty_range(low.span))
        return Bounds(low, high)

    def _limit(self, item: Limit) -> Limit:
        per, scope = item.per, item.per.scope
        domain = self._domain(per.domain, _WITH_DATA) if per.domain and not per.group else None
        if per.group:
            domain = self._group_of(per)
        pool = _COUNT_BOUND | {"node"}
        where = self._bool(per.where, pool, "`nodes where`") if per.where else None
        added = item.added
        if per.amount is not None:
            added = self._amount(per.amount, _NODE, "`sum … over`, which reads only the node")
            per = replace(per, amount=added)
        counts = self._environment.counts.values()
        of_group = {c.name for c in counts if per.group and c.per.group == per.group}
        in_group = _COUNT_BOUND | {per.group if domain is not None else GROUP} | of_group
        by_scope = {"node": _NODE_BOUND, "domain": _DOMAIN_BOUND, "group": in_group}
        of_all = declarations.groups_of_all(self._environment)
        allowed = by_scope.get(scope, _COUNT_BOUND) | {COUNT} | of_all
        of = f"of {scope}" if per.of_nodes else f"per {scope}"
        with self._domain_typed(domain, item.bound.amount):
            bound = self._bound(item.bound, f"limit {of}", allowed, added)
        if item.strength.strict:
            self._found.extend(declarations.many_counts(bound, self._environment))
        self._found.extend(declarations.wrong_limit(item))
        return replace(item, per=replace(per, domain=domain, where=where), bound=bound)

    @contextmanager
    def _domain_typed(self, domain: Expr | None, number: object) -> Iterator[None]:
        """Gives `domain` the type of a clause's domain while its number is checked.

        So it has this type in the definitions that the number uses, too.
        """
        outer = self._environment
        if domain is None or not isinstance(number, Expr):
            yield
            return
        variables = {**outer.variables, "domain": domain.type}
        self._environment = replace(outer, variables=variables)
        used = set(map(name_used, walk(number)))
        for name, known in reversed(self._checked.items()):
            if name in used:
                used |= {e.name for e in walk(known) if isinstance(e, LetReference | DefCall)}
        for name in self._checked:
            item = self._lets.get(name) or self._defs.get(name)
            paths = self._definitions.paths(name) if item is not None else ()
            if item is not None and name in used and ("domain",) in {path[:1] for path in paths}:
                checked, found = self._definition(item)
                told = {each.span for each in self._found}
                self._found.extend(each for each in found if each.span not in told)
                self._environment = self._environment.defining(checked)
        try:
            yield
        finally:
            self._environment = outer

    def _preempt(self, item: Preempt) -> Preempt:
        keep = item.keep
        if keep is not None:
            by = self._check(keep.by, None, _VICTIMS, "`keep`")
            if by.type.name not in (*_NUMBERS, "quantity", "duration", "timestamp"):
                self._found.append(catalogue.wrong_type(by.type, "a number to order by", by.span))
            keep = Keep(keep.count, by)
        protect = tuple(self._bool(p, _VICTIM, "`protect`") for p in item.protect)
        allow = self._bool(item.allow, _VICTIMS, "`allow`") if item.allow else None
        return replace(item, protect=protect, allow=allow, keep=keep)

    def _cards(self, item: Cards) -> Cards:
        if self._policy.namespace is not None:
            self._found.append(catalogue.cards_of_namespace(item.name_span))
        where = "`on node`, which reads only the node"
        count, of_pod, number = item.count, "`take`, which reads only the pod", item.number
        on = self._check(item.on, None, _NODE, where)
        wanted = list_of(_CARD_AMOUNTS) if count is None else _CARD_AMOUNTS
        if not agrees(wanted, on.type):
            expected = "the amounts of a card" if count is not None else "a list of cards"
            hint = 'write `4 of {"milli": 1000}`, or a list such as `[{"milli": 1000}]`'
            self._found.append(catalogue.wrong_type(on.type, expected, on.span, hint))
        if count is not None:
            count = self._check(count, INT, _NODE, where)
        if number is not None:
            number = self._check(number, INT, _LASTING, of_pod)
        take = self._check(item.take, _CARD_AMOUNTS, _LASTING, of_pod)
        found = replace(item, on=on, count=count, number=number, take=take)
        if item.pick is not None:
            found = replace(found, pick=self._pick(item.pick))
        if item.index is not None:
            self._key(item.index, item.name_span)
        if item.writes is not None:
            found = replace(found, writes=self._writes(item.writes))
        return found

    def _gang(self, item: Gang) -> Gang:
        by, least = item.by, item.at_least
        if by is not None:
            by = self._check(by, None, _PEER_ALONE, "`of pods by`, which reads only the peer")
            if by.type.name not in _KEYS:
                expected = "a value that names a gang"
                self._found.append(catalogue.wrong_type(by.type, expected, by.span))
            if item.percent:
                hint = "write a number, such as `at least 8`"
                message = "a percentage is one of wanted replicas, and these pods have none"
                where = least.span if isinstance(least, Expr) else item.name_span
                self._found.append(catalogue.unfit_for_gang(message, where, hint))
        if least is not None:
            least = self._number(least, "the number of a gang", _LASTING)
        within = self._domain(item.within) if item.within is not None else None
        return replace(item, by=by, at_least=least, within=within)

    def _wait(self, wait: WaitUntil) -> WaitUntil:
        where = "`wait until`, which reads `pod` and `node`"
        allowed = _LASTING | {"node"} | _WITH_DATA
        return replace(wait, condition=self._bool(wait.condition, allowed, where))

    def _pick(self, pick: Pick) -> Pick:
        checker = Checker(self._environment)
        with checker.scope({cards.CARD: cards.CARD_TYPE}):
            by = checker.check(pick.by)
        self._found.extend(checker.found)
        self._only(by, _PLACE | {cards.CARD, cards.FACTS}, "`pick`, which reads `pod` and `node`")
        if by.type.name not in _NUMBERS:
            self._found.append(catalogue.wrong_type(by.type, "a number to order by", by.span))
        return replace(pick, by=by)

    def _writes(self, writes: MapLiteral) -> MapLiteral:
        entries = []
        for entry in writes.entries:
            key = entry.key
            if isinstance(key, Literal) and isinstance(key.value, str):
                self._key(key.value, key.span)
            else:
                self._found.append(catalogue.bad_annotation("…", "is not a text", key.span))
            value = self._check(entry.value, STRING, _PLACE, "`write`")
            entries.append(replace(entry, key=replace(key, type=STRING), value=value))
        return replace(writes, entries=tuple(entries), type=map_of(STRING, STRING))

    def _key(self, key: str, span: Span) -> None:
        """An error for the key of an annotation that cannot be written."""
        prefix = key.rpartition("/")[0]
        if prefix == "placet.dev" or prefix.endswith((".placet.dev", "kubernetes.io")):
            self._found.append(catalogue.bad_annotation(key, "is a key that others write", span))
        elif not is_qualified(key):
            why = "is not the key of an annotation"
            self._found.append(catalogue.bad_annotation(key, why, span))

    # ---- parts

    def _missing(self, item: Clause) -> None:
        """An error for a rule for missing values that the clause does not have."""
        rule, gives = item.missing, item.missing_gives
        if rule is None:
            return
        if isinstance(rule, str):
            is_allowed = "verdict" in gives
        else:
            is_allowed = "points" in gives and 0 <= rule <= 100
        if not is_allowed:
            allowed = "`missing` and a number from 0 to 100"
            if "verdict" in gives:
                allowed = "`missing fail` or `missing pass`"
            where = f"a {item.keyword} clause"
            self._found.append(catalogue.missing_rule(str(rule), where, allowed, item.name_span))

    def _when(self, item: Clause) -> Expr | None:
        """The `when` of a clause. That of most kinds may not read the node.

        A count and its total must not depend on the node.
        """
        if item.when is None:
            return None
        if isinstance(item, Filter):
            return self._bool(item.when, _PLACE | _READ, "`when`")
        allowed = _POD | {COUNT} if isinstance(item, Score | CountingClause) else _POD
        where = f"the `when` of a {item.keyword}, which reads only the pod"
        return self._bool(item.when, allowed, where)

    def _pods(self, pods: PodSet) -> PodSet:
        if (amount := pods.amount) is not None:
            amount = self._amount(amount, _PEER_ALONE, "`sum`, which reads only the peer")
            pods = replace(pods, amount=amount)
        if pods.where is None:
            return pods
        namespaces = pods.namespaces
        if namespaces is not None:
            namespaces = self._bool(namespaces, _NAMESPACE, "a namespaceSelector")
        where = self._bool(pods.where, _PEER | _WITH_DATA, "`pods where`")
        return replace(pods, where=where, namespaces=namespaces)

    def _amount(self, amount: Expr, place: frozenset[str], where: str) -> Expr:
        """What each pod, or each node, adds to a sum."""
        amount = self._check(amount, None, place | _WITH_DATA, where)
        if amount.type.name not in _AMOUNTS:
            hint = catalogue.wanted_hint(QUANTITY, amount.type)
            self._found.append(catalogue.wrong_type(amount.type, _AN_AMOUNT, amount.span, hint))
        return amount

    def _group_of(self, per: Per) -> Expr | None:
        """What the group of `per group` is by; None, with an error, if there is no such group."""
        group = self._environment.groups.get(per.group)
        if group is None:
            known = self._environment.groups
            self._found.append(catalogue.unknown_group(per.group, known, per.group_span))
            return None
        return group.by

    def _domain(self, expr: Expr, more: frozenset[str] = frozenset()) -> Expr:
        if isinstance(expr, Ident) and (group := self._environment.groups.get(expr.name)):
            return group.by
        domain = self._check(expr, None, _NODE | more, "a domain, which reads only the node")
        if domain.type.name not in ("string", "int", "bool", "dyn", "error"):
            expected = "a value that names a domain"
            self._found.append(catalogue.wrong_type(domain.type, expected, domain.span))
        return domain

    def _bound(
        self, bound: Bound, clause: str, allowed: frozenset[str], added: Expr | None = None
    ) -> Bound:
        amount = self._number(bound.amount, f"the bound of a {clause}", allowed, added)
        return replace(bound, amount=amount)

    def _number(
        self, number: N | Expr, where: str, allowed: frozenset[str], added: Expr | None = None
    ) -> N | Expr:
        """A number of a clause, or the checked expression for it.

        What is `added` up may be quantities: a constant beside it is a quantity, too.
        """
        if not isinstance(number, Expr):
            return number
        own = ("pod", "node", "domain", *self._environment.groups, *self._environment.counts)
        named = (f"`{name}`" for name in own if name in allowed)
        names = catalogue.listed(named, "and")
        checked = self._check(number, None, allowed, f"{where}, which reads {names}")
        if added is not None and added.type == QUANTITY:
            checked = coerce(checked, QUANTITY, self._found)
        types, kind, expected = _NUMBERS, INT, "a whole number"
        if added is not None:
            types, kind, expected = _AMOUNTS, QUANTITY, _AN_AMOUNT
        if checked.type.name not in types:
            hint = catalogue.wanted_hint(kind, checked.type)
            wrong = catalogue.wrong_type(checked.type, expected, checked.span, hint)
            self._found.append(_told("a number in quotes", wrong, checked))
        return checked

    def _texts(self, item: C) -> C:
        """The message and the detail of a clause."""
        message, detail = item.message, item.detail
        if message is not None:
            message = self._template(message, "a message")
            for hole in message.parts:
                if isinstance(hole, Expr):
                    self._found.extend(declarations.varying(hole, self._environment, VARIABLES))
        if detail is not None:
            detail = self._template(detail, "a detail")
        return replace(item, message=message, detail=detail)

    def _template(self, template: Template, where: str) -> Template:
        parts = (
            p if isinstance(p, str) else self._check(p, None, _PLACE | _READ, where)
            for p in template.parts
        )
        return replace(template, parts=tuple(parts))

    def _bool(self, expr: Expr, allowed: frozenset[str], where: str) -> Expr:
        return self._check(expr, BOOL, allowed, where)

    def _check(self, expr: Expr, wanted: Type | None, allowed: frozenset[str], where: str) -> Expr:
        checker = Checker(self._environment)
        checked = checker.check(expr, wanted)
        self._found.extend(checker.found)
        return self._only(checked, allowed, where)

    def _only(self, checked: Expr, allowed: frozenset[str], where: str) -> Expr:
        """A checked expression, which may read only the allowed names."""
        for read in reads(checked, self._definitions):
            name = root = read.path[0]
            if name.startswith(DATA):
                root = DATA
            if name in self._environment.groups and name not in allowed:
                root = GROUP
            if (count := self._environment.counts.get(name)) and name not in allowed:
                root = count.stands_for
            if (root in _READ or root in VARIABLES) and root not in allowed:
                wrong = catalogue.unavailable(name, where, read.span)
                self._found.append(_told("a name in another place", wrong, root, where, checked))
                return replace(checked, type=POISON)
        return checked
