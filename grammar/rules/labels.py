"""Labels: keys and values that Kubernetes has under another name, or accepts for no object."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from difflib import get_close_matches

from grammar.checker.parameters import is_example
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
