"""Node groups and counts as programs read them: what each is of, and how a closure finds it.

The engine keeps the groups of nodes (`engine.counting.node_groups`) and gives a frame those of its
call. A GroupSpec belongs to a program.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass

from engine.program.frame import Evaluate, Frame
from engine.program.operations import THOUSANDTHS
from engine.program.tables import digest_of as digest_of_table
from grammar.meaning.environment import Environment
from grammar.tree import ast
from grammar.tree.policy import Count, Group
from grammar.tree.printer import print_expression
from grammar.tree.types import INT, QUANTITY, Type
from grammar.tree.walk import children, walk
from grammar.values.errors import EvaluationError, MissingError
from grammar.values.nodes import GroupOfNodes
from grammar.values.quantity import NANO, Quantity

_DIGEST_LENGTH = 16


@dataclass(frozen=True, eq=False)
class GroupSpec:
    """A compiled `group`: `by` is the value that its nodes have in common.

    `digest` is equal for groups of equal meaning, in whichever policy they stand.
    """

    digest: str
    by: Evaluate
    slots: int


def digest_of(item: Group | Count, environment: Environment) -> str:
    """The digest of a group, or of a count, with the definitions and tables that it uses."""
    own = tuple(children(item))
    texts, left = dict[str, str](), list(own)
    while left:
        for part in walk(left.pop()):
            if isinstance(part, ast.Ident) and part.name in environment.tables:
                texts[part.name] = digest_of_table(environment.tables[part.name])
            if isinstance(part, ast.LetReference | ast.DefCall) and part.name not in texts:
                body, _ = environment.definitions.body(part.name)
                definition = environment.defs.get(part.name)
                names = [p.name for p in definition.parameters] if definition is not None else []
                texts[part.name] = f"{names} {print_expression(body)}"
                left.append(body)
    kind = ""
    if isinstance(item, Count):
        pods, place = item.pods, item.per.place
        named = place if isinstance(place, str) else ""
        kind = f"{pods.all} {pods.state} {pods.amount is None} {named}"
    whole = f"{kind} {[print_expression(e) for e in own]} {sorted(texts.items())}"
    return hashlib.sha256(whole.encode()).hexdigest()[:_DIGEST_LENGTH]


def read_group(digest: str, name: str) -> Evaluate:
    """The closure of the name of a group: the group of the frame's node."""

    def run(frame: Frame) -> object:
        node = frame.node
        group = frame.groups.of(digest, node.name) if node is not None else None  # type: ignore[attr-defined]
        if group is None:
            raise MissingError(f"the node is in no `{name}`")
        return group if not frame.gone else _without(group, frame)

    return run


def read_count(digest: str, name: str) -> Evaluate:
    """The closure of the name of a count."""

    def run(frame: Frame) -> object:
        found = frame.groups.number(digest, frame)
        if found is None:
            raise MissingError(f"there is no `{name}` of the node")
        return found

    return run


def number_of_sum(kind: Type, *, is_sum: bool) -> Callable[[int], object]:
    """What makes the value of a count, of a type: of a number of pods, or of thousandths."""
    if not is_sum:
        return int
    if kind == QUANTITY:
        return lambda thousandths: Quantity(thousandths * (NANO // THOUSANDTHS))
    if kind == INT:
        return lambda thousandths: thousandths // THOUSANDTHS
    return lambda thousandths: thousandths / THOUSANDTHS


def _without(group: GroupOfNodes, frame: Frame) -> GroupOfNodes:
    """The group of the frame's node as if the pods that are gone from the node were not there."""
    less: dict[str, int] = {"pods": 0}
    for pod in frame.gone:
        less["pods"] -= 1_000_000_000
        for resource, amount in pod.requests.items():
            less[resource] = less.get(resource, 0) - amount.nanos
    return group.requesting(less)


def once_per_group(evaluate: Evaluate, read: Evaluate, *, of_nodes: bool) -> Evaluate:
    """The closure of a part that reads one group alone, evaluated once for each state of it.

    `read` gives the group. With `of_nodes` the part does not read what pods request.
    """
    part = object()

    def run(frame: Frame) -> object:
        group = read(frame)
        assert isinstance(group, GroupOfNodes), "a group was read"
        kept = group.kept_of_nodes if of_nodes else group.kept
        found: tuple[object, EvaluationError | None] | None
        found = kept.get(part)  # type: ignore[assignment]
        if found is None:
            try:
                found = evaluate(frame), None
            except EvaluationError as error:
                found = None, error.with_traceback(None)
            kept[part] = found
        value, failure = found
        if failure is not None:
            raise failure.with_traceback(None)
        return value

    return run
