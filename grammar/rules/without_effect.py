"""Without effect: clauses and settings that change no placement."""

from __future__ import annotations

from collections.abc import Iterator

from grammar.messages.diagnostics import Diagnostic
from grammar.rules.rule import Rule, Tree
from grammar.tree.clauses import Limit, Score, Share, of_kind
from grammar.tree.source import Span

_WHOLE = 100


# What is the same for all nodes.
_OF_POD = frozenset({"pod", "now", "namespaceObject"})


class EqualScore(Rule):
    """A score that is the same for all nodes."""

    code = "P0350"
    wrong = 'score "important" weight 10 { value pod.priority > 1000 }'
    right = (
        'score "important" weight 10 when pod.priority > 1000 { value node.usage["cpu"] '
        "range 0 .. 1 }"
    )

    def look(self, tree: Tree) -> Iterator[Diagnostic]:
        for clause in of_kind(tree.written.items, Score):
            if not tree.read_by(clause.value, *clause.ends) - _OF_POD:
                message = "this reads nothing of the node, so all nodes get the same score"
                hint = "write a value of the node, or a `when` if it is about the pod"
                yield self.found(message, clause.value.span, hint)


# A node has 110 pods by default, and no kubelet is run with as many as this.
_MOST_PODS = 500


class BoundWithoutEffect(Rule):
    """A bound that holds wherever the pods are."""

    code = "P0353"
    wrong = 'limit "many" { per node at most 1000 strict }'
    right = 'limit "many" { per cluster at most 1000 strict }'

    def look(self, tree: Tree) -> Iterator[Diagnostic]:
        for clause in tree.clauses(Limit):
            amount, kind = tree.constant(clause.bound.amount), clause.bound.kind
            if amount is None or clause.added is not None:
                continue
            if clause.per.scope == "node" and kind == "at most" and amount > _MOST_PODS:
                message = f"no node has more than {amount:g} pods, so this limit never rejects one"
                hint = "write a smaller number, `per domain node.zone` or `per cluster`"
                yield self.found(message, clause.bound.span, hint)
            elif kind == "at least" and amount == 0:
                yield self._always_kept("at least 0", "at least 1", clause.bound.span)
        for share in tree.clauses(Share):
            bound, amount = share.bound, tree.constant(share.bound.amount)
            if bound.kind == "at least" and amount == 0:
                said = f"at least 0{'%' * bound.percent}"
                yield self._always_kept(said, "at most 0%", bound.span)
            elif bound.kind == "at most" and amount == _WHOLE and bound.percent:
                yield self._always_kept("at most 100%", "at least 100%", bound.span)

    def _always_kept(self, said: str, meant: str, span: Span) -> Diagnostic:
        hint = f"write another number, or `{meant}` if that is meant"
        return self.found(f"`{said}` is kept wherever the pods are", span, hint)
