"""What is wrong in a test: an expectation that does not hold, or a test that cannot run."""

from __future__ import annotations

import math
import operator
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import count
from typing import Literal as OneOf
from typing import assert_never

from cli.testing.collection import Collection, Suite
from cli.testing.coverage import Coverage
from cli.testing.stage import Stage, StageBuilder, TestMistakeError, complaint
from cli.world import Silent
from engine.decision.inspection import Inspection
from engine.decision.registry import Registry
from engine.decision.verdict import Failed, Feasible, Rejected, Verdict
from engine.engine import Engine
from engine.errors import EngineError
from engine.objects.codec import ObjectCodec
from engine.program.needs import needs
from engine.program.policy_compiler import compile_policy
from engine.program.program import Program
from grammar.clauses import Expectation, Test
from grammar.diagnostics import Diagnostic, nearest
from grammar.schema import Schema

# ---- Which tests there are in policy files, and by which policies each is decided.


# ---- What an engine says of the nodes of one test, asked for when an expectation needs it.

# Between two questions: an engine that is asked often in a row takes that for a loop.
_HOUR = 3600.0


class Answers:
    """An engine of its own, which has been asked nothing yet.

    Each node is asked about by itself. Of several that are as good, an engine may answer only one,
    so that a bound holds whatever comes of it; a test is about the rules.
    """

    def __init__(self, registry: Registry, stage: Stage, codec: ObjectCodec) -> None:
        clock = count(step=_HOUR)
        self._stage = stage
        self._engine = Engine(
            registry,
            stage.cluster,
            codec,
            Silent(),
            clock=lambda: next(clock),
            now=lambda: stage.now,
        )
        self._verdicts: dict[str, Verdict] = {}

    def verdict(self, node: str) -> Verdict:
        """Raises EngineError where there is none."""
        if node not in self._verdicts:
            body = self._stage.pod.body
            (self._verdicts[node],) = self._engine.filter(body, [node], None, math.inf)
            # The answer was to nobody: the pod is not on its way there.
            self._engine.in_flight.forget(self._uid)
        return self._verdicts[node]

    @cached_property
    def scores(self) -> Mapping[str, int] | None:
        """0..10 of each node that passes; None where no score applies. Raises EngineError."""
        passing = self.passing
        given = self._engine.prioritize(self._stage.pod.body, passing, None, math.inf)
        return None if given is None else dict(zip(passing, given, strict=True))

    @cached_property
    def passing(self) -> list[str]:
        """Raises EngineError."""
        return [n for n in self._stage.names if isinstance(self.verdict(n), Feasible)]

    @cached_property
    def inspection(self) -> Inspection:
        """Raises EngineError."""
        return self._engine.inspect(self._stage.pod.body)

    def refusing(self, node: str) -> list[str]:
        """The clauses that refuse a node, the first of which is named; none if the pod is refused.

        Empty where an error stands in the way.
        """
        try:
            found = self.inspection.objections(self.inspection.selection.enforced, [node])
        except EngineError:
            return []
        return [objection.name for objection in found if objection.refused.any()]

    @cached_property
    def _uid(self) -> str:
        peer = self._stage.cluster.pods.pod(self._stage.pod.key)
        return peer.uid if peer is not None else ""


# ---- One test: set up, asked, and each expectation held against the answers.

_OPERATORS = {
    "==": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}
Outcome = OneOf["passed", "failed", "error"]


@dataclass(frozen=True, slots=True)
class Result:
    """How a test ended; `found` are expectations that do not hold, or why it could not run."""

    suite: Suite
    test: Test
    outcome: Outcome
    found: tuple[Diagnostic, ...]
    seconds: float


class Runner:
    """Runs the tests of a collection, by the code that serves."""

    def __init__(self, collection: Collection, schema: Schema) -> None:
        policies = [p for suite in collection.suites for p in suite.policies]
        read = needs(part.policy for p in policies for part in (p, *p.uses))
        self._codec = ObjectCodec(schema, read.annotations)
        self._stages = StageBuilder(schema, self._codec)
        self.coverage = Coverage(collection.files)

    def run(self, suite: Suite, tests: Iterable[Test]) -> Iterator[Result]:
        """A result per test, each when it is there; none where the suite has mistakes."""
        if suite.mistakes:
            for test in tests:
                yield Result(suite, test, "error", (), 0.0)
            return
        programs = [self.coverage.watch(c, compile_policy(c)) for c in suite.policies]
        registry = Registry(programs)
        for test in tests:
            started = time.perf_counter()
            outcome, found = self._tried(suite, test, programs, registry)
            yield Result(suite, test, outcome, tuple(found), time.perf_counter() - started)

    def _tried(
        self, suite: Suite, test: Test, programs: Sequence[Program], registry: Registry
    ) -> tuple[Outcome, list[Diagnostic]]:
        try:
            stage = self._stages.build(test, suite)
            expectations = list(_expectations(test, stage, programs))
            answers = Answers(registry, stage, self._codec)
            found = [f for e in expectations if (f := _held(e, answers)) is not None]
            self.coverage.look(answers.inspection, stage.names)
        except TestMistakeError as error:
            return "error", [error.found]
        except EngineError as error:
            return "error", [complaint(str(error), test.name_span)]
        return ("failed" if found else "passed"), found


def _expectations(test: Test, stage: Stage, programs: Sequence[Program]) -> Iterator[Expectation]:
    """Those of a test. Raises TestMistakeError where they make no sense, whatever the answers."""
    if not programs:
        hint = "a test stands beside its policy, or in `NAME_test.policy` beside `NAME.policy`"
        raise TestMistakeError(
            complaint("no policy decides in this test", test.name_span, hint=hint)
        )
    clauses = {f.name for p in programs for f in p.filters}
    clauses |= {c.count.name for p in programs for c in p.counts} | {"for"}
    expectations = [item for item in test.items if isinstance(item, Expectation)]
    if not expectations:
        hint = 'as in `expect pass "node-1"`'
        raise TestMistakeError(complaint("the test expects nothing", test.name_span, hint=hint))
    for item in expectations:
        if item.node not in stage.names:
            raise _unknown("node", item.node, stage.names, item)
        if item.clause is not None and item.clause not in clauses:
            raise _unknown("clause that rejects", item.clause, sorted(clauses), item)
        yield item


def _held(item: Expectation, answers: Answers) -> Diagnostic | None:
    """What is there in place of what was expected, if it is not the same."""
    try:
        verdict = answers.verdict(item.node)
        match item.kind:
            case "pass":
                return _passed(item, verdict)
            case "reject":
                return _rejected(item, verdict, answers)
            case "score":
                return _scored(item, verdict, answers)
            case _:
                assert_never(item.kind)
    except EngineError as error:
        return _missed(item, f"no answer: {error}", f"`{item.node}` gets no answer")


def _passed(item: Expectation, verdict: Verdict) -> Diagnostic | None:
    if isinstance(verdict, Feasible):
        return None
    return _missed(item, _rejection(verdict), f"`{item.node}` does not pass")


def _rejected(item: Expectation, verdict: Verdict, answers: Answers) -> Diagnostic | None:
    if isinstance(verdict, Feasible):
        return _missed(item, "it passes", f"`{item.node}` is not rejected")
    if verdict.clause == item.clause:
        return None
    hint = None
    if item.clause in answers.refusing(item.node):
        hint = f"`{item.clause}` rejects it too, but `{verdict.clause}` comes first and is named"
    what = f"`{item.node}` is rejected by another clause"
    return _missed(item, _rejection(verdict), what, hint=hint)


def _scored(item: Expectation, verdict: Verdict, answers: Answers) -> Diagnostic | None:
    assert item.op is not None, "the grammar gives a score both"
    assert item.number is not None, "the grammar gives a score both"
    what = f"the score of `{item.node}` is another"
    if not isinstance(verdict, Feasible):
        return _missed(item, _rejection(verdict), f"`{item.node}` has no score")
    if answers.scores is None:
        return _missed(item, "no score applies to the pod", f"`{item.node}` has no score")
    score = answers.scores[item.node]
    if _OPERATORS[item.op](score, item.number):
        return None
    place = answers.passing.index(item.node)
    notes = [
        f"{c.name}: {c.points[place]:.3g} of 100, weight {c.weight:g}"
        for c in answers.inspection.contributions(answers.passing)
    ]
    return _missed(item, f"it is {score}", what, notes=notes)


def _rejection(verdict: Rejected | Failed) -> str:
    text = f"rejected by `{verdict.clause}`: {verdict.reason}"
    return f"{text} ({verdict.error})" if isinstance(verdict, Failed) else text


def _missed(
    item: Expectation,
    label: str,
    message: str,
    *,
    hint: str | None = None,
    notes: Sequence[str] = (),
) -> Diagnostic:
    return complaint(message, item.span, label=label, hint=hint, notes=notes)


def _unknown(kind: str, name: str, names: Sequence[str], item: Expectation) -> TestMistakeError:
    close = nearest(name, names)
    hint = f"a similar name exists: `{close}`" if close else None
    return TestMistakeError(complaint(f"there is no {kind} `{name}` here", item.span, hint=hint))
