"""Gangs: values of `of pods by` that make no gangs, and two gangs that can have the same pod.

These checks look at policies that are written out.
"""

from __future__ import annotations

from collections.abc import Iterator

from grammar.checker.policy_checker import Checked
from grammar.meaning.allowed import exclude_each_other
from grammar.meaning.schema import print_as_written
from grammar.meaning.written_out import write_out
from grammar.messages import catalogue
from grammar.messages.diagnostics import Diagnostic, Severity
from grammar.tree import ast
from grammar.tree.clauses import Gang, of_kind
from grammar.tree.walk import reads

# The fields of a peer of which each pod has its own, and those that change while it is placed.
_OWN = frozenset({("name",), ("uid",)})
_CHANGING = frozenset({"nodeName", "phase"})


def gang_keys(checked: Checked) -> Iterator[Diagnostic]:
    """What a `by` cannot tell gangs by: what is the same for all, own to each, or changes (P0341).

    Pods of one value that changes are not one gang for long, so that is an error.
    """
    for clause in of_kind(checked.policy.items, Gang):
        if (by := clause.by) is None:
            continue
        found = list(reads(by, checked.environment.definitions))
        changing = next((r for r in found if {*r.path[1:2]} & _CHANGING), None)
        shown = print_as_written(by, checked.environment.schema)
        if changing is not None:
            field = ".".join(changing.path)
            yield catalogue.no_gangs(
                f"`{field}` changes when a pod is placed", changing.span, "error"
            )
        elif not found:
            yield catalogue.no_gangs("this is the same for all pods of a namespace", by.span)
        elif isinstance(by, ast.Select) and found[0].path[1:] in _OWN:
            yield catalogue.no_gangs(f"each pod has a `{shown}` of its own", by.span)


def gangs_of_the_same_pods(checked: Checked) -> Iterator[Diagnostic]:
    """The second of two gangs that can have the same pod (P0342), which can wait for both."""
    known: list[Gang] = []
    for clause in of_kind(checked.policy.items, Gang):
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
    if None in (one.when, other.when) or one.when == other.when:
        return "error"
    assert one.when is not None, "it is another one"
    assert other.when is not None, "it is another one"
    return None if exclude_each_other(one.when, other.when) else "warning"
