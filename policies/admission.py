"""What is said of an object before it is stored: what refuses it, and what it is only told."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import msgspec

from grammar.clauses import Use
from grammar.diagnostics import Diagnostic, Severity
from grammar.policy_checker import Checked
from grammar.schema import Schema
from policies import uses
from policies.loader import library_sources
from policies.objects import check_object, lines
from policies.page import report
from policies.validation import CheckedFile, Validation, check_source, identity

# A policy that is used may come, or be mended, after the one that uses it.
_HINTS = {
    "P0117": "until there is one, this policy does not hold",
    "P0118": "until it is mended, this policy does not hold",
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
            message = f"metadata.name: a policy file has a `{policy.address}` too, which goes first"
            hint = "this one does not hold until that is gone"
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
