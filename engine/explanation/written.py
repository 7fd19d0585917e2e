"""Written clauses: clauses as their authors wrote them, their traces, and the text of values.

A trace has the value of every part of an expression for one pod and node. A Tracer is the compiler
with a wrap around each closure, so it runs the same code as a decision does, but for fast paths and
kept values. The evidence of a clause on one node has the values that were read: each is evaluated
in its own frame for this node, which no clause or policy changes.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from copy import copy
from dataclasses import dataclass
from functools import partial

from engine.clauses import MEANINGS
from engine.counting.groups import PRESENCES, PodInGroup
from engine.explanation.document import (
    ClauseOnNode,
    CountedPod,
    NodeCounts,
    ReadValue,
    ScoreTerm,
    TracedExpression,
    TracedPart,
)
from engine.explanation.inspection import ClauseResults, Objection
from engine.explanation.reader import Reader
from engine.program.compiler import Compiler
from engine.program.frame import MEMO_BYTES, Evaluate, Frame
from engine.program.program import CountClause, RejectingProgram
from engine.program.tables import is_row
from engine.work import Work
from grammar.checker.expression_checker import Checker
from grammar.checker.policy_checker import Checked
from grammar.meaning.environment import Environment
from grammar.meaning.schema import Schema
from grammar.messages.texts import counted, named
from grammar.tree.ast import (
    Comprehension,
    DefCall,
    Expr,
    Ident,
    Index,
    LetReference,
    Literal,
    Select,
)
from grammar.tree.clause_parts import AnyClause
from grammar.tree.policy import Policy
from grammar.tree.printer import print_expression, print_string
from grammar.tree.source import Source, Span
from grammar.tree.types import DYN, Type
from grammar.tree.walk import children
from grammar.values.errors import EvaluationError
from grammar.values.format import show
from grammar.values.kinds import kind, type_of
from grammar.values.maps import key_values
from grammar.values.optional import Optional
from policies.loader import library_sources
from policies.validation import CheckedFile


@dataclass(frozen=True, slots=True)
class Step:
    """One step: the evaluation of a part, as its value or its error.

    `depth` is the depth of the part in the expression. A part inside a macro has a step for each
    item.
    """

    expr: Expr
    depth: int
    outcome: object

    @property
    def text(self) -> str:
        """The outcome as text; for an object only its type, with its time for a row of a table."""
        if isinstance(self.outcome, EvaluationError):
            return f"error: {self.outcome}"
        if is_row(self.outcome):
            return f"{self.expr.type}, of {self.outcome.time}"
        try:
            return show(self.outcome)
        except EvaluationError:
            return str(self.expr.type)


class Tracer:
    """A tracer runs expressions and records every part, outer parts first."""

    def __init__(self, environment: Environment) -> None:
        self._steps: list[Step | None] = []
        self._depth = 0
        self._compiler = Compiler(environment, wrap=self._recording)

    def trace(self, expr: Expr, frame: Frame) -> list[Step]:
        """The steps of an evaluation in the frame; the first is that of the whole expression.

        A part that is not evaluated, such as the rest of a decided `&&`, has no step. Constants
        have none either.
        """
        run = self._compiler.compile(expr)
        frame.locals = [None] * self._compiler.slots
        self._steps = []
        # The step of the whole expression has the error.
        with suppress(EvaluationError):
            run(frame)
        return [s for s in self._steps if s is not None]

    def _recording(self, expr: Expr, evaluate: Evaluate) -> Evaluate:
        if isinstance(expr, Literal):
            return evaluate

        def run(frame: Frame) -> object:
            depth, slot = self._depth, len(self._steps)
            self._steps.append(None)
            self._depth += 1
            try:
                value = evaluate(frame)
            except EvaluationError as error:
                self._steps[slot] = Step(expr, depth, error)
                raise
            else:
                self._steps[slot] = Step(expr, depth, value)
                return value
            finally:
                self._depth = depth

        return run


@dataclass(frozen=True, slots=True)
class Traced:
    """A traced expression of a clause: its text, and depth, text and step of its shown parts."""

    text: str
    rows: Sequence[tuple[int, str, Step]]


@dataclass(frozen=True, slots=True)
class Written:
    """A written clause with the source of its policy, which another policy may use."""

    clause: AnyClause
    environment: Environment
    source: Source | None

    def text(self, expr: Expr) -> str:
        """The text of the file on one line, or the canonical form if there is no file."""
        if self.source is None:
            return print_expression(expr)
        return " ".join(self.source.slice(expr.span).split())

    def traced(self, expr: Expr, frame: Frame) -> Traced:
        """The parts of an expression with their values in a frame, which does not change."""
        steps = Tracer(self.environment).trace(expr, _own(frame))
        return Traced(self.text(expr), tuple(self._shown(steps)))

    def _shown(self, steps: list[Step]) -> Iterator[tuple[int, str, Step]]:
        """The steps of a trace that are shown: depth, text and step.

        Constants are left out, and so are lists, maps and objects on the way to a value, and the
        iterations of a loop that a short form stands for.
        """
        open_: list[Step] = []
        for step in steps:
            while open_ and open_[-1].depth >= step.depth:
                open_.pop()
            outer = open_[-1] if open_ else None
            # The parts of a short form have the span of the short form.
            expanded = outer is not None and step.expr.span == outer.expr.span
            if outer is not None and (
                _on_the_way(step)
                or _constant(step.expr)
                or (expanded and isinstance(outer.expr, Comprehension))
            ):
                continue
            text = print_expression(step.expr) if expanded else self.text(step.expr)
            yield len(open_), text, step
            open_.append(step)

    def value(self, expr: Expr, frame: Frame) -> object:
        """The value of an expression that the clause stands for. Raises EvaluationError."""
        return self._value(Checker(self.environment).check(expr), frame)

    def _value(self, checked: Expr, frame: Frame) -> object:
        compiler = Compiler(self.environment)
        evaluate, frame = compiler.compile(checked), _own(frame)
        frame.locals = [None] * compiler.slots
        return evaluate(frame)

    def detail(self, frame: Frame) -> str:
        """The text of its `detail` for the frame's node; empty without a `detail`."""
        detail = dict(self.clause.texts).get("detail")
        if detail is None:
            return ""
        shown = []
        for part in detail.parts:
            try:
                shown.append(part if isinstance(part, str) else show(self._value(part, frame)))
            except EvaluationError:
                shown.append("{?}")
        return "".join(shown)


class WrittenClauses:
    """The clauses by their names in verdicts: the policy's address and the clause's name."""

    def __init__(
        self, policies: Iterable[Checked], files: Iterable[CheckedFile], values: Values
    ) -> None:
        """`files` have the texts of these policies."""
        self._values = values
        self._sources = {_place(c.policy): f.source for f in files for c in f.policies}
        self._clauses: dict[tuple[str, str], Written] = {}
        for checked in policies:
            for part in (checked, *checked.uses):
                for clause in part.policy.clauses:
                    written = Written(clause, part.environment, self._source(part))
                    self._clauses[checked.policy.address, clause.name] = written

    def find(self, policy: str, clause: str) -> Written:
        return self._clauses[policy, clause]

    def expression(self, part: TracedPart, traced: Traced) -> TracedExpression:
        """A traced expression with the texts of the values of its parts."""
        read = [self._read(text, depth, step) for depth, text, step in traced.rows]
        return TracedExpression(part, traced.text, read)

    def _read(self, text: str, depth: int, step: Step) -> ReadValue:
        """A value that was read; a part of it may be hidden from the reader."""
        try:
            if isinstance(step.outcome, EvaluationError):
                raise step.outcome
            return ReadValue(text, depth, self._values.line(step.outcome, step.expr.type))
        except EvaluationError as error:
            return ReadValue(text, depth, error=str(error))

    def _source(self, part: Checked) -> Source | None:
        found = self._sources.get(_place(part.policy))
        if found is not None:
            return found
        policy = part.policy
        here = (s for s in library_sources() if s.slice(policy.name_span) == policy.name)
        return next(here, None)


def _place(policy: Policy) -> tuple[str, bool, Span]:
    return policy.address, policy.cluster, policy.span


def _own(frame: Frame) -> Frame:
    """A copy of the frame for another program, whose slots and memo differ."""
    other = copy(frame)
    other.memo, other.room = {}, MEMO_BYTES
    return other


def _on_the_way(step: Step) -> bool:
    if not isinstance(step.expr, Ident | Select | Index):
        return False
    if isinstance(step.outcome, EvaluationError) or is_row(step.outcome):
        return False
    return kind(step.outcome) in ("list", "map", "record")


def _constant(expr: Expr) -> bool:
    if isinstance(expr, Ident | LetReference | DefCall | Comprehension):
        return False
    return all(map(_constant, children(expr)))


_WIDTH = 100
# A part of a value: its name or index label, its value, and its type.
_Part = tuple[str, object, Type]


@dataclass(eq=False, slots=True)
class Values:
    """Text of values in the syntax of the language; records show their fields."""

    schema: Schema

    def typed(self, value: object, type_: Type) -> str:
        """`value : type`, on several lines if one is too long."""
        name = str(type_)
        if type_ == DYN:
            name = str(type_of(value)) if kind(value) != "record" else "object"
        text = "\n".join(self._lines(value, type_, "", _WIDTH))
        return f"{text} : {name}"

    def line(self, value: object, type_: Type) -> str:
        parts = self._parts(value, type_)
        if parts is None:
            return _scalar(value)
        left, right = _brackets(value)
        inside = (f"{name}{self.line(part, of)}" for name, part, of in parts)
        return f"{left}{', '.join(inside)}{right}"

    def _lines(self, value: object, type_: Type, name: str, width: int) -> list[str]:
        line = f"{name}{self.line(value, type_)}"
        parts = self._parts(value, type_)
        if len(line) <= width or not parts:
            return [line]
        left, right = _brackets(value)
        inside = [self._lines(part, of, label, width - 2) for label, part, of in parts]
        for rows in inside:
            rows[-1] += ","
        return [f"{name}{left}", *(f"  {row}" for rows in inside for row in rows), right]

    def _parts(self, value: object, type_: Type) -> list[_Part] | None:
        """The parts of a value; None for a scalar."""
        args = type_.args or (DYN, DYN)
        if isinstance(value, Optional):
            return [("", value.value, args[0])] if value.present else None
        match kind(value):
            case "list":
                assert isinstance(value, Sequence)
                return [("", item, args[0]) for item in value]
            case "map":
                assert isinstance(value, Mapping)
                pairs = sorted(((_scalar(k), v) for k, v in key_values(value)), key=lambda p: p[0])
                return [(f"{key}: ", item, args[-1]) for key, item in pairs]
            case "record":
                # The fields that a record has, without short forms.
                if is_row(value):
                    names = [*value.__struct_fields__[1:], "time"]
                    parts = ((name, getattr(value, name)) for name in names)
                    return [(f"{name}: ", part, DYN) for name, part in parts if part is not None]
                record = self.schema.records.get(type_.name) or self.schema.records.get(
                    type(value).__name__
                )
                fields = record.fields.values() if record is not None else ()
                found = ((f, getattr(value, f.name, None)) for f in fields if f.derived is None)
                return [(f"{f.name}: ", part, f.type) for f, part in found if part is not None]
            case _:
                return None


def _scalar(value: object) -> str:
    if isinstance(value, str):
        return print_string(value)
    if isinstance(value, Optional):
        return "optional.none()"
    return show(value)


def _brackets(value: object) -> tuple[str, str]:
    if isinstance(value, Optional):
        return "optional.of(", ")"
    return ("[", "]") if kind(value) == "list" else ("{", "}")


# The most pods of one kind in a line, and of all in a list.
_PODS, _MOST_LISTED = 10, 100
# What is said of a limit that other pods have.
KEPT_OUT = "a pod that is there, or may end there, has this limit"


def clauses_on(
    written: WrittenClauses, found: ClauseResults, name: str, *, rejecting: bool = False
) -> Work[list[ClauseOnNode]]:
    """What each filter and each strict count says about a node, in the order of the policies.

    Its expressions are those that can differ between nodes. With `rejecting` only the clauses that
    reject the node are asked.
    """
    against, frame = found.against(name), found.inspection.frame_at(name)
    said = []
    for objection in against if rejecting else found.on(name):
        clause = written.find(objection.policy, objection.name)
        refuses = objection in against
        said.append(
            ClauseOnNode(
                objection.policy,
                objection.name,
                objection.text,
                not refuses,
                clause.detail(frame) if refuses else "",
                [
                    written.expression(part, clause.traced(expr, frame))
                    for part, expr in told(objection.program, clause.clause)
                ],
                (yield from counted_on(objection, clause, found, name)),
            )
        )
        yield from found.inspection.pause()
    return said


def scores_on(written: WrittenClauses, found: ClauseResults, name: str) -> Iterator[ScoreTerm]:
    """The terms of the score of a node; none for a node that filter did not return.

    The shown values are differences of rounded sums, so that they add up to the rounded sum.
    """
    if name not in found.scores:
        return
    index, frame = list(found.scores).index(name), found.inspection.frame_at(name)
    total, so_far = sum(each.weight for each in found.given), 0.0
    for given in found.given:
        clause, value = written.find(given.policy, given.name), None
        for part, expr in _told(clause.clause):
            if part == "value":
                value = written.expression(part, clause.traced(expr, frame))
        points = float(given.points[index])
        end = so_far + given.weight * points / total / 10
        adds = round(round(end, 2) - round(so_far, 2), 2)
        lacks = given.lacks_value(index)
        yield ScoreTerm(given.policy, given.name, given.weight, points, adds, lacks, value)
        so_far = end


def told(program: RejectingProgram, clause: AnyClause) -> Iterator[tuple[TracedPart, Expr]]:
    """The expressions of a clause that can differ between nodes."""
    count = program.count if isinstance(program, CountClause) else None
    when = count.when if count is not None else None
    # The `when` of a clause that counts is the same for every node unless it reads named counts.
    if clause.when is not None and (not program.counts_pods or (when and when.counts)):
        yield "when", clause.when
    # So is the bound, unless it reads groups of nodes.
    yield from (part for part in _told(clause) if part[0] != "bound" or (count and count.groups))


def _told(clause: AnyClause) -> Iterable[tuple[TracedPart, Expr]]:
    if (told := MEANINGS[type(clause)].told) is not None:
        return told(clause)
    return [("require", each) for each in clause.requirements]


def counted_on(
    objection: Objection, written: Written, found: ClauseResults, name: str
) -> Work[NodeCounts | None]:
    """What a clause counts for a node, of pods or of cards; None for one that counts nothing."""
    program, inspection = objection.program, found.inspection
    clause, meaning = written.clause, MEANINGS[type(written.clause)]
    if not isinstance(program, CountClause):
        if meaning.evidence is None:
            return None
        frame = inspection.decided_at(name)
        try:
            said = meaning.evidence(clause, partial(written.value, frame=frame), frame)
        except EvaluationError as error:
            said = inspection.reader.error(str(error)), ()
        return _counts(inspection.reader, *said)
    if objection.is_mutual:
        return _counts(inspection.reader, KEPT_OUT, inspection.keepers(program, name))
    if meaning.counted is None:
        return None
    counts, group = yield from inspection.group_counts(program, name)
    if group < 0:
        text = "the node has no value for the domain, or for the bound"
        return _counts(inspection.reader, text)
    text, groups, emptiest = meaning.counted(program, counts, group)
    pods = yield from inspection.counting(program, groups)
    beside = yield from inspection.counting(program, emptiest)
    return _counts(inspection.reader, text, pods, beside)


def _counts(
    reader: Reader,
    text: str,
    pods: Sequence[PodInGroup] = (),
    emptiest: Sequence[PodInGroup] = (),
) -> NodeCounts:
    """What is counted, with the pods that the reader may list; `more` has the others, too."""
    here, beside = (
        [CountedPod(*pod) for pod in each if reader.may_name(pod.key)][:_MOST_LISTED]
        for each in (pods, emptiest)
    )
    more = len(pods) - len(here) + len(emptiest) - len(beside)
    return NodeCounts(text, here, tuple(beside), more)


def count_lines(counts: NodeCounts) -> Iterator[str]:
    """The counts of a clause for one node, and a line for the pods of each presence."""
    yield counts.text
    for pods, where in ((counts.pods, ""), (counts.emptiestDomain, ", in the emptiest one")):
        for presence in PRESENCES:
            if names := [each.name for each in pods if each.presence == presence]:
                yield f"  {presence}{where}: {named(names, _PODS)}"
    if counts.more:
        yield f"  and {counted(counts.more, 'more pod')}"
