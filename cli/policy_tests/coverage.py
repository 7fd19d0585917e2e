"""Coverage: the branches of policies, and the branches that the tests have taken.

A `for` selects a pod or skips it. A clause that can reject accepts a node, or rejects one; a `wait
until` rejects where it holds a binding. The value of a score has one branch. Clauses that another
policy uses count where they are written. What happened is read from inspections and answers.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from engine.decision.verdict import Feasible, Rejected, Verdict
from engine.explanation.inspection import Inspection
from engine.program.program import Program
from engine.work import finished
from grammar.checker.policy_checker import Checked
from grammar.tree.ast import Literal
from grammar.tree.source import Source, Span
from policies.loader import is_test_file
from policies.validation import CheckedFile, Identity, identity

_MAX_POINTS = 100
# A policy, and the name of its clause; without one its `for`.
BranchPoint = tuple[Identity, str]


@dataclass(frozen=True, slots=True)
class Branch:
    """One branch at a point of a policy. `never` says that no test has taken it."""

    source: Source
    point: BranchPoint
    span: Span
    outcome: bool
    never: str


def branches(file: CheckedFile) -> Iterator[Branch]:
    """The branches of a file's policies, in the order of the text."""
    for checked in file.policies:
        policy = checked.policy
        found: list[tuple[str, Span, tuple[str, ...]]] = []
        if policy.selector is not None and not isinstance(policy.selector, Literal):
            name = f"policy {policy.address}"
            texts = (f"{name} never selected a pod", f"{name} never skipped a pod")
            found.append(("", policy.selector.span, texts))
        for clause in policy.clauses:
            name = f'{clause.keyword} "{clause.name}"'
            match clause.tested:
                case "verdict":
                    texts = (f"{name} never accepted a node", f"{name} never rejected a node")
                    found.append((clause.name, clause.span, texts))
                case "value":
                    found.append((clause.name, clause.span, (f"{name} was never computed",)))
                case _:
                    continue
        for clause_name, span, never in found:
            for outcome, text in zip((True, False), never, strict=False):
                point = identity(policy), clause_name
                yield Branch(file.source, point, span, outcome, text)


class Coverage:
    """The coverage of some files without test files: their branches, and which were taken."""

    def __init__(self, files: Iterable[CheckedFile]) -> None:
        tested = (file for file in files if not is_test_file(file.source.name))
        self.branches = tuple(branch for file in tested for branch in branches(file))
        self._taken: set[tuple[BranchPoint, bool]] = set()
        # Where the clauses of a program are written, by its address and their names.
        self._written: dict[tuple[str, str], BranchPoint] = {}

    @property
    def missed(self) -> Sequence[Branch]:
        return [b for b in self.branches if (b.point, b.outcome) not in self._taken]

    @property
    def percent(self) -> float:
        """The part of the branches that tests have taken; 100 if there are none."""
        if not self.branches:
            return 100.0
        return 100 - 100 * len(self.missed) / len(self.branches)

    def watch(self, checked: Checked, program: Program) -> None:
        """Learns where the clauses of a program are written."""
        self._written[program.address, ""] = identity(checked.policy), ""
        for part in (checked, *checked.uses):
            for clause in part.policy.clauses:
                self._written[program.address, clause.name] = identity(part.policy), clause.name

    def record(self, inspection: Inspection, programs: Iterable[Program]) -> None:
        """Records the policies that select the pod, and what their clauses say of the nodes.

        A preferred bound accepts a node that gets points from it, and rejects one that does not get
        all.
        """
        selection = inspection.selection
        selecting = {program.address for program in selection.programs}
        for program in programs:
            selects = program.address in selecting
            self._take(program.address, "", accepts=selects, rejects=not selects)
        objections = finished(inspection.objections())
        for program in selection.audited:
            objections += finished(inspection.objections_of(program))
        for objection in objections:
            refused = objection.refused
            accepts, rejects = bool((~refused).any()), bool(refused.any())
            self._take(objection.policy, objection.name, accepts=accepts, rejects=rejects)
        for contribution in finished(inspection.contributions()):
            points, is_value = contribution.points, contribution.values is not None
            accepts = is_value or bool((points > 0).any())
            rejects = bool((points < _MAX_POINTS).any())
            self._take(contribution.policy, contribution.name, accepts=accepts, rejects=rejects)

    def record_verdicts(self, said: Rejected, verdicts: Iterable[Verdict]) -> None:
        """Records whether the clause by which something is said accepts or rejects a node."""
        found = list(verdicts)
        rejected = [each for each in found if isinstance(each, Rejected)]
        rejects = any((e.policy, e.clause) == (said.policy, said.clause) for e in rejected)
        accepts = any(isinstance(each, Feasible) for each in found)
        self._take(said.policy, said.clause, accepts=accepts, rejects=rejects)

    def record_holds(self, holds: Mapping[str, Rejected | None]) -> None:
        """Records the clauses that hold the binding to a node."""
        for held in holds.values():
            if held is not None:
                self._take(held.policy, held.clause, accepts=False, rejects=True)

    def _take(self, policy: str, clause: str, *, accepts: bool, rejects: bool) -> None:
        if (point := self._written.get((policy, clause))) is not None:
            self._taken |= {(point, o) for o, seen in ((True, accepts), (False, rejects)) if seen}
