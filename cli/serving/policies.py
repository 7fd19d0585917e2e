"""The policies of some paths, as they are in force while their files change."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from logging import Logger
from pathlib import Path

from engine.program.needs import Needs, needs
from engine.program.policy_compiler import compile_policy
from engine.registry import Registry
from grammar.diagnostics import plain
from policies.inforce import InForce, succeed
from policies.loader import Problem, Search, load
from policies.validation import Validation, Validator
from policies.watcher import Watcher


class PolicyFiles:
    """Reads, checks and compiles the files. A version that does not hold leaves the last one."""

    def __init__(self, paths: Sequence[Path], validator: Validator, log: Logger) -> None:
        self._paths = paths
        self._validator = validator
        self._log = log
        self._watcher = Watcher(lambda: Search(paths).files)
        self.in_force = InForce()

    def changed(self) -> bool:
        """Whether the files are others than those that were read last."""
        return self._watcher.changed()

    def read(self) -> Registry:
        """Reads the files again, and says in the log what is wrong and what that means."""
        loaded = load(self._paths)
        for problem in loaded.problems:
            self._log.error("%s (%s)", problem.message, problem.hint)
        validation = self._validator.validate(loaded.sources)
        unread = [file for problem in loaded.problems for file in self._unread(problem)]
        self.in_force = succeed(self.in_force, validation, unread)
        self._report(validation)
        return Registry(compile_policy(checked) for checked in self.in_force.policies)

    @property
    def needs(self) -> Needs:
        """What the policies in force read besides nodes and pods."""
        return needs(checked.policy for checked in self.in_force.policies)

    def _unread(self, problem: Problem) -> Iterator[str]:
        """The files in force that nobody can read any more, though they may be there."""
        if problem.unread:
            for standing in self.in_force.standing:
                if Path(standing.file).is_relative_to(problem.path):
                    yield standing.file

    def _report(self, validation: Validation) -> None:
        for diagnostic, source in validation.findings():
            level = self._log.error if diagnostic.severity == "error" else self._log.warning
            level("%s", plain(diagnostic, source))
        for standing in self.in_force.stale:
            address = standing.checked.policy.address
            self._log.error("policy %s: the last good version stays in force", address)
        for address in self.in_force.idle:
            self._log.error("policy %s governs nothing: no version of it has held", address)
        count = len(self.in_force.standing)
        self._log.info("%d %s in force", count, "policy" if count == 1 else "policies")
