"""Answers of the view about policies: their state, their text, and what is wrong with it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Literal as OneOf

import msgspec

from grammar.messages.diagnostics import Diagnostic
from grammar.tree.source import Source

State = OneOf["in force", "last valid version in force", "not in force"]


class Problem(msgspec.Struct, frozen=True):
    """A diagnostic of a text; lines and columns count from 1, and the end is exclusive.

    `hint` is null if there is no remedy to name.
    """

    code: str
    severity: str
    message: str
    hint: str | None
    notes: Sequence[str]
    line: int
    column: int
    endLine: int
    endColumn: int


class PodNumbers(msgspec.Struct, frozen=True):
    """The pods that the object of a policy selects.

    `placed` are on the nodes of its share, `target` are wanted there, `violations` are beyond the
    bounds; the leader writes these into the status of the object. `inFlight` may be on their way to
    a node, as this replica knows. Null where there is no such number.
    """

    matched: int | None
    placed: int | None
    target: int | None
    violations: int | None
    inFlight: int | None


class Sample(msgspec.Struct, frozen=True):
    """The numbers of a policy at a time."""

    at: str
    pods: PodNumbers


class PolicySummary(msgspec.Struct, frozen=True, kw_only=True):
    """A policy in short. `namespace` is null for a cluster policy.

    Of a file that cannot be read as policies, `address` is its name. `origin` is the file, or the
    object as `placementpolicies/NAMESPACE/NAME`. Mode, weight and digest are null for a policy that
    is not in force. `overruledBy` are policies that governed pods which this one selects too, in
    decisions that are kept.
    """

    address: str
    namespace: str | None
    origin: str
    state: State
    mode: str | None
    weight: int | None
    digest: str | None
    expensive: bool
    errors: int
    warnings: int
    overruledBy: Sequence[str]
    pods: PodNumbers


class PolicyList(msgspec.Struct, frozen=True):
    """The policies that a replica knows, in the order of their addresses."""

    replica: str
    at: str
    policies: Sequence[PolicySummary]


class PolicyDetail(PolicySummary, frozen=True, kw_only=True):
    """A policy in full. `text` is its file, or the page of its object, in which the lines count.

    `history` has the numbers of pods over time, the oldest first.
    """

    replica: str
    text: str
    diagnostics: Sequence[Problem]
    history: Sequence[Sample]


def problems(found: Iterable[Diagnostic], source: Source) -> Sequence[Problem]:
    return [_problem(each, source) for each in found]


def _problem(found: Diagnostic, source: Source) -> Problem:
    line, column = source.position(found.span.start)
    end_line, end_column = source.position(found.span.end)
    return Problem(
        found.code,
        found.severity,
        found.message,
        found.hint,
        found.notes,
        line,
        column,
        end_line,
        end_column,
    )
