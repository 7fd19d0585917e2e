"""Terms of selectors: the label selectors of Kubernetes, and which objects two select together.

A condition of a policy is true, false or missing. So a condition becomes two selectors: the first
selects the objects for which it is true, the second the objects for which it is false. Their values
may be from the pod.

A part is what a clause becomes in a pod's spec. None rejects a node that its clause does not
reject; one that rejects the same nodes is exact. Sources: KEP-895 and KEP-3094 (spread
constraints), `interpodaffinity` and `component-helpers/scheduling/corev1/nodeaffinity` of
Kubernetes.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Literal

import msgspec

from engine.cards.fragmentation import with_cards
from engine.objects.request_pod import Pod
from engine.program.compiler import Stages
from engine.program.pod_shape import Path, PodReads
from grammar.meaning.constants import constant
from grammar.meaning.environment import Environment
from grammar.meaning.evaluator import evaluate
from grammar.messages.texts import cut
from grammar.tree import ast
from grammar.tree.ast import Expr
from grammar.tree.clause_parts import AnyClause, PodSet
from grammar.tree.policy import Policy
from grammar.tree.printer import print_expression
from grammar.tree.walk import reads
from grammar.values.errors import EvaluationError, MissingError, StepLimitError
from grammar.values.nodes import all_hold
from grammar.values.object_names import is_label_value, is_qualified
from policies.resource import NodeRequirement

# A pod with a node affinity of more terms is slow to schedule.
MOST_TERMS = 64
# The comparisons of terms for one policy, about 5 ms: the API server waits for them.
_MOST_WORK = 10_000
_INT64 = 2**63


class UnportableError(Exception):
    """Unportable part of a policy, which cannot be told to others; the text is for users."""


Term = frozenset[NodeRequirement]
# An object is selected if it meets all requirements of one term. Here an empty term selects every
# object, and no terms select none.
Terms = frozenset[Term]
ALWAYS: Terms = frozenset({frozenset()})
NEVER: Terms = frozenset()


def expressions(term: Term) -> list[dict[str, Any]]:
    """The `matchExpressions` of a term."""
    found: list[dict[str, Any]] = msgspec.json.decode(msgspec.json.encode(sorted(term)))
    return found


@dataclass(frozen=True, slots=True)
class Sides:
    """Sides of a condition: the objects for which it is true, and for which it is false.

    For the others it is missing. If it `may_fail`, it is missing or fails for them.
    """

    true: Terms
    false: Terms
    may_fail: bool = False

    def negated(self) -> Sides:
        return replace(self, true=self.false, false=self.true)


def known(truth: bool) -> Sides:  # noqa: FBT001 - a value
    return Sides(ALWAYS, NEVER) if truth else Sides(NEVER, ALWAYS)


MISSING = Sides(NEVER, NEVER)
FAILED = Sides(NEVER, NEVER, may_fail=True)

# What accepts exactly the objects that an operator does not.
_OPPOSITE: Mapping[str, Literal["In", "NotIn", "Exists", "DoesNotExist"]] = {
    "In": "NotIn",
    "NotIn": "In",
    "Exists": "DoesNotExist",
    "DoesNotExist": "Exists",
}


class Algebra:
    """Algebra of selectors. The work is limited: an Algebra serves a policy and a pod.

    The methods raise UnportableError where the result would be too large.
    """

    def __init__(self) -> None:
        self._work = 0

    def both(self, parts: Iterable[Terms]) -> Terms:
        """What all parts select."""
        found = ALWAYS
        for part in parts:
            self._spend(len(found) * len(part))
            found = self._smallest(frozenset(a | b for a in found for b in part))
        return found

    def either(self, parts: Iterable[Terms]) -> Terms:
        """What any of the parts selects."""
        return self._smallest(frozenset().union(*parts))

    def others(self, terms: Terms) -> Terms:
        """What the terms do not select."""
        return self.both(self.either(map(_opposite, term)) for term in terms)

    def all_of(self, parts: Iterable[Sides]) -> Sides:
        """`a && b`: false where one of them is, whatever the others are."""
        found = [*parts]
        may_fail = any(part.may_fail for part in found)
        return Sides(
            self.both(part.true for part in found),
            self.either(part.false for part in found),
            may_fail,
        )

    def any_of(self, parts: Iterable[Sides]) -> Sides:
        """`a || b`, which is `!(!a && !b)` with missing values, too."""
        return self.all_of(part.negated() for part in parts).negated()

    def choice(self, condition: Sides, then: Sides, otherwise: Sides) -> Sides:
        """`condition ? then : otherwise`."""
        true = (condition.true, then.true), (condition.false, otherwise.true)
        false = (condition.true, then.false), (condition.false, otherwise.false)
        return Sides(
            self.either(map(self.both, true)),
            self.either(map(self.both, false)),
            condition.may_fail or then.may_fail or otherwise.may_fail,
        )

    def _smallest(self, terms: Terms) -> Terms:
        """The terms without terms that select nothing, or only what another term selects."""
        self._spend(len(terms) ** 2)
        possible = [term for term in terms if not _contradicts(term)]
        kept = frozenset(t for t in possible if not any(other < t for other in possible))
        if len(kept) > MOST_TERMS:
            raise UnportableError(f"it would take more than {MOST_TERMS} terms")
        return kept

    def _spend(self, comparisons: int) -> None:
        self._work += comparisons
        if self._work > _MOST_WORK:
            raise UnportableError("it takes too many terms on the way")


def _opposite(requirement: NodeRequirement) -> Terms:
    if (operator := _OPPOSITE.get(requirement.operator)) is None:
        raise UnportableError("no selector has the labels that are no number")
    return only(msgspec.structs.replace(requirement, operator=operator))


def _contradicts(term: Term) -> bool:
    """Whether a term wants a label both absent and present, which no object meets."""
    absent = {r.key for r in term if r.operator == "DoesNotExist"}
    return any(r.key in absent for r in term if r.operator not in ("DoesNotExist", "NotIn"))


# ---- conditions of one label


def only(*requirements: NodeRequirement) -> Terms:
    return frozenset({frozenset(requirements)})


def valid_key(key: str) -> str:
    """The key of a label. Raises UnportableError for any other text."""
    if not is_qualified(key):
        raise UnportableError(f"`{key}` is no key of a label")
    return key


def present(key: str) -> Sides:
    """Whether there is a label."""
    valid_key(key)
    return Sides(only(NodeRequirement(key, "Exists")), only(NodeRequirement(key, "DoesNotExist")))


def one_of(key: str, values: Iterable[str], *, absent: bool | None = None) -> Sides:
    """Whether the value of a label is one of these; without the label `absent`, or missing.

    `NotIn` selects objects without the label, so it has `Exists` beside it.
    """
    there = NodeRequirement(valid_key(key), "Exists")
    # A selector may not name what no label can have.
    possible = tuple(sorted(filter(is_label_value, {*values})))
    among = only(NodeRequirement(key, "In", possible)) if possible else NEVER
    others = (NodeRequirement(key, "NotIn", possible),) if possible else ()
    if absent is False:
        return Sides(among, only(*others))
    nowhere = only(NodeRequirement(key, "DoesNotExist")) if absent else NEVER
    return Sides(among | nowhere, only(there, *others))


_NEGATED = {"<=": ">", "<": ">=", "!=": "=="}


def compared(key: str, op: str, number: int) -> Sides:
    """A comparison of a label that is a number. Without the label, or with a text, it is neither.

    A label begins with a letter or a digit, so no number in one is negative.
    """
    if op in _NEGATED:
        return compared(key, _NEGATED[op], number).negated()
    valid_key(key)
    if op == "==":
        low, high = _above(key, number - 1), _below(key, number + 1)
        equal = frozenset(a | b for a in low for b in high)
        return Sides(equal, _above(key, number) | _below(key, number), may_fail=True)
    least = number + (op == ">")
    return Sides(_above(key, least - 1), _below(key, least), may_fail=True)


def _above(key: str, number: int) -> Terms:
    if number >= _INT64 - 1:
        return NEVER
    if number >= 0:
        return only(NodeRequirement(key, "Gt", (str(number),)))
    # All of them: a selector may not name a negative number.
    return only(NodeRequirement(key, "Gt", ("0",))) | only(NodeRequirement(key, "Lt", ("1",)))


def _below(key: str, number: int) -> Terms:
    if number <= 0:
        return NEVER
    if number < _INT64:
        return only(NodeRequirement(key, "Lt", (str(number),)))
    return _above(key, -1)


# The steps for one part that reads the pod, and the number of parts in one policy: the API server
# waits for them.
_STEPS, _MOST_PARTS = 100, 200
_MOST_SHOWN = 80
# How the labels of an object are written in a checked tree.
_LABELS: Mapping[str, Path] = {"node": ("metadata", "labels"), "peer": ("labels",)}
_TURNED = {"<": ">", "<=": ">=", ">": "<", ">=": "<=", "==": "==", "!=": "!="}
# What the API server lets nobody change in a pod that exists. The name is not among them: while a
# pod is created it may have none.
_FIXED = frozenset(
    ("spec", name)
    for name in (
        *("hostIPC", "hostNetwork", "hostPID", "hostUsers", "os", "overhead", "preemptionPolicy"),
        *("priority", "priorityClassName", "restartPolicy", "runtimeClassName", "schedulerName"),
        *("serviceAccountName", "volumes"),
    )
) | {("metadata", "namespace")}


@dataclass(frozen=True, slots=True)
class Frozen:
    """Frozen keys of labels and annotations, which the cluster lets nobody change in a pod."""

    labels: frozenset[str] = frozenset()
    annotations: frozenset[str] = frozenset()

    @classmethod
    def of(cls, labels: Iterable[str], annotations: Iterable[str]) -> Frozen:
        return cls(frozenset(labels), frozenset(annotations))


NOTHING_FROZEN = Frozen()


class _NoValueError(Exception):
    """No value of a part of a condition, which is missing or fails: then so is the condition."""

    def __init__(self, sides: Sides) -> None:
        super().__init__()
        self.sides = sides


Values = Mapping[str, object]


class LabelConditions:
    """Label conditions of one policy about one pod. The methods raise UnportableError."""

    def __init__(self, environment: Environment, pod: Pod, frozen: Frozen) -> None:
        self.algebra = Algebra()
        self._environment = environment = with_cards(environment)
        self._pod = pod
        self._frozen = frozen
        self._stages = Stages(environment)
        self._definitions = environment.definitions
        self._pod_reads = PodReads(self._definitions)
        self._parts = _MOST_PARTS

    def of_node(self, expr: ast.Expr) -> Sides:
        """A condition about the labels of the node."""
        self._no_tables(expr)
        return _Selecting(self, "node").sides(expr, {})

    def of_peer(self, expr: ast.Expr) -> Sides:
        """A condition about the labels of another pod."""
        return _Selecting(self, "peer").sides(expr, {})

    def of_pod(self, expr: ast.Expr) -> bool:
        """Whether a condition about the pod alone is true; false if it is missing."""
        self._no_tables(expr)
        try:
            return self.value(expr, {}) is True
        except _NoValueError as lost:
            if lost.sides is FAILED:
                raise UnportableError(f"`{_shown(expr)}` fails for this pod") from None
            return False

    def _no_tables(self, expr: ast.Expr) -> None:
        names = {read.path[0] for read in reads(expr, self._definitions)}
        if tables := sorted(names & self._environment.tables.keys()):
            raise UnportableError(f"the rows of `{tables[0]}` change")
        if groups := sorted(names & self._environment.groups.keys()):
            raise UnportableError(f"the group `{groups[0]}` changes")
        if counts := sorted(names & self._environment.counts.keys()):
            raise UnportableError(f"the count `{counts[0]}` changes")

    def selects_itself(self, terms: Terms) -> bool | None:
        """Whether terms about pods select the pod; None if its labels can change."""
        if any(r.key not in self._frozen.labels for term in terms for r in term):
            return None
        return any(all_hold(term, self._pod.labels) for term in terms)

    def label(self, expr: ast.Expr) -> str:
        """The key of the label of the node that an expression is."""
        while isinstance(expr, ast.LetReference):
            expr = self._environment.lets[expr.name]
        selecting = _Selecting(self, "node")
        if (index := selecting.key_of(expr, optional=False)) is None:
            raise UnportableError(f"`{_shown(expr)}` is no label of the node")
        try:
            return self.key(index, {})
        except _NoValueError:
            text = f"the key of `{_shown(expr)}` has no value for this pod"
            raise UnportableError(text) from None

    def constant(self, number: float | ast.Expr) -> float | None:
        return constant(number, self._environment)

    def is_fixed(self, expr: ast.Expr) -> bool:
        """Whether an expression reads the pod alone, or nothing."""
        return self._stages.roots(expr) <= {"pod"}

    def value(self, expr: ast.Expr, values: Values) -> object:
        """The value of an expression that reads what cannot change in the pod, and nothing else.

        `values` are the values of parameters and variables around it. Raises _NoValueError.
        """
        if not self.is_fixed(expr):
            raise UnportableError(self.why_not(expr, ""))
        for path in self._pod_reads.written(expr):
            if not self._is_frozen(path):
                raise UnportableError(f"`{_named(path)}` can change")
        self._parts -= 1
        if self._parts < 0:
            raise UnportableError(f"the policy has more than {_MOST_PARTS} parts that read the pod")
        try:
            return evaluate(expr, {"pod": self._pod, **values}, self._environment, _STEPS)
        except MissingError:
            raise _NoValueError(MISSING) from None
        except StepLimitError:
            raise UnportableError(f"`{_shown(expr)}` takes more than {_STEPS} steps") from None
        except EvaluationError:
            raise _NoValueError(FAILED) from None

    def key(self, expr: ast.Expr, values: Values) -> str:
        """The same of the key of a label, which is a text."""
        found = self.value(expr, values)
        if not isinstance(found, str):
            raise _NoValueError(FAILED)
        return found

    def definition(self, name: str) -> ast.Expr:
        return self._environment.lets[name]

    def parameters(self, name: str) -> tuple[tuple[str, ...], ast.Expr]:
        """The parameters and the body of a `def`."""
        defined = self._environment.defs[name]
        return tuple(p.name for p in defined.parameters), defined.body

    def why_not(self, expr: ast.Expr, of: str) -> str:
        """Why an expression is no condition about the labels of `of`, which is `node` or `peer`."""
        for read in reads(expr, self._definitions):
            root, *rest = read.path
            if root == "now":
                return "it reads the time"
            if root == "namespaceObject":
                return "the labels of a namespace can change"
            labels = _LABELS.get(root)
            if root != "pod" and (root != of or tuple(rest[: len(labels or ())]) != labels):
                what = f"no label of the {of}" if of else "not fixed when the pod is created"
                return f"`{'.'.join(read.path)}` is {what}"
        return f"`{_shown(expr)}` has no equivalent in a selector"

    def _is_frozen(self, path: Path) -> bool:
        match path:
            case ("metadata", "labels", key):
                return key in self._frozen.labels
            case ("metadata", "annotations", key):
                return key in self._frozen.annotations
            case ("requests" | "limits", resource):
                # In-place resize changes cpu and memory.
                return "/" in resource
            case _:
                return path[:2] in _FIXED


def _shown(expr: ast.Expr) -> str:
    return cut(print_expression(expr), _MOST_SHOWN)


def _named(path: Path) -> str:
    """A path of the pod as users write it."""
    match path:
        case ("metadata", "labels" | "annotations" as where, key):
            return f'pod.{where}["{key}"]'
        case ("requests" | "limits" as where, resource):
            return f'pod.{where}["{resource}"]'
        case ("metadata", *rest):
            return ".".join(("pod", *rest))
        case _:
            return ".".join(("pod", *(name for name in path if name.isalnum())))


class _Selecting:
    """Selecting of one kind of object by labels."""

    def __init__(self, conditions: LabelConditions, of: str) -> None:
        self._conditions = conditions
        self._of = of
        self._algebra = conditions.algebra
        self._value, self._key = conditions.value, conditions.key

    def sides(self, expr: ast.Expr, values: Values) -> Sides:
        """The objects for which an expression is true, and the objects for which it is false."""
        try:
            return self._sides(expr, values)
        except _NoValueError as lost:
            return lost.sides

    def _sides(self, expr: ast.Expr, values: Values) -> Sides:
        """The same. Raises _NoValueError if the expression has no value for any object."""
        if self._conditions.is_fixed(expr):
            found = self._value(expr, values)
            return known(found) if isinstance(found, bool) else FAILED
        inside = partial(self.sides, values=values)
        match expr:
            case ast.LetReference(name):
                return self.sides(self._conditions.definition(name), {})
            case ast.DefCall(name, args):
                names, body = self._conditions.parameters(name)
                given = [self._value(arg, values) for arg in args]
                return self.sides(body, dict(zip(names, given, strict=True)))
            case ast.Unary("!", operand):
                return inside(operand).negated()
            case ast.Chain("&&", operands):
                return self._algebra.all_of(map(inside, operands))
            case ast.Chain("||", operands):
                return self._algebra.any_of(map(inside, operands))
            case ast.Conditional(condition, then, otherwise):
                return self._algebra.choice(inside(condition), inside(then), inside(otherwise))
            case ast.Comprehension("all" | "exists" as macro, target, (variable,), (body,)):
                items = self._list(target, values)
                each = (self.sides(body, {**values, variable: item}) for item in items)
                return self._algebra.all_of(each) if macro == "all" else self._algebra.any_of(each)
            case ast.Has(operand) if (key := self.key_of(operand, optional=False)) is not None:
                return present(self._key(key, values))
            case ast.Binary("in", left, right) if self._is_labels(right):
                return present(self._key(left, values))
            case ast.Binary("in", left, right) if (
                key := self.key_of(left, optional=False)
            ) is not None:
                texts = [each for each in self._list(right, values) if isinstance(each, str)]
                return one_of(self._key(key, values), texts)
            case ast.Binary(op, left, right) if op in _TURNED:
                if self._conditions.is_fixed(left):
                    left, right, op = right, left, _TURNED[op]
                if op not in ("==", "!="):
                    return self._number(expr, op, left, right, values)
                found = self._equality(expr, left, right, values)
                return found if op == "==" else found.negated()
            case _:
                raise self._refusal(expr)

    def key_of(self, expr: ast.Expr, *, optional: bool) -> ast.Expr | None:
        """The key in `node.labels["key"]`, `node.labels.key`, or `node.labels[?"key"]`."""
        match expr:
            case ast.Index(operand, index, marked) if marked is optional:
                return index if self._is_labels(operand) else None
            case ast.Select(operand, name, marked) if marked is optional:
                return ast.Literal(name, expr.type) if self._is_labels(operand) else None
            case _:
                return None

    def _equality(self, expr: ast.Expr, left: ast.Expr, right: ast.Expr, values: Values) -> Sides:
        """`label == text`, also of an optional label, or of a number in a label."""
        if (key := self.key_of(left, optional=False)) is not None:
            return one_of(self._key(key, values), _texts(self._value(right, values)))
        if (key := self.key_of(left, optional=True)) is not None:
            name = self._key(key, values)
            match right:
                case ast.Call("optional.of", None, (text,)):
                    return one_of(name, _texts(self._value(text, values)), absent=False)
                case ast.Call("optional.none", None, ()):
                    return present(name).negated()
                case _:
                    raise self._refusal(expr)
        match left:
            case ast.Call("orValue", target, (fallback,)) if (
                target is not None and (key := self.key_of(target, optional=True)) is not None
            ):
                otherwise, wanted = self._value(fallback, values), self._value(right, values)
                name, absent = self._key(key, values), otherwise == wanted
                return one_of(name, _texts(wanted), absent=absent)
            case _:
                return self._number(expr, "==", left, right, values)

    def _number(
        self, expr: ast.Expr, op: str, left: ast.Expr, right: ast.Expr, values: Values
    ) -> Sides:
        """`int(labels["key"]) > 3`."""
        match left:
            case ast.Call("int", None, (label,)) if (
                key := self.key_of(label, optional=False)
            ) is not None:
                try:
                    wanted = self._value(right, values)
                except _NoValueError:
                    return FAILED
                if not isinstance(wanted, int) or isinstance(wanted, bool):
                    raise self._refusal(expr)
                return compared(self._key(key, values), op, wanted)
            case _:
                raise self._refusal(expr)

    def _list(self, expr: ast.Expr, values: Values) -> Sequence[object]:
        found = self._value(expr, values)
        if not isinstance(found, list | tuple):
            raise self._refusal(expr)
        return found

    def _is_labels(self, expr: ast.Expr) -> bool:
        names = []
        while isinstance(expr, ast.Select) and not expr.optional:
            names.append(expr.name)
            expr = expr.operand
        is_root = isinstance(expr, ast.Ident) and expr.name == self._of
        return is_root and tuple(reversed(names)) == _LABELS[self._of]

    def _refusal(self, expr: ast.Expr) -> UnportableError:
        return UnportableError(self._conditions.why_not(expr, self._of))


def _texts(value: object) -> Sequence[str]:
    """The text that a value is: no label has another value."""
    return (value,) if isinstance(value, str) else ()


Json = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Part:
    """Part of a pod's spec that a clause becomes: only one list has items, or `nodes` limits.

    `spread` are topology spread constraints, `away` terms of required pod anti-affinity, and `near`
    of required pod affinity.
    """

    clause: str
    exact: bool
    nodes: Terms = ALWAYS
    spread: tuple[Json, ...] = ()
    away: tuple[Json, ...] = ()
    near: tuple[Json, ...] = ()

    @property
    def says_nothing(self) -> bool:
        """Whether the clause keeps this pod from no node."""
        return self.nodes == ALWAYS and not (self.spread or self.away or self.near)


@dataclass(frozen=True, slots=True)
class Telling:
    """Telling of clauses for one pod: its conditions, and the policy that decides by the clauses.

    `exempt` are the namespaces about whose pods no policy decides. Methods raise UnportableError.
    """

    conditions: LabelConditions
    policy: Policy
    exempt: Collection[str]

    def applies(self, clause: AnyClause) -> bool:
        """Whether the clause applies to the pod: where its `when` is missing, it does not."""
        return clause.when is None or self.conditions.of_pod(clause.when)

    def reject_missing(self, clause: AnyClause) -> None:
        if self.policy.passes_missing(clause):
            raise UnportableError("`missing pass` passes nodes without the label")

    def whole(self, number: float | Expr) -> int:
        found = self.conditions.constant(number)
        if found is None:
            raise UnportableError("its number is not constant")
        return int(found)

    def counted(self, pods: PodSet | None) -> Terms:
        """The pods that a clause counts, by their labels."""
        if pods is None or pods.where is None:
            raise UnportableError("the pods of a workload have no selector: write `pods where`")
        if pods.namespaces is not None:
            raise UnportableError("the labels of a namespace can change")
        found = self.conditions.of_peer(pods.where).true
        if found == NEVER:
            raise UnportableError("it counts no pods")
        if any(r.operator in ("Gt", "Lt") for term in found for r in term):
            raise UnportableError("a selector of pods has no comparisons of numbers")
        return found


def label_selector(terms: Terms) -> Json:
    """The selector of pods that has these terms, which are one. Raises UnportableError."""
    if len(terms) > 1:
        raise UnportableError("a selector of pods has no `||`")
    (term,) = terms
    return {"matchExpressions": expressions(term)} if term else {}
