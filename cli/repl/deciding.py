"""What the policies make of the pod at hand: why, by rank, what stands in its way, and what if."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from cli.analysis_views import analysis
from cli.console import table
from cli.exits import CommandError
from cli.explaining import Explanation, explain
from cli.explanation_views import every_node, head, one_node
from cli.render import counted
from cli.repl.answer import Told
from cli.repl.change import changed
from cli.repl.session import Session
from engine.verdict import Feasible


def why(session: Session, text: str) -> Iterator[Told]:
    """As `placet explain`: every node, or every value on one."""
    if text:
        session.some_cluster().node(text)
    with session.explained() as (world, found):
        yield from head(world, found)
        yield from one_node(world, found, text) if text else every_node(world, found)


def analyze(session: Session, _: str) -> Iterator[Told]:
    """As `placet analyze`."""
    with session.explained() as (world, found):
        yield from head(world, found)
        yield from analysis(world, found)


def rank(session: Session, text: str) -> Iterator[Told]:
    """The nodes that pass, the best first, with the mean that their score is rounded from."""
    if text and not text.isdecimal():
        raise CommandError(f"`{text}` is no number of nodes", "as in `:rank 5`")
    most = int(text) if text else session.settings.rows
    with session.explained() as (_, found):
        if not found.scores:
            passing = len(found.passing)
            verb = "passes" if passing == 1 else "pass"
            reason = ", and no score applies" if passing else ""
            yield f"{passing} of {counted(len(found.names), 'node')} {verb}{reason}"
            return
        exact = _exact(found)
    ranked = sorted(found.scores, key=lambda name: (-found.scores[name], -exact[name], name))
    rows = table("node", "score", "exactly", right=("score", "exactly"))
    for name in ranked[:most]:
        rows.add_row(name, str(found.scores[name]), f"{exact[name]:.2f}")
    yield rows
    if (more := len(ranked) - most) > 0:
        yield f"and {more} more"


def what_if(session: Session, text: str) -> Iterator[Told]:
    """The nodes whose answer is another with one field of the node or the pod changed."""
    with session.explained() as (_, found):
        before = found
    with changed(session, text) as (world, pod), world.cluster.asking(pod):
        after = explain(world, pod)
    rows = table("node", "now", "then")
    for name in before.names:
        now, then = _outcome(before, name), _outcome(after, name)
        if now != then:
            rows.add_row(name, now, then)
    if rows.row_count:
        yield rows
    same = counted(len(before.names) - rows.row_count, "node")
    if rows.row_count < len(before.names):
        yield f"and {same} as before" if rows.row_count else f"nothing changes: {same} as before"


def _exact(found: Explanation) -> dict[str, float]:
    """The weighted mean of each node's points, out of 10."""
    names = list(found.scores)
    terms = found.inspection.contributions(names)
    total = sum(term.weight for term in terms)
    mean = np.sum([term.weight * term.points for term in terms], axis=0) / total / 10
    return dict(zip(names, map(float, mean), strict=True))


def _outcome(found: Explanation, name: str) -> str:
    if found.problem:
        return f"error: {found.problem}"
    if found.holds(name):
        score = f", score {found.scores[name]}" if name in found.scores else ""
        return f"passes{score}"
    if against := found.against(name):
        return f"fails: {against[0].text}"
    verdict = found.verdicts[name]
    return (
        "passes" if isinstance(verdict, Feasible) else f"fails: {verdict.policy}: {verdict.reason}"
    )
