"""Kinds of items: tests of macros that are evaluated once for all pods that are alike."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial

import msgspec
import pytest

from engine.cache.node_table import NodeWithPods
from engine.program.columns import COLUMN_BYTES, ColumnRoom
from engine.program.compiler import Compiler
from engine.program.frame import Evaluate, Frame
from engine.program.item_kinds import LOOPED, MOST_KINDS, ItemKinds, MacroItems
from engine.program.macros import list_items
from grammar.checker.expression_checker import Checker
from grammar.checker.policy_checker import VARIABLES
from grammar.meaning.environment import Environment
from grammar.meaning.evaluator import evaluate
from grammar.syntax.parser import parse_expression
from grammar.tree.source import Source
from grammar.values.errors import EvaluationError, StepLimitError
from grammar.values.sizes import STEPS
from tests.support import engines
from tests.support.builders import node, pod, raw
from tests.support.engines import NOW, SCHEMA, frame_of, snapshot_of

ENVIRONMENT = Environment(variables=VARIABLES, schema=SCHEMA)
TIER, ASKED = 'p.labels["tier"]', 'pod.labels["tier"]'


def nodes(*tiers: list[str]) -> list[NodeWithPods]:
    """A node for each list, with a pod of each tier."""
    named = {f"n{number}": each for number, each in enumerate(tiers)}
    pods = [
        pod(f"p-{name}-{number}", labels={"tier": tier}, on=name)
        for name, each in named.items()
        for number, tier in enumerate(each)
    ]
    return list(snapshot_of([node(name) for name in named], pods).nodes.values())


def asked(tier: str) -> Frame:
    frame = frame_of(pod("asked", labels={"tier": tier}))
    frame.node = nodes([])[0]
    return frame


def looped(kinds: ItemKinds, frame: Frame) -> None:
    """Ask about so many nodes that kinds pay."""
    while kinds.of(frame) is None:
        pass


def tier_kinds(room: ColumnRoom | None = None) -> tuple[ItemKinds, list[str]]:
    """The kinds of pods by their tier, and the pods for which the test was evaluated."""
    tested = []

    def test(frame: Frame) -> object:
        item = frame.locals[0]
        tested.append(item.name)  # type: ignore[attr-defined]
        return item.labels["tier"] == "a"  # type: ignore[attr-defined]

    def tier(frame: Frame) -> str:
        found: str = frame.locals[0].labels["tier"]  # type: ignore[attr-defined]
        return found

    def pods(frame: Frame) -> object:
        return frame.node.pods  # type: ignore[attr-defined]

    items = MacroItems(list_items(pods, 1), 0, [tier], 1)
    kinds = ItemKinds(items, test, room or ColumnRoom(), passive=False, charges=False)
    return kinds, tested


def compiled(text: str) -> tuple[Evaluate, Frame]:
    expr, found = parse_expression(Source("t", text))
    assert expr is not None, found
    checker = Checker(ENVIRONMENT)
    checked = checker.check(expr)
    assert not checker.found, checker.found
    return Compiler(ENVIRONMENT).compile(checked), asked("a")


def outcome(run: Callable[[], object]) -> object:
    """The value, or the text of the error."""
    try:
        return run()
    except EvaluationError as error:
        return str(error)


def used(run: Evaluate, frame: Frame) -> int:
    """The steps of one evaluation."""
    frame.refill()
    before = frame.fuel + frame.reserve
    run(frame)
    return before - frame.fuel - frame.reserve


def test_one_evaluation_of_each_kind() -> None:
    kinds, tested = tier_kinds()
    frame = asked("a")
    looped(kinds, frame)
    for each in nodes(["a", "b"], ["b", "b", "a"], ["b"]):
        frame.node = each
        found = kinds.of(frame)
        assert found is not None
        assert kinds.decisive.isdisjoint(found.among) is (each.name == "n2")
    assert tested == ["p-n0-0", "p-n0-1"]


def test_another_request_is_evaluated_again() -> None:
    kinds, tested = tier_kinds()
    (each,) = nodes(["a", "b"])
    for _ in range(2):
        frame = asked("a")
        frame.node = each
        looped(kinds, frame)
    assert tested == ["p-n0-0", "p-n0-1"] * 2


def test_another_version_of_a_node_is_examined_again() -> None:
    kinds, _ = tier_kinds()
    frame = asked("a")
    looped(kinds, frame)
    for tiers, passes in ((["b"], True), (["b", "a"], False), ([], True)):
        frame.node = nodes(tiers)[0]
        found = kinds.of(frame)
        assert found is not None
        assert kinds.decisive.isdisjoint(found.among) is passes


def test_few_nodes_are_looped_over() -> None:
    kinds, tested = tier_kinds()
    frame = asked("a")
    (frame.node,) = nodes(["a"])
    assert [kinds.of(frame) for _ in range(LOOPED)] == [None] * LOOPED
    assert not tested
    assert kinds.of(frame) is not None


def test_kinds_of_one_pod_each_are_of_no_use() -> None:
    kinds, tested = tier_kinds()
    frame = asked("a")
    looped(kinds, frame)
    (some,) = nodes(["a"])
    (sample,) = some.pods or ()
    # Each text is another one, as the names of pods are.
    tiers = [{"tier": f"t{number}"} for number in range(MOST_KINDS + 1)]
    pods = tuple(msgspec.structs.replace(sample, labels=labels) for labels in tiers)
    frame.node = replace(some, pods=pods)
    assert kinds.of(frame) is not None
    assert len(tested) == MOST_KINDS + 1
    frame.node = some
    assert kinds.of(frame) is None


def test_without_room_nothing_is_kept() -> None:
    room = ColumnRoom()
    room.take(COLUMN_BYTES - 1000)
    kinds, _ = tier_kinds(room)
    frame = asked("a")
    first, second = nodes(["a", "b"], ["a"])
    frame.node = first
    looped(kinds, frame)
    frame.node = second
    assert kinds.of(frame) is None
    assert room.left == 1000


def test_room_is_taken() -> None:
    room = ColumnRoom()
    kinds, _ = tier_kinds(room)
    frame = asked("a")
    looped(kinds, frame)
    for each in nodes(*[["a", "b"]] * 10):
        frame.node = each
        kinds.of(frame)
    assert 9_000 < COLUMN_BYTES - room.left < 20_000


@pytest.mark.parametrize(
    "text",
    [
        f"node.pods.exists(p, {TIER} == {ASKED})",
        f"node.pods.filter(p, {TIER}.startsWith({ASKED})).size() > 5",
        f'node.pods.exists(p, {TIER}.replace("a", {ASKED}).replace("b", "aaa") == "x")',
        f'node.pods.all(p, {TIER}.replace("a", {ASKED}).replace("b", "aaa") != "aab")',
    ],
)
def test_takes_the_steps_of_a_loop(text: str) -> None:
    run, frame = compiled(text)
    for each in nodes(["a", "b"], ["b" * 30, "a" * 40], ["aab", "b"], []):
        frame.memo = {}
        frame.node = each
        steps = [used(run, frame) for _ in range(2 * LOOPED)]
        assert len(set(steps)) == 1
        assert steps[0] or not each.pods


def test_too_many_steps_are_an_error() -> None:
    """As in a loop, whoever asks first."""
    many = f"lists.range({STEPS // 40}).exists(i, i < size({TIER}) - size({ASKED}) - 99)"
    run, frame = compiled(f"node.pods.exists(p, {many})")
    few, more = nodes([], ["a"] * 50)
    for looks in (0, LOOPED):
        frame.node = few
        for _ in range(looks):
            assert run(frame) is False
        frame.node = more
        with pytest.raises(StepLimitError):
            run(frame)


ALIKE = "p.labels == pod.labels"


@pytest.mark.parametrize(
    "text",
    [
        f"node.pods.exists(p, p.name != pod.name && {ALIKE})",
        f"node.pods.filter(p, {ALIKE} && p.name != pod.name).size()",
        f"node.pods.all(p, !({ALIKE}) || p.name == pod.name)",
        f'node.pods.filter(p, {ALIKE} && 1 / (p.name.size() - 6) > 0 && p.name > "p-n1").size()',
        f'node.pods.exists(p, {TIER} == {ASKED} && p.nodeName != node.name || p.name == "none")',
        f"node.pods.exists(p, {TIER} == {ASKED} && p.name.endsWith(node.name.substring(1)))",
        f'node.pods.exists(p, p.labels[{ASKED}] == "x" && p.name != pod.name)',
    ],
)
def test_a_part_of_the_test_tells_kinds(text: str) -> None:
    """Whatever else a test reads of a pod, it means what the plain evaluator says."""
    expr, run, slots = engines.compiled(text, ENVIRONMENT)
    every = nodes(["a", "b", "b"], ["b"], ["c", "a", "a"], [], ["c"])
    for name, tier in (("p-n0-0", "a"), ("p-n1-0", "b"), ("asked", "b"), ("asked", "none")):
        decoded = engines.CODEC.pod(raw(pod(name, labels={"tier": tier})))
        frame = Frame(decoded, NOW, slots=slots)
        for each in [*every[:1] * LOOPED, *every, *every]:
            frame.node = each
            variables = {"pod": decoded, "node": each, "now": NOW}
            assert outcome(partial(run, frame)) == outcome(
                partial(evaluate, expr, variables, ENVIRONMENT)
            )


def test_errors_are_those_of_a_loop() -> None:
    run, frame = compiled(f"node.pods.exists(p, {TIER} == {ASKED} && 1 / size({TIER}) == 9)")
    (frame.node,) = nodes(["b", "a"])
    assert {run(frame) for _ in range(2 * LOOPED)} == {False}
    run, frame = compiled(f'node.pods.exists(p, p.labels["none"] == {ASKED})')
    (frame.node,) = nodes(["b", "a"])
    for _ in range(2 * LOOPED):
        with pytest.raises(EvaluationError, match="there is no key `none`"):
            run(frame)
