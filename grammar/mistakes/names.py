"""Names of other languages, and names in a wrong place: the text to write instead of them.

The checker asks as it does for fields (`grammar.mistakes.fields`). A name may be a word
of another language, a field without its object, or a text without quotes.

The policy checker asks when it has found a part of a clause that cannot have what stands there.
What is meant by a name is often one of another: a counted pod, the pods on a node, or the node as a
domain.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from grammar.meaning.schema import Schema, print_as_written
from grammar.messages import habits
from grammar.messages.diagnostics import SIMILAR, Diagnostic, Fix, Remedy, nearest
from grammar.messages.plain_words import amount_in_words, is_series, words_of
from grammar.mistakes.fields import PARTS, FieldRemedies, bare, is_read, replaced
from grammar.tree import ast
from grammar.tree.policy import COUNT, COUNT_OF_NODES, GROUP
from grammar.tree.printer import print_expression, print_string
from grammar.tree.types import DURATION, QUANTITY, STRING, list_of
from grammar.tree.walk import rewritten, walk

# Names on the way to an object elsewhere.
_WRAPPERS = frozenset({"object", "oldObject", "request", "review", "resource", "input"})

# Names of what holds the definitions and parameters of a policy elsewhere.
_PARAMETERS = frozenset({"int", "double", "bool", "string"})
_HOLDERS = frozenset(
    {"variables", "params", "vars", "var", "config", "settings", "env", "locals", "local", "Values"}
)


# What admission knows, and kube-scheduler does not ask about.
_ELSEWHERE = {
    "oldObject": "leave it out: a pod that is to be placed has no earlier version",
    "authorizer": "leave it out: who may create pods is up to RBAC and admission policies",
    "userInfo": "leave it out: who creates a pod is known to admission policies alone",
}


_PARTS_OF_TIME = {
    **dict.fromkeys(("hour", "hours", "current_hour", "currenthour"), "getHours"),
    **dict.fromkeys(("minute", "minutes"), "getMinutes"),
    **dict.fromkeys(("dayofweek", "day_of_week", "today", "day"), "getDayOfWeek"),
}
# Names for what a policy counts, or asks of others.
_COUNTED = (
    "`node.pods` are the pods on the node; those of other places are counted by a limit, as in"
    ' `limit "x" { pods where peer.labels["app"] == "db" per domain node.zone at most 0 strict }`'
)
_GROUPED = (
    "a clause is about one node, `node`; those of a zone are a group, as in"
    " `group zone by node.zone` and `require zone.ready >= 3`"
)
_OTHERS = {
    **dict.fromkeys(("pods", "replicas", "cluster"), _COUNTED),
    "nodes": _GROUPED,
    **dict.fromkeys(
        ("http", "https", "requests", "urllib", "kubectl", "api", "client", "redis", "db"),
        habits.NO_REQUESTS,
    ),
}


def _of_others(expr: ast.Ident) -> Remedy | None:
    why = _OTHERS.get(expr.name) or (habits.elsewhere(expr.name) if expr.name == "random" else None)
    return None if why is None else Remedy(expr.span, "", why, whole=False)


class NameRemedies(FieldRemedies):
    """Answers about one name, and the expressions around it."""

    def name(self, expr: ast.Ident) -> Remedy | None:
        """An unknown name: a word of another language, a field without its object, or a text."""
        parent = self._parent
        below = parent.name if isinstance(parent, ast.Select) else ""
        if (why := _ELSEWHERE.get(expr.name) or _ELSEWHERE.get(below)) is not None:
            return Remedy(expr.span, "", why, whole=False)
        is_holder = expr.name in _HOLDERS and isinstance(parent, ast.Select)
        if is_holder and isinstance(parent, ast.Select) and self._known(parent.name):
            return Remedy(parent.span, parent.name)
        if is_holder and isinstance(parent, ast.Select):
            return self._parameter(parent)
        factor = getattr(parent, "left", None)
        unit = habits.UNITS.get(expr.name)
        if isinstance(parent, ast.Binary) and parent.op == "*" and unit:
            number = getattr(factor, "value", None)
            if isinstance(number, int):
                return Remedy(parent.span, f'"{number}{unit}"')
        if expr.name in ("zone", "region", "rack") and below in ("nodes", "ready", "pods", "size"):
            return Remedy(expr.span, "", _GROUPED, whole=False)
        if (said := self._of_time(expr) or _of_others(expr)) is not None:
            return said
        if (row := habits.find(habits.NAMES, expr.name)) is not None:
            here = row.here
            if here in ("true", "false"):
                return Remedy(expr.span, here)
            if here == "null":
                return self._nothing(expr)
            if self._known(here):
                return self._root(expr, here)
        known = {*self._locals, *self._environment.lets, *self._environment.variables}
        if nearest(expr.name, known) is not None:
            return None
        if expr.name == "_" and isinstance(self._parent, ast.Index):
            # Of Rego: some item, or with `!=` no item.
            return self._each(self._parent, self._parent.operand, ())
        if isinstance(parent, ast.Conditional) and (points := habits.POINTS.get(expr.name.lower())):
            return Remedy(expr.span, points)
        # `zone == "a"` is about the field; `effect == NoSchedule` compares with a text.
        beside = getattr(self._parent, "right", None)
        alone = self._field_alone(expr)
        if alone is not None and isinstance(beside, ast.Literal):
            return alone
        if (text := self._text_wanted(expr)) is not None:
            return Remedy(expr.span, text)
        return alone or self._in_words(expr)

    def _of_time(self, expr: ast.Ident) -> Remedy | None:
        """`hour >= 9` and `today in ["Mon", "Tue"]`, which are read of the time."""
        part = _PARTS_OF_TIME.get(expr.name.lower())
        beside = getattr(self._parent, "right", None)
        texts = [getattr(e, "value", None) for e in getattr(beside, "elements", (beside,))]
        if part is None or not isinstance(self._parent, ast.Binary):
            return None
        if expr.name.lower() == "today" and not all(isinstance(t, str) for t in texts):
            return None
        return Remedy(expr.span, f"now.{part}()")

    def _in_words(self, expr: ast.Ident) -> Remedy | None:
        """`nodeZone` and `free_memory`: a field whose object or resource is in its name."""
        words = words_of(expr.name)
        if {"seconds", "bytes", "ratio"} & set(words) and is_series(expr.name):
            return Remedy(expr.span, "", habits.OF_PROMETHEUS, whole=False)
        roots = [r for r in (*self._locals, "node", "pod") if r in words and self._known(r)]
        for root in roots or [r for r in ("node",) if self._known(r)]:
            kind = self._kind(ast.Ident(root)).name
            if (amount := amount_in_words(expr.name, kind)) is not None:
                return Remedy(expr.span, f"{root}.{amount}")
            rest = [w for w in words if w != root]
            name = "".join([*rest[:1], *map(str.capitalize, rest[1:])])
            places = [p for p in self._places(kind, name) if not p.items] if roots else []
            if places and len(rest) < len(words):
                return Remedy(expr.span, ".".join((root, *places[0].path)))
        if is_series(expr.name):
            return Remedy(expr.span, "", habits.OF_PROMETHEUS, whole=False)
        return None

    def _parameter(self, expr: ast.Select) -> Remedy | None:
        """`params.zone` and `var.zone`, which are declared behind the name of a policy here."""
        holder = expr.operand
        if isinstance(holder, ast.Ident) and holder.name == "variables":
            hint = f"write `{expr.name}`, and define it with `let {expr.name} = …`"
            return Remedy(expr.span, expr.name, hint, whole=False)
        around = self._around[-3] if len(self._around) > 2 else None
        kind = STRING
        if isinstance(around, ast.Binary):
            kind = self._kind(around.right if around.left is expr else around.left)
        if isinstance(around, ast.Comprehension) or (
            isinstance(around, ast.Binary) and around.op == "in" and around.right is expr
        ):
            declared = f'({expr.name}: list(string) = ["…"])'
            hint = f"write `{expr.name}`, and `{declared}` behind the name of the policy"
            return Remedy(expr.span, expr.name, hint, whole=False)
        default = {"int": "1", "double": "1.0", "bool": "true"}.get(kind.name, '"…"')
        declared = f"({expr.name}: {kind if kind.name in _PARAMETERS else STRING} = {default})"
        hint = f"write `{expr.name}`, and `{declared}` behind the name of the policy"
        return Remedy(expr.span, expr.name, hint, whole=False)

    def _nothing(self, expr: ast.Ident) -> Remedy:
        """`x == None`, which asks whether a key is there."""
        parent = self._parent
        if isinstance(parent, ast.Binary) and parent.op in ("==", "!="):
            other = parent.left if parent.right is expr else parent.right
            if is_read(other):
                negation = "!" if parent.op == "==" else ""
                return Remedy(parent.span, f"{negation}has({print_expression(other)})")
        return Remedy(expr.span, "null")

    def _root(self, expr: ast.Ident, here: str) -> Remedy:
        """`request.object.spec` for `pod.spec`, `self.ready` for `node.ready`."""
        part: ast.Expr = expr
        for outer in reversed(self._around[:-1]):
            if not isinstance(outer, ast.Select):
                break
            if outer.name in ("pod", "node"):
                part, here = outer, outer.name
                break
            if outer.name in _WRAPPERS:
                part = outer
            elif outer.name not in PARTS:
                here = (self._owner(outer.name) or here) if here == "pod" else here
                break
        whole: ast.Expr = expr
        for outer in reversed(self._around[:-1]):
            if not isinstance(outer, ast.Select | ast.Index):
                break
            whole = outer
        written = print_expression(replaced(whole, part, ast.Ident(here)))
        # The objects that pods are made of have their template, and the number of them.
        meant = written.replace("pod.spec.template.", "pod.")
        meant = re.sub(r"\Apod\.spec\.replicas\b", "pod.workload.replicas", meant)
        if meant != written and "[_]" not in meant:
            return Remedy(whole.span, meant)
        return Remedy(part.span, here, f"write `{written}`")

    def _owner(self, field: str) -> str | None:
        """`pod` or `node`, if only one of them has the field."""
        schema = self._schema
        if schema is None:
            return None
        depths = {}
        for name in ("pod", "node"):
            places = [p for p in self._places(name.capitalize(), field) if not p.items]
            if places:
                depths[name] = len(places[0].path)
        return min(depths, key=depths.__getitem__) if depths else None

    def _field_alone(self, expr: ast.Ident) -> Remedy | None:
        """`zone` for `node.zone`, `containers` for `pod.spec.containers`."""
        found = []
        for root in (*self._locals, "node", "pod"):
            kind = self._locals.get(root) or self._environment.variables.get(root)
            if kind is not None and kind.is_record:
                places = self._places(kind.name, expr.name)
                found += [".".join((root, *p.path)) for p in places[:1] if not p.items]
        short = min(map(len, (f.split(".") for f in found)), default=0)
        found = [f for f in found if len(f.split(".")) == short]
        if not found:
            return None
        hint = f"write {' or '.join(f'`{text}`' for text in found)}"
        return Remedy(expr.span, found[0], hint, whole=len(found) == 1)

    def _text_wanted(self, expr: ast.Expr) -> str | None:
        """The expression as a text in quotes, if a text is wanted where it stands."""
        parent = self._parent
        wanted = False
        match parent:
            case ast.Binary("==" | "!=" | "in", left, right):
                other = self._kind(right if expr is left else left)
                wanted = other in (STRING, QUANTITY, DURATION, list_of(STRING))
                # What a text is in is a list.
                wanted = wanted and not (parent.op == "in" and expr is right)
                beside = right if expr is left else left
                # Two constants would be compared.
                wanted = wanted and not isinstance(beside, ast.Literal | ast.ListLiteral)
            case ast.Index(operand, index):
                wanted = expr is index and self._kind(operand).name == "map"
            case ast.ListLiteral(elements):
                around = self._around[-3] if len(self._around) > 2 else None
                wanted = any(isinstance(getattr(e, "value", 0), str) for e in elements)
                if isinstance(around, ast.Binary) and around.op == "in":
                    wanted = wanted or self._kind(around.left) == STRING
            case _:
                pass
        text = bare(expr)
        return print_string(text) if wanted and text is not None else None

    def bare_text(self, expr: ast.Expr) -> Remedy | None:
        """`kubernetes.io/arch` where a text is wanted: words that name nothing, without quotes."""
        text = bare(expr)
        root = next((e for e in walk(expr) if isinstance(e, ast.Ident)), None)
        if isinstance(expr, ast.Ident) or text is None or root is None or self._known(root.name):
            return None
        return Remedy(expr.span, print_string(text))


_OF_NAME: Mapping[str, str] = {
    "node": "a filter, a score, `on nodes where`, `over` and `per domain` read the node",
    "pod": "the domain and the nodes are told by the node alone, as in `node.zone`",
    "peer": "`pods where` reads it; the pods on a node are `node.pods`",
    "victim": "only `protect victim where` reads it",
    "victims": "only `allow` and `keep` of a preempt read it",
    "now": "a filter, a score or the `when` of a clause reads the time",
    "domain": "only the bound of a limit per domain, and a skew, read it",
    "namespaceObject": "it is the namespace of the pod, and nothing here reads the pod",
    COUNT: "a filter, a score, the `when` of what counts pods, and a bound read a count",
    COUNT_OF_NODES: "a filter, a score and a bound `per node` read it; others a count per cluster",
    GROUP: "a filter, a score and a bound `per node` or `per group` read a group",
}
# The conditions on a node, in which pods on it can be looked for.
_ON_NODES = ("`require`", "`when`", "`value`")


def in_place(found: Diagnostic, name: str, where: str, expr: ast.Expr) -> Diagnostic:
    """The error for a name that a place does not read, with what to write."""
    if name == "peer" and where in _ON_NODES:
        return _with(found, expr, f"node.pods.exists(peer, {print_expression(expr)})")
    if name == "pod" and where.startswith("`pods where`"):
        return _with(found, expr, print_expression(_renamed(expr, "pod", "peer")))
    if name == "pod" and where.endswith("only the peer"):
        return replace(found, hint="write `peer` instead of `pod`")
    if name == "node" and where.startswith("`pods where`"):
        hint = (
            "it counts pods wherever they are; a share counts those `on nodes where …`, and"
            " `per domain node.zone` those of one zone"
        )
        return replace(found, hint=hint)
    if name == "node" and where.startswith("`for`"):
        return replace(found, hint="it selects pods; write the condition on nodes into a `filter`")
    if name == "node" and where.startswith("the `when`"):
        hint = "write the condition on nodes into a `filter`, whose `when` reads the node"
        return replace(found, hint=hint)
    if name in (GROUP, COUNT_OF_NODES) and where.startswith("the `when` of a score"):
        return replace(found, hint="write it into the `value`, as in `value … ? 100 : 0`")
    if name in (GROUP, COUNT, COUNT_OF_NODES) and where.startswith("the `when` of a preempt"):
        return replace(found, hint="write it into `protect` or `allow`")
    return replace(found, hint=_OF_NAME.get(name))


def _renamed(expr: ast.Expr, name: str, other: str) -> ast.Expr:
    return rewritten(
        expr, lambda e: replace(e, name=other) if isinstance(e, ast.Ident) and e.name == name else e
    )


def _with(found: Diagnostic, expr: ast.Expr, made: str) -> Diagnostic:
    if any(isinstance(e, ast.LetReference | ast.DefCall) for e in walk(expr)):
        return found
    return replace(found, hint=f"write `{made}`", remedy=Fix(expr.span, made))


def weight_in_words(wrong: Diagnostic, name: str) -> Diagnostic:
    """The error for a word in place of the number of a weight, which is no parameter either."""
    if wrong.hint is not None and wrong.hint.startswith(SIMILAR):
        return wrong
    number = habits.WEIGHTS.get(name.lower())
    remedy = None if number is None else Fix(wrong.span, str(number))
    hint = f"write `{number or 10}`: a weight is a number beside those of other scores"
    return replace(wrong, hint=hint, remedy=remedy)


def number_in_quotes(found: Diagnostic, expr: ast.Expr) -> Diagnostic:
    """`at most "40%"`, where a number must stand."""
    text = expr.value if isinstance(expr, ast.Literal) else None
    if not isinstance(text, str) or not re.fullmatch(r"\d+(?:\.\d+)?%?", text):
        return found
    return Remedy(expr.span, text, f"write `{text}`, without the quotes").on(found)


def number_of_text(found: Diagnostic, value: ast.Expr, schema: Schema) -> Diagnostic:
    """The error for a score of a text, such as `value node.labels["cost"]`, which is no number."""
    if value.type != STRING or isinstance(value, ast.Literal):
        return found
    shown = print_as_written(value, schema)
    match value:
        case ast.Conditional(test, ast.Literal(str() as one), ast.Literal(str() as other)):
            points = habits.POINTS.get(one.lower(), "100"), habits.POINTS.get(other.lower(), "0")
            said = f"{print_as_written(test, schema)} ? {points[0]} : {points[1]}"
            return Remedy(value.span, said).on(found)
        case _ if shown in ("node.zone", "node.region", "node.name", "pod.namespace", "pod.name"):
            hint = f'compare it, as in `{shown} == "a"`'
            return Remedy(value.span, "", hint, whole=False).on(found)
        case _:
            pass
    made = f"double({shown})"
    hint = f'write `{made} range minmax` for a number, or compare it, as in `… == "a"`'
    return Remedy(value.span, f"{made} range minmax", hint).on(found)


_QUESTIONS: Mapping[str, Callable[..., Diagnostic]] = {
    "a name in another place": in_place,
    "a number in quotes": number_in_quotes,
    "a score of a text": number_of_text,
    "a weight in words": weight_in_words,
}


def of_clause(question: str, found: Diagnostic, *about: Any) -> Diagnostic:
    """The error of a part of a clause, with what to write."""
    return _QUESTIONS[question](found, *about)
