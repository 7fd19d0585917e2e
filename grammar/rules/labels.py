"""Labels: keys and values that Kubernetes has under another name, or accepts for no object."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from difflib import get_close_matches

from grammar.checker.parameters import is_example
from grammar.meaning.folding import constants
from grammar.meaning.known_words import LABELS
from grammar.meaning.macro_types import inside
from grammar.messages.diagnostics import Diagnostic
from grammar.rules.comparisons import (
    LABEL_MAPS,
    compared,
    key_of,
    reads_field,
    unwrapped,
)
from grammar.rules.rule import ExpressionRule, Tree
from grammar.tree import ast
from grammar.tree.printer import print_string
from grammar.tree.source import Span

# ---- other names

# The former keys of labels and taints of nodes, and those that nodes have now.
_FORMER: Mapping[str, str] = {
    "beta.kubernetes.io/arch": "kubernetes.io/arch",
    "beta.kubernetes.io/instance-type": "node.kubernetes.io/instance-type",
    "beta.kubernetes.io/os": "kubernetes.io/os",
    "failure-domain.beta.kubernetes.io/region": "topology.kubernetes.io/region",
    "failure-domain.beta.kubernetes.io/zone": "topology.kubernetes.io/zone",
    "node-role.kubernetes.io/master": "node-role.kubernetes.io/control-plane",
}
# The keys of labels that nodes have by themselves.
_KEYS = (*_FORMER.values(), "kubernetes.io/hostname")
# Keys that differ in a letter or two.
_NEARLY = 0.93
_ROLE = "node-role.kubernetes.io/"
_ARCHITECTURES: Mapping[str, str] = {
    **dict.fromkeys(("x86_64", "x86-64", "x64", "x86", "intel"), "amd64"),
    **dict.fromkeys(("aarch64", "armv8"), "arm64"),
    **dict.fromkeys(("i386", "i686"), "386"),
}
_ARCH = "kubernetes.io/arch"


class OtherName(ExpressionRule):
    """A label or a value that Kubernetes has under another name."""

    code = "P0346"
    wrong = 'filter "intel" { require node.labels["kubernetes.io/arch"] == "x86_64" }'
    right = 'filter "intel" { require node.labels["kubernetes.io/arch"] == "amd64" }'
    kinds = (ast.Binary, ast.Index)

    def at(self, expr: ast.Expr, tree: Tree) -> Iterator[Diagnostic]:
        match expr:
            case ast.Index(ast.Select(_, holder), ast.Literal(str() as key) as where) | ast.Binary(
                "in", ast.Literal(str() as key) as where, ast.Select(_, holder)
            ) if holder in LABEL_MAPS:
                yield from self._of_key("label", key, where)
            case ast.Binary("==" | "!=", ast.Select() as field, ast.Literal(str() as key)) if (
                reads_field(field, "key", "Taint", "Toleration")
            ):
                yield from self._of_key("taint", key, expr.right)
            case ast.Binary():
                for read, values in compared(expr, tree.environment, items=True):
                    for found in values:
                        if isinstance(found.value, str):
                            yield from self._of_value(expr, unwrapped(read), found, tree)
            case _:
                return

    def _of_key(self, what: str, key: str, where: ast.Expr) -> Iterator[Diagnostic]:
        if (now := _FORMER.get(key)) is not None:
            yield self.instead(f"the {what} `{key}` is gone", where.span, print_string(now))
        elif key not in _KEYS and not is_example(key):
            close = get_close_matches(key, _KEYS, 1, _NEARLY)
            domain, _, name = key.rpartition("/")
            if domain.endswith("kubernetes.io"):
                close += [known for known in _KEYS if known.rpartition("/")[2] == name]
            if close and what == "label":
                message = f"the label `{key}` is not one of Kubernetes"
                yield self.instead(message, where.span, print_string(close[0]))

    def _of_value(
        self, expr: ast.Binary, read: ast.Expr, found: ast.Literal, tree: Tree
    ) -> Iterator[Diagnostic]:
        """The name of a constant that a label or a field has in its place."""
        text, key = str(found.value), key_of(read, LABEL_MAPS)
        if key is not None and key.startswith(_ROLE) and text:
            assert isinstance(read, ast.Index | ast.Select), "it has a key"
            shown = tree.shown(replace(read, optional=False))
            is_there = (expr.op != "!=") is (text.lower() not in ("false", "no"))
            meant = f"{'' if is_there else '!'}has({shown})"
            yield self.instead("a label of a role has no value", expr.span, meant)
        elif key == _ARCH or reads_field(read, "architecture", "NodeSystemInfo"):
            if (name := _ARCHITECTURES.get(text.lower())) is not None:
                message = f"`{text}` is called `{name}` in Kubernetes"
                yield self.instead(message, found.span, print_string(name))
        elif text == "ReplicaSet" and reads_field(read, "kind", "PeerWorkload", "Workload"):
            message = "the workload of a pod of a Deployment is the `Deployment`"
            yield self.instead(message, found.span, '"Deployment"')


# ---- labels and names that cannot be

_LABEL_KEY = re.compile(
    r"(?:[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?/)?[A-Za-z0-9]([-\w.]{0,61}[A-Za-z0-9])?\Z", re.ASCII
)
_LABEL_VALUE = re.compile(r"(?:[A-Za-z0-9]([-\w.]{0,61}[A-Za-z0-9])?)?\Z", re.ASCII)
# Patterns and templates have warnings of their own.
_PATTERN = re.compile(r"[*?^${}<>|\[\]\\%]")


class ImpossibleLabel(ExpressionRule):
    """A key or a value that Kubernetes accepts for no label."""

    code = "P0333"
    wrong = 'filter "web" { require node.labels["tier"] == "the web" }'
    right = 'filter "web" { require node.labels["tier"] == "web" }'
    kinds = (ast.Binary, ast.Index)

    def at(self, expr: ast.Expr, tree: Tree) -> Iterator[Diagnostic]:
        match expr:
            case ast.Index(ast.Select(_, "labels"), ast.Literal() as key) | ast.Binary(
                "in", ast.Literal() as key, ast.Select(_, "labels")
            ):
                yield from self._impossible("key", key, _LABEL_KEY)
            case ast.Binary():
                for read, values in compared(expr, tree.environment):
                    label = key_of(unwrapped(read), ("labels",))
                    for where in values if label is not None and label not in LABELS else ():
                        yield from self._impossible("value", where, _LABEL_VALUE)
            case _:
                return

    def _impossible(
        self, what: str, where: ast.Literal, form: re.Pattern[str]
    ) -> Iterator[Diagnostic]:
        text = where.value
        if not isinstance(text, str) or is_example(text) or _PATTERN.search(text):
            return
        if not form.match(text):
            message = f"`{text}` is no {what} of a label: it has letters, digits, `-`, `_` and `.`"
            yield self.found(message, where.span, "correct it, or read it from `annotations`")


# The records of objects that have names, and the fields that name others.
_NAMED = frozenset(
    "Container Namespace Node ObjectMeta Peer PeerWorkload Pod Volume Workload".split()
)
_OF_OTHERS = frozenset(
    "namespace nodeName priorityClassName runtimeClassName serviceAccountName".split()
)
_LABELS_OF_NAMES = ("kubernetes.io/hostname", "kubernetes.io/metadata.name")
_LOWER = re.compile(r"[a-z0-9.-]*\Z", re.ASCII)


class ImpossibleName(ExpressionRule):
    """A text with signs that no name of an object has, in a comparison or as a namespace."""

    code = "P0333"
    wrong = 'filter "first" { require node.name == "Node_1" }'
    right = 'filter "first" { require node.name == "node-1" }'
    kinds = (ast.Binary, ast.Call)

    def look(self, tree: Tree) -> Iterator[Diagnostic]:
        policy = tree.policy
        for found in self._impossible(policy.namespace, policy.name_span):
            yield replace(found, remedy=None)
        yield from super().look(tree)

    def at(self, expr: ast.Expr, tree: Tree) -> Iterator[Diagnostic]:
        pairs = [*compared(expr, tree.environment, items=True)]
        match expr:
            case ast.Call("startsWith" | "endsWith" | "contains", read, (arg,)) if read is not None:
                pairs = [(read, constants(arg, tree.environment))]
            case _:
                pass
        for read, values in pairs:
            if _is_name(unwrapped(read)):
                for where in values:
                    yield from self._impossible(where.value, where.span)

    def _impossible(self, text: object, span: Span) -> Iterator[Diagnostic]:
        if not isinstance(text, str) or is_example(text) or _PATTERN.search(text):
            return
        if not _LOWER.match(text):
            # `HighPriority` is `high-priority`.
            meant = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "-", text)
            meant = re.sub(r"[ _]+", "-", meant.lower())
            message = f"`{text}` is in no name: these have lower-case letters, digits, `-` and `.`"
            if _LOWER.match(meant):
                yield self.instead(message, span, print_string(meant))
            else:
                yield self.found(message, span, "correct it")


def _is_name(read: ast.Expr) -> bool:
    """Whether an expression reads the name of an object."""
    match read:
        case ast.Select(operand, "name") if inside(operand.type).name in _NAMED:
            return True
        case ast.Select(_, name) if name in _OF_OTHERS:
            return True
        case _:
            return key_of(read, ("labels",)) in _LABELS_OF_NAMES
