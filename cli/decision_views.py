"""The answers of `placet explain --server`: the pods a server was asked about, and one of them."""

from __future__ import annotations

from collections.abc import Iterator

from rich.table import Table
from rich.text import Text

from cli.console import Part, table
from cli.exits import CommandError
from cli.render import counted
from server.decisions import Listing, Told

# More names than that in a row are counted.
_NAMED = 4
_PASS, _FAIL = Text("pass", "green"), Text("fail", "red")


def listing(found: Listing) -> Iterator[Part]:
    """A row for each pod, the newest first."""
    if not found.decisions:
        yield "kube-scheduler has not asked about any pod yet"
        return
    rows = table("pod", "asked at", "pass", "of", "governed by", right=("pass", "of"))
    for one in found.decisions:
        note = f"error: {one.error}" if one.error else one.governing or ""
        rows.add_row(one.pod, one.at, str(one.passing), str(one.offered), note)
    yield rows


def head(told: Told) -> Iterator[Part]:
    """The pod, when it was asked about, and what policies have to do with it."""
    yield f"pod {told.pod}, asked about at {told.at}"
    if told.policiesChanged:
        yield "other policies are in force since"
    yield ""
    rows = _policies(told)
    if rows.row_count:
        yield rows
        yield ""
    elif told.error is None:
        yield "no policy concerns the pod\n"
    if told.error is not None:
        yield f"kube-scheduler got an error, and tries again: {told.error}\n"


def every_node(told: Told) -> Iterator[Part]:
    """The nodes by verdict."""
    if told.offered and (told.error is None or told.reasons):
        yield _by_reason(told)
        yield ""
        verb = "passes" if told.passing == 1 else "pass"
        yield f"{told.passing} of {counted(told.offered, 'node')} {verb}"


def one_node(told: Told, node: str) -> Iterator[Part]:
    """What was said of one node. Raises CommandError for one that kube-scheduler did not offer."""
    score = next((s.score for s in told.scores or () if s.node == node), None)
    for reason in told.reasons:
        if node in reason.names:
            error = f": {reason.error}" if reason.error else ""
            yield f"node {node} fails by {reason.text}{error}"
            return
    if told.passed is None and told.error is None:
        yield f"node {node} passes if it was among the {counted(told.offered, 'node')} in question"
        return
    if node not in (told.passed or ()):
        hint = "it asks about nodes that pass its own filters"
        raise CommandError(f"kube-scheduler did not ask about node `{node}`", hint)
    yield f"node {node} passes"
    yield f"score {score} of 10" if score is not None else "not scored"


def _policies(told: Told) -> Table:
    rows = table("policy", "applies")
    for address in told.guardrails:
        rows.add_row(address, "as a guardrail")
    if told.governing is not None:
        rows.add_row(told.governing, "governs")
    for address in told.gaveWay:
        rows.add_row(address, f"no: `{told.governing}` governs")
    for address in told.audited:
        rows.add_row(address, "in audit")
    return rows


def _by_reason(told: Told) -> Table:
    rows = table("nodes", "verdict", "why", "which", right=("nodes",))
    if told.passing:
        names = [s.node for s in told.scores] if told.scores else list(told.passed or ())
        rows.add_row(str(told.passing), _PASS, _scores(told), _some(names))
    for reason in told.reasons:
        why = f"{reason.text}: {reason.error}" if reason.error else reason.text
        rows.add_row(str(reason.nodes), _FAIL, why, _some(list(reason.names)))
    return rows


def _scores(told: Told) -> str:
    if not told.scores:
        return ""
    high, low = told.scores[0].score, told.scores[-1].score
    return f"score {low}" if low == high else f"score {low} to {high}, the best first"


def _some(names: list[str]) -> str:
    more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
    return f"{', '.join(names[:_NAMED])}{more}"
