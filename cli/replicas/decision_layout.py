"""Layout of the decisions of running replicas: as a list, as lines, and one in full."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from rich.table import Table

from cli.command import CommandError
from cli.console import Part, table
from cli.explanation.decision_layout import FAIL, NAMED, PASS, passed
from engine.explanation.decision_document import CountedGroup, DecisionDetail, Listing, Summary
from grammar.messages.texts import counted, named


def listings(found: Sequence[Listing]) -> Iterator[Part]:
    """A row for each decision, the newest first; with several replicas it says whose it is."""
    every = [(one, each.replica) for each in found for one in each.decisions]
    if not every:
        yield "there are no decisions yet"
        return
    several = len(found) > 1
    columns = ("pod", "asked at", "pass", "of", "governed by", *(("replica",) if several else ()))
    rows = table(*columns, right=("pass", "of"))
    for one, replica in sorted(every, key=lambda pair: pair[0].at, reverse=True):
        row = (one.pod, one.at, str(one.passing), str(one.offered), _note(one))
        rows.add_row(*row, *((replica,) if several else ()))
    yield rows


def line(one: Summary, replica: str) -> str:
    """One decision as it is followed; `replica` is empty if there is only one."""
    note = f"  {_note(one)}" if _note(one) else ""
    whose = f"  {replica}" if replica else ""
    return f"{one.at}  {one.pod}  {one.passing} of {one.offered}{note}{whose}"


def _note(one: Summary) -> str:
    return f"error: {one.error}" if one.error else one.governing or ""


def head(decision: DecisionDetail, replica: str = "") -> Iterator[Part]:
    """The pod, the time of the decision, the replica if it is given, and the policies."""
    whose = f", by replica {replica}" if replica else ""
    yield f"pod {decision.pod}, asked about at {decision.at}{whose}"
    if decision.policiesChanged:
        yield "the policies have changed since then"
    yield ""
    rows = _policies(decision)
    if rows.row_count:
        yield rows
        yield ""
    elif decision.error is None:
        yield "no policy applies to the pod\n"
    if decision.error is not None:
        yield f"kube-scheduler got an error and retries: {decision.error}\n"


def every_node(decision: DecisionDetail) -> Iterator[Part]:
    """The nodes by reason, and what strict clauses counted."""
    if decision.offered and (decision.error is None or decision.reasons):
        yield _by_reason(decision)
        yield ""
        yield passed(decision.passing, decision.offered)
    for each in decision.counts:
        yield f"{each.policy}: {each.clause} {_groups(each.groups)}"


def one_node(decision: DecisionDetail, node: str) -> Iterator[Part]:
    """The verdict about one node. Raises CommandError if it was not a candidate."""
    score = next((s.score for s in decision.scores or () if s.node == node), None)
    for reason in decision.reasons:
        if node in reason.names:
            error = f": {reason.error}" if reason.error else ""
            yield f"node {node} fails by {reason.text}{error}"
            return
    if decision.passed is None and decision.error is None:
        candidates = counted(decision.offered, "candidate node")
        yield f"node {node} passes if it was one of the {candidates}"
        return
    if node not in (decision.passed or ()):
        hint = "it sends only nodes that pass its own filters"
        raise CommandError(f"kube-scheduler did not send node `{node}` as a candidate", hint)
    yield f"node {node} passes"
    yield f"score {score} of 10" if score is not None else "not scored"


def _policies(decision: DecisionDetail) -> Table:
    rows = table("policy", "applies")
    for address in decision.guardrails:
        rows.add_row(address, "as a guardrail")
    if decision.governing is not None:
        rows.add_row(decision.governing, "governs")
    for address in decision.gaveWay:
        rows.add_row(address, f"no: `{decision.governing}` governs")
    for address in decision.audited:
        rows.add_row(address, "in audit")
    return rows


def _by_reason(decision: DecisionDetail) -> Table:
    rows = table("nodes", "verdict", "why", "which", right=("nodes",))
    if decision.passing:
        names = (
            [s.node for s in decision.scores] if decision.scores else list(decision.passed or ())
        )
        rows.add_row(str(decision.passing), PASS, _scores(decision), named(names, NAMED))
    for reason in decision.reasons:
        why = f"{reason.text}: {reason.error}" if reason.error else reason.text
        rows.add_row(str(reason.nodes), FAIL, why, named(reason.names, NAMED))
    return rows


def _scores(decision: DecisionDetail) -> str:
    if not decision.scores:
        return ""
    high, low = decision.scores[0].score, decision.scores[-1].score
    return f"score {low}" if low == high else f"score {low} to {high}, the best first"


def _groups(groups: Sequence[CountedGroup]) -> str:
    """`counted z1 3, z2 2`, the fullest first."""
    if not groups:
        return "counted no other pod"
    return f"counted {named([f'{each.name} {each.pods:g}' for each in groups], NAMED)}"
