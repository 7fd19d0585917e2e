"""Repairs: a `repair` that never moves a pod, because nothing in its policy can be broken."""

from __future__ import annotations

from collections.abc import Iterator

from grammar.checker.policy_checker import Checked
from grammar.messages.diagnostics import Diagnostic
from grammar.tree.clauses import Setting, Use


def repairs_of_nothing(checked: Checked) -> Iterator[Diagnostic]:
    """A warning (P0354) for a `repair` in audit mode, or without a clause that rejects nodes."""
    policy = checked.policy
    if policy.repair is None or any(isinstance(item, Use) for item in policy.items):
        return
    if policy.setting("mode", "enforce") == "audit":
        message, hint = "a policy in audit mode repairs nothing", "write `mode enforce`"
    elif all(clause.verb == "prioritize" or clause.keyword == "gang" for clause in policy.clauses):
        message = "there is nothing to repair: no clause here keeps a pod off a node"
        hint = "make a clause `strict`, or leave out the `repair`"
    else:
        return
    span = next(i.span for i in policy.items if isinstance(i, Setting) and i.name == "repair")
    yield Diagnostic("P0354", "warning", message, span, hint=hint)
