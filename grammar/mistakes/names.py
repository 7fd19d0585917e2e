"""Names of other languages, and names in a wrong place: the text to write instead of them.

The checker asks as it does for fields (`grammar.mistakes.fields`). A name may be a word
of another language, a field without its object, or a text without quotes.
"""

from __future__ import annotations

import re

from grammar.messages import habits
from grammar.messages.diagnostics import Remedy, nearest
from grammar.messages.plain_words import amount_in_words, is_series, words_of
from grammar.mistakes.fields import PARTS, FieldRemedies, bare, is_read, replaced
from grammar.tree import ast
from grammar.tree.policy import DATA
from grammar.tree.printer import print_expression, print_string
from grammar.tree.types import DURATION, QUANTITY, STRING, list_of
from grammar.tree.walk import walk

# Names on the way to an object elsewhere.
_WRAPPERS = frozenset({"object", "oldObject", "request", "review", "resource", "input"})

# Names of what holds the definitions and parameters of a policy elsewhere.
_HOLDERS = frozenset(
    {"variables", "params", "vars", "var", "config", "settings", "env", "locals", "local", "Values"}
)
_DECLARATIONS = frozenset({"let", "lets", "group", "groups", "count", "counts"})

# What admission knows, and kube-scheduler does not ask about.
_ELSEWHERE = {
    "oldObject": "leave it out: a pod that is to be placed has no earlier version",
    "authorizer": "leave it out: who may create pods is up to RBAC and admission policies",
    "userInfo": "leave it out: who creates a pod is known to admission policies alone",
}

# Names for what a policy counts, or asks of others.
_COUNTED = (
    "`node.pods` are the pods on the node; those of other places are counted by a limit, as in"
    ' `limit "x" { pods where peer.labels["app"] == "db" per zone at most 0 strict }`'
)
_GROUPED = (
    "a clause is about one node, `node`; those of a zone are a group, as in"
    " `require zone.ready >= 3`"
)
_NUMBERS = "zero one two three four five six seven eight nine ten".split()
_OTHERS = {
    **_ELSEWHERE,
    "random": habits.elsewhere("random"),
    **dict.fromkeys(("pods", "replicas", "cluster"), _COUNTED),
    "nodes": _GROUPED,
    "domain": "give the place a name, as in `group rack by …`, and read `rack.value`",
    **dict.fromkeys(
        ("http", "https", "requests", "urllib", "kubectl", "api", "client", "redis", "db"),
        habits.NO_REQUESTS,
    ),
}


class NameRemedies(FieldRemedies):
    """Answers about one name, and the expressions around it."""

    def name(self, expr: ast.Ident) -> Remedy | None:
        """An unknown name: a word of another language, a field without its object, or a text."""
        if f"{DATA}{expr.name}" in self._environment.tables:
            return Remedy(expr.span, f"{DATA}{expr.name}")
        if expr.name in self._environment.cards:
            return Remedy(expr.span, f'node.cards["{expr.name}"]')
        parent = self._parent
        below = parent.name if isinstance(parent, ast.Select) else ""
        if (why := _OTHERS.get(expr.name) or _ELSEWHERE.get(below)) is not None:
            return Remedy(expr.span, "", why, whole=False)
        if isinstance(parent, ast.Select) and expr.name in _HOLDERS | _DECLARATIONS:
            if self._known(parent.name):
                return Remedy(parent.span, parent.name)
            if expr.name in _HOLDERS:
                return self._parameter(parent)
        factor = getattr(parent, "left", None)
        unit = habits.UNITS.get(expr.name)
        if isinstance(parent, ast.Binary) and parent.op == "*" and unit:
            number = getattr(factor, "value", None)
            if isinstance(number, int):
                return Remedy(parent.span, f'"{number}{unit}"')
        if expr.name in _NUMBERS:
            return Remedy(expr.span, f"{_NUMBERS.index(expr.name)}")
        part = habits.call(expr.name, "timestamp", 1)
        # A day can be one of the week or of the month.
        if (
            part is not None
            and part.kinds
            and expr.name != "day"
            and isinstance(parent, ast.Binary)
        ):
            return Remedy(expr.span, part.here.replace("{0}", "now"))
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
        if (text := self._text_wanted(expr)) is not None:
            return Remedy(expr.span, text)
        return self._field_alone(expr) or self._in_words(expr)

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
        hint = f"write `{expr.name}`, and declare this parameter behind the name of the policy"
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
