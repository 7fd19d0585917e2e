"""One test: set up, asked, and each expectation held against the answers."""

from __future__ import annotations

import operator
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Literal as OneOf
from typing import assert_never

from cli.testing.answers import Answers
from cli.testing.collection import Collection, Suite
from cli.testing.complaint import TestMistakeError, complaint
from cli.testing.coverage import Coverage
from cli.testing.stage import Stage, StageBuilder
from engine.errors import EngineError
from engine.objects import ObjectCodec
from engine.program.needs import needs
from engine.program.policy_compiler import compile_policy
from engine.program.program import Program
from engine.registry import Registry
from engine.verdict import Failed, Feasible, Rejected, Verdict
from grammar.clauses import Expectation, Test
from grammar.diagnostics import Diagnostic, nearest
from grammar.schema import Schema

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
