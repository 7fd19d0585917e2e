"""The policies of some paths and of the cluster, as they are in force while they change."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from logging import Logger
from pathlib import Path

from cli.serving.objects import Objects
from engine.program.needs import Needs, needs
from engine.program.policy_compiler import compile_policy
from engine.program.program import Program
from engine.registry import Registry
from grammar.diagnostics import plain
from grammar.policy_checker import Checked
from grammar.schema import Schema
from policies.inforce import InForce, Standing, succeed
from policies.loader import Problem, Search, load
from policies.validation import Validation, Validator, identity
from policies.watcher import Watcher


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
        for problem in loaded.problems:
            self._log.error("%s (%s)", problem.message, problem.hint)
        checked = self.objects.read(objects or {})
        self.validation = self._validator.validate(loaded.sources, [c.file for c in checked])
        unread = [file for problem in loaded.problems for file in self._unread(problem)]
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
            Standing(checked, name, stale=True)
            for name, checked in self.objects.remembered()
            if identity(checked.policy) not in known
        ]
        found = {standing.checked.policy.address for standing in more}
        idle = tuple(address for address in in_force.idle if address not in found)
        return replace(in_force, standing=(*in_force.standing, *more), idle=idle)

    def _unread(self, problem: Problem) -> Iterator[str]:
        """The files in force that nobody can read any more, though they may be there."""
        if problem.unread:
            for standing in self.in_force.standing:
                if Path(standing.file).is_relative_to(problem.path):
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
