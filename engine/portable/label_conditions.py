"""Label conditions: expressions about labels as selectors, with values from the pod."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from enum import Enum, auto
from functools import partial

from engine.cards.card_functions import with_cards
from engine.objects.codec import Pod
from engine.portable.selectors import (
    FAILED,
    MISSING,
    Algebra,
    Sides,
    Terms,
    UnportableError,
    accepts,
    compared,
    known,
    one_of,
    one_of_or_absent,
    present,
)
from engine.program.compiler import Stages
from engine.program.pod_shape import Path, PodReads
from grammar.meaning.environment import Environment
from grammar.meaning.evaluator import evaluate
from grammar.messages.texts import cut
from grammar.tree import ast
from grammar.tree.printer import print_expression
from grammar.tree.walk import reads
from grammar.values.errors import EvaluationError, MissingError, StepLimitError

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


class _NoValue(Enum):
    MISSING = auto()
    FAILED = auto()


_SIDES_OF = {_NoValue.MISSING: MISSING, _NoValue.FAILED: FAILED}
Values = Mapping[str, object]
# Makes the sides of the key of a label.
OfKey = Callable[[str], Sides]


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
        found = self.value(expr, {})
        if found is _NoValue.FAILED:
            raise UnportableError(f"`{_shown(expr)}` fails for this pod")
        return found is True

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
        return accepts(terms, self._pod.labels)

    def label(self, expr: ast.Expr) -> str:
        """The key of the label of the node that an expression is."""
        while isinstance(expr, ast.LetReference):
            expr = self._environment.lets[expr.name]
        selecting = _Selecting(self, "node")
        if (index := selecting.key_of(expr, optional=False)) is None:
            raise UnportableError(f"`{_shown(expr)}` is no label of the node")
        key = self.value(index, {})
        if not isinstance(key, str):
            raise UnportableError(f"the key of `{_shown(expr)}` has no value for this pod")
        return key

    def is_fixed(self, expr: ast.Expr) -> bool:
        """Whether an expression reads the pod alone, or nothing."""
        return self._stages.roots(expr) <= {"pod"}

    def value(self, expr: ast.Expr, values: Values) -> object:
        """The value of an expression that reads what cannot change in the pod, and nothing else.

        `values` are the values of parameters and variables around it.
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
            return _NoValue.MISSING
        except StepLimitError:
            raise UnportableError(f"`{_shown(expr)}` takes more than {_STEPS} steps") from None
        except EvaluationError:
            return _NoValue.FAILED

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
    """Makes selectors of the labels of one kind of object."""

    def __init__(self, conditions: LabelConditions, of: str) -> None:
        self._conditions = conditions
        self._of = of
        self._algebra = conditions.algebra

    def sides(self, expr: ast.Expr, values: Values) -> Sides:
        """The objects for which an expression is true, and the objects for which it is false."""
        if self._conditions.is_fixed(expr):
            found = self._conditions.value(expr, values)
            return known(found) if isinstance(found, bool) else _SIDES_OF[_no_value(found)]
        inside = partial(self.sides, values=values)
        match expr:
            case ast.LetReference(name):
                return self.sides(self._conditions.definition(name), {})
            case ast.DefCall(name, args):
                names, body = self._conditions.parameters(name)
                given = [self._conditions.value(arg, values) for arg in args]
                lost = next((v for v in given if isinstance(v, _NoValue)), None)
                if lost is not None:
                    return _SIDES_OF[lost]
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
                return self._of_items(macro, target, variable, body, values)
            case ast.Has(operand) if (key := self.key_of(operand, optional=False)) is not None:
                return self._with_text(key, values, present)
            case ast.Binary("in", left, right) if self._is_labels(right):
                return self._with_text(left, values, present)
            case ast.Binary("in", left, right):
                return self._among(expr, left, right, values)
            case ast.Binary(op, left, right) if op in _TURNED:
                if self._conditions.is_fixed(left):
                    left, right, op = right, left, _TURNED[op]
                return self._relation(expr, op, left, right, values)
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

    def _of_items(
        self, macro: str, target: ast.Expr, variable: str, body: ast.Expr, values: Values
    ) -> Sides:
        """A condition about each of a fixed list."""
        items = self._conditions.value(target, values)
        if isinstance(items, _NoValue):
            return _SIDES_OF[items]
        if not isinstance(items, list | tuple):
            raise self._refusal(target)
        found = (self.sides(body, {**values, variable: item}) for item in items)
        return self._algebra.all_of(found) if macro == "all" else self._algebra.any_of(found)

    def _relation(
        self, expr: ast.Expr, op: str, left: ast.Expr, right: ast.Expr, values: Values
    ) -> Sides:
        """`label == text`, a number in a label that is compared, or an optional label."""
        is_equality = op in ("==", "!=")
        if is_equality and (key := self.key_of(left, optional=False)) is not None:
            found = self._with_text(key, values, self._against(right, values))
        elif is_equality and (key := self.key_of(left, optional=True)) is not None:
            found = self._optional(expr, key, right, values)
        else:
            match left:
                case ast.Call("orValue", target, (fallback,)) if (
                    is_equality
                    and target is not None
                    and (key := self.key_of(target, optional=True)) is not None
                ):
                    found = self._or_value(key, fallback, right, values)
                case ast.Call("int", None, (label,)) if (
                    key := self.key_of(label, optional=False)
                ) is not None:
                    return self._number(expr, key, op, right, values)
                case _:
                    raise self._refusal(expr)
        return found if op == "==" else found.negated()

    def _against(self, expr: ast.Expr, values: Values) -> OfKey:
        """Makes the sides of a label that is compared with the value of an expression."""
        wanted = self._conditions.value(expr, values)

        def sides(key: str) -> Sides:
            if isinstance(wanted, _NoValue):
                return _SIDES_OF[wanted]
            return one_of(key, (wanted,) if isinstance(wanted, str) else ())

        return sides

    def _optional(self, expr: ast.Expr, key: ast.Expr, other: ast.Expr, values: Values) -> Sides:
        """`labels[?"key"] == optional.of("text")`, or with `optional.none()`."""
        match other:
            case ast.Call("optional.of", None, (text,)):
                wanted = self._conditions.value(text, values)
            case ast.Call("optional.none", None, ()):
                return self._with_text(key, values, present).negated()
            case _:
                raise self._refusal(expr)
        if isinstance(wanted, _NoValue):
            return _SIDES_OF[wanted]
        texts = (wanted,) if isinstance(wanted, str) else ()
        return self._with_text(key, values, partial(one_of_or_absent, values=texts, absent=False))

    def _or_value(
        self, key: ast.Expr, fallback: ast.Expr, other: ast.Expr, values: Values
    ) -> Sides:
        """`labels[?"key"].orValue("fallback") == "text"`."""
        given = [self._conditions.value(part, values) for part in (fallback, other)]
        if (lost := next((v for v in given if isinstance(v, _NoValue)), None)) is not None:
            return _SIDES_OF[lost]
        otherwise, wanted = given
        texts = (wanted,) if isinstance(wanted, str) else ()
        absent = otherwise == wanted
        return self._with_text(key, values, partial(one_of_or_absent, values=texts, absent=absent))

    def _number(
        self, expr: ast.Expr, key: ast.Expr, op: str, other: ast.Expr, values: Values
    ) -> Sides:
        """`int(labels["key"]) > 3`."""
        wanted = self._conditions.value(other, values)
        if isinstance(wanted, _NoValue):
            return FAILED
        if not isinstance(wanted, int) or isinstance(wanted, bool):
            raise self._refusal(expr)
        return self._with_text(key, values, partial(compared, op=op, number=wanted))

    def _among(self, expr: ast.Expr, left: ast.Expr, right: ast.Expr, values: Values) -> Sides:
        """`labels["key"] in list`."""
        if (key := self.key_of(left, optional=False)) is None:
            raise self._refusal(expr)
        wanted = self._conditions.value(right, values)
        if isinstance(wanted, _NoValue):
            return _SIDES_OF[wanted]
        if not isinstance(wanted, list | tuple):
            raise self._refusal(expr)
        texts = [each for each in wanted if isinstance(each, str)]
        return self._with_text(key, values, partial(one_of, values=texts))

    def _with_text(self, key: ast.Expr, values: Values, make: OfKey) -> Sides:
        """What `make` gives for the key of a label."""
        found = self._conditions.value(key, values)
        if isinstance(found, str):
            return make(found)
        return _SIDES_OF[_no_value(found)]

    def _is_labels(self, expr: ast.Expr) -> bool:
        names = []
        while isinstance(expr, ast.Select) and not expr.optional:
            names.append(expr.name)
            expr = expr.operand
        is_root = isinstance(expr, ast.Ident) and expr.name == self._of
        return is_root and tuple(reversed(names)) == _LABELS[self._of]

    def _refusal(self, expr: ast.Expr) -> UnportableError:
        return UnportableError(self._conditions.why_not(expr, self._of))


def _no_value(found: object) -> _NoValue:
    """What a value that has the wrong type is."""
    return found if isinstance(found, _NoValue) else _NoValue.FAILED
