"""Programs of policies: each clause compiled by its kind."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence

from engine.clauses import MEANINGS
from engine.program.columns import ColumnRoom, ColumnRooms
from engine.program.policy_compiler import PolicyCompiler, group_specs
from engine.program.program import Program, digest_of
from grammar.checker.policy_checker import Checked

DEFAULT_WEIGHT = 101


def compile_policy(checked: Checked) -> Program:
    """The program of a policy without errors, with the clauses of the policies that it uses."""
    return _program(checked, [PolicyCompiler(part) for part in (checked, *checked.uses)])


def compiled_together(policies: Sequence[Checked], rooms: ColumnRooms) -> Iterator[Program]:
    """The programs of policies; parts that several have in common are compiled once.

    Such parts are policies that several use, and the rules of policies that differ in nothing but
    their namespace.
    """
    keys = (_key(part) for checked in policies for part in (checked, *checked.uses))
    common = {key for key, number in Counter(keys).items() if number > 1}
    known: dict[object, PolicyCompiler] = {}

    def compiler(part: Checked, room: ColumnRoom) -> PolicyCompiler:
        # What is known of cards is known of the clauses of each policy.
        if (key := _key(part)) not in common or part.environment.cards:
            return PolicyCompiler(part, room)
        if key not in known:
            known[key] = PolicyCompiler(part, room)
        return known[key]

    for checked in policies:
        room = ColumnRoom(rooms, checked.policy.namespace or "")
        yield _program(checked, [compiler(part, room) for part in (checked, *checked.uses)])


def _key(part: Checked) -> object:
    """What makes two policies the same to a compiler: their trees, not only equal ones."""
    return id(part.policy.items), id(part.environment), part.policy.name


def _program(checked: Checked, compilers: Iterable[PolicyCompiler]) -> Program:
    policy = checked.policy
    parts = [compiler.owned_by(policy) for compiler in compilers]
    kinds = [(MEANINGS[type(clause)], (clause, part)) for part in parts for clause in part.clauses]
    return Program(
        address=policy.address,
        name=policy.name,
        namespace=policy.namespace,
        cluster=policy.cluster,
        weight=int(policy.setting("weight", DEFAULT_WEIGHT)),
        audit=policy.setting("mode", "enforce") == "audit",
        passes_missing=policy.passes_missing(),
        only_used=policy.only_used,
        select=parts[0].optional(policy.selector),
        clauses=tuple(made for kind, given in kinds for made in kind.programs(*given)),
        slots=max(part.compiler.slots for part in parts),
        reads=frozenset().union(
            *(part.pod_reads() for part in parts),
            *(kind.pod_reads(*given) for kind, given in kinds if kind.pod_reads),
        ),
        digest=digest_of(
            (part.policy, each.items)
            for part, each in zip((checked, *checked.uses), parts, strict=True)
        ),
        selects_by=parts[0].reads(policy.selector),
        tables=tuple(table for part in parts for table in part.tables()),
        groups=tuple(group for part in parts for group in group_specs(part.compiler)),
        named=tuple(count for part in parts for count in part.named()),
        source=checked,
    )
