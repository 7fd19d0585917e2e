"""Gangs: values of `of pods by` that make no gangs, and two gangs that can have the same pod."""

from __future__ import annotations

from collections.abc import Iterator

from grammar.checker.policy_checker import Checked
from grammar.meaning.allowed import exclude_each_other
from grammar.meaning.written_out import write_out
from grammar.messages import catalogue
from grammar.messages.diagnostics import Diagnostic, Severity
from grammar.rules.rule import Rule, Tree
from grammar.tree import ast
from grammar.tree.clauses import Gang, of_kind
from grammar.tree.walk import reads

# The fields of a peer of which each pod has its own, and those that change while it is placed.
_OWN = frozenset({("name",), ("uid",)})
_CHANGING = frozenset({"nodeName", "phase"})


class NoGangs(Rule):
    """A value that cannot tell gangs apart.

    Pods of one value that changes are not one gang for long, so that is an error.
    """

    code = "P0341"
    head = 'policy example in namespace "ml"'
    wrong = 'gang "training" { of pods by peer.name at least 8 }'
    right = 'gang "training" { of pods by peer.labels["job"] at least 8 }'

    def look(self, tree: Tree) -> Iterator[Diagnostic]:
        for clause in tree.clauses(Gang):
            if (by := clause.by) is None:
                continue
            found = list(reads(by, tree.environment.definitions))
            changing = next((r for r in found if {*r.path[1:2]} & _CHANGING), None)
            if changing is not None:
                message = f"`{'.'.join(changing.path)}` changes when a pod is placed"
                yield catalogue.no_gangs(message, changing.span, "error")
            elif not found:
                yield catalogue.no_gangs("this is the same for all pods of a namespace", by.span)
            elif isinstance(by, ast.Select) and found[0].path[1:] in _OWN:
                yield catalogue.no_gangs(f"each pod has a `{tree.shown(by)}` of its own", by.span)


class TwoGangs(Rule):
    """Two gangs of a policy that can have the same pods."""

    code = "P0342"
    head = 'policy example in namespace "ml"'
    wrong = (
        'gang "workload" { of replicas }\ngang "job" { of pods by peer.labels["job"] at least 8 }'
    )
    right = (
        'gang "workload" when !has(pod.labels["job"]) { of replicas }\n'
        'gang "job" when has(pod.labels["job"]) { of pods by peer.labels["job"] at least 8 }'
    )

    def look(self, tree: Tree) -> Iterator[Diagnostic]:
        known: list[Gang] = []
        for clause in tree.clauses(Gang):
            for other in known:
                if (severity := together(other, clause)) is not None:
                    yield catalogue.two_gangs(other.name, clause.name_span, severity)
                    break
            known.append(clause)


def gangs_of(checked: Checked) -> tuple[Gang, ...]:
    """The gangs of a policy, with its definitions written out."""
    if not of_kind(checked.policy.items, Gang):
        return ()
    return of_kind(write_out(checked.policy, checked.environment).items, Gang)


def together(one: Gang, other: Gang) -> Severity | None:
    """Whether two gangs have the same pods (an error), or may have them (a warning)."""
    if one.when is None or other.when is None or one.when == other.when:
        return "error"
    return None if exclude_each_other(one.when, other.when) else "warning"
