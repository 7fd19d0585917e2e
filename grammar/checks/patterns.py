"""Patterns: globs and regular expressions that are compared as texts, and templates in messages.

`==` and `in` compare whole texts, `matches` takes a regular expression without slashes around it,
and a message has its expressions in single braces. The checks look at policies written out.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from grammar.checker.policy_checker import Checked
from grammar.checks.known_words import compared, key_of
from grammar.checks.references import glob_as_pattern
from grammar.meaning.environment import Environment
from grammar.meaning.schema import print_as_written
from grammar.messages.diagnostics import Diagnostic, either, write_instead
from grammar.messages.placeholders import placeholders
from grammar.tree import ast
from grammar.tree.clause_parts import Template
from grammar.tree.printer import print_string
from grammar.tree.types import INT, STRING
from grammar.tree.walk import children
from grammar.values.errors import EvaluationError
from grammar.values.strings import pattern

# Signs that no name of a node or zone and no value of a label can have, unlike other texts.
_SIGNS = re.compile(r"[*?^$|()\[\]\\%]")
_MAPS = frozenset({"labels", "nodeSelector", "namespaceLabels", "matchLabels"})
_WITH_ANY_SIGN = frozenset("value path mountPath subPath message reason key operator".split())
_NAMES = frozenset({"name", "zone", "region", "namespace", "nodeName"})
_IN_SLASHES = re.compile(r"/(.+)/[a-z]*\Z")
# A glob that RE2 accepts: its star repeats the sign before it.
_GLOB_AT_END = re.compile(r"[\w-]*-\*\Z")
_STARRED = re.compile(r"(?:\*[\w./:-]+\*?|[\w./:-]+\*)\Z")
_ALTERNATIVES = re.compile(r"[\w./:-]+(?:\|[\w./:-]+)+\Z")
_KEEPING = frozenset({"orValue", "value", "lowerAscii"})


def patterns_as_texts(expr: ast.Expr, environment: Environment) -> Iterator[Diagnostic]:
    """A warning (P0344) for each pattern that is compared as a text, or that is no RE2 pattern."""
    match expr:
        case ast.Binary():
            for read, values in compared(expr, environment):
                texts = [v.value for v in values if isinstance(v.value, str)]
                if len(texts) == len(values):
                    yield from _compared(expr, read, texts, environment)
        case ast.Call(
            "startsWith" | "endsWith" | "contains" as name, target, (ast.Literal() as text,)
        ) if target is not None and _is_pattern(target, str(text.value)):
            yield from _called(expr, name, target, text, environment)
        case ast.Call("matches" | "find", target, (ast.Literal(str() as text) as literal,)) if (
            target is not None
        ):
            yield from _matched(literal, text)
        case _:
            return


def _has_no_signs(expr: ast.Expr) -> bool:
    """Whether an expression is a name or the value of a label."""
    match expr:
        case ast.Select(_, name) if expr.type == STRING and name in _NAMES:
            return True
        case ast.Index(ast.Select(_, holder)):
            return holder in _MAPS
        case ast.Call(name, target) if target is not None and name in _KEEPING:
            return _has_no_signs(target)
        case _:
            return key_of(expr, _MAPS) is not None


def _is_pattern(target: ast.Expr, text: str) -> bool:
    """Whether a text has a sign that what it is compared with never has."""
    if _has_no_signs(target):
        return _SIGNS.search(text) is not None
    return "*" in text and _has_no_star(target)


def _has_no_star(expr: ast.Expr) -> bool:
    """Whether an expression is a field of a text, as that of an image, that no `*` is in."""
    if isinstance(expr, ast.Index) and isinstance(expr.operand, ast.Select):
        return expr.operand.name == "annotations"
    return isinstance(expr, ast.Select) and expr.type == STRING and expr.name not in _WITH_ANY_SIGN


def _as_pattern(text: str) -> str | None:
    """The regular expression that a text is meant as; None if it is only a text."""
    if any(placeholders(text)):
        return None
    if _SIGNS.search(text) is None and (_IN_SLASHES.match(text) is None or text[-1] != "/"):
        return None
    if (glob := glob_as_pattern(text.replace("%", "*"))) is not None:
        return glob
    slashes = _IN_SLASHES.match(text)
    return slashes[1] if slashes is not None else text


def _compared(
    expr: ast.Binary, read: ast.Expr, texts: Sequence[str], environment: Environment
) -> Iterator[Diagnostic]:
    of_name = _has_no_signs(read)
    if not of_name and not (_has_no_star(read) and any(map(_STARRED.match, texts))):
        return
    patterns = [_as_pattern(text) for text in texts]
    first = next((t for t, p in zip(texts, patterns, strict=True) if p is not None), None)
    if first is None or (expr.op == "in" and not _is_of(len(texts), expr.right)):
        return
    shown = print_as_written(read, environment.schema)
    shown += '.orValue("")' * (read.type.name == "optional")
    parts = (
        f"{shown} == {print_string(text)}" if p is None else f"{shown}.matches({print_string(p)})"
        for text, p in zip(texts, patterns, strict=True)
    )
    why = "`in` takes no patterns"
    why = f": {why}" if expr.op == "in" else f", which `{shown}` never is"
    meant = either(parts, denied=expr.op == "!=")
    yield _warning(first, f"is compared as a text{why}", expr, meant)


def _is_of(number: int, listed: ast.Expr) -> bool:
    """Whether a list has so many items, all of which are known then."""
    return isinstance(listed, ast.ListLiteral) and len(listed.elements) == number


def _called(
    expr: ast.Call, name: str, target: ast.Expr, text: ast.Literal, environment: Environment
) -> Iterator[Diagnostic]:
    written = str(text.value)
    shown = print_as_written(target, environment.schema)
    plain = written.removeprefix("^").removesuffix("$")
    plain = plain.removeprefix(".*").removesuffix(".*").strip("*%")
    if _SIGNS.search(plain) is None and plain:
        # What may stand before the start, or behind the end, is anywhere.
        free = {"startsWith": written[:1], "endsWith": written[-1:]}.get(name, "")
        called = "contains" if free in ("*", "%") or written[:2] == ".*" else name
        meant = f"{shown}.{called}({print_string(plain)})"
    elif (glob := glob_as_pattern(written)) is not None:
        meant = f"{shown}.matches({print_string(glob)})"
    elif _ALTERNATIVES.match(written) is not None:
        meant = either(f"{shown}.{name}({print_string(each)})" for each in written.split("|"))
    elif _is_valid(written):
        start, end = {"startsWith": ("^", ""), "endsWith": ("", "$")}.get(name, ("", ""))
        meant = f"{shown}.matches({print_string(start + written + end)})"
    else:
        return
    sign = next(iter(_SIGNS.findall(written)))
    yield _warning(written, f"has a `{sign}`, and `{name}` takes no patterns", expr, meant)


def _is_valid(text: str) -> bool:
    try:
        pattern(text)
    except EvaluationError:
        return False
    return True


def _matched(literal: ast.Literal, text: str) -> Iterator[Diagnostic]:
    if (slashes := _IN_SLASHES.match(text)) is not None:
        meant = print_string(slashes[1])
        yield _warning(text, "has slashes, which the text must have too", literal, meant)
    elif _GLOB_AT_END.match(text) is not None and (glob := glob_as_pattern(text)) is not None:
        sign = text[-2]
        meant = print_string(glob)
        yield _warning(text, f"is a pattern in which `*` repeats the `{sign}`", literal, meant)


def placeholders_as_texts(expr: ast.Expr, environment: Environment) -> Iterator[Diagnostic]:
    """A warning (P0345) for each text of an expression that something else was to fill in."""
    del environment
    for literal in _texts(expr):
        for written, hint in placeholders(str(literal.value)):
            message = f"nothing fills in `{written}` here"
            yield Diagnostic("P0345", "warning", message, literal.span, hint=hint)


def _texts(expr: ast.Expr) -> Iterator[ast.Literal]:
    for part in children(expr):
        for each in part.elements if isinstance(part, ast.ListLiteral) else (part,):
            if isinstance(each, ast.Literal) and isinstance(each.value, str):
                yield each


def _warning(text: str, why: str, where: ast.Expr, meant: str) -> Diagnostic:
    message = f"`{text}` {why}"
    return write_instead("P0344", message, where.span, meant)


# ---- texts with the signs of templates

_PATH = r"\.?[A-Za-z_][\w.]*(?:\[[^\]\s]+\])?[\w.]*"
_BRACES = re.compile(rf"\{{\s*({_PATH})\s*\}}")
_PERCENT = re.compile(
    r"%(?:s|d|v|q|f)\b|%\((\w+)\)s|\$[A-Z][A-Z_]+\b|\$(?:pod|node|namespace)\b[\w.]*|\$\([A-Za-z_.]+\)|<(?:pod|node)(?:\.[\w.]+)?>|\\\((?:pod|node)\.[\w.]+\)|\[(?:pod|node)\.[\w.]+\]"
)
_ROOTS = frozenset({"pod", "node", "now", "data", "namespaceObject"})


def templates_in_texts(checked: Checked) -> Iterator[Diagnostic]:
    """A warning (P0345) for `{{x}}`, `${x}`, `%s` and `{0}` in messages and details."""
    for clause in checked.policy.clauses:
        for part in ("message", "detail"):
            if isinstance(text := getattr(clause, part, None), Template):
                yield from _template(text, checked.environment, is_detail=part == "detail")
    # Where a parameter is written, its value is a number, too.
    for clause in (checked.template or checked.policy).clauses:
        for text in (getattr(clause, "message", None), getattr(clause, "detail", None)):
            yield from map(_number, filter(_is_number, getattr(text, "parts", ())))


def _is_number(part: str | ast.Expr) -> bool:
    return isinstance(part, ast.Literal) and part.type == INT


def _number(part: ast.Literal) -> Diagnostic:
    """`{0}`, the place of an argument elsewhere."""
    message = f"`{{{part.value}}}` is shown as `{part.value}`"
    hint = "write an expression such as `{pod.name}`"
    return Diagnostic("P0345", "warning", message, part.span, hint=hint)


def _template(text: Template, environment: Environment, *, is_detail: bool) -> Iterator[Diagnostic]:
    for number, part in enumerate(text.parts):
        if not isinstance(part, str):
            continue
        following = text.parts[number + 1] if number + 1 < len(text.parts) else None
        for found in _BRACES.finditer(part):
            path = found[1].removeprefix(".")
            if found[1].startswith(".") and path.split(".")[0] not in _ROOTS:
                message = f"nothing fills in `{{{found[0]}}}` here"
                hint = "fill it in before: nothing here reads templates"
                yield Diagnostic("P0345", "warning", message, text.span, hint=hint)
            elif path.split(".")[0].split("[")[0] in _ROOTS:
                written = found[0]
                shown = f"{{{{{written[1:-1]}}}}}"
                yield _of_template(shown, f"{{{path}}}", text)
        # A `#` before a number is one.
        is_number = getattr(following, "type", INT) == INT
        if isinstance(following, ast.Expr) and part.endswith("$" if is_number else ("$", "#")):
            inner = print_as_written(following, environment.schema)
            yield _of_template(f"{part[-1]}{{{inner}}}", f"{{{inner}}}", text)
        if (sign := _PERCENT.search(part)) is not None:
            path = sign[0].strip("\\$<>()[]")
            is_read = path.split(".")[0] in _ROOTS and (is_detail or not path.startswith("node"))
            meant = f"{{{path}}}" if is_read and "." in path else "{pod.name}"
            yield _of_template(sign[0], meant, text, such=meant != f"{{{path}}}")


def _of_template(written: str, meant: str, text: Template, *, such: bool = False) -> Diagnostic:
    message = f"`{written}` is shown as it stands: an expression is in single braces"
    if written.startswith(("${", "#{")):
        message = f"the `{written[0]}` of `{written}` is shown: an expression is in braces alone"
    hint = f"write {'an expression such as ' if such else ''}`{meant}`"
    return Diagnostic("P0345", "warning", message, text.span, hint=hint)
