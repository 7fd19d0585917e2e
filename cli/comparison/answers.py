"""Answers: what is said of two versions of a policy, with a test as witness of each difference."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from importlib.util import find_spec
from typing import get_args

from cli.comparison.worlds import Court, Direction, Disagreement, Pair, SmallWorld, WorldMaker
from cli.policy_tests.runner import Collection, Runner, Suite
from engine.decision.verdict import Rejected
from grammar.checker.policy_checker import Checked
from grammar.meaning.schema import Schema
from grammar.syntax.parser import parse_file
from grammar.tree.policy import Policy
from grammar.tree.printer import print_string
from grammar.tree.source import Source
from policies.validation import identity

BOTH: frozenset[Direction] = frozenset(get_args(Direction))
# How many worlds are made for one that can be asked about.
_MOST_TRIES = 3


@dataclass(slots=True)
class PolicyAnswer:
    """An answer about a policy: a test for each direction in which the versions differ.

    Each holds with the new version, or with the old one of a policy that is removed, and fails with
    the other. `excluded` are directions that a proof excludes. So many `worlds` were asked. What is
    `beside` differs, and decides no node: points, victims, waits.
    """

    versions: Pair
    tests: dict[Direction, str] = field(default_factory=dict)
    excluded: frozenset[Direction] = frozenset()
    worlds: int = 0
    beside: Sequence[str] = ()

    @property
    def policy(self) -> Policy:
        """The new version, or the old one of a policy that is removed."""
        found = self.versions[1] or self.versions[0]
        assert found is not None, "one of them is there"
        return found.policy

    @property
    def answer(self) -> str:
        """`equal`, `stricter`, `laxer`, `neither`, or `unknown` where no difference was found."""
        if self.tests:
            return "neither" if len(self.tests) > 1 else next(iter(self.tests))
        return "equal" if self.excluded == BOTH else "unknown"

    @property
    def text(self) -> str:
        """The answer in words."""
        searched, left = f"found in {self.worlds} worlds", BOTH - self.excluded - self.tests.keys()
        if self.answer == "unknown":
            others = "".join(f"; not {way}, as proven" for way in sorted(self.excluded))
            return f"no difference {searched}{others}"
        nothing = "".join(f"; nothing {way} {searched}" for way in left)
        return f"{self.answer}{nothing}"

    @property
    def as_json(self) -> Mapping[str, object]:
        return {
            "policy": self.policy.address,
            "old": self.versions[0] is not None,
            "new": self.versions[1] is not None,
            "answer": self.answer,
            "excluded": sorted(self.excluded),
            "worlds": self.worlds,
            "tests": self.tests,
            "notCompared": list(self.beside),
        }


def has_solver() -> bool:
    """Whether the extra `proofs` is installed."""
    return find_spec("z3") is not None


def pairs(old: Sequence[Checked], new: Sequence[Checked]) -> Iterator[Pair]:
    """The policies by name and namespace; one of a single name may have moved."""
    before = {identity(each.policy): each for each in old}
    after = {identity(each.policy): each for each in new}
    for key in list(before.keys() - after.keys()):
        gone = [k for k in before.keys() - after.keys() if k[2] == key[2]]
        come = [k for k in after.keys() - before.keys() if k[2] == key[2]]
        if len(gone) == len(come) == 1:
            before[come[0]] = before.pop(key)
    for key in sorted(before.keys() | after.keys(), key=str):
        yield before.get(key), after.get(key)


def compared(versions: Pair, schema: Schema, worlds: int) -> PolicyAnswer:
    """The answer about two versions, by proofs and else by so many worlds."""
    found, bases = PolicyAnswer(versions), list[SmallWorld]()
    given = [each for each in versions if each is not None]
    rules = [_rules(each) for each in given]
    if len(rules) > 1:
        found.beside = [name for name, said in rules[0][1].items() if said != rules[1][1].get(name)]
        found.beside += [name for name in rules[1][1] if name not in rules[0][1]]
    if len(rules) > 1 and rules[0] == rules[1]:
        found.excluded = BOTH
    elif has_solver():
        # No other command needs the solver.
        from cli.comparison.proofs import Prover  # noqa: PLC0415

        prover = Prover(versions, schema)
        found.excluded = frozenset(filter(prover.excludes, get_args(Direction)))
        bases = prover.worlds
    if found.excluded != BOTH:
        _search(found, WorldMaker(given, schema, bases=bases), schema, worlds)
    return found


def _rules(checked: Checked) -> tuple[object, Mapping[str, object]]:
    """All that a version says, and the parts that decide no node, by name."""
    parts = [part.policy for part in (checked, *checked.uses)]
    items = [replace(part, name="", values=(), parameters=()) for part in parts]
    silent = {c.name: c for p in parts for c in p.clauses if c.verb != "filter" or c.held_seconds}
    weight = checked.policy.setting("weight", "")
    return items, {"weight": weight, "repair": checked.policy.repair, **silent}


def _search(found: PolicyAnswer, maker: WorldMaker, schema: Schema, worlds: int) -> None:
    """Looks for a test of each direction that no proof excludes."""
    court = Court(found.versions, schema)
    for _ in range(_MOST_TRIES * worlds):
        if found.excluded | found.tests.keys() == BOTH or found.worlds == worlds:
            return
        differences = court.differences(maker.world())
        found.worlds += differences is not None
        for each in differences or ():
            if each.direction not in found.tests:
                test = _confirmed(found, court.least(each), schema)
                found.tests |= {} if test is None else {each.direction: test}


def _confirmed(found: PolicyAnswer, difference: Disagreement, schema: Schema) -> str | None:
    """The test of a difference, if one version passes and the other fails."""
    old, new = found.versions
    shown, other = (new, old) if new is not None else (old, None)
    answer, node = difference.answers[new is not None], print_string(difference.node)
    expected = f"expect pass {node}"
    if isinstance(answer, Rejected):
        expected = f"expect reject {node} by {print_string(answer.clause)}"
    text = difference.world.text(f"{found.policy.name} is {difference.direction}", expected)
    outcomes = [_outcome(text, each, schema) for each in (shown, other) if each is not None]
    return text if outcomes in (["passed"], ["passed", "failed"]) else None


def _outcome(text: str, version: Checked, schema: Schema) -> str:
    """What `placet test` says of a test beside one version."""
    source = Source("witness.policy", text)
    tests = parse_file(source)[0].tests
    suite = Suite(source, tests, (version,), ())
    return next(Runner(Collection((suite,), ()), schema).run(suite, tests)).outcome
