"""Words: constants that no field and no label of Kubernetes has, and names of no resource.

A closed field takes no other word. An open one may, so there only a word that is nearly a known one
is a mistake.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from grammar.checker.parameters import is_example
from grammar.meaning.folding import constants
from grammar.meaning.known_words import (
    CONTROLLERS,
    FIELDS,
    LABELS,
    OF_CLAIMS,
    RESOURCE_HABITS,
    RESOURCE_PREFIXES,
    RESOURCES,
    Words,
)
from grammar.meaning.macro_types import inside
from grammar.messages import catalogue
from grammar.messages.diagnostics import Diagnostic, nearest
from grammar.rules.comparisons import LABEL_MAPS, compared, items_of, key_of, unwrapped
from grammar.rules.rule import ExpressionRule, Tree
from grammar.tree import ast
from grammar.tree.printer import print_string
from grammar.tree.source import Span
from grammar.tree.types import QUANTITY, STRING, Type, map_of

_RESOURCES = map_of(STRING, QUANTITY)
_MAPS = LABEL_MAPS | {"annotations", "namespaceLabels"}

# ---- words of fields


class UnknownWord(ExpressionRule):
    """A word that a field never has."""

    code = "P0333"
    wrong = 'filter "tainted" { require !node.spec.taints.exists(t, t.effect == "Noschedule") }'
    right = 'filter "tainted" { require !node.spec.taints.exists(t, t.effect == "NoSchedule") }'

    def at(self, expr: ast.Expr, tree: Tree) -> Iterator[Diagnostic]:
        for read, values in compared(expr, tree.environment, items=True):
            if (known := _words(read)) is None:
                continue
            for constant in values:
                assert isinstance(expr, ast.Binary), "it compares"
                if tree.shown(read) == "pod.kind" and constant.value in CONTROLLERS.values:
                    message = f"`{constant.value}` is no `kind` of a Pod, but one of its workload"
                    meant = f'pod.workload.kind {expr.op} "{constant.value}"'
                    if expr.op == "in":
                        yield self.found(message, constant.span, "write `pod.workload.kind`")
                    else:
                        yield self.instead(message, expr.span, meant)
                else:
                    yield from self._unknown(*known, constant)

    def _unknown(self, name: str, words: Words, constant: ast.Literal) -> Iterator[Diagnostic]:
        text = constant.value
        # An absent field is an empty text.
        if not isinstance(text, str) or text in ("", *words.values) or is_example(text):
            return
        if not text.startswith(words.reserved):
            return
        folded = {_alphanumeric(word): word for word in words.values}
        close = folded.get(_alphanumeric(text)) or nearest(text, words.values)
        message = f"`{text}` is no {'known ' if words.open else ''}{name}"
        if close is None and text.startswith("Not") and text[3:] in words.values:
            yield self.found(message, constant.span, f'write `"{text[3:]}"`, and another `status`')
        elif close is not None or not words.open:
            meant = (close,) if close is not None else words.values
            hint = f"write {catalogue.listed(f'`{print_string(word)}`' for word in meant)}"
            yield self.found(message, constant.span, hint)


def _alphanumeric(text: str) -> str:
    """A word in small letters and without signs."""
    return re.sub(r"[^a-z0-9]", "", text.lower())


def _words(written: ast.Expr) -> tuple[str, Words] | None:
    """The field or label that an expression reads, as a message names it, with its words."""
    read = unwrapped(written)
    if (key := key_of(read, _MAPS)) is not None:
        return (f"value of `{key}`", LABELS[key]) if key in LABELS else None
    match read:
        case ast.Select(operand, name) if (record := inside(operand.type)).is_record:
            words = FIELDS.get((record.name, name))
            return (f"`{name}` of {catalogue.an(record)}", words) if words is not None else None
        case ast.Index(listed) if inside(listed.type).name == "list":
            return next(filter(None, map(_words, items_of(listed))), None)
        case ast.Call("first" | "last", target) if target is not None:
            return next(filter(None, map(_words, items_of(target))), None)
        case _:
            return None


# ---- names of resources


class UnknownResource(ExpressionRule):
    """A resource that no pod and no node has.

    A resource is one of Kubernetes, or has a domain in its name, as `example.com/gpu` has.
    """

    code = "P0331"
    wrong = 'filter "room" { require node.free["memroy"] >= pod.requests["memory"] }'
    right = 'filter "room" { require node.free["memory"] >= pod.requests["memory"] }'
    kinds = (ast.Binary, ast.Index, ast.Select)

    def at(self, expr: ast.Expr, tree: Tree) -> Iterator[Diagnostic]:
        match expr:
            case ast.Index(holder, key) | ast.Binary("in", key, holder) if _of_resources(holder):
                names = constants(key, tree.environment)
                found = [(name.value, name.span, True) for name in names]
            case ast.Select(holder, field) if _of_resources(holder):
                found = [(field, expr.name_span, False)]
            case _:
                return
        for name, span, quoted in found:
            if isinstance(name, str) and not _is_resource(name, holder):
                yield self._unknown(name, span, quoted=quoted)

    def _unknown(self, name: str, span: Span, *, quoted: bool) -> Diagnostic:
        meant = RESOURCE_HABITS.get(name.lower()) or nearest(name, (*RESOURCES, *RESOURCE_PREFIXES))
        hint = "a resource that is not of Kubernetes has a domain, as in `example.com/gpu`"
        if meant is not None:
            key = print_string(meant)
            hint = f"write `{key if quoted else meant if meant.isidentifier() else f'[{key}]'}`"
        return self.found(f"no pod and no node has a resource `{name}`", span, hint)


def _of_resources(expr: ast.Expr) -> bool:
    """Whether an expression is the requests of a pod, what a node offers, or the like."""
    return (
        isinstance(expr, ast.Select)
        and expr.type.name in ("map", "optional")
        and inside(expr.type) == _RESOURCES
        and inside(expr.operand.type).is_record
    )


def _is_resource(name: str, holder: ast.Expr) -> bool:
    claims = Type("VolumeResourceRequirements")
    if isinstance(holder, ast.Select) and inside(holder.operand.type) == claims:
        return name == OF_CLAIMS or "/" in name
    return "/" in name or name in RESOURCES or name.startswith(RESOURCE_PREFIXES)
