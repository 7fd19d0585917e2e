"""Steps: an expression that would take long, or much memory, ends with an error instead."""

from __future__ import annotations

import resource
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from functools import partial

import pytest

from engine.program.columns import COLUMN_BYTES, ColumnRoom, once_per_node, once_per_pod
from engine.program.compiler import Compiler
from engine.program.frame import MEMO_BYTES, STEPS_PER_LOOK, Frame
from grammar.checker.expression_checker import Checker
from grammar.checker.policy_checker import VARIABLES
from grammar.meaning.environment import Environment
from grammar.meaning.evaluator import evaluate
from grammar.syntax.parser import parse_expression
from grammar.tree.ast import Expr
from grammar.tree.source import Source
from grammar.values.addresses import parse_ip
from grammar.values.errors import EvaluationError, StepLimitError
from grammar.values.quantity import Quantity
from grammar.values.semver import Semver
from grammar.values.sizes import CHARACTERS, ITEMS, STEPS
from grammar.values.strings import matches, pattern
from grammar.values.time import Duration, Timestamp
from tests.support.builders import node, pod, raw
from tests.support.engines import CODEC, SCHEMA, node_of

ENVIRONMENT = Environment(variables=VARIABLES, schema=SCHEMA)
NODE = node_of(node("n0", labels={"a": "b"}))
POD = CODEC.pod(raw(pod("pod")))
NOW = Timestamp.parse("2026-11-21T12:00:00Z")
# Half a second and 20 MiB on a quiet machine.
SECONDS, MEBIBYTES = 10.0, 64


def parsed(text: str) -> Expr:
    expr, found = parse_expression(Source("t", text))
    assert expr is not None, found
    checker = Checker(ENVIRONMENT)
    checked = checker.check(expr)
    assert not checker.found, checker.found
    return checked


def framed(compiler: Compiler, check: Callable[[], None] | None = None) -> Frame:
    frame = Frame(POD, NOW, slots=compiler.slots, check=check or (lambda: None))
    frame.node = NODE
    return frame


def compiled(text: str) -> Callable[[], object]:
    compiler = Compiler(ENVIRONMENT)
    run = compiler.compile(parsed(text))
    return partial(run, framed(compiler))


def plain(text: str) -> Callable[[], object]:
    variables = {"pod": POD, "node": NODE, "now": NOW}
    # Its steps take longer.
    return partial(evaluate, parsed(text), variables, ENVIRONMENT, STEPS // 10)


def binds(first: str, step: str, count: int) -> str:
    """`cel.bind`s, each of the one before it, `_`."""
    text = f"size(x{count}) > 1"
    for i in range(count, 0, -1):
        text = f"cel.bind(x{i}, {step.replace('_', f'x{i - 1}')}, {text})"
    return f"cel.bind(x0, {first}, {text})"


def loops(first: str, step: str, count: int) -> str:
    """The same with macros over one item."""
    text = f"size(x{count}) > 1"
    for i in range(count, 0, -1):
        text = f"[{step.replace('_', f'x{i - 1}')}].all(x{i}, {text})"
    return f"[{first}].all(x0, {text})"


DEEP = binds("[1]", "[_, _]", 40)
BOUNDED = {
    "text, bound": binds("node.name + pod.name", "_ + _", 40),
    "text, in macros": loops("node.name + pod.name", "_ + _", 40),
    "list, bound": binds("[node.name]", "_ + _", 40),
    "join": binds("node.name", "[_, _, _, _, _, _, _, _].join('')", 40),
    "join between": binds("node.name", "['', '', '', ''].join(_ + 'a')", 40),
    "format": binds("node.name", "'%s%s%s%s'.format([_, _, _, _])", 40),
    "hex": binds("node.name", "'%x'.format([_])", 40),
    "format of a list": binds("node.name", "'%s'.format([[_, _, _]])", 40),
    "format of a deep list": DEEP.replace("size(x40) > 1", "'%s'.format([x40]) != ''"),
    "quote": binds("'\\\\'", "strings.quote(_)", 40),
    "replace": binds("node.name + 'a'", "_.replace('a', 'aaaaaaa')", 40),
    "characters": binds("node.name", "_ + _", 17).replace("size(x17)", "x17.split('').size()"),
    "flatten": binds("[node.name]", "[_, _, _, _].flatten()", 20),
    "deep equality": DEEP.replace("size(x40) > 1", "x40 == x40"),
    "deep search": DEEP.replace("size(x40) > 1", "x39 in x40"),
    "distinct": "lists.range(30000).map(x, [x + size(node.name)]).distinct().size() > pod.priority",
    "search": "lists.range(30000).filter(x, x in lists.range(30000)).size() > pod.priority",
    "nested": "lists.range(9000).all(x, lists.range(9000).all(y, x + y >= 0))",
    "sort": "lists.range(60000).map(x, x).sortBy(x, 'aaaaaaaaa' + string(x)).size() > pod.priority",
    "maps": "lists.range(20).all(y, lists.range(60000).transformMap(i, x, x + y).size() > 0)",
    "merged maps": "lists.range(60000).transformMapEntry(i, x, {string(x): x}).size() > 0"
    " && lists.range(60000).transformMapEntry(i, x, {string(x): x}).size() > pod.priority",
    "range": "lists.range(65537).size() > pod.priority",
    "pattern": "lists.range(9999)"
    ".all(x, !string(x).matches('(?:[a-z0-9]{1,50}){1,20}' + string(x)))",
    "texts that are kept": "lists.range(60000).map(x, node.name + string(x) + "
    f"'{'a' * 1000}').size() > pod.priority",
    "absorbed": "lists.range(60000).exists(x, lists.range(60000).exists(y, y < 0)) || true",
    "from the end": binds("'aaaaaaaa'", "_ + _", 14).replace(
        "size(x14) > 1", "x14.lastIndexOf('b' + x13) < 0 && x14.lastIndexOf('b' + x12) < 0"
    ),
    "zones": "lists.range(9000).all(x, now.getHours('Europe/' + string(x)) > 0)",
}


@pytest.mark.parametrize("prepare", [compiled, plain])
@pytest.mark.parametrize("name", BOUNDED)
def test_ends_in_time(name: str, prepare: Callable[[str], Callable[[], object]]) -> None:
    run = prepare(BOUNDED[name])
    began = time.perf_counter()
    with pytest.raises(EvaluationError, match=r"more than|nested"):
        run()
    assert time.perf_counter() - began < SECONDS


def grown_by_all() -> int:
    """The MiB by which this process grows when it evaluates all of them."""
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    for text in BOUNDED.values():
        with suppress(EvaluationError):
            compiled(text)()
    return (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) // 1024


def grown(call: str) -> int:
    """What a call of this module prints in a process with 4 GiB."""
    limit = (4 << 30, 4 << 30)
    command = f"from tests.engine.program import test_steps; print(test_steps.{call}())"
    ended = subprocess.run(
        [sys.executable, "-c", command],
        capture_output=True,
        text=True,
        check=True,
        preexec_fn=partial(resource.setrlimit, resource.RLIMIT_AS, limit),
    )
    return int(ended.stdout)


@pytest.mark.process
def test_takes_little_memory() -> None:
    assert grown("grown_by_all") < MEBIBYTES


def test_steps_are_of_one_evaluation() -> None:
    """Each evaluation may take as many as the one before it."""
    run = compiled("lists.range(60000).all(x, x + size(pod.name) + size(node.name) > 0)")
    for _ in range(10):
        assert run() is True


def test_the_clock_is_looked_at_over_evaluations() -> None:
    """A thousand evaluations of a thousand steps look as often as one of a million."""
    looks: list[int] = []
    compiler = Compiler(ENVIRONMENT)
    run = compiler.compile(parsed("lists.range(100).all(x, x + size(pod.name + node.name) > 0)"))
    frame = framed(compiler, lambda: looks.append(1))
    for _ in range(1000):
        run(frame)
    assert len(looks) >= 1000 * 100 * 4 // STEPS_PER_LOOK


def test_a_kept_part_has_steps_of_its_own() -> None:
    """Whoever asks first for a part of the node gets its value."""
    part = "lists.range(60000).filter(x, x + size(node.name) > 3).size()"
    rest = "lists.range(60000).all(x, x + size(pod.name) + size(node.name) > 0)"
    run = compiled(f"{rest} && {part} > 0 && {part} > 1")
    assert run() is True


def test_what_is_too_large_to_keep_takes_the_steps_of_who_asks() -> None:
    part = f"lists.range({ITEMS}).map(x, x + size(node.name))"
    run = compiled(f"lists.range(100).all(x, {part}[x] + size(pod.name) > 0)")
    with pytest.raises(StepLimitError):
        run()


def test_columns_keep_a_bounded_number_of_bytes() -> None:
    room = ColumnRoom()
    run = once_per_node(lambda _: "a" * 20_000, room, charges=False)
    frame = Frame(POD, NOW, slots=0)
    for number in range(5_000):
        frame.node = node_of(node(f"n{number}"))
        assert len(str(run(frame))) == 20_000
        assert 0 <= room.left <= COLUMN_BYTES
    for _ in range(5_000):  # versions of one node
        frame.node = node_of(node("n0"))
        run(frame)
    assert room.left >= 0


def test_a_frame_keeps_a_bounded_number_of_bytes() -> None:
    frame = Frame(POD, NOW, slots=0)
    for _ in range(100):
        once_per_pod(lambda _: "a" * 20_000, charges=False)(frame)
    assert len(frame.memo) * 20_000 <= MEMO_BYTES


def grown_by_long_texts() -> int:
    """The MiB by which this process grows when functions see many long texts and patterns."""
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    for number in range(300):
        text = str(number) * (CHARACTERS // 4)
        matches(text, "zq")
        for parse in (Quantity.parse, Timestamp.parse, Duration.parse, Semver.parse, parse_ip):
            with pytest.raises(EvaluationError):
                parse(text[: CHARACTERS // 4])
        pattern("(a|b){500}" + str(number)).search("ab" * 200)
    return (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) // 1024


@pytest.mark.process
def test_results_of_long_texts_are_not_kept() -> None:
    assert grown("grown_by_long_texts") < MEBIBYTES


def test_the_limit_is_said() -> None:
    with pytest.raises(StepLimitError, match=f"more than {STEPS:,}"):
        compiled(BOUNDED["nested"])()


def test_a_single_value_is_kept_without_room() -> None:
    """Many evaluations of such a part take no steps of each other."""
    compiler = Compiler(ENVIRONMENT)
    run = compiler.compile(parsed("lists.range(60000).all(x, x + size(pod.name) > 0)"))
    frame = framed(compiler)
    frame.room = 0
    for _ in range(20):
        frame.memo = {}
        assert run(frame) is True
