"""Verdicts: the replies about the decisions of the policies for the chosen pod.

Why each node passes or fails, the nodes by score, an analysis, and the decisions after a change of
one field. A change lasts for one reply.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import msgspec

from cli.command import CommandError
from cli.console import table
from cli.explanation.layout import analysis, every_node, head, one_node, passed
from cli.policy_tests.fixture import to_json
from cli.repl.expressions import Evaluator, Failure
from cli.repl.session import FindingsError, ReplSession, Reply
from cli.world import World, decided, explained
from engine.cache.cluster_copy import NamedPod
from engine.errors import BadObjectError
from engine.explanation.difference import changed_nodes
from grammar.messages.diagnostics import Diagnostic
from grammar.messages.texts import counted
from grammar.tree.ast import Call, Expr, Ident, Index, Literal, Select
from grammar.tree.source import Source

Json = Any


def why(session: ReplSession, text: str) -> Iterator[Reply]:
    """As `placet explain`: every node, or every value on one."""
    if text:
        session.required_cluster().node(text)
    found = session.explained(text or None)
    yield from head(found)
    yield from one_node(found) if text else every_node(found)


def analyze(session: ReplSession, _: str) -> Iterator[Reply]:
    found = session.explained()
    yield from head(found)
    yield from analysis(found)


def rank(session: ReplSession, text: str) -> Iterator[Reply]:
    if text and not text.isdecimal():
        raise CommandError(f"`{text}` is not a number of nodes", "as in `:rank 5`")
    limit = int(text) if text else session.settings.rows
    found = session.explained()
    if not found.scores:
        reason = ", and no score applies" if found.offered else ""
        yield f"{passed(found.offered, found.nodes)}{reason}"
        return
    rows = table("node", "score", "exactly", right=("score", "exactly"))
    for each in found.scores[:limit]:
        rows.add_row(each.node, str(each.score), f"{each.exactly:.2f}")
    yield rows
    if (more := len(found.scores) - limit) > 0:
        yield f"and {more} more"


def what_if(session: ReplSession, text: str) -> Iterator[Reply]:
    before = session.explained(every_node=True)
    with _changed(session, text) as (world, pod):
        after = decided(explained(world, pod, every_node=True))
    rows = table("node", "now", "then")
    for each in changed_nodes(before, after):
        rows.add_row(*each)
    if rows.row_count:
        yield rows
    same = counted(before.nodes - rows.row_count, "node")
    if rows.row_count < before.nodes:
        yield f"and {same} as before" if rows.row_count else f"nothing changes: {same} as before"


# ---- a change of one field

Step = str | int

# A single `=`. A field stands before the first one, so all that follows is the value.
_EQUALS = re.compile(r"(?<![=!<>])=(?!=)")
_ABSENT = "absent"
_EXAMPLE = 'as in `:what-if node.labels["disk"] = "ssd"`, or `= absent`'
_FROM_PODS = "it is computed from the pods on the node"
# Computed fields: the path of the field behind one in the API, or a hint.
_COMPUTED: Mapping[tuple[str, str], tuple[Step, ...] | str] = {
    ("node", "allocatable"): ("status", "allocatable"),
    ("node", "requested"): _FROM_PODS,
    ("node", "free"): "change `node.allocatable`",
    ("node", "pods"): _FROM_PODS,
    ("pod", "requests"): 'change `pod.spec.containers[0].resources.requests["cpu"]` or similar',
    ("pod", "limits"): 'change `pod.spec.containers[0].resources.limits["cpu"]` or similar',
    ("pod", "workload"): "it is computed from the pod's owners",
    ("pod", "group"): "change `pod.spec.schedulingGroup.podGroupName`",
    ("pod", "hostPorts"): "change `pod.spec.containers[0].ports` or similar",
}


@contextmanager
def _changed(session: ReplSession, text: str) -> Iterator[tuple[World, NamedPod]]:
    """The world and the pod after a change `PATH = VALUE`; the change ends with the context.

    Raises CommandError and FindingsError.
    """
    equals = _EQUALS.search(text)
    field, value = (text[: equals.start()], text[equals.end() :]) if equals else ("", "")
    field, value = field.strip(), value.strip()
    if not field or not value:
        raise CommandError("no change is given", _EXAMPLE)
    root, steps = _path(session, field)
    values = () if value == _ABSENT else (_value(session, value),)
    world, pod = session.world(), session.required_pod()
    if root == "pod":
        body = _edited(pod.body, steps, values, field)
        with _valid_object():
            session.codec.pod(body)
        yield world, replace(pod, body=body)
        return
    original = world.cluster.node_body(session.required_node())
    with _valid_object():
        back = session.codec.node(original)
        node = session.codec.node(_edited(original, steps, values, field))
    with world.cluster.changing(node, back):
        yield world, pod


def _path(session: ReplSession, field: str) -> tuple[str, tuple[Step, ...]]:
    expression = session.expression(field, type_only=True)
    steps: list[Step] = []
    part = expression.expr
    if isinstance(part, Call) and part.function == "orValue" and part.target is not None:
        part = part.target  # a short form, such as `node.zone`, has a default
    while not isinstance(part, Ident):
        step, part = _step(part, expression.source)
        steps.append(step)
    steps.reverse()
    if part.name not in ("node", "pod") or not steps:
        hint = "only fields of `node` and `pod` can be changed"
        raise _unchangeable(part, expression.source, hint)
    computed = _COMPUTED.get((part.name, str(steps[0])))
    if isinstance(computed, str):
        raise _unchangeable(expression.expr, expression.source, computed)
    return part.name, (*computed, *steps[1:]) if computed is not None else tuple(steps)


def _step(part: Expr, source: Source) -> tuple[Step, Expr]:
    match part:
        case Select(operand, name):
            return name, operand
        case Index(operand, Literal(str() | int() as key)):
            return key, operand
        case _:
            raise _unchangeable(part, source, "it is computed from other fields")


def _unchangeable(part: Expr, source: Source, hint: str) -> FindingsError:
    message = "this cannot be changed"
    return FindingsError([(Diagnostic("", "error", message, part.span, hint=hint), source)])


def _value(session: ReplSession, text: str) -> Json:
    expression = session.expression(text)
    with session.frame(expression) as frame:
        found = Evaluator(expression).evaluate(frame)
    if isinstance(found, Failure):
        raise FindingsError([(found.diagnostic, expression.source)])
    try:
        return to_json(found)
    except TypeError as error:
        raise CommandError(str(error), _EXAMPLE) from None


def _edited(
    body: bytes | msgspec.Raw, steps: tuple[Step, ...], values: tuple[Json, ...], field: str
) -> bytes:
    """The JSON with the one value in the field, or without the field; absent maps are created."""
    document = msgspec.json.decode(body)
    *path, last = steps
    at = document
    for step in path:
        if isinstance(at, dict):
            if at.get(str(step)) is None:
                at[str(step)] = {}
            at = at[str(step)]
        else:
            at = _item(at, step, field)
    if isinstance(at, dict):
        at.pop(str(last), None)
        at.update((str(last), value) for value in values)
    else:
        _item(at, last, field)
        at[int(last)] = values[0] if values else None
    return msgspec.json.encode(document)


def _item(at: Json, step: Step, field: str) -> Json:
    if not isinstance(at, list) or not isinstance(step, int) or not 0 <= step < len(at):
        hint = "items of a list can be changed, and none can be added"
        raise CommandError(f"there is no `{field}` to change", hint)
    return at[step]


@contextmanager
def _valid_object() -> Iterator[None]:
    try:
        yield
    except BadObjectError as error:
        message = f"the changed object is not valid: {error}"
        raise CommandError(message, "give a value of the field's type") from None
