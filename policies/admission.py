"""Admission: policy objects of the cluster to checked policies, stored or about to be stored."""

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
from policies.manifests import Read, manifest_from
from policies.page import object_page, report
from policies.resource import Manifest
from policies.sugar import policy_of
from policies.validation import CheckedFile, Validation, check_source, checked_file, identity


@dataclass(frozen=True, slots=True)
class CheckedObject:
    """An object and its policy as a file of its own.

    `manifest` is None if no policy can be made of the object; the file's diagnostics say why.
    """

    manifest: Manifest | None
    file: CheckedFile


def check_object(
    name: str, raw: bytes, schema: Schema, cost_limit: int = LIMIT, *, stored: bool = False
) -> CheckedObject:
    """Checks the JSON of an object by itself; never raises for its content.

    Messages call the object `name`. `stored` is as in `manifest_from`. A Validator checks `use` and
    conflicts between objects and files.
    """
    try:
        value = msgspec.json.decode(raw)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        page = object_page(name, "")
        read = Read(None, (page.error("object", f"is not JSON: {str(error).lower()}"),))
    else:
        page = object_page(name, _rules(value))
        read = manifest_from(value, page, stored=stored)
    file, found = File(()), [*read.diagnostics]
    if read.manifest is not None:
        policy, wrong = policy_of(read.manifest, page)
        file, found = File((policy,)), [*found, *wrong]
    return CheckedObject(read.manifest, checked_file(page.source, file, found, schema, cost_limit))


def _rules(value: object) -> str:
    match value:
        case {"spec": {"rules": str(rules)}}:
            return rules
        case _:
            return ""


def lines(file: CheckedFile, severity: Severity) -> tuple[str, ...]:
    """The diagnostics of an object, one line each, for its status and for admission responses.

    A line is `rules:3:12 error[P0102]: …`, or begins with another field.
    """
    return tuple(report(d, file.source) for d in file.diagnostics if d.severity == severity)


# Another policy can cure these later, so they are only warnings.
_HINTS = {
    "P0117": "this policy is not enforced until that policy exists",
    "P0118": "this policy is not enforced until those errors are fixed",
}


class Examiner:
    """Checks objects that may become policies against the policies that exist. Thread-safe."""

    def __init__(self, schema: Schema, known: Callable[[], Validation]) -> None:
        """`known` returns all files and objects at the time, including broken ones."""
        self._schema = schema
        self._known = known

    def examine(self, name: str, raw: bytes, old: bytes = b"") -> CheckedFile:
        """The JSON of an object as a checked file; never raises for its content.

        `name` is its name among the known ones; `old` is the JSON of the object that it replaces,
        if any. A reserved weight that is stored already may stay.
        """
        stored = bool(old) and _part(raw, "weight") == _part(old, "weight")
        file = check_object(name, raw, self._schema, stored=stored).file
        known = self._known()
        found = (*self._about_uses(file, known), *_about_name(file, known))
        return replace(file, unread=(*file.unread, *found))

    def _about_uses(self, file: CheckedFile, known: Validation) -> Iterator[Diagnostic]:
        if not any(isinstance(i, Use) for p in file.policies for i in p.policy.items):
            return
        names = uses.known_names(known.policies, self._library)
        for checked in file.policies:
            before = len(checked.diagnostics)
            yield from map(_curable, uses.resolve(checked, names).diagnostics[before:])

    @cached_property
    def _library(self) -> Sequence[Checked]:
        return [p for s in library_sources() for p in check_source(s, self._schema).policies]


def changes_spec(raw: bytes, old: bytes) -> bool:
    """Whether an object has another spec than the one it replaces, or cannot be read."""
    new, before = _spec(raw), _spec(old)
    return new is None or new != before


def _curable(found: Diagnostic) -> Diagnostic:
    """The diagnostic, as a warning if a later change of another policy can cure it."""
    if (hint := _HINTS.get(found.code)) is None:
        return found
    return replace(found, severity="warning", hint=hint)


def _about_name(file: CheckedFile, known: Validation) -> Iterator[Diagnostic]:
    """Warnings for the name of a policy in a file, which takes precedence but may be removed."""
    taken = {
        identity(checked.policy)
        for other in known.files
        if not other.private and other.source.name != file.source.name
        for checked in other.policies
    }
    for checked in file.policies:
        policy = checked.policy
        if identity(policy) in taken:
            also = f"a policy file also defines `{policy.address}` and takes precedence"
            hint = "this object is not enforced until the file no longer defines it"
            message = f"metadata.name: {also}"
            yield Diagnostic("P0205", "warning", message, policy.name_span, hint=hint)


def _part(raw: bytes, field: str) -> object:
    return (_spec(raw) or {}).get(field)


def _spec(raw: bytes) -> Mapping[str, object] | None:
    try:
        value = msgspec.json.decode(raw)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None
    spec = value.get("spec") if isinstance(value, dict) else None
    return spec if isinstance(spec, dict) else None
