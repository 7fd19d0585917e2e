"""Policy checker: checks the names, the types and the structure of a whole policy."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

from grammar.checker import declarations
from grammar.checker.declarations import Definition, name_used, names_used, too_deep
from grammar.checker.expression_checker import Checker
from grammar.clauses import KINDS
from grammar.clauses.cards import FACTS, Cards
from grammar.clauses.kind import Names
from grammar.clauses.parts import (
    EVERYWHERE,
    ON_NODE,
    POD,
    READ,
    checked_domain,
    checked_place,
    checked_pods,
)
from grammar.meaning import access
from grammar.meaning.card_forms import FACTS_TYPE
from grammar.meaning.constants import coerce, literal
from grammar.meaning.environment import FUNCTIONS_OF_CARDS, Environment
from grammar.meaning.schema import Schema
from grammar.messages import catalogue
from grammar.messages.diagnostics import Diagnostic, Fix
from grammar.syntax.parser import MAX_DEPTH, MAX_NAME
from grammar.tree.ast import Comprehension, DefCall, Expr, Ident, LetReference, Select
from grammar.tree.clause_parts import AnyClause, ClauseThatRejects, Template
from grammar.tree.policy import (
    COUNT,
    COUNT_OF_NODES,
    DATA,
    GROUP,
    Count,
    Data,
    Def,
    ForPods,
    Group,
    Item,
    Let,
    Policy,
    Setting,
    Use,
    of_kind,
)
from grammar.tree.printer import print_expression
from grammar.tree.source import Span
from grammar.tree.types import BOOL, DECLARED, POISON, TIMESTAMP, Type, list_of, unknown_type
from grammar.tree.walk import Definitions, reads, walk

# ---- the checker

VARIABLES = {
    "pod": Type("Pod"),
    "node": Type("Node"),
    "peer": Type("Peer"),
    "victim": Type("Peer"),
    "victims": list_of(Type("Peer")),
    "namespaceObject": Type("Namespace"),
    "now": TIMESTAMP,
}
C = TypeVar("C", bound=ClauseThatRejects)

# Where each name can be read.
READ_IN: Mapping[str, str] = {
    "pod": "all parts but places, sums and `of pods by`",
    "node": "filters, scores, binds, shares, places, bounds",
    "peer": "`pods where`, `of pods by`",
    "victim": "`protect`",
    "victims": "`require`, `pick` of preempt",
    "namespaceObject": "the same parts as `pod`",
    "now": "these parts, but for gangs, cards and `wait until`",
    COUNT: "filters, scores, bounds of limits, `when` of what counts pods",
    COUNT_OF_NODES: "filters, scores, bounds per node",
    GROUP: "filters, scores, bounds per node or of the group",
}
# What can be read besides names.
_KINDS_READ: Mapping[str, str] = {
    DATA: "tables of data",
    GROUP: "groups",
    COUNT: "counts per cluster",
}


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


def refusal(checked: Checked, unparsed: frozenset[str] | None = None) -> Checked | None:
    """A policy with errors without its clauses: the pods that it selects wait until it is valid.

    A `partial` one is that of which nobody knows the pods. None for a policy whose pods do not
    wait: it only reports, has `missing pass`, is an object with best effort or a text that rejects
    no node. `unparsed` has the words of a policy that may say more than what was parsed.
    """
    policy, schema = checked.template or checked.policy, checked.environment.schema
    assert schema is not None, "policies are checked with a schema"
    rejects, selects = policy.strict, policy.selector is not None
    if rejects is None:
        rejects = unparsed is not None or any(map(_could_reject, policy.items))
        selects |= "for" in (unparsed or ())
    if not rejects or policy.passes_missing() or policy.setting("mode", "") == "audit":
        return None
    kept: Sequence[Item] = [i for i in policy.items if not isinstance(i, Use | AnyClause)]
    for _ in range(2):
        bare = replace(policy, items=tuple(kept), values=())
        found = check_policy(bare, schema)
        if selects is not (bare.selector is not None):
            break
        if not found.broken:
            return found
        wrong = [d.span for d in found.diagnostics if d.severity == "error"]
        kept = _whole([i for i in kept if not any(i.span.holds(each) for each in wrong)])
    return replace(found, partial=True)


def _read_as_groups(policy: Policy) -> Iterator[str]:
    """The names of which something is read, or counted by."""
    yield from (name_used(c.per.domain) for c in of_kind(policy.items, Count) if c.per.domain)
    for expr in walk(policy):
        match expr:
            case Select(target) | Comprehension(_, target):
                yield name_used(target)
            case _:
                continue


def _whole(items: Sequence[Item]) -> Sequence[Item]:
    """The checked items of which no definition is absent that they read."""
    known = {item.name for item in items if isinstance(item, Definition)}
    absent = [
        item
        for item in items
        if any(isinstance(e, LetReference | DefCall) and e.name not in known for e in walk([item]))
    ]
    return _whole([item for item in items if item not in absent]) if absent else items


def _could_reject(item: Item) -> bool:
    if isinstance(item, AnyClause):
        return item.verb != "prioritize" and item.missing != "pass"
    return isinstance(item, Use)


def environment_of(policy: Policy, schema: Schema, wrong: list[Diagnostic]) -> Environment:
    """The environment of a policy's expressions, without its definitions.

    `wrong` gets what is wrong in the expressions of its tables.
    """
    found = {c.name: c for c in of_kind(policy.items, Cards)}
    environment = Environment(variables=VARIABLES, schema=schema, uniform_literals=True)
    if found:
        variables = {**VARIABLES, FACTS: FACTS_TYPE}
        functions = FUNCTIONS_OF_CARDS
        environment = replace(environment, variables=variables, functions=functions, cards=found)
    return declarations.with_tables(environment, declarations.tables(policy, environment, wrong))


class _PolicyChecker:
    def __init__(self, policy: Policy, schema: Schema) -> None:
        self.policy = policy
        self.schema = schema
        self.found: list[Diagnostic] = []
        self.environment = environment_of(policy, schema, self.found)
        own = [self._declared(i) if isinstance(i, Def) else i for i in policy.items]
        named = {item.name: item for item in own if isinstance(item, Definition)}
        used = {*_read_as_groups(policy)} - {parameter.name for parameter in policy.parameters}
        self._named: dict[str, Definition] = {n: g for n, g in EVERYWHERE.items() if n in used}
        self._named |= named
        self._checked: dict[str, Definition] = {}
        self._open: list[str] = []
        self._definitions = Definitions({}, {})

    def run(self) -> Checked:
        self._structure()
        if (deep := too_deep(self._named)) is not None:
            self.found.append(catalogue.deep_definition(deep.name, MAX_DEPTH, deep.name_span))
            return Checked(self.policy, self.environment, tuple(self.found))
        for kind in (Count, Group, Def, Let):
            for item in self._named.values():
                if isinstance(item, kind):
                    self._define(item)
        self._definitions = self.environment.definitions
        policy = replace(self.policy, items=tuple(map(self._item, self.policy.items)))
        closed = access.diagnostics(policy, self.schema, self._definitions)
        # What a part with an error reads is not known: there, a warning would tell it twice.
        is_whole = not self.found
        self.found.extend(d for d in closed if is_whole or d.severity == "error")
        found = tuple(sorted(self.found, key=lambda d: d.span.start))
        return Checked(policy, self.environment, found)

    # ---- the policy as a whole

    def _structure(self) -> None:
        policy = self.policy
        kind = "the cluster policy" if policy.cluster else "the policy"
        self._name(kind, policy.name, policy.name_span)
        for clause in policy.clauses:
            self._name("the clause", clause.name, clause.name_span)
        if policy.namespace is None and not policy.cluster and policy.selector is None:
            self.found.append(catalogue.selects_everything(policy.name, policy.name_span))
        seen: set[tuple[str, str]] = set()
        for parameter in policy.parameters:
            if parameter.name in VARIABLES:
                where = parameter.name_span
                found = catalogue.duplicate_name("the parameter", parameter.name, where)
                self.found.append(found)
        for item in policy.items:
            if isinstance(item, Use):
                names = [argument.name for argument in item.arguments]
                self.found.extend(
                    catalogue.twice(a.name, "the `use`", a.span)
                    for number, a in enumerate(item.arguments)
                    if a.name in names[:number]
                )
                continue
            is_definition = isinstance(item, Definition)
            is_clause = isinstance(item, AnyClause)
            kind = "name" if is_definition else "clause" if is_clause else "setting"
            kind = "data" if isinstance(item, Data) else kind
            name = "for" if isinstance(item, ForPods) else item.name
            is_known = (kind, name) in seen or (is_definition and name in VARIABLES)
            seen.add((kind, name))
            if not is_known:
                continue
            if isinstance(item, Setting | ForPods):
                self.found.append(catalogue.twice(name, "the policy", item.span))
            else:
                self.found.append(catalogue.duplicate_name(f"the {kind}", name, item.name_span))

    def _name(self, kind: str, name: str, span: Span) -> None:
        if len(name) > MAX_NAME or not name.isprintable():
            self.found.append(catalogue.bad_name(kind, name, MAX_NAME, span))

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
        records = self.schema.records
        if (unknown := unknown_type(declared, records)) is None:
            return declared
        names = (*map(str, DECLARED), "list", "map", *records)
        self.found.append(catalogue.unknown_type(str(unknown), names, span, declared))
        return POISON

    def _define(self, item: Definition) -> None:
        """Checks a definition after the ones it uses, which enter the environment first."""
        if item.name in self._checked:
            return
        if item.name in self._open:
            circle = [*self._open[self._open.index(item.name) :], item.name]
            self.found.append(catalogue.recursion(circle, item.name_span))
            # The name is known, so that its uses are no further errors.
            if isinstance(item, Group | Count):
                self.environment = declarations.with_name(self.environment, item, POISON)
            else:
                self.environment = self.environment.defining(item)
            return
        self._open.append(item.name)
        names = list(names_used(item, self.environment.cards))
        for name in names:
            if (used := self._named.get(name)) is not None:
                self._define(used)
        self._open.pop()
        if item.name in self._checked:
            return
        if isinstance(item, Group | Count):
            self._definitions = self.environment.definitions
            named: Group | Count
            if isinstance(item, Count):
                named = self._count(item)
            else:
                named = replace(item, by=checked_domain(item.by, self))
            self._checked[item.name] = named
            self.environment = declarations.with_name(self.environment, named, named.type)
            return
        checked, found = self._definition(item)
        self._checked[item.name] = checked
        self.environment = self.environment.defining(checked)
        self.found.extend(found)

    def _count(self, item: Count) -> Count:
        """The checked count."""
        self.found.extend(declarations.wrong_pods(item, item.pods))
        pods, per = checked_pods(item.pods, self), checked_place(item.per, self)
        if (by := per.domain) is not None and not per.group:
            # What it is counted by has no name.
            group = Group(print_expression(by), by)
            self.environment = declarations.with_name(self.environment, group, group.type)
            per = replace(per, group=group.name)
        return replace(item, pods=pods, per=per)

    def _definition(self, item: Let | Def) -> tuple[Let | Def, list[Diagnostic]]:
        """The checked definition in the present environment, and its mistakes."""
        checker = Checker(self.environment)
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
                data = self.environment.tables[item.variable]
                if data.span != item.span:
                    return item  # it has the name of another one
                for _, name in data.names:
                    self._no_parameter(name)
                self.found.extend(declarations.findings(data, self.policy))
                return data
            case ForPods(where):
                where = self.check(where, BOOL, POD, "`for`")
                return replace(item, where=where)
            case Let() | Def() | Group() | Count():
                return self._checked.get(item.name, item)
            case _:
                return self._clause(item)

    def _clause(self, item: AnyClause) -> AnyClause:
        self._missing(item)
        kind = KINDS[item.keyword]
        if item.when is not None:
            where = f"the `when` of a {item.keyword}"
            item = replace(item, when=self.check(item.when, BOOL, kind.when, where))
        self._no_parameter(item.points_weight)
        if isinstance(item, ClauseThatRejects):
            item = self._texts(item)
        if item.counted is not None:
            self.found.extend(declarations.wrong_pods(item, item.counted))
        return kind.checked(item, self)

    def _no_parameter(self, name: float | Expr | None) -> None:
        """An error for a name in place of a weight that is not a parameter."""
        if isinstance(name, Ident):
            names = (parameter.name for parameter in self.policy.parameters)
            wrong = catalogue.unknown_name(name.name, names, name.span)
            hint = wrong.hint if wrong.fix else "write a number, or a parameter of the policy"
            self.found.append(replace(wrong, hint=hint))

    # ---- parts

    def _missing(self, item: AnyClause) -> None:
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
            self.found.append(catalogue.missing_rule(str(rule), where, allowed, item.name_span))

    def _texts(self, item: C) -> C:
        """The message and the detail of a clause."""
        message, detail = item.message, item.detail
        if message is not None:
            message = self._template(message, "a message")
            for hole in message.parts:
                if isinstance(hole, Expr):
                    self.found.extend(declarations.varying(hole, self.environment, VARIABLES))
        if detail is not None:
            detail = self._template(detail, "a detail")
        return replace(item, message=message, detail=detail)

    def _template(self, template: Template, where: str) -> Template:
        parts = (
            p if isinstance(p, str) else self.check(p, None, ON_NODE, where) for p in template.parts
        )
        return replace(template, parts=tuple(parts))

    def check(
        self, expr: Expr, wanted: Type | None, allowed: Names, where: str, **own: Type
    ) -> Expr:
        checker = Checker(self.environment)
        with checker.scope(own):
            checked = checker.check(expr, wanted)
        self.found.extend(checker.found)
        # A checked expression, which may read only the allowed names.
        for read in reads(checked, self._definitions):
            name = root = read.path[0]
            if name.startswith(DATA):
                root = DATA
            if name in self.environment.groups and name not in allowed:
                root = GROUP
            if (count := self.environment.counts.get(name)) and name not in allowed:
                root = count.stands_for
            if (root in READ or root in VARIABLES) and root not in allowed:
                self.found.append(self._unavailable(name, root, allowed, where, read.span))
                return replace(checked, type=POISON)
        return checked

    def coerce(self, expr: Expr, wanted: Type) -> Expr:
        return coerce(expr, wanted, self.found)

    def constant(self, expr: Expr) -> object:
        return literal(expr, self.environment)

    def _unavailable(
        self, name: str, root: str, allowed: Names, where: str, span: Span
    ) -> Diagnostic:
        """The error for a name with this root, in a place that reads the allowed names alone."""
        if root == "pod" and (here := [each for each in ("peer", "victim") if each in allowed]):
            hint = f"write `{here[0]}`, which stands for each of these pods"
            edit = Fix(Span(span.start, span.start + len(root)), here[0])
            return replace(catalogue.unavailable(name, where, hint, span), remedy=edit)
        names = (*VARIABLES, *self.environment.groups, *self.environment.counts)
        can = [f"`{n}`" for n in names if n in allowed]
        can += [kind for each, kind in _KINDS_READ.items() if each in allowed]
        hint = f"{catalogue.listed(can, 'and')} can be read there"
        if root in READ_IN:
            hint += f", and `{name.partition('.')[0]}` in {READ_IN[root]}"
        return catalogue.unavailable(name, where, hint, span)
