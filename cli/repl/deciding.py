"""One field of the node or the pod at hand as something else, for as long as somebody looks."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import msgspec
import numpy as np

from cli.command import CommandError
from cli.console import table
from cli.explaining.analysis import analysis
from cli.explaining.explanation import Explanation, explain
from cli.explaining.views import every_node, head, one_node
from cli.expressions import Evaluator, Failure
from cli.render import counted
from cli.repl.session import RefusedError, Session, Told
from cli.world import NamedPod, World
from engine.decision.verdict import Feasible
from engine.errors import BadObjectError
from grammar.ast import Call, Expr, Ident, Index, Literal, Select
from grammar.diagnostics import Diagnostic
from grammar.source import Source
from grammar.values.maps import key_values
from grammar.values.quantity import Quantity
from grammar.values.time import Duration, Timestamp

Json = Any
Step = str | int

# A single `=`; in front of it is a field, so whatever follows is the value.
_EQUALS = re.compile(r"(?<![=!<>])=(?!=)")
_ABSENT = "absent"
_FORM = 'as in `:what-if node.labels["disk"] = "ssd"`, or `= absent`'
# What the engine works out, and where it has it from.
_BEHIND: Mapping[tuple[str, str], tuple[Step, ...] | str] = {
    ("node", "allocatable"): ("status", "allocatable"),
    ("node", "requested"): "it follows from the pods there",
    ("node", "free"): "change `node.allocatable`",
    ("node", "pods"): "it follows from the pods there",
    ("pod", "requests"): 'change `pod.spec.containers[0].resources.requests["cpu"]` or its like',
    ("pod", "limits"): 'change `pod.spec.containers[0].resources.limits["cpu"]` or its like',
    ("pod", "workload"): "it follows from the pod's owners",
}


@contextmanager
def changed(session: Session, text: str) -> Iterator[tuple[World, NamedPod]]:
    """The world and the pod with a change like `PATH = VALUE`; afterwards they are as before.

    Raises CommandError and RefusedError.
    """
    field, value = _sides(text)
    root, steps = _path(session, field)
    wanted = _value(session, value)
    world, pod = session.world(), session.some_pod()
    if root == "pod":
        body = _written(msgspec.json.decode(pod.body), steps, wanted, field)
        with _legible():
            session.codec.pod(body)
        yield world, replace(pod, body=body)
        return
    name = session.some_node()
    original = world.cluster.node_body(name)
    with _legible():
        back = session.codec.node(original)
        node = session.codec.node(_written(msgspec.json.decode(original), steps, wanted, field))
    with world.cluster.changing(node, back):
        yield world, pod


def _sides(text: str) -> tuple[str, str]:
    equals = _EQUALS.search(text)
    field, value = (text[: equals.start()], text[equals.end() :]) if equals else ("", "")
    if not field.strip() or not value.strip():
        raise CommandError("there is no change", _FORM)
    return field.strip(), value.strip()


def _path(session: Session, field: str) -> tuple[str, tuple[Step, ...]]:
    """`node` or `pod`, and where in its JSON the field is."""
    expression = session.expression(field, typed_only=True)
    steps: list[Step] = []
    part = expression.expr
    if isinstance(part, Call) and part.function == "orValue" and part.target is not None:
        part = part.target  # the value that a short form has where there is none
    while not isinstance(part, Ident):
        step, part = _step(part, expression.source)
        steps.append(step)
    steps.reverse()
    if part.name not in ("node", "pod") or not steps:
        raise _unchangeable(part, expression.source, "only fields of `node` and `pod` are")
    behind = _BEHIND.get((part.name, str(steps[0])))
    if isinstance(behind, str):
        raise _unchangeable(expression.expr, expression.source, behind)
    return part.name, (*behind, *steps[1:]) if behind is not None else tuple(steps)


def _step(part: Expr, source: Source) -> tuple[Step, Expr]:
    match part:
        case Select(operand, name):
            return name, operand
        case Index(operand, Literal(str() | int() as key)):
            return key, operand
        case _:
            raise _unchangeable(part, source, "it follows from other fields")


def _unchangeable(part: Expr, source: Source, hint: str) -> RefusedError:
    message = "this is no field that can be changed"
    return RefusedError([(Diagnostic("", "error", message, part.span, hint=hint), source)])


def _value(session: Session, text: str) -> Json:
    """A value as the API has it; `_ABSENT` for none."""
    if text == _ABSENT:
        return _ABSENT, False
    expression = session.expression(text)
    with session.looking(expression) as frame:
        found = Evaluator(expression).evaluate(frame)
    if isinstance(found, Failure):
        raise RefusedError([(found.diagnostic, expression.source)])
    return _json(found), True


def _json(value: object) -> Json:
    match value:
        case None | bool() | int() | float() | str():
            return value
        case list() | tuple():
            return [_json(item) for item in value]
        case Mapping():
            return {str(k): _json(v) for k, v in key_values(value)}
        case Quantity() | Duration() | Timestamp():
            return str(value)
        case _:
            raise CommandError("no field has a value of this kind", _FORM)


def _written(document: Json, steps: tuple[Step, ...], wanted: Json, field: str) -> bytes:
    """The document with the field as wanted; maps on the way to it are made."""
    value, there = wanted
    *way, last = steps
    at = document
    for step in way:
        if isinstance(at, dict):
            if at.get(str(step)) is None:
                at[str(step)] = {}
            at = at[str(step)]
        else:
            at = _item(at, step, field)
    if isinstance(at, dict):
        at.pop(str(last), None)
        if there:
            at[str(last)] = value
    else:
        _item(at, last, field)
        at[int(last)] = value if there else None
    return msgspec.json.encode(document)


def _item(at: Json, step: Step, field: str) -> Json:
    if not isinstance(at, list) or not isinstance(step, int) or not 0 <= step < len(at):
        raise CommandError(f"there is no `{field}` to change", "lists keep their lengths")
    return at[step]


@contextmanager
def _legible() -> Iterator[None]:
    try:
        yield
    except BadObjectError as error:
        raise CommandError(f"that makes no object: {error}", "give a value of its type") from None


# ---- What the policies make of the pod at hand: why, by rank, what stands in its way, and what if.


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
