"""Texts: patterns, templates, numbers and versions that are written or compared as texts.

`==` and `in` compare whole texts, `matches` takes a regular expression without slashes, a message
has its expressions in single braces, and nothing is filled in.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import pairwise

from grammar.messages import catalogue, habits
from grammar.messages.diagnostics import Diagnostic, either
from grammar.rules.rule import Tree, finding, instead, on, rule
from grammar.rules.words import compared, reads_field, unwrapped
from grammar.tree import ast
from grammar.tree.printer import print_expression, print_string
from grammar.tree.types import INT, STRING
from grammar.tree.walk import children, walk
from grammar.values import strings
from grammar.values.errors import EvaluationError

# ---- patterns

_FUNCTIONS = frozenset({"matches", "find", "findAll"})
_GLOB = re.compile(r"[\w.*?/@:-]*[*?][\w.*?/@:-]*\Z")


@rule("P0119")
def bad_regular_expression(tree: Tree) -> Iterator[Diagnostic]:
    """A constant regular expression that RE2 does not accept."""
    for expr in walk(tree.written):
        if not isinstance(expr, ast.Call) or expr.function not in _FUNCTIONS:
            continue
        operands = expr.args if expr.target is None else (expr.target, *expr.args)
        if len(operands) > 1 and isinstance(constant := operands[1], ast.Literal):
            try:
                strings.pattern(str(constant.value))
            except EvaluationError as error:
                meant = _glob_as_pattern(str(constant.value))
                literal = print_expression(replace(constant, value=meant)) if meant else None
                yield catalogue.bad_pattern(str(error), constant.span, literal)


def _glob_as_pattern(text: str) -> str | None:
    """The regular expression that a glob such as `*-gpu` or `eu-?a` stands for; None for others."""
    if _GLOB.match(text) is None:
        return None
    # `gpu-.*` is a regular expression already.
    parts = {"*": ".*", "?": ".", ".": r"\."}
    made = ("".join(parts.get(c, c) for c in part) for part in text.split(".*"))
    return "^" + ".*".join(made) + "$"


# Signs that no name of a node or zone and no value of a label can have, unlike other texts.
_SIGNS = re.compile(r"[*?^$|()\[\]\\%]")
_MAPS = frozenset({"labels", "nodeSelector", "namespaceLabels", "matchLabels"})
_WITH_ANY_SIGN = frozenset("value path mountPath subPath message reason key operator".split())
_NAMES = frozenset({"name", "zone", "region", "namespace", "nodeName"})
_IN_SLASHES = re.compile(r"/(.+)/\Z")
# A glob that RE2 accepts: its star repeats the sign before it.
_GLOB_AT_END = re.compile(r"[\w-]*-\*\Z")
_STARRED = re.compile(r"\A(?:\*[\w./:-]+\*?|[\w./:-]+\*)\Z")
_NOTHING = re.compile(r"(?!)")
_KEEPING = frozenset({"orValue", "value", "lowerAscii"})


@on("P0344", ast.Binary, ast.Call)
def pattern_as_text(expr: ast.Expr, tree: Tree) -> Iterator[Diagnostic]:
    """A pattern that is compared as a text, or that has another meaning in RE2."""
    for read, values in compared(expr, tree.environment):
        texts = [v.value for v in values if isinstance(v.value, str)]
        never = _never_in(read)
        if len(texts) == len(values) and (never is _SIGNS or any(map(never.search, texts))):
            yield from _compared(expr, read, texts, tree)
    match expr:
        case ast.Call(
            "startsWith" | "endsWith" | "contains" as name, target, (ast.Literal() as text,)
        ) if target is not None and _never_in(target).search(written := str(text.value)):
            if (meant := _meant(name, tree.shown(target), written)) is not None:
                sign = _SIGNS.findall(written)[0]
                message = f"`{written}` has a `{sign}`, and `{name}` takes no patterns"
                yield instead(message, expr.span, meant)
        case ast.Call("matches" | "find", _, (ast.Literal(str() as text) as literal,)):
            if (slashes := _IN_SLASHES.match(text)) is not None:
                message = f"`{text}` has slashes, which the text must have too"
                yield instead(message, literal.span, print_string(slashes[1]))
            elif _GLOB_AT_END.match(text) and (glob := _glob_as_pattern(text)) is not None:
                message = f"`{text}` is a pattern in which `*` repeats the `{text[-2]}`"
                yield instead(message, literal.span, print_string(glob))
        case _:
            return


def _compared(
    expr: ast.Expr, read: ast.Expr, texts: Sequence[str], tree: Tree
) -> Iterator[Diagnostic]:
    assert isinstance(expr, ast.Binary), "it compares"
    patterns = [_as_pattern(text) for text in texts]
    first = next((t for t, p in zip(texts, patterns, strict=True) if p is not None), None)
    listed = expr.right.elements if isinstance(expr.right, ast.ListLiteral) else ()
    if first is None or (expr.op == "in" and len(listed) != len(texts)):
        return
    shown = tree.shown(read)
    why = ": `in` takes no patterns" if expr.op == "in" else f", which `{shown}` never is"
    read_as = shown + '.orValue("")' * (read.type.name == "optional")
    parts = (
        f"{read_as} == {print_string(text)}"
        if each is None
        else f"{read_as}.matches({print_string(each)})"
        for text, each in zip(texts, patterns, strict=True)
    )
    meant = either(parts, denied=expr.op == "!=")
    yield instead(f"`{first}` is compared as a text{why}", expr.span, meant)


def _never_in(expr: ast.Expr) -> re.Pattern[str]:
    """What an expression never has: no sign in a name or a label, no star at an end of a field."""
    while isinstance(expr, ast.Call) and expr.target is not None and expr.function in _KEEPING:
        expr = expr.target
    match expr:
        case ast.Select(_, name) if expr.type == STRING and name in _NAMES:
            return _SIGNS
        case ast.Index(ast.Select(_, holder)) | ast.Select(ast.Select(_, holder)) if (
            holder in _MAPS
        ):
            return _SIGNS
        case ast.Index(ast.Select(_, "annotations")):
            return _STARRED
        case ast.Select(_, name) if expr.type == STRING and name not in _WITH_ANY_SIGN:
            return _STARRED
        case _:
            return _NOTHING


def _as_pattern(text: str) -> str | None:
    """The regular expression that a text is meant as; None if it is only a text."""
    slashes = _IN_SLASHES.match(text)
    if slashes is None and (_SIGNS.search(text) is None or _PLACEHOLDER.search(text)):
        return None
    glob = _glob_as_pattern(text.replace("%", "*"))
    return glob or (slashes[1] if slashes is not None else text)


def _meant(name: str, shown: str, written: str) -> str | None:
    """The call that an author means by `startsWith("gpu-*")`; None if that is not known."""
    plain = written.removeprefix("^").removesuffix("$")
    plain = plain.removeprefix(".*").removesuffix(".*").strip("*%")
    if _SIGNS.search(plain) is None and plain:
        # What may stand before the start, or behind the end, is anywhere.
        free = {"startsWith": written[:1], "endsWith": written[-1:]}.get(name, "")
        called = "contains" if free in ("*", "%") or written[:2] == ".*" else name
        return f"{shown}.{called}({print_string(plain)})"
    if (glob := _glob_as_pattern(written)) is not None:
        return f"{shown}.matches({print_string(glob)})"
    return None


# ---- templates

_ROOTS = r"(?:pod|node|now|data|namespaceObject)"
# A path in the braces of Helm and Go, of which a text has one pair left; and all other signs.
_BRACES = re.compile(rf"\{{\s*(?:\.[A-Za-z_]|{_ROOTS}\b)[^{{}}]*\}}")
_OTHER_SIGN = re.compile(
    r"%(?:s|d|v|q|f)\b|%\(\w+\)s|\$[A-Z][A-Z_]+\b|\$(?:pod|node|namespace)\b[\w.]*|\$\([A-Za-z_.]+\)"
    r"|<(?:pod|node)(?:\.[\w.]+)?>|[\\]\((?:pod|node)\.[\w.]+\)|\[(?:pod|node)\.[\w.]+\]"
)
_READ = re.compile(rf"{_ROOTS}(?:\.\w+|\[\"[^\"]*\"\])+")


@rule("P0345")
def template_in_text(tree: Tree) -> Iterator[Diagnostic]:
    """The sign of a template, such as `{{x}}`, in a text."""
    such = "write an expression such as `{pod.name}`"
    # Where a parameter is written, its value is a number.
    clauses = (tree.checked.template or tree.written).clauses
    texts = [(word, text) for each in clauses for word, text in each.texts if text is not None]
    for word, text in texts:
        for part, following in pairwise((*text.parts, "")):
            if isinstance(part, ast.Literal) and part.type == INT:
                message = f"`{{{part.value}}}` is shown as `{part.value}`"
                yield finding(message, part.span, such)
            if not isinstance(part, str):
                continue
            if found := _BRACES.search(part) or _OTHER_SIGN.search(part):
                is_braces, read = found[0].startswith("{"), _READ.search(found[0])
                shown = f"{{{found[0]}}}" if is_braces else found[0]
                message = f"`{shown}` is shown as it stands: an expression is in single braces"
                hint = such
                # A message says the same of all nodes.
                if read is not None and (word == "detail" or not read[0].startswith("node")):
                    hint = f"write `{{{read[0]}}}`"
                elif read is None and is_braces:
                    hint = "fill it in before: nothing here reads templates"
                yield finding(message, text.span, hint)
            elif part.endswith("$") and isinstance(following, ast.Expr):
                inner = f"{{{tree.shown(following)}}}"
                message = f"the `$` of `${inner}` is shown: an expression is in braces alone"
                yield finding(message, text.span, f"write `{inner}`")


# What programs fill in, and people.
_PLACEHOLDER = re.compile(
    rf"{habits.PLACEHOLDER}|\A(?:<[A-Za-z][\w .-]*>|%[A-Z_]+%|__[A-Z_]+__|@[A-Z_]+@)\Z"
)


@on("P0345", ast.Binary, ast.Call, ast.Index)
def placeholder_in_text(expr: ast.Expr, _: Tree) -> Iterator[Diagnostic]:
    """A text of an expression that another program was to fill in."""
    for part in children(expr):
        for each in part.elements if isinstance(part, ast.ListLiteral) else (part,):
            if isinstance(each, ast.Literal) and isinstance(each.value, str):
                for found in _PLACEHOLDER.finditer(each.value):
                    wrong = catalogue.placeholder(found[0], each.span)
                    yield finding(wrong.message, each.span, wrong.hint)


# ---- orders

_ORDERS = ("<", "<=", ">", ">=")
_OF_USERS = frozenset({"labels", "annotations", "namespaceLabels"})
# What a constant may be meant as: its form, and what reads the text of the other side.
_FORMS = (
    (re.compile(r"-?\d+\Z"), "int({})"),
    (re.compile(r"\d+(?:\.\d+)?(?:[KMGT]i?|m)\Z"), "quantity({})"),
    (re.compile(r"\d+(?:\.\d+)?(?:h|s|ms|d|w)\Z"), "duration({})"),
)
_VERSION = re.compile(r"v?\d+(?:\.\d+){1,2}(?:[-+][\w.]*)?\Z")
# The fields of nodes that are versions, which a provider may put a suffix behind.
_VERSIONS = ("kubeletVersion", "kubeProxyVersion", "kernelVersion")


@on("P0338", ast.Binary)
def numbers_as_texts(expr: ast.Binary, tree: Tree) -> Iterator[Diagnostic]:
    """Numbers in labels, annotations or versions that are ordered as texts."""
    if expr.op not in _ORDERS:
        return
    sides = (expr.left, expr.right)
    read = [side for side in sides if not isinstance(side, ast.Literal)]
    of_node = any(reads_field(side, name, "NodeSystemInfo") for side in read for name in _VERSIONS)
    if not read or not all(s.type == STRING and (of_node or _is_of_user(s)) for s in read):
        return
    given = next((str(s.value) for s in sides if isinstance(s, ast.Literal)), "1")
    is_version = any("version" in tree.shown(side).lower() for side in read)
    if is_version or _VERSION.match(given):
        call = "kubernetesVersion({})" if of_node else "semver({}, true)"
        message = 'this is an order of texts, in which `"1.9"` is after `"1.10"`'
        text = f" {expr.op} ".join(call.format(tree.shown(side)) for side in sides)
        found = instead(message, expr.span, text)
        if is_version or given.count(".") > 1:
            yield found
        else:
            hint = f"{found.hint} for versions, or `double(…)` for numbers"
            yield replace(found, hint=hint, remedy=None)
        return
    for form, call in _FORMS:
        if form.match(given):
            unit = given.lstrip("-.0123456789")
            message = f'this is an order of texts, in which `"9{unit}"` is after `"10{unit}"`'
            text = f" {expr.op} ".join(_side(side, call, tree) for side in sides)
            yield instead(message, expr.span, text)


def _side(side: ast.Expr, call: str, tree: Tree) -> str:
    """A number as it is, an amount or a duration as a text, and a call that reads another side."""
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
