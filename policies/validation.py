"""From texts to checked policies, with everything that is wrong with them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from grammar import checks, mistakes
from grammar.clauses import Def, File, Let, Policy, Test, Use
from grammar.cost import LIMIT
from grammar.diagnostics import Diagnostic, Fix
from grammar.parser import parse_file
from grammar.policy_checker import Checked, check_policy
from grammar.schema import Schema
from grammar.source import Source, Span
from policies import uses
from policies.forms import is_manifest
from policies.loader import is_test_file, library_sources

# Whether it is a cluster policy, its namespace, its name: no two policies have the same.
Identity = tuple[bool, str | None, str]

_DEFINITION = re.compile(r"^[ \t]*(?:let|def)\s+(\w+)", re.MULTILINE)
_FOR = re.compile(r"^[ \t]*for\s", re.MULTILINE)
# A name, a function.
_UNKNOWN = frozenset({"P0101", "P0103"})
_SELECTS_EVERYTHING = "P0206"


@dataclass(frozen=True, slots=True)
class CheckedFile:
    """What a file holds. `whole` says that all of it could be read, so that nothing is missing."""

    source: Source
    whole: bool
    policies: tuple[Checked, ...]
    tests: tuple[Test, ...]
    # Mistakes of the text; those of its policies are with them.
    unread: tuple[Diagnostic, ...]

    @property
    def private(self) -> bool:
        """Whether its policies are for its tests alone."""
        return is_test_file(self.source.name)

    @property
    def diagnostics(self) -> tuple[Diagnostic, ...]:
        """All of the file's, in the order of the text."""
        found = [*self.unread, *(d for p in self.policies for d in p.diagnostics)]
        return tuple(sorted(found, key=lambda d: d.span.start))


@dataclass(frozen=True, slots=True)
class Validation:
    """All files, in the order in which they were given."""

    files: tuple[CheckedFile, ...]

    @property
    def policies(self) -> tuple[Checked, ...]:
        """Those that are to decide, which those of test files are not."""
        return tuple(policy for file in self.files if not file.private for policy in file.policies)

    def findings(self) -> Iterator[tuple[Diagnostic, Source]]:
        """Every diagnostic with the text that it is about."""
        for file in self.files:
            for diagnostic in file.diagnostics:
                yield diagnostic, file.source


class Validator:
    """Checks files, and remembers those of the last time: an unchanged one costs nothing."""

    def __init__(self, schema: Schema, cost_limit: int = LIMIT) -> None:
        self._schema = schema
        self._cost_limit = cost_limit
        self._known: dict[Source, CheckedFile] = {}

    def validate(
        self, sources: Sequence[Source], objects: Sequence[CheckedFile] = ()
    ) -> Validation:
        """Every file by itself, then what they, and objects, must not say together."""
        self._known = {s: self._known.get(s) or self._checked(s) for s in sources}
        files = tuple(_unique(iter((*(self._known[s] for s in sources), *objects))))
        return Validation(self._with_uses(files))

    def _checked(self, source: Source) -> CheckedFile:
        return check_source(source, self._schema, self._cost_limit)

    def _with_uses(self, files: tuple[CheckedFile, ...]) -> tuple[CheckedFile, ...]:
        """The files, their policies with the ones they use."""
        if not any(isinstance(i, Use) for f in files for p in f.policies for i in p.policy.items):
            return files
        library = [p for s in library_sources() for p in self._checked(s).policies]
        shared = (p for f in files if not f.private for p in f.policies)
        names = uses.known_names(shared, library)
        return tuple(
            replace(f, policies=tuple(uses.resolve(p, names) for p in f.policies)) for f in files
        )


def identity(policy: Policy) -> Identity:
    """What tells a policy from every other one."""
    return policy.cluster, policy.namespace, policy.name


def check_source(source: Source, schema: Schema, cost_limit: int = LIMIT) -> CheckedFile:
    """One file: every policy that could be read is checked, whatever is wrong with the others.

    `cost_limit` is the most steps that an expression may take for one node.
    """
    if not is_manifest(source.name):
        return checked_file(source, *parse_file(source), schema, cost_limit)
    # YAML takes as long to import as a check of most files takes.
    from policies.manifests import mendable, parse_manifests  # noqa: PLC0415

    file = checked_file(source, *parse_manifests(source), schema, cost_limit)
    if not any(d.fix is not None for d in file.diagnostics):
        return file
    spans = mendable(source)
    policies = (replace(p, diagnostics=_mended_in(p.diagnostics, spans)) for p in file.policies)
    return replace(file, policies=tuple(policies), unread=_mended_in(file.unread, spans))


def checked_file(
    source: Source, file: File, found: list[Diagnostic], schema: Schema, cost_limit: int = LIMIT
) -> CheckedFile:
    """Checks what a parser made of a text; `found` are the mistakes of the text itself."""
    whole = not any(d.severity == "error" for d in found)
    policies = (check_policy(policy, schema) for policy in file.policies)
    # What could not be read is missing from its policy: looking further would find that.
    looked = (_further(p, cost_limit) if whole else _without_echoes(p, source) for p in policies)
    return CheckedFile(source, whole, tuple(looked), file.tests, tuple(found))


def _mended_in(found: Iterable[Diagnostic], spans: Sequence[Span]) -> tuple[Diagnostic, ...]:
    """The diagnostics, without the edits that are not within any of the spans."""

    def is_within(fix: Fix) -> bool:
        return any(s.start <= fix.span.start and fix.span.end <= s.end for s in spans)

    return tuple(
        replace(d, fix=None) if d.fix is not None and not is_within(d.fix) else d for d in found
    )


def _further(checked: Checked, cost_limit: int) -> Checked:
    """With what the checks find that only make sense of a policy without errors."""
    if checked.broken:
        return checked
    return replace(checked, diagnostics=(*checked.diagnostics, *checks.run(checked, cost_limit)))


def _without_echoes(checked: Checked, source: Source) -> Checked:
    """Without complaints about the lack of what is there, but could not be read."""
    text = source.slice(checked.policy.span)
    read = {i.name for i in checked.policy.items if isinstance(i, Let | Def)}
    lost = set(_DEFINITION.findall(text)) - read

    def is_echo(diagnostic: Diagnostic) -> bool:
        match diagnostic.code:
            case code if code in _UNKNOWN:
                return source.slice(diagnostic.span).partition("(")[0] in lost
            case code if code == _SELECTS_EVERYTHING:
                return _FOR.search(text) is not None
        return False

    kept = tuple(d for d in checked.diagnostics if not is_echo(d))
    return replace(checked, diagnostics=kept)


def _unique(files: Iterator[CheckedFile]) -> Iterator[CheckedFile]:
    """The files, with an error on every policy that an earlier one has taken the name of.

    The names in a test file are its own.
    """
    first: dict[tuple[str, Identity], str] = {}
    for file in files:
        policies: list[Checked] = []
        for checked in file.policies:
            policy = checked.policy
            line, column = file.source.position(policy.name_span.start)
            here = f"{file.source.name}:{line}:{column}"
            scope = file.source.name if file.private else ""
            there = first.setdefault((scope, identity(policy)), here)
            policies.append(checked if there == here else _second(checked, there))
        yield replace(file, policies=tuple(policies))


def _second(checked: Checked, there: str) -> Checked:
    policy = checked.policy
    kind = "cluster policy" if policy.cluster else "policy"
    error = replace(
        mistakes.duplicate_name(kind, policy.address, policy.name_span),
        notes=(f"the first one is at {there}",),
    )
    return replace(checked, diagnostics=(*checked.diagnostics, error))
