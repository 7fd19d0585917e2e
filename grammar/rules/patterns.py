"""Patterns and templates: texts with signs that mean something to other programs.

`==` and `in` compare whole texts, `matches` takes a regular expression without slashes, a message
has its expressions in single braces, and nothing is filled in.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import pairwise

from grammar.messages import catalogue
from grammar.messages.diagnostics import Diagnostic, either
from grammar.rules.comparisons import compared, key_of
from grammar.rules.rule import ExpressionRule, Rule, Tree
from grammar.tree import ast
from grammar.tree.clause_parts import Template
from grammar.tree.printer import print_expression, print_string
from grammar.tree.types import INT, STRING
from grammar.tree.walk import children, walk
from grammar.values import strings
from grammar.values.errors import EvaluationError

_FUNCTIONS = frozenset({"matches", "find", "findAll"})
_GLOB = re.compile(r"[\w.*?/@:-]*[*?][\w.*?/@:-]*\Z")


class BadPattern(Rule):
    """A constant regular expression that RE2 does not accept."""

    code = "P0119"
    wrong = 'filter "no spares" { require node.name.matches("^(?!spare-)") }'
    right = 'filter "no spares" { require !node.name.startsWith("spare-") }'

    def look(self, tree: Tree) -> Iterator[Diagnostic]:
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
_STARRED = re.compile(r"(?:\*[\w./:-]+\*?|[\w./:-]+\*)\Z")
_KEEPING = frozenset({"orValue", "value", "lowerAscii"})


class PatternAsText(ExpressionRule):
    """A pattern that is compared as a text, or that has another meaning in RE2."""

    code = "P0344"
    wrong = 'filter "europe" { require node.zone in ["eu-*", "us-*"] }'
    right = (
        'filter "europe" { require node.zone.matches("^eu-.*$") || node.zone.matches("^us-.*$") }'
    )
    kinds = (ast.Binary, ast.Call)

    def at(self, expr: ast.Expr, tree: Tree) -> Iterator[Diagnostic]:
        match expr:
            case ast.Binary():
                for read, values in compared(expr, tree.environment):
                    texts = [v.value for v in values if isinstance(v.value, str)]
                    if len(texts) == len(values):
                        yield from self._compared(expr, read, texts, tree)
            case ast.Call(
                "startsWith" | "endsWith" | "contains" as name, target, (ast.Literal() as text,)
            ) if target is not None and _is_pattern(target, str(text.value)):
                written = str(text.value)
                if (meant := _meant(name, tree.shown(target), written)) is not None:
                    sign = _SIGNS.findall(written)[0]
                    message = f"`{written}` has a `{sign}`, and `{name}` takes no patterns"
                    yield self.instead(message, expr.span, meant)
            case ast.Call("matches" | "find", _, (ast.Literal(str() as text) as literal,)):
                yield from self._matched(literal, text)
            case _:
                return

    def _compared(
        self, expr: ast.Binary, read: ast.Expr, texts: Sequence[str], tree: Tree
    ) -> Iterator[Diagnostic]:
        if not _has_no_signs(read) and not (_has_no_star(read) and any(map(_STARRED.match, texts))):
            return
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
        yield self.instead(f"`{first}` is compared as a text{why}", expr.span, meant)

    def _matched(self, literal: ast.Literal, text: str) -> Iterator[Diagnostic]:
        if (slashes := _IN_SLASHES.match(text)) is not None:
            message = f"`{text}` has slashes, which the text must have too"
            yield self.instead(message, literal.span, print_string(slashes[1]))
        elif _GLOB_AT_END.match(text) and (glob := _glob_as_pattern(text)) is not None:
            message = f"`{text}` is a pattern in which `*` repeats the `{text[-2]}`"
            yield self.instead(message, literal.span, print_string(glob))


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


def _has_no_star(expr: ast.Expr) -> bool:
    """Whether an expression is a field of a text, as that of an image, that no `*` is in."""
    if isinstance(expr, ast.Index) and isinstance(expr.operand, ast.Select):
        return expr.operand.name == "annotations"
    return isinstance(expr, ast.Select) and expr.type == STRING and expr.name not in _WITH_ANY_SIGN


def _is_pattern(target: ast.Expr, text: str) -> bool:
    """Whether a text has a sign that what it is compared with never has."""
    if _has_no_signs(target):
        return _SIGNS.search(text) is not None
    return "*" in text and _has_no_star(target)


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


class TemplateInText(Rule):
    """The sign of a template, such as `{{x}}`, in a text."""

    code = "P0345"
    wrong = 'filter "ready" { require node.ready message "no place for {{ .pod.name }}" }'
    right = 'filter "ready" { require node.ready message "no place for {pod.name}" }'

    def look(self, tree: Tree) -> Iterator[Diagnostic]:
        # Where a parameter is written, its value is a number.
        for clause in (tree.checked.template or tree.written).clauses:
            for part in ("message", "detail"):
                if isinstance(text := getattr(clause, part, None), Template):
                    yield from self._template(text, tree, is_detail=part == "detail")

    def _template(self, text: Template, tree: Tree, *, is_detail: bool) -> Iterator[Diagnostic]:
        such = "write an expression such as `{pod.name}`"
        for part, following in pairwise((*text.parts, "")):
            if isinstance(part, ast.Literal) and part.type == INT:
                message = f"`{{{part.value}}}` is shown as `{part.value}`"
                yield self.found(message, part.span, such)
            elif isinstance(part, str):
                found = _BRACES.search(part) or _OTHER_SIGN.search(part)
                if found is not None:
                    shown = f"{{{found[0]}}}" if found[0].startswith("{") else found[0]
                    read = _READ.search(found[0])
                    message = f"`{shown}` is shown as it stands: an expression is in single braces"
                    # A message says the same of all nodes.
                    is_read = read is not None and (is_detail or not read[0].startswith("node"))
                    hint = f"write `{{{read[0]}}}`" if is_read and read is not None else such
                    if read is None and found[0].startswith("{"):
                        hint = "fill it in before: nothing here reads templates"
                    yield self.found(message, text.span, hint)
                elif part.endswith("$") and isinstance(following, ast.Expr):
                    inner = f"{{{tree.shown(following)}}}"
                    message = f"the `$` of `${inner}` is shown: an expression is in braces alone"
                    yield self.found(message, text.span, f"write `{inner}`")


# What Helm, Go, shells, Terraform and people fill in.
_PLACEHOLDER = re.compile(
    r"\{\{[^{}\n]*\}\}|\$\{[^{}\n]*\}|\$\(\w+\)|\$[A-Za-z_]\w*|<%[^%\n]*%>|\{%[^%{}\n]*%\}"
    r"|\A(?:<[A-Za-z][\w .-]*>|%[A-Z_]+%|__[A-Z_]+__|@[A-Z_]+@)\Z"
)


class PlaceholderInText(ExpressionRule):
    """A text of an expression that another program was to fill in."""

    code = "P0345"
    wrong = 'filter "zone" { require node.zone == "${ZONE}" }'
    right = 'filter "zone" { require node.zone == "eu-1a" }'
    kinds = (ast.Binary, ast.Call, ast.Index)

    def at(self, expr: ast.Expr, _: Tree) -> Iterator[Diagnostic]:
        for part in children(expr):
            for each in part.elements if isinstance(part, ast.ListLiteral) else (part,):
                if isinstance(each, ast.Literal) and isinstance(each.value, str):
                    for found in _PLACEHOLDER.finditer(each.value):
                        hint = "write the value that it stands for, or declare a parameter"
                        yield self.found(f"nothing fills in `{found[0]}` here", each.span, hint)
