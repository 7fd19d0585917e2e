"""Policies: the policy files and policy objects of a server, read, checked and compiled.

They belong to a running server. A version with errors never replaces a valid one: the last valid
version stays enforced, also across a restart, by the version that the status of an object keeps.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from dataclasses import replace as replace_field
from logging import Logger
from pathlib import Path

import msgspec
from msgspec.structs import replace

from engine.cache.informers import Needs
from engine.decision.registry import Registry
from engine.program.needs import needs
from engine.program.policy_compiler import compile_policy
from engine.program.program import Program
from grammar.clauses import File
from grammar.policy_checker import Checked
from grammar.schema import Schema
from policies.admission import CheckedObject, check_object
from policies.loader import Search, UnreadFile, Watcher, load
from policies.page import object_page
from policies.resource import Manifest, Metadata
from policies.sugar import policy_of
from policies.validation import (
    ActivePolicy,
    Identity,
    InForce,
    Validation,
    Validator,
    checked_file,
    identity,
    succeed,
)
from server.runtime.policy_log import PolicyLog


class _Object(msgspec.Struct):
    metadata: Metadata


class Objects:
    """The checked policy objects of the cluster. An unchanged object is not checked again."""

    def __init__(self, schema: Schema) -> None:
        self._schema = schema
        self._known: dict[str, tuple[object, CheckedObject]] = {}

    @property
    def checked(self) -> Mapping[str, CheckedObject]:
        return {name: checked for name, (_, checked) in self._known.items()}

    def changed(self, objects: Mapping[str, bytes]) -> bool:
        """Whether any object has another spec than when it was read; its status does not matter."""
        known = {name: version for name, (version, _) in self._known.items()}
        return {name: _version(raw) for name, raw in objects.items()} != known

    def read(self, objects: Mapping[str, bytes]) -> list[CheckedObject]:
        """The checked objects, in the order of their names."""
        before, self._known = self._known, {}
        for name, raw in sorted(objects.items()):
            version = _version(raw)
            known = before.get(name)
            if known is None or known[0] != version:
                known = version, check_object(name, raw, self._schema, stored=True)
            self._known[name] = known
        return [checked for _, checked in self._known.values()]

    def remembered(self) -> Iterator[tuple[str, Checked]]:
        """The last valid version of each object with errors, from its status."""
        for name, manifest in self._failed():
            if manifest.status is not None and manifest.status.inForce is not None:
                spec = replace(manifest.spec, rules=manifest.status.inForce.rules)
                yield from ((name, p) for p in self._policies(name, replace(manifest, spec=spec)))

    def refusing(self, enforced: Iterable[Identity]) -> list[Checked]:
        """The strict objects without any valid version, as policies with a selector and no clauses.

        Objects whose `failurePolicy` is Ignore are left out.
        """
        known = set(enforced)
        found: list[Checked] = []
        for name, manifest in self._failed():
            spec = manifest.spec
            if spec.enforcementMode == "Strict" and spec.failurePolicy == "Fail":
                bare = replace(spec, rules=None, placementPolicy=None, policy=None)
                found += self._policies(name, replace(manifest, spec=bare))
        return [policy for policy in found if identity(policy.policy) not in known]

    def _failed(self) -> Iterator[tuple[str, Manifest]]:
        for name, checked in self.checked.items():
            if checked.manifest is not None and not holds(checked):
                yield name, checked.manifest

    def _policies(self, name: str, manifest: Manifest) -> tuple[Checked, ...]:
        page = object_page(name, manifest.spec.rules or "")
        policy, wrong = policy_of(manifest, page)
        file = checked_file(page.source, File((policy,)), wrong, self._schema)
        return tuple(p for p in file.policies if file.whole and not p.broken)


def holds(checked: CheckedObject) -> bool:
    return checked.file.whole and not any(policy.broken for policy in checked.file.policies)


def _version(raw: bytes) -> object:
    """A value that changes with the spec of the object, and not with its status."""
    try:
        metadata = msgspec.json.decode(raw, type=_Object).metadata
    except msgspec.MsgspecError:
        return raw
    return (metadata.uid, metadata.generation) if metadata.generation else raw


@dataclass(frozen=True, slots=True)
class EnforcedPolicies:
    """What is enforced at one time, and what that was read from.

    It is immutable, because one thread makes it and another one uses it. `objects` are all policy
    objects by name; `programs` are by the name of an object, or of a file with one policy.
    """

    registry: Registry
    in_force: InForce
    validation: Validation
    objects: Mapping[str, CheckedObject]
    programs: Mapping[str, Program]
    needs: Needs


class Policies:
    """Reads the policies of a server, from files and from the cluster.

    INVARIANT: one thread uses it at a time. What others use of the result is `EnforcedPolicies`.
    """

    def __init__(self, paths: Sequence[Path], schema: Schema, log: Logger) -> None:
        self._paths = paths
        self._validator = Validator(schema)
        self._report = PolicyLog(log)
        self._watcher = Watcher(lambda: Search(paths).files)
        self._compiled: dict[int, tuple[Checked, Program]] = {}
        self.objects = Objects(schema)
        self._in_force = InForce()

    def changed(self) -> bool:
        return self._watcher.changed()

    def read(self, objects: Mapping[str, bytes] | None) -> EnforcedPolicies:
        """Reads everything again, and logs what has become wrong and what follows from it.

        `objects` are those of the cluster as JSON by resource and key, None while not known.
        """
        loaded = load(self._paths)
        checked = self.objects.read(objects or {})
        validation = self._validator.validate(loaded.sources, [c.file for c in checked])
        unread = [file for failure in loaded.problems for file in self._unread(failure)]
        in_force = self._with_remembered(succeed(self._in_force, validation, unread))
        self._report.read(loaded.problems, validation, in_force)
        compiled = self._compile(in_force.policies)
        refusing = self.objects.refusing(identity(p.policy) for p in in_force.policies)
        registry = Registry(
            [program for _, program in compiled.values()],
            refusing=map(compile_policy, refusing),
            complete=objects is not None,
        )
        of_file = Counter(active.file for active in in_force.active)
        parts = (part for each in in_force.policies for part in (each, *each.uses))
        self._in_force, self._compiled = in_force, compiled
        return EnforcedPolicies(
            registry,
            in_force,
            validation,
            self.objects.checked,
            {
                active.file: compiled[id(active.checked)][1]
                for active in in_force.active
                if of_file[active.file] == 1
            },
            needs(part.policy for part in parts),
        )

    def _compile(self, policies: Sequence[Checked]) -> dict[int, tuple[Checked, Program]]:
        """The programs; an unchanged policy keeps its program, and what that remembers."""
        return {
            id(checked): self._compiled.get(id(checked)) or (checked, compile_policy(checked))
            for checked in policies
        }

    def _with_remembered(self, in_force: InForce) -> InForce:
        """Adds the last valid versions from statuses, of policies without a valid version here."""
        known = {identity(checked.policy) for checked in in_force.policies}
        more = [
            ActivePolicy(checked, name, stale=True)
            for name, checked in self.objects.remembered()
            if identity(checked.policy) not in known
        ]
        found = {active.checked.policy.address for active in more}
        idle = tuple(address for address in in_force.idle if address not in found)
        return replace_field(in_force, active=(*in_force.active, *more), idle=idle)

    def _unread(self, failure: UnreadFile) -> Iterator[str]:
        """The files of enforced policies that can no longer be read, though they may exist."""
        if failure.unread:
            for active in self._in_force.active:
                if Path(active.file).is_relative_to(failure.path):
                    yield active.file
