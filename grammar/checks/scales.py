"""Scales: parts that are compared with percentages, narrow scores, numbers and versions as texts.

The part of a resource in use goes from 0 to 1, a score from 0 to 100, and a label is a text.
These checks look at policies that are written out.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from math import isfinite

from grammar.checker.policy_checker import Checked
from grammar.meaning.environment import Environment
from grammar.meaning.extents import extent, is_part
from grammar.meaning.folding import constants
from grammar.meaning.macro_types import inside
from grammar.meaning.schema import print_as_written
from grammar.messages import catalogue
from grammar.messages.diagnostics import Diagnostic, Fix, either, write_instead
from grammar.tree import ast
from grammar.tree.clause_parts import Bounds
from grammar.tree.clauses import Score, of_kind
from grammar.tree.printer import print_expression, print_string
from grammar.tree.types import DYN, STRING
from grammar.tree.walk import walk
from grammar.values.errors import EvaluationError
from grammar.values.quantity import NANO, Quantity
from grammar.values.semver import kubernetes_version

_ORDERS = ("<", "<=", ">", ">=")
_RELATIONS = (*_ORDERS, "==", "!=")
_SHORT_VERSION = re.compile(r"v?\d+(?:\.\d+)?\Z|\d+(?:\.\d+){2}\Z")
# Versions with a suffix, and an example of each.
_OF_KUBERNETES = "v1.31.4-gke.1372000"
_VERSIONS = {
    "kubeletVersion": _OF_KUBERNETES,
    "kubeProxyVersion": _OF_KUBERNETES,
    "kernelVersion": "6.8.0-45-generic",
}
_NUMBERS_OF_VERSIONS = frozenset({"major", "minor", "patch"})
# A constant is a percentage, not a part that is above the whole, from this many times the scale.
_FAR = 2
_NUMBERS = ("double", "dyn")
_PERCENT = 100


def percentages_of_parts(expr: ast.Expr, environment: Environment) -> Iterator[Diagnostic]:
    """A warning (P0332) for a part of a node that is compared with a percentage.

    Parts of a node are `node.usage["cpu"]`, and a quantity divided by what the node has.
    """
    if isinstance(expr, ast.Binary) and expr.op in _RELATIONS:
        for part, other in ((expr.left, expr.right), (expr.right, expr.left)):
            yield from _far(part, (other,), environment)


def parts_as_scores(checked: Checked) -> Iterator[Diagnostic]:
    """A warning (P0332) for a part of a node that is scored as a percentage."""
    for clause in of_kind(checked.policy.items, Score):
        value, ends = clause.value, clause.range
        if isinstance(ends, Bounds):
            yield from _far(value, (ends.low, ends.high), checked.environment)
        elif ends is None and 0 < (scale_of(value) or 0) <= 1:
            shown = print_as_written(value, checked.environment.schema)
            message = f"`{shown}` is from 0 to 1, and a score from 0 to 100"
            hint = f"write `{shown} range 0 .. 1`"
            yield Diagnostic("P0332", "warning", message, value.span, hint=hint)


def short_ranges(checked: Checked) -> Iterator[Diagnostic]:
    """A warning (P0337) for a range of one core: every node has one, and so the same score."""
    for clause in of_kind(checked.policy.items, Score):
        match clause.value:
            case ast.Index(ast.Select(ast.Ident("node"), name), ast.Literal("cpu")) if name in (
                "free",
                "allocatable",
            ) and isinstance(clause.range, Bounds):
                ends = [c.value for e in clause.ends for c in constants(e, checked.environment)]
                if not all(isinstance(e, Quantity) and e.nanos <= NANO for e in ends):
                    continue
                shown = print_as_written(clause.value, checked.environment.schema)
                message = f"`{shown}` is a number of cores, of which nearly every node has one"
                hint = f'write `{shown} range minmax`, or `node.usage["cpu"] range 1 .. 0`'
                yield Diagnostic("P0337", "warning", message, clause.value.span, hint=hint)
            case _:
                continue


# ---- numbers that are texts

_WRITTEN = re.compile(r"-?\d+(?:\.\d+)?\Z")
_AMOUNT = re.compile(r"\d+(?:\.\d+)?(?:[KMGT]i?|m)\Z")
_DURATION = re.compile(r"(?:\d+(?:\.\d+)?(?:h|s|ms|d|w)|\d+h\d+m)\Z")
_VERSION = re.compile(r"(?:v\d+(?:\.\d+){0,2}|\d+(?:\.\d+){1,2})(?:[-+][\w.]*)?\Z")
_GPU_MEMORY = '"nvidia.com/gpu.memory"'
_RUNTIME = "containerRuntimeVersion"
_TEXTS_OF_USERS = frozenset({"labels", "annotations", "namespaceLabels"})


def numbers_as_texts(expr: ast.Expr, environment: Environment) -> Iterator[Diagnostic]:
    """A warning (P0338) for an order of texts where numbers are meant: `"9"` is after `"10"`."""
    if not isinstance(expr, ast.Binary) or expr.op not in _ORDERS:
        return
    sides = (expr.left, expr.right)
    if not all(side.type == STRING for side in sides):
        return
    users = [_is_of_user(side) for side in sides]
    if any(isinstance(s, ast.Select) and s.name == _RUNTIME for s in sides):
        called = (f"semver({_without_name(side, environment)}, true)" for side in sides)
        message = "this is an order of texts, in which `1.9` is after `1.10`"
        yield write_instead("P0338", message, expr.span, f" {expr.op} ".join(called))
        return
    for side, beside in ((sides[0], sides[1]), (sides[1], sides[0])):
        match side:
            case ast.Call("string", None, (value,)) if value.type not in (STRING, DYN):
                yield _converted(value, side, beside, expr, environment)
                return
            case _:
                continue
    written = [str(s.value) for s in sides if isinstance(s, ast.Literal)]
    if any(users) and written and (_AMOUNT.match(written[0]) or _DURATION.match(written[0])):
        yield _of_amounts(expr, environment)
        return
    numbers = [
        isinstance(s, ast.Literal)
        and (_WRITTEN.match(str(s.value)) or _VERSION.match(str(s.value)))
        for s in sides
    ]
    if not (all(users) or (any(users) and any(numbers))):
        return
    schema = environment.schema
    is_version = any(_is_version(s) for s in sides)
    if is_version or any(
        isinstance(s, ast.Literal) and not str(s.value).lstrip("-").isdigit() for s in sides
    ):
        called = (f"semver({print_as_written(side, schema)}, true)" for side in sides)
        text = f" {expr.op} ".join(called)
        message = 'this is an order of texts, in which `"1.9"` is after `"1.10"`'
        hint, edit = f"write `{text}` for versions, or `double(…)` for numbers", None
        if is_version:
            hint, edit = f"write `{text}`", Fix(expr.span, text)
        yield Diagnostic("P0338", "warning", message, expr.span, hint=hint, remedy=edit)
        return
    left, right = (
        str(side.value)
        if isinstance(side, ast.Literal)
        else f"int({print_as_written(side, schema)})"
        for side in sides
    )
    message = 'this is an order of texts, in which `"9"` is after `"10"`'
    text = f"{left} {expr.op} {right}"
    remedy = Fix(expr.span, text)
    hint = f"write `{text}`, or `quantity(…)` for amounts"
    yield Diagnostic("P0338", "warning", message, expr.span, hint=hint, remedy=remedy)


def _without_name(side: ast.Expr, environment: Environment) -> str:
    """The version of a runtime such as `containerd://2.0.5`."""
    if isinstance(side, ast.Literal):
        return print_string(str(side.value).rpartition("://")[2])
    return f'{print_as_written(side, environment.schema)}.split("://")[1]'


def _converted(
    value: ast.Expr, side: ast.Expr, beside: ast.Expr, expr: ast.Binary, environment: Environment
) -> Diagnostic:
    """`string(node.free["memory"]) > "8Gi"`, which makes a text of an amount to compare it."""
    shown, other = (print_as_written(each, environment.schema) for each in (value, beside))
    if isinstance(beside, ast.Literal) and _WRITTEN.match(str(beside.value)):
        other = str(beside.value)
    elif isinstance(beside, ast.Call) and beside.function == "string" and len(beside.args) == 1:
        other = print_as_written(beside.args[0], environment.schema)
    elif not isinstance(beside, ast.Literal):
        other = f"{value.type}({other})"
    pair = (shown, other) if side is expr.left else (other, shown)
    message = f"this is an order of texts, and `{shown}` is {catalogue.an(value.type)}"
    return write_instead("P0338", message, expr.span, f" {expr.op} ".join(pair))


def _of_amounts(expr: ast.Binary, environment: Environment) -> Diagnostic:
    """`node.labels["disk"] >= "40Gi"`, where amounts are meant."""
    sides = [print_as_written(side, environment.schema) for side in (expr.left, expr.right)]
    constant = 0 if isinstance(expr.left, ast.Literal) else 1
    other = 1 - constant
    if _GPU_MEMORY in sides[other]:
        # The label has a number of MiB.
        amount = Quantity.parse(sides[constant].strip('"'))
        sides[constant] = str(amount.nanos // NANO // 1024**2)
        sides[other] = f"int({sides[other]})"
    else:
        unit = "duration" if _DURATION.match(sides[constant].strip('"')) else "quantity"
        sides[other] = f"{unit}({sides[other]})"
    text = f" {expr.op} ".join(sides)
    unit = sides[constant].strip('"').lstrip("0123456789.")
    message = f'this is an order of texts, in which `"9{unit}"` is after `"10{unit}"`'
    return write_instead("P0338", message, expr.span, text)


def _is_version(expr: ast.Expr) -> bool:
    """Whether a constant is a version, or a key of labels says so."""
    match expr:
        case ast.Literal(str() as text):
            return text.count(".") == 2 and _VERSION.match(text) is not None
        case ast.Index(_, ast.Literal(str() as key)):
            return "version" in key.lower()
        case ast.Call("orValue" | "value", ast.Index() as read):
            return _is_version(read)
        case _:
            return False


def _is_of_user(expr: ast.Expr) -> bool:
    """Whether an expression is the value of a label or of an annotation."""
    match expr:
        case ast.Index(ast.Select(_, name)) | ast.Select(ast.Select(_, name)) if (
            name in _TEXTS_OF_USERS
        ):
            return True
        case ast.Call("orValue" | "value", ast.Index() as read):
            return _is_of_user(read)
        case _:
            return False


# ---- parts of a node


def _far(
    part: ast.Expr, others: tuple[ast.Expr, ...], environment: Environment
) -> Iterator[Diagnostic]:
    """The warnings for constants that are of another scale than a part of a node."""
    if part.type.name not in _NUMBERS or (most := scale_of(part)) is None or most <= 0:
        return
    for constant in (c for other in others for c in constants(other, environment)):
        number = constant.value
        if isinstance(number, bool) or not isinstance(number, int | float):
            continue
        if number >= _FAR * most:
            meant, why = min(float(number) * most / _PERCENT, most), "far above"
        elif most >= _PERCENT and 0 < number < 1:
            meant, why = float(number) * most, "next to nothing of it"
        else:
            continue
        shown = print_as_written(part, environment.schema)
        message = f"`{shown}` is from 0 to {most:g}, and {number:g} is {why}"
        right = f"{meant:.15g}"
        hint = f"write `{right if '.' in right else right + '.0'}`"
        yield Diagnostic("P0332", "warning", message, constant.span, hint=hint)


def scale_of(expr: ast.Expr) -> float | None:
    """What an expression is at most, if no node is more than full; None if it reads no part."""
    ends = extent(expr, (0.0, 1.0)) if any(map(is_part, walk(expr))) else None
    return ends[1] if ends is not None and isfinite(ends[1]) else None


# ---- versions


def provider_versions(expr: ast.Expr, environment: Environment) -> Iterator[Diagnostic]:
    """A warning (P0335) for a version of a node that is compared as `semver`, or as a text.

    Providers put a suffix behind it, which semver takes for a version before the release. The
    numbers of a version, as `minor()` gives them, have no suffix.
    """
    match expr:
        case ast.Binary(op, left, right):
            for side in (left, right):
                yield from _provider_version(side, environment)
            field = _version(left) or _version(right) if op in _ORDERS else None
            if field is not None and left.type == right.type == STRING:
                v = "v" if _VERSIONS[field] == _OF_KUBERNETES else ""
                message = f"`{field}` is compared as a text, in which `{v}1.9` is above `{v}1.30`"
                sides = (_as_version(side, environment) for side in (left, right))
                hint = f"write `{f' {op} '.join(sides)}`"
                yield Diagnostic("P0335", "warning", message, expr.span, hint=hint)
            if op in ("==", "!=", "in"):
                yield from _short_version(expr, environment)
        case ast.Call("startsWith", ast.Select() as read, (ast.Literal(str() as text),)) if (
            text[:1].isdigit() and _VERSIONS.get(_version(read) or "") == _OF_KUBERNETES
        ):
            message = f"`{_version(read)}` begins with a `v`, as in `{_OF_KUBERNETES}`"
            yield write_instead("P0335", message, expr.args[0].span, print_string(f"v{text}"))
        case ast.Call(function, target, args) if function not in _NUMBERS_OF_VERSIONS:
            for side in (*args, *((target,) if target is not None else ())):
                yield from _provider_version(side, environment)
        case _:
            return


def _short_version(expr: ast.Binary, environment: Environment) -> Iterator[Diagnostic]:
    """`kubeletVersion == "1.30"`, which is `v1.30.4` or `v1.30.4-gke.100` on a node."""
    field = _version(expr.left)
    if field is None or _VERSIONS[field] != _OF_KUBERNETES:
        return
    listed = expr.right.elements if isinstance(expr.right, ast.ListLiteral) else (expr.right,)
    texts = [str(c.value) for e in listed for c in constants(e, environment)]
    if not texts or not all(map(_SHORT_VERSION.match, texts)):
        return
    shown = print_as_written(expr.left, environment.schema)
    version = _shown_version(expr.left, environment)
    calls = (
        f'{version} == "{text}"' if text.count(".") > 1 else f'{shown}.startsWith("v{number}.")'
        for text, number in ((text, text.removeprefix("v")) for text in texts)
    )
    meant = either(calls, denied=expr.op == "!=")
    message = (
        f"`{field}` has a `v`, three numbers and perhaps a suffix, as in `v1.31.4-gke.1372000`"
    )
    yield write_instead("P0335", message, expr.span, meant)


def _provider_version(expr: ast.Expr, environment: Environment) -> Iterator[Diagnostic]:
    """The warning for `semver(…)` of a version of a node."""
    match expr:
        case ast.Call("semver", None, (text, *more)) if (field := _version(text)) is not None:
            message = f"`{field}` may have a suffix, as in `{_VERSIONS[field]}`"
            if _VERSIONS[field] == _OF_KUBERNETES:
                message = message.replace("suffix", "suffix of a provider")
            where, meant = expr.name_span, "kubernetesVersion"
            if more:
                where, meant = expr.span, _shown_version(text, environment)
            hint = f"write `{meant}`, which leaves it out"
            yield Diagnostic("P0335", "warning", message, where, hint=hint)
        case ast.Call("int" | "double", None, (text,)) if (field := _version(text)) is not None:
            meant = f"{_shown_version(text, environment)}.minor()"
            example = _VERSIONS[field].partition("-")[0]
            message = f"`{field}` is no number, but a version such as `{example}`"
            yield Diagnostic("P0335", "warning", message, expr.span, hint=f"write `{meant}`")
        case _:
            return


def _version(expr: ast.Expr) -> str | None:
    """The name of the field of a node that is a version of Kubernetes."""
    match expr:
        case ast.Select(operand, name) if name in _VERSIONS:
            return name if inside(operand.type).name == "NodeSystemInfo" else None
        # Without the `v`, which semver ignores; any other part of the text is another one.
        case ast.Call("replace", target, (ast.Literal("v"), _)) if target is not None:
            return _version(target)
        case ast.Call("substring", target, (ast.Literal(1),)) if target is not None:
            return _version(target)
        case ast.Call("trim" | "lowerAscii", target) if target is not None:
            return _version(target)
        case _:
            return None


def _shown_version(expr: ast.Expr, environment: Environment) -> str:
    called = ast.Call("kubernetesVersion", None, (expr,))
    return print_as_written(called, environment.schema)


def _as_version(expr: ast.Expr, environment: Environment) -> str:
    """One side of a comparison of versions: a constant with all three numbers, or a call."""
    if isinstance(expr, ast.Literal):
        try:
            return print_expression(replace(expr, value=str(kubernetes_version(str(expr.value)))))
        except EvaluationError:
            return print_expression(expr)
    return _shown_version(expr, environment)
