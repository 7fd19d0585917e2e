"""Objects of the cluster to checked policies: for who watches them, and who is to admit them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import msgspec

from grammar.checks.costs import LIMIT
from grammar.clauses import File, Use
from grammar.diagnostics import Diagnostic, Severity
from grammar.policy_checker import Checked
from grammar.schema import Schema
from policies import validation as uses
from policies.loader import library_sources
from policies.manifests import about, manifest_from_json
from policies.page import object_page, report
from policies.resource import Manifest
from policies.sugar import policy_of
from policies.validation import CheckedFile, Validation, check_source, checked_file, identity


@dataclass(frozen=True, slots=True)
class CheckedObject:
    """An object, if a policy can be made of it, and the policy as a file of its own.

    Without a manifest the file has no policy, and says why.
    """

    manifest: Manifest | None
    file: CheckedFile


def check_object(
    name: str, raw: bytes, schema: Schema, cost_limit: int = LIMIT, *, stored: bool = False
) -> CheckedObject:
    """Checks the JSON of an object by itself; never raises for what is in it.

    `name` is how messages call the object. `stored` is as in `manifest_from`. What objects and
    files must not say together, and `use`, is for a Validator.
    """
    read = manifest_from_json(raw, stored=stored)
    manifest = read.manifest
    page = object_page(name, (manifest and manifest.spec.rules) or "")
    found = [about(problem, page) for problem in read.problems]
    file = File(())
    if manifest is not None:
        policy, wrong = policy_of(manifest, page)
        file, found = File((policy,)), [*found, *wrong]
    return CheckedObject(manifest, checked_file(page.source, file, found, schema, cost_limit))


def lines(file: CheckedFile, severity: Severity) -> tuple[str, ...]:
    """The diagnostics of an object, as `status.diagnostics` and an admission response have them.

    `rules:3:12 error[P0102]: …`, or with the field in front.
    """
    found: tuple[Diagnostic, ...] = file.diagnostics
    return tuple(report(d, file.source) for d in found if d.severity == severity)


# ---- What is said of an object before it is stored: what refuses it, and what it is only told.

# A policy that is used may come, or be mended, after the one that uses it.
_HINTS = {
    "P0117": "this policy is not enforced until that policy exists",
    "P0118": "this policy is not enforced until those errors are fixed",
}


@dataclass(frozen=True, slots=True)
class Findings:
    """Lines such as `spec.weight error[P0503]: …`."""

    errors: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()


class Examiner:
    """Checks objects that may become policies, beside those that there are.

    Safe to use from several threads.
    """

    def __init__(self, schema: Schema, known: Callable[[], Validation]) -> None:
        """`known` are the files and objects that are known now, those that do not hold included."""
        self._schema = schema
        self._known = known

    def examine(self, name: str, raw: bytes, old: bytes = b"") -> Findings:
        """Everything that is wrong with the JSON of an object; never raises for what is in it.

        `name` is what it has among those that are known; `old` is the JSON that it is to replace,
        if there is any. A reserved weight that is there already may stay.
        """
        stored = bool(old) and _part(raw, "weight") == _part(old, "weight")
        file = check_object(name, raw, self._schema, stored=stored).file
        known = self._known()
        found = [*self._about_uses(file, known), *_about_name(file, known)]
        return Findings(
            errors=(*lines(file, "error"), *_said(found, file, "error")),
            warnings=(*lines(file, "warning"), *_said(found, file, "warning")),
        )

    def _about_uses(self, file: CheckedFile, known: Validation) -> Iterator[Diagnostic]:
        if not any(isinstance(i, Use) for p in file.policies for i in p.policy.items):
            return
        names = uses.known_names(known.policies, self._library)
        for checked in file.policies:
            before = len(checked.diagnostics)
            yield from map(_to_come, uses.resolve(checked, names).diagnostics[before:])

    @cached_property
    def _library(self) -> Sequence[Checked]:
        return [p for s in library_sources() for p in check_source(s, self._schema).policies]


def changes_spec(raw: bytes, old: bytes) -> bool:
    """Whether an object says something else than the one that it replaces; also if unreadable."""
    new, before = _spec(raw), _spec(old)
    return new is None or new != before


def _to_come(found: Diagnostic) -> Diagnostic:
    """What another policy can cure is no reason to refuse this one."""
    if (hint := _HINTS.get(found.code)) is None:
        return found
    return replace(found, severity="warning", hint=hint)


def _about_name(file: CheckedFile, known: Validation) -> Iterator[Diagnostic]:
    """A policy of a file goes first, and may be on its way out."""
    taken = {
        identity(checked.policy)
        for other in known.files
        if not other.private and other.source.name != file.source.name
        for checked in other.policies
    }
    for checked in file.policies:
        policy = checked.policy
        if identity(policy) in taken:
            message = (
                f"metadata.name: a policy file also defines `{policy.address}` and takes precedence"
            )
            hint = "this object is not enforced until the file no longer defines it"
            yield Diagnostic("P0205", "warning", message, policy.name_span, hint=hint)


def _said(found: Sequence[Diagnostic], file: CheckedFile, severity: Severity) -> Iterator[str]:
    return (report(d, file.source) for d in found if d.severity == severity)


def _part(raw: bytes, field: str) -> object:
    return (_spec(raw) or {}).get(field)


def _spec(raw: bytes) -> Mapping[str, object] | None:
    try:
        value = msgspec.json.decode(raw)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None
    spec = value.get("spec") if isinstance(value, dict) else None
    return spec if isinstance(spec, dict) else None
