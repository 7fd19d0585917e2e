"""Portability: which clauses of policies autoscalers can be told of, as lines for people."""

from __future__ import annotations

from collections.abc import Iterator

from engine.objects.codec import ObjectCodec
from engine.portable.label_conditions import Frozen
from engine.portable.portable_clauses import portability
from grammar.checker.policy_checker import Checked


def portability_lines(checked: Checked, codec: ObjectCodec, frozen: Frozen) -> Iterator[str]:
    """The verdicts about a policy, for people."""
    policy = checked.policy
    said = "portable" if policy.portable else "not `portable`, so nobody is told"
    yield f"policy {policy.address} ({said})"
    verdicts = portability(checked, codec, frozen)
    if not verdicts:
        yield "  no clause rejects nodes"
    for verdict in verdicts:
        name = verdict.clause or "all clauses"
        if verdict.reason:
            yield f"  {name}: stays in Placet: {verdict.reason}"
        elif verdict.exact:
            yield f"  {name}: told as it is"
        else:
            yield f"  {name}: told in part; Placet rejects more nodes"
