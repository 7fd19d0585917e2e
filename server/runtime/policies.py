"""The policy objects of the cluster, checked: what each says and remembers, whom it keeps out."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
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
from grammar.diagnostics import plain
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


class _Object(msgspec.Struct):
    metadata: Metadata


class Objects:
    """Checks objects, and remembers those of the last time: an unchanged one costs nothing."""

    def __init__(self, schema: Schema) -> None:
        self._schema = schema
        self._known: dict[str, tuple[object, CheckedObject]] = {}

    @property
    def checked(self) -> Mapping[str, CheckedObject]:
        """By resource and key."""
        return {name: checked for name, (_, checked) in self._known.items()}

    def changed(self, objects: Mapping[str, bytes]) -> bool:
        """Whether any says something else than when they were read; statuses say nothing."""
        known = {name: version for name, (version, _) in self._known.items()}
        return {name: _version(raw) for name, raw in objects.items()} != known

    def read(self, objects: Mapping[str, bytes]) -> list[CheckedObject]:
        """All of them, in the order of their names."""
        before, self._known = self._known, {}
        for name, raw in sorted(objects.items()):
            version = _version(raw)
            known = before.get(name)
            if known is None or known[0] != version:
                known = version, check_object(name, raw, self._schema, stored=True)
            self._known[name] = known
        return [checked for _, checked in self._known.values()]

    def remembered(self) -> Iterator[tuple[str, Checked]]:
        """Of each object that does not hold, the version of which its status says that it did."""
        for name, manifest in self._failed():
            if manifest.status is not None and manifest.status.inForce is not None:
                spec = replace(manifest.spec, rules=manifest.status.inForce.rules)
                yield from ((name, p) for p in self._policies(name, replace(manifest, spec=spec)))

    def refusing(self, standing: Iterable[Identity]) -> list[Checked]:
        """Whom the strict objects of which no version holds select, as policies without clauses.

        Those whose `failurePolicy` is Ignore refuse nothing.
        """
        known = set(standing)
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
    """Whether an object by itself is a policy that can decide."""
    return checked.file.whole and not any(policy.broken for policy in checked.file.policies)


def _version(raw: bytes) -> object:
    """What is another whenever the object says something else; its status is not what it says."""
    try:
        metadata = msgspec.json.decode(raw, type=_Object).metadata
    except msgspec.MsgspecError:
        return raw
    return (metadata.uid, metadata.generation) if metadata.generation else raw


# ---- The policies of some paths and of the cluster, as they are in force while they change.


class Policies:
    """Reads, checks and compiles them. A version that does not hold leaves the last one."""

    def __init__(self, paths: Sequence[Path], schema: Schema, log: Logger) -> None:
        self._paths = paths
        self._validator = Validator(schema)
        self._log = log
        self._watcher = Watcher(lambda: Search(paths).files)
        self._compiled: dict[int, tuple[Checked, Program]] = {}
        self.objects = Objects(schema)
        self.in_force = InForce()
        self.validation = Validation(())

    def changed(self) -> bool:
        """Whether the files are others than those that were read last."""
        return self._watcher.changed()

    def read(self, objects: Mapping[str, bytes] | None) -> Registry:
        """Reads all of it again, and says in the log what is wrong and what that means.

        `objects` are the cluster's, as JSON by resource and key, None while they are not known.
        """
        loaded = load(self._paths)
        for failure in loaded.problems:
            self._log.error("%s (%s)", failure.message, failure.hint)
        checked = self.objects.read(objects or {})
        self.validation = self._validator.validate(loaded.sources, [c.file for c in checked])
        unread = [file for failure in loaded.problems for file in self._unread(failure)]
        self.in_force = self._with_remembered(succeed(self.in_force, self.validation, unread))
        self._report()
        refusing = self.objects.refusing(identity(p.policy) for p in self.in_force.policies)
        return Registry(
            self._compile(self.in_force.policies),
            refusing=map(compile_policy, refusing),
            complete=objects is not None,
        )

    def program(self, name: str) -> Program | None:
        """What the policy of an object, or the only one of a file, has been compiled to."""
        found = [s.checked for s in self.in_force.standing if s.file == name]
        return self._compiled[id(found[0])][1] if len(found) == 1 else None

    @property
    def needs(self) -> Needs:
        """What the policies in force read besides nodes and pods."""
        in_force = self.in_force.policies
        return needs(part.policy for checked in in_force for part in (checked, *checked.uses))

    def _compile(self, policies: Sequence[Checked]) -> list[Program]:
        """What was compiled before stays as it is, and so does what it has worked out."""
        before, self._compiled = self._compiled, {}
        for checked in policies:
            _, program = before.get(id(checked)) or (checked, compile_policy(checked))
            self._compiled[id(checked)] = checked, program
        return [program for _, program in self._compiled.values()]

    def _with_remembered(self, in_force: InForce) -> InForce:
        """With the last good versions that objects remember, of those that never held here."""
        known = {identity(checked.policy) for checked in in_force.policies}
        more = [
            ActivePolicy(checked, name, stale=True)
            for name, checked in self.objects.remembered()
            if identity(checked.policy) not in known
        ]
        found = {standing.checked.policy.address for standing in more}
        idle = tuple(address for address in in_force.idle if address not in found)
        return replace_field(in_force, standing=(*in_force.standing, *more), idle=idle)

    def _unread(self, failure: UnreadFile) -> Iterator[str]:
        """The files in force that nobody can read any more, though they may be there."""
        if failure.unread:
            for standing in self.in_force.standing:
                if Path(standing.file).is_relative_to(failure.path):
                    yield standing.file

    def _report(self) -> None:
        for diagnostic, source in self.validation.findings():
            level = self._log.error if diagnostic.severity == "error" else self._log.warning
            level("%s", plain(diagnostic, source))
        for standing in self.in_force.stale:
            address = standing.checked.policy.address
            self._log.error("policy %s: the last good version stays in force", address)
        for address in self.in_force.idle:
            self._log.error("policy %s governs nothing: no version of it has held", address)
        count = len(self.in_force.standing)
        self._log.info("%d %s in force", count, "policy" if count == 1 else "policies")
