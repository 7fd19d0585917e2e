"""Enforced policies: what is in force of policy files and policy objects, its programs and needs.

One reader serves the server, every command, drafts, tests of policies and the REPL, so that all of
them enforce the same. A version with errors never replaces a valid version. An object without a
valid version here has the last valid version of its status, and a policy without any that could
reject nodes refuses its pods. The result is immutable; whoever reads again passes the last one.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace

import msgspec

from engine.cache.informers import Needs
from engine.clauses import MEANINGS
from engine.clauses.programs import compile_policy, compiled_together
from engine.decision.registry import Registry
from engine.objects.kept_pods import SWITCHES
from engine.objects.request_pod import FORM
from engine.program.columns import ColumnRooms
from engine.program.program import Program
from grammar.checker.policy_checker import Checked
from grammar.messages.diagnostics import Diagnostic, plain
from grammar.tree.ast import Ident, Literal, Select
from grammar.tree.policy import Count, Policy
from grammar.tree.source import Source
from grammar.tree.walk import walk
from policies.admission import CheckedObject, StoredObject
from policies.manifest_text import report
from policies.resource import VersionInForce
from policies.validation import CheckedFile, Identity, Validation, identity

_NO_OBJECTS: Mapping[str, StoredObject] = {}


@dataclass(frozen=True, slots=True)
class ActivePolicy:
    """A policy in force. `stale` is true if its file has a newer, invalid version."""

    checked: Checked
    file: str
    stale: bool


@dataclass(frozen=True, slots=True)
class InForce:
    """The policies in force, in the order of their files.

    `idle` are the addresses of policies that are not enforced, because they never had a valid
    version.
    """

    active: tuple[ActivePolicy, ...] = ()
    idle: tuple[str, ...] = ()

    @property
    def policies(self) -> tuple[Checked, ...]:
        return tuple(policy.checked for policy in self.active)

    @property
    def stale(self) -> tuple[ActivePolicy, ...]:
        return tuple(policy for policy in self.active if policy.stale)


class PolicyNotInForce(msgspec.Struct, frozen=True):
    """A policy that is not in force as written, what holds instead, and its first error.

    `policy` is the address, or the name of a file. `namespace` is empty for one that can concern
    all pods.
    """

    policy: str
    instead: str
    because: str
    namespace: str = ""


@dataclass(frozen=True, slots=True)
class _Compiled:
    """A compiled policy: the program and the needs, which stay as long as the policy does."""

    checked: Checked
    program: Program
    needs: Needs


@dataclass(frozen=True, slots=True)
class EnforcedPolicies:
    """The enforced policies at one time, and what they were read from.

    `stored` are the policy objects by name, and `objects` what was checked of each. `programs` are
    by the name of an object, or of a file with one policy. A thread may make it for another thread
    to use.
    """

    registry: Registry
    in_force: InForce
    validation: Validation
    stored: Mapping[str, StoredObject]
    objects: Mapping[str, CheckedObject]
    programs: Mapping[str, Program]
    needs: Needs
    # By the id of the checked policy in force.
    compiled: Mapping[int, _Compiled] = field(repr=False)
    rooms: ColumnRooms = field(repr=False)

    @property
    def policies(self) -> Sequence[Checked]:
        """The policies in force."""
        return self.in_force.policies

    @property
    def texts(self) -> Sequence[CheckedFile]:
        """The texts of the policies in force, each with just these policies.

        A policy whose file has changed since has none.
        """
        active = {id(each.checked) for each in self.in_force.active}

        def active_of(policies: Sequence[Checked]) -> tuple[Checked, ...]:
            return tuple(checked for checked in policies if id(checked) in active)

        written = (
            replace(file, policies=kept)
            for file in self.validation.files
            if (kept := active_of(file.policies))
        )
        remembered = (
            CheckedFile(
                Source(name, _version_in_force(each).rules),
                whole=True,
                policies=kept,
                tests=(),
                unread=(),
            )
            for name, each in self.stored.items()
            if (kept := active_of(each.remembered))
        )
        return [*written, *remembered]

    @property
    def broken(self) -> Sequence[PolicyNotInForce]:
        """The policies that are not in force as they are written."""
        return list(_broken(self))

    def instead_of(self, name: str, address: str) -> str:
        """What holds instead of a policy with errors in a file or an object of this name."""
        stale = (a.checked.policy.address for a in self.in_force.stale if a.file == name)
        if address in stale:
            return "its last valid version is in force instead"
        if any(program.address == address for program in self.registry.refusing):
            return "the pods that it selects wait"
        return "it is not enforced"

    def broken_in(self, namespace: str) -> Sequence[PolicyNotInForce]:
        """The broken policies that can concern the pods of a namespace; all without one."""
        return [b for b in self.broken if not namespace or b.namespace in ("", namespace)]


def enforced(
    validation: Validation,
    stored: Mapping[str, StoredObject] = _NO_OBJECTS,
    *,
    previous: EnforcedPolicies | None = None,
    unread: Collection[str] = (),
    is_complete: bool = True,
) -> EnforcedPolicies:
    """What is in force of these policies, the same on every replica but for `previous`.

    `validation` has the files, and those of the `stored` objects by their names. `unread` are
    files that may exist and cannot be read. `is_complete` says that the objects of the cluster are
    known.
    """
    before = previous.in_force if previous is not None else InForce()
    in_force = _with_remembered(succeed(before, validation, unread), stored)
    policies = in_force.policies
    known = previous.compiled if previous is not None else {}
    # An unchanged policy keeps its program, and what that remembers.
    rooms = previous.rooms if previous is not None else ColumnRooms()
    made = compiled_together([each for each in policies if id(each) not in known], rooms)
    new = {id(p.source): _Compiled(p.source, p, needs_of([p.source])) for p in made}
    compiled = {id(c): known.get(id(c)) or new[id(c)] for c in policies}
    here = {identity(checked.policy) for checked in policies}
    files = (file for file in validation.files if not file.private)
    refusing = [c for f in files for c in f.refusing if identity(c.policy) not in here]
    needed = together((needs_of(refusing), *(each.needs for each in compiled.values())))
    registry = Registry(
        [c.program for c in compiled.values()],
        refusing=map(compile_policy, refusing),
        complete=is_complete,
        annotations=needed.annotations,
    )
    of_file = Counter(active.file for active in in_force.active)
    return EnforcedPolicies(
        registry,
        in_force,
        validation,
        stored,
        objects={name: each.checked for name, each in stored.items()},
        programs={
            active.file: compiled[id(active.checked)].program
            for active in in_force.active
            if of_file[active.file] == 1
        },
        needs=replace(
            needed, repairs=any(program.repair is not None for program in registry.programs)
        ),
        compiled=compiled,
        rooms=rooms,
    )


def needs_of(policies: Iterable[Checked]) -> Needs:
    """What policies read of a cluster, with the policies that they use."""
    return needs(part.policy for checked in policies for part in (checked, *checked.uses))


def succeed(previous: InForce, now: Validation, unread: Collection[str] = ()) -> InForce:
    """The policies in force after a change of the files; `unread` are files without a text.

    An invalid policy keeps its last valid version. So does every policy of a file that could not be
    parsed as a whole, because the file may say anything about the policy. A policy that is in no
    file any more is removed.
    """
    old = {identity(active.checked.policy): active for active in previous.active}
    files = [file for file in now.files if not file.private]
    written = {identity(p.policy) for f in files if f.whole for p in f.policies}
    found: dict[Identity, ActivePolicy] = {}

    def keep(file: str) -> None:
        for key, active in old.items():
            if active.file == file and key not in written:
                found.setdefault(key, replace(active, stale=True))

    for file in files:
        name = file.source.name
        if not file.whole:
            keep(name)
            continue
        for checked in file.policies:
            key = identity(checked.policy)
            if not checked.broken:
                found[key] = ActivePolicy(checked, name, stale=False)
            elif key in old:
                found.setdefault(key, replace(old[key], file=name, stale=True))
    for name in unread:
        keep(name)
    idle = (p.policy.address for p in now.policies if identity(p.policy) not in found)
    return InForce(tuple(found.values()), tuple(dict.fromkeys(idle)))


def _with_remembered(in_force: InForce, stored: Mapping[str, StoredObject]) -> InForce:
    """Adds the last valid versions from statuses, of policies without a valid version here."""
    known = {identity(checked.policy) for checked in in_force.policies}
    more = [
        ActivePolicy(checked, name, stale=True)
        for name, each in stored.items()
        for checked in each.remembered
        if identity(checked.policy) not in known
    ]
    found = {active.checked.policy.address for active in more}
    idle = tuple(address for address in in_force.idle if address not in found)
    return replace(in_force, active=(*in_force.active, *more), idle=idle)


def _broken(found: EnforcedPolicies) -> Iterator[PolicyNotInForce]:
    for file in (each for each in found.validation.files if not each.private):
        name, unread = file.source.name, _errors(file.unread)
        is_object = name in found.stored
        write = report if is_object else plain
        broken = [
            (p.policy.address, p.policy.namespace, [*_errors(p.diagnostics), *unread])
            for p in file.policies
        ]
        errors, written = _errors(file.diagnostics), {identity(p.policy) for p in file.policies}
        stale = (each.checked for each in found.in_force.active if unread and each.file == name)
        known = {identity(c.policy): c.policy for c in (*stale, *file.refusing)}
        broken += [(p.address, p.namespace, errors) for i, p in known.items() if i not in written]
        if unread and not broken:
            # Of an object that cannot be read, `resource/namespace/name` or `resource/name`.
            address = name.partition("/")[2] if is_object else name
            broken = [(address, address.rpartition("/")[0] if is_object else "", unread)]
        for address, namespace, errors in broken:
            if errors:
                line = write(errors[0], file.source).partition("\n")[0]
                yield PolicyNotInForce(
                    address, found.instead_of(name, address), line, namespace or ""
                )


def _version_in_force(stored: StoredObject) -> VersionInForce:
    """The last valid version in the status of an object that has `remembered` policies."""
    manifest = stored.checked.manifest
    found = (
        manifest.status.inForce if manifest is not None and manifest.status is not None else None
    )
    assert found is not None, "a remembered policy is made of it"
    return found


def _errors(found: Iterable[Diagnostic]) -> list[Diagnostic]:
    return [d for d in found if d.severity == "error"]


def needs(policies: Iterable[Policy]) -> Needs:
    """The needs of checked policies."""
    return together(map(_needs, policies))


def together(found: Iterable[Needs]) -> Needs:
    """The needs of all of them."""
    known = {*found}

    names = [each.name for each in fields(Needs) if each.name != "annotations"]
    return Needs(
        **{name: any(getattr(each, name) for each in known) for name in names},
        annotations=SWITCHES.union(*(each.annotations for each in known)),
    )


def _needs(policy: Policy) -> Needs:
    read = list(walk(policy))
    form = {FORM} if policy.portable else set()
    fields_read = {each.name for each in read if isinstance(each, Select)}
    counts = (item.pods for item in policy.items if isinstance(item, Count))
    of_expressions = Needs(
        namespaces="namespaceLabels" in fields_read
        or any(isinstance(e, Ident) and e.name == "namespaceObject" for e in read),
        workloads="workload" in fields_read or any(c.needs_workloads for c in policy.clauses),
        groups="group" in fields_read,
        ended=any(pods.state == "ended" for pods in counts),
        failures="failures" in fields_read,
        annotations=named_annotations(policy).union(form),
    )
    of_kinds = ((MEANINGS[type(clause)].needs, clause) for clause in policy.clauses)
    return together((of_expressions, *(needs(c) for needs, c in of_kinds if needs is not None)))


def named_annotations(tree: object) -> frozenset[str]:
    """Every text that could be the key of an annotation of another pod, if any is read in a tree.

    This may be too many keys, never too few: a key may stand in a `let`, far from where it is used.
    A key that is computed during evaluation cannot be known, so its annotation is missing.
    """
    read = list(walk(tree))
    if not any(isinstance(e, Select) and e.name == "annotations" for e in read):
        return frozenset()
    return frozenset(
        e.name if isinstance(e, Select) else str(e.value)
        for e in read
        if isinstance(e, Select) or (isinstance(e, Literal) and isinstance(e.value, str))
    )
