"""Which tests there are in policy files, and by which policies each is decided."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from cli.render import Finding
from grammar.clauses import Test
from grammar.policy_checker import Checked
from grammar.source import Source
from policies.forms import GROUP, MANIFEST_SUFFIXES, is_manifest
from policies.loader import SUFFIX, TEST_SUFFIX, UnreadFile, is_test_file, load
from policies.validation import CheckedFile, Validator


@dataclass(frozen=True, slots=True)
class Suite:
    """The tests of one file, and the policies that decide in them.

    `mistakes` are the errors of those policies, and of the file: with any of them no test can run.
    """

    source: Source
    tests: tuple[Test, ...]
    policies: tuple[Checked, ...]
    mistakes: tuple[Finding, ...]

    @property
    def folder(self) -> Path:
        """Where the paths in it start."""
        return Path(self.source.name).parent


@dataclass(frozen=True, slots=True)
class Collection:
    """The suites with something to say, every file that was named, and the paths that gave none.

    Other files are read for their policies alone, and are not among `files`.
    """

    suites: tuple[Suite, ...]
    files: tuple[CheckedFile, ...]
    problems: tuple[UnreadFile, ...]

    @property
    def tests(self) -> int:
        return sum(len(suite.tests) for suite in self.suites)


def collect(paths: Sequence[Path], validator: Validator) -> Collection:
    """Reads the files behind the paths, and the policies beside their test files."""
    loaded = load(paths)
    known = {source.name for source in loaded.sources}
    wanted = (name for source in loaded.sources for name in _tested(source))
    beside = [Path(n) for n in dict.fromkeys(wanted) if n not in known and Path(n).is_file()]
    # Beside a test file there may be the cluster of its tests, which is no manifest of ours.
    ours = (s for s in load(beside).sources if not is_manifest(s.name) or GROUP in s.text)
    files = validator.validate([*loaded.sources, *ours]).files
    by_name = {file.source.name: file for file in files}
    suites = []
    for file in files:
        if file.source.name in known:
            about = [by_name[name] for name in _tested(file.source) if name in by_name]
            suites.append(_suite(file, about))
    named = tuple(file for file in files if file.source.name in known)
    told = tuple(suite for suite in suites if suite.tests or suite.mistakes)
    return Collection(told, named, loaded.problems)


def _tested(source: Source) -> Sequence[str]:
    """The files whose policies a test file is about, of which some may be there."""
    if not is_test_file(source.name):
        return ()
    name = source.name.removesuffix(TEST_SUFFIX)
    return [name + suffix for suffix in (SUFFIX, *sorted(MANIFEST_SUFFIXES))]


def _suite(file: CheckedFile, about: Sequence[CheckedFile]) -> Suite:
    files = [*about, file]
    errors = tuple((d, f.source) for f in files for d in f.diagnostics if d.severity == "error")
    # What could not be read may have been a test; a file that has none is for `check` to judge.
    told = errors if file.tests or not file.whole else ()
    policies = tuple(policy for f in files for policy in f.policies)
    return Suite(file.source, file.tests, policies, told)
