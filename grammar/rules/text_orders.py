"""Text orders: numbers, amounts and versions that are compared as texts.

A label is a text, and `"9"` is after `"10"`. A version of a node may have a provider's suffix.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace

from grammar.meaning.folding import constants
from grammar.meaning.macro_types import inside
from grammar.messages.diagnostics import Diagnostic, either
from grammar.rules.comparisons import unwrapped
from grammar.rules.rule import ExpressionRule, Tree
from grammar.tree import ast
from grammar.tree.printer import print_string
from grammar.tree.types import STRING
from grammar.tree.walk import children
from grammar.values.errors import EvaluationError
from grammar.values.semver import kubernetes_version

_ORDERS = ("<", "<=", ">", ">=")
_OF_USERS = frozenset({"labels", "annotations", "namespaceLabels"})
# What a constant may be meant as: its form, and what reads the text of the other side.
_FORMS = (
    (re.compile(r"-?\d+\Z"), "int({})"),
    (re.compile(r"\d+(?:\.\d+)?(?:[KMGT]i?|m)\Z"), "quantity({})"),
    (re.compile(r"\d+(?:\.\d+)?(?:h|s|ms|d|w)\Z"), "duration({})"),
)
_VERSION = re.compile(r"v?\d+(?:\.\d+){1,2}(?:[-+][\w.]*)?\Z")


class NumbersAsTexts(ExpressionRule):
    """Numbers in labels or annotations that are ordered as texts."""

    code = "P0338"
    wrong = (
        'filter "memory" { require node.labels["nvidia.com/gpu.memory"] >= '
        'pod.annotations["gpu-mem"] }'
    )
    right = (
        'filter "memory" { require int(node.labels["nvidia.com/gpu.memory"]) >= '
        'int(pod.annotations["gpu-mem"]) }'
    )

    def at(self, expr: ast.Expr, tree: Tree) -> Iterator[Diagnostic]:
        if not isinstance(expr, ast.Binary) or expr.op not in _ORDERS:
            return
        sides = (expr.left, expr.right)
        read = [side for side in sides if not isinstance(side, ast.Literal)]
        if not read or not all(s.type == STRING and _is_of_user(s) for s in read):
            return
        given = next((str(s.value) for s in sides if isinstance(s, ast.Literal)), "1")
        is_version = any("version" in tree.shown(side).lower() for side in read)
        if is_version or _VERSION.match(given):
            yield self._versions(expr, tree, is_sure=is_version or given.count(".") > 1)
            return
        for form, call in _FORMS:
            if form.match(given):
                unit = given.lstrip("-.0123456789")
                message = f'this is an order of texts, in which `"9{unit}"` is after `"10{unit}"`'
                text = f" {expr.op} ".join(_side(side, call, tree) for side in sides)
                yield self.instead(message, expr.span, text)

    def _versions(self, expr: ast.Binary, tree: Tree, *, is_sure: bool) -> Diagnostic:
        message = 'this is an order of texts, in which `"1.9"` is after `"1.10"`'
        sides = (f"semver({tree.shown(side)}, true)" for side in (expr.left, expr.right))
        found = self.instead(message, expr.span, f" {expr.op} ".join(sides))
        if is_sure:
            return found
        hint = f"{found.hint} for versions, or `double(…)` for numbers"
        return replace(found, hint=hint, remedy=None)


def _side(side: ast.Expr, call: str, tree: Tree) -> str:
    """A number as it is, an amount or a duration as a text, and what a call reads of any other."""
    if isinstance(side, ast.Literal):
        return str(side.value) if call.startswith("int") else tree.shown(side)
    return call.format(tree.shown(side))


def _is_of_user(expr: ast.Expr) -> bool:
    """Whether an expression is the value of a label or of an annotation."""
    match unwrapped(expr):
        case ast.Index(ast.Select(_, name)) | ast.Select(ast.Select(_, name)):
            return name in _OF_USERS
        case _:
            return False


# ---- versions of nodes

# The fields that are versions, and an example of each, with a suffix.
_OF_KUBERNETES = "v1.31.4-gke.1372000"
_VERSIONS = {
    "kubeletVersion": _OF_KUBERNETES,
    "kubeProxyVersion": _OF_KUBERNETES,
    "kernelVersion": "6.8.0-45-generic",
}
_SHORT_VERSION = re.compile(r"v?\d+(?:\.\d+)?\Z|\d+(?:\.\d+){2}\Z")


class SuffixedVersion(ExpressionRule):
    """A version of a node that is compared with its provider's suffix, or as a text.

    Providers put a suffix behind it, which semver takes for a version before the release. The
    numbers of a version, as `minor()` gives them, have no suffix.
    """

    code = "P0335"
    wrong = 'filter "new" { require semver(node.status.nodeInfo.kubeletVersion) >= "1.31.4" }'
    right = (
        'filter "new" { require kubernetesVersion(node.status.nodeInfo.kubeletVersion) '
        '>= "1.31.4" }'
    )
    kinds = (ast.Binary, ast.Call)

    def at(self, expr: ast.Expr, tree: Tree) -> Iterator[Diagnostic]:
        if not isinstance(expr, ast.Call) or expr.function not in ("major", "minor", "patch"):
            for side in children(expr):
                yield from self._as_semver(side, tree)
        match expr:
            case ast.Binary(op, left, right) if op in _ORDERS and left.type == right.type == STRING:
                if (field := _version(left) or _version(right)) is not None:
                    v = "v" if _VERSIONS[field] == _OF_KUBERNETES else ""
                    message = f"`{field}` is compared as a text, in which `{v}1.9` is above"
                    sides = (_as_version(side, tree) for side in (left, right))
                    hint = f"write `{f' {op} '.join(sides)}`"
                    yield self.found(f"{message} `{v}1.30`", expr.span, hint)
            case ast.Binary("==" | "!=" | "in", left) if (
                _VERSIONS.get(_version(left) or "") == _OF_KUBERNETES
            ):
                yield from self._short(expr, tree)

    def _as_semver(self, expr: ast.Expr, tree: Tree) -> Iterator[Diagnostic]:
        match expr:
            case ast.Call("semver", None, (text, *more)) if (field := _version(text)) is not None:
                where, meant = expr.name_span, "kubernetesVersion"
                if more:
                    where, meant = expr.span, f"kubernetesVersion({tree.shown(text)})"
                what = "suffix of a provider" if _VERSIONS[field] == _OF_KUBERNETES else "suffix"
                message = f"`{field}` may have a {what}, as in `{_VERSIONS[field]}`"
                yield self.found(message, where, f"write `{meant}`, which leaves it out")

    def _short(self, expr: ast.Binary, tree: Tree) -> Iterator[Diagnostic]:
        """`kubeletVersion == "1.30"`, which is `v1.30.4` or `v1.30.4-gke.100` on a node."""
        listed = expr.right.elements if isinstance(expr.right, ast.ListLiteral) else (expr.right,)
        texts = [str(c.value) for e in listed for c in constants(e, tree.environment)]
        if not texts or not all(map(_SHORT_VERSION.match, texts)):
            return
        shown = tree.shown(expr.left)
        calls = (
            f'kubernetesVersion({shown}) == "{text}"'
            if text.count(".") > 1
            else f'{shown}.startsWith("v{text.removeprefix("v")}.")'
            for text in texts
        )
        message = (
            f"`{_version(expr.left)}` has a `v`, three numbers and perhaps a suffix, as in"
            f" `{_OF_KUBERNETES}`"
        )
        yield self.instead(message, expr.span, either(calls, denied=expr.op == "!="))


def _version(expr: ast.Expr) -> str | None:
    """The name of the field of a node that is a version."""
    match expr:
        case ast.Select(operand, name) if name in _VERSIONS:
            return name if inside(operand.type).name == "NodeSystemInfo" else None
        # Without the `v`, which semver ignores; any other part of the text is another one.
        case ast.Call("replace", target, (ast.Literal("v"), _)) if target is not None:
            return _version(target)
        case ast.Call("substring", target, (ast.Literal(1),)) if target is not None:
            return _version(target)
        case _:
            return None


def _as_version(expr: ast.Expr, tree: Tree) -> str:
    """One side of a comparison of versions: a constant with all three numbers, or a call."""
    if isinstance(expr, ast.Literal):
        with suppress(EvaluationError):
            return print_string(str(kubernetes_version(str(expr.value))))
    return f"kubernetesVersion({tree.shown(expr)})"
