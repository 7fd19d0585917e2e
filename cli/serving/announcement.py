"""What a server prints when it has started: where it is, what decides, and what to try."""

from __future__ import annotations

from collections.abc import Iterator

from cli.demo import question
from cli.serving.upkeep import Upkeep
from grammar.clauses import Policy


def demo(url: str, upkeep: Upkeep) -> Iterator[str]:
    """The lines of `--demo`; the last ones say what the engine answers to the question."""
    snapshot = upkeep.view.snapshot()
    nodes, pods = len(snapshot.table.places), len(snapshot.pods())
    yield f"Placet decides about a demo cluster of {nodes} nodes and {pods} pods at {url}"
    yield "Ctrl-C ends it."
    yield ""
    yield "Its policies; an edit is in force half a second later:"
    for standing in upkeep.policies.in_force.standing:
        # Of the library, half is there for policies that somebody has yet to write.
        if not standing.checked.policy.only_used:
            yield f"  {_summary(standing.checked.policy)}"
            yield f"    {standing.file}"
    yield ""
    yield "Ask it, in another terminal, where a web pod may go:"
    yield ""
    yield question.command(url, "filter")
    yield ""
    yield "It would answer now:"
    yield from (f"  {line}" for line in question.answer(upkeep.engine))


def _summary(policy: Policy) -> str:
    kind = "cluster policy" if policy.cluster else "policy"
    return f"{kind} {policy.address}: {policy.setting('description', 'no description')}"
