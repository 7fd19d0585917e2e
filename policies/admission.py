"""Admission: policy objects of the cluster to checked policies, stored or about to be stored.

The functions that read an object may take long for a hostile one, so a server runs them in a
process of its own; `Examiner` then compares the result with the other policies.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace

import msgspec

from grammar.checker.policy_checker import Checked, check_policy
from grammar.meaning.schema import Schema
from grammar.messages.diagnostics import Diagnostic, Severity
from grammar.tree.policy import File, Policy
from grammar.tree.source import Source
from policies import validation as uses
from policies.manifest_text import RULES, object_page, report
from policies.manifests import ManifestReading, manifest_from, selecting
from policies.resource import Manifest, Metadata, read_json
from policies.sugar import policy_of
from policies.validation import (
    CheckedFile,
    Validation,
    checked_file,
    identity,
    of_objects,
    stopped_file,
)


@dataclass(frozen=True, slots=True)
class CheckedObject:
    """An object and its policy as a file of its own.

    `manifest` is None if no policy can be made of the object; the file's diagnostics say why. Of an
    object that `is_late` nobody knows yet what it says.
    """

    manifest: Manifest | None
    file: CheckedFile
    is_late: bool = False

    @property
    def holds(self) -> bool:
        """Whether it has no errors of its own."""
        return self.file.whole and not any(policy.broken for policy in self.file.policies)


def check_object(
    name: str, raw: bytes, schema: Schema, *, stored: bool = False, has_hints: bool = True
) -> CheckedObject:
    """Checks the JSON of an object by itself; never raises for its content.

    Messages call the object `name`. `stored` is as in `manifest_from`. A Validator checks `use` and
    conflicts between objects and files.
    """

    def look() -> CheckedObject:
        return _checked(name, raw, schema, stored=stored)

    found = look()
    if found.holds or not has_hints:
        return found
    # Whoever checks an object without a mistake needs none of it.
    from policies.hints import with_hints  # noqa: PLC0415

    return with_hints(look)


def _checked(name: str, raw: bytes, schema: Schema, *, stored: bool) -> CheckedObject:
    """The checked object, with hints only while somebody looks for them."""
    try:
        value = msgspec.json.decode(raw)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        page = object_page(name, "")
        read = ManifestReading(None, (page.error("object", f"is not JSON: {str(error).lower()}"),))
    else:
        page = object_page(name, _rules(value))
        read = manifest_from(value, page, stored=stored)
    file, found = File(()), [*read.diagnostics]
    if read.manifest is not None:
        policy, wrong = policy_of(read.manifest, page)
        file, found = File((policy,)), [*found, *wrong]
    elif read.selecting is not None:
        file = File((policy_of(read.selecting, page)[0],))
    checked = of_objects(checked_file(page.source, file, found, schema))
    return CheckedObject(read.manifest, checked)


def _rules(value: object) -> str:
    match value:
        case {"spec": {"rules": str(rules)}}:
            return rules
        case _:
            return ""


# ---- stored objects


@dataclass(frozen=True, slots=True)
class StoredObject:
    """A stored object; `remembered` is the last valid version that its status keeps, or none."""

    checked: CheckedObject
    remembered: tuple[Checked, ...] = ()


class _Head(msgspec.Struct):
    """Head of an object; the API server stores no `refused`, which is why nothing else is kept."""

    apiVersion: str = ""
    kind: str = ""
    metadata: Metadata = Metadata()
    spec: dict[str, msgspec.Raw] = {}
    status: dict[str, msgspec.Raw] = {}
    refused: str = ""


_MORE_ROOM = "delete policies or ConfigMaps of the namespace, or make them smaller"
# The most bytes of what a refused object says besides its rules.
_MOST_OF_HEAD, _MOST_OF_WORD = 4096, 32


def refused(raw: bytes, why: str, *, with_last: bool) -> bytes:
    """The head of an object for which there is no room: as JSON, without its rules.

    It is checked as an object with the error `why`. `with_last` keeps its last valid version.
    """
    head = msgspec.json.decode(raw, type=_Head)
    spec = {key: part for key, part in head.spec.items() if key not in ("rules", "parameters")}
    if sum(map(len, map(bytes, spec.values()))) > _MOST_OF_HEAD:
        # Without its selectors it selects all that it may.
        spec = {key: part for key, part in spec.items() if len(bytes(part)) <= _MOST_OF_WORD}
    head.spec, head.refused = {**spec, "rules": msgspec.Raw(b'""')}, why
    if not with_last:
        head.status.pop("inForce", None)
    return msgspec.json.encode(head)


def version_of(raw: bytes) -> object:
    """A value that changes with the spec of an object, and not with its status."""
    head = read_json(raw, _Head)
    if head is None or not head.metadata.generation:
        return raw
    return head.metadata.uid, head.metadata.generation, head.refused


def check_stored(name: str, raw: bytes, schema: Schema, *, has_hints: bool = True) -> StoredObject:
    """Checks the JSON of a stored object as `check_object` does."""
    if (head := read_json(raw, _Head)) is not None and head.refused:
        return unchecked_object(name, raw, schema, head.refused, _MORE_ROOM)
    checked = check_object(name, raw, schema, stored=True, has_hints=has_hints)
    if checked.manifest is None or checked.holds:
        return StoredObject(checked)
    return _with_remembered(name, checked, checked.manifest, schema)


def likeness(name: str, raw: bytes) -> object | None:
    """A value that is equal for objects that differ only in their namespace.

    None for an object without a namespace, and for one that cannot be read.
    """
    head = read_json(raw, _Head)
    if head is None or not head.metadata.namespace or head.refused:
        return None
    kind = name.partition("/")[0], head.apiVersion, head.kind
    return *kind, head.metadata.name, msgspec.json.encode(head.spec)


def of_another(name: str, raw: bytes, other: StoredObject) -> StoredObject | None:
    """The result of the check of an object, taken from that of another one of the same likeness.

    None for an object that has to be checked itself: where the rules speak of the namespace, or of
    a ConfigMap in it, the result depends on the namespace.
    """
    manifest, file = other.checked.manifest, other.checked.file
    if manifest is None or not other.checked.holds:
        return None
    rules = manifest.spec.rules or ""
    if "namespace" in rules or "configmap" in rules:
        return None
    if (own := read_json(raw, type(manifest))) is None:
        return None
    own = msgspec.structs.replace(own, spec=manifest.spec)
    policies = tuple(
        replace(each, policy=replace(each.policy, namespace=own.metadata.namespace))
        for each in file.policies
    )
    source = Source(name, file.source.text)
    return StoredObject(CheckedObject(own, replace(file, source=source, policies=policies)))


def unchecked_object(
    name: str, raw: bytes, schema: Schema, message: str, hint: str, *, is_late: bool = False
) -> StoredObject:
    """A stored object whose check was stopped: its rules are not read, and have an error.

    The pods of a policy wait for it, unless that ignores failures or has a mild mode. While a check
    `is_late`, best effort is none.
    """
    value = msgspec.json.decode(raw)
    match value:
        case {"spec": {"rules": _}}:
            value["spec"]["rules"] = ""
        case _:
            pass
    page = object_page(name, "")
    read = manifest_from(value, page, stored=True)
    stopped = stopped_object(name, message, hint, schema, is_late=is_late)
    if (manifest := read.manifest or read.selecting) is None:
        return stopped
    spec = manifest.spec
    mild = ("Audit",) if is_late else ("Audit", "BestEffort")
    is_mild = spec.failurePolicy == "Ignore" or spec.enforcementMode in mild
    refusing = () if is_mild else _policies(name, selecting(manifest), schema)
    checked = CheckedObject(
        read.manifest, replace(stopped.checked.file, refusing=refusing), is_late
    )
    if read.manifest is None:
        return StoredObject(checked)
    return _with_remembered(name, checked, read.manifest, schema)


def stopped_object(
    name: str, message: str, hint: str, schema: Schema, *, is_late: bool = False
) -> StoredObject:
    """A stored object of which nothing is read: all pods that it may select wait."""
    page = object_page(name, "")
    file = stopped_file(page.source, message, hint, page.place(RULES))
    namespace, _, short = name.partition("/")[2].rpartition("/")
    policy = Policy(short, (), namespace=namespace or None, cluster=not namespace)
    file = replace(file, refusing=(check_policy(policy, schema),))
    return StoredObject(CheckedObject(None, file, is_late))


def _with_remembered(
    name: str, checked: CheckedObject, manifest: Manifest, schema: Schema
) -> StoredObject:
    spec, status = manifest.spec, manifest.status
    if status is None or (good := status.inForce) is None:
        return StoredObject(checked)
    last = msgspec.structs.replace(spec, rules=good.rules, parameters=good.parameters)
    remembered = msgspec.structs.replace(manifest, spec=last)
    return StoredObject(checked, _policies(name, remembered, schema))


def _policies(name: str, manifest: Manifest, schema: Schema) -> tuple[Checked, ...]:
    page = object_page(name, manifest.spec.rules or "")
    policy, wrong = policy_of(manifest, page)
    file = checked_file(page.source, File((policy,)), wrong, schema)
    return tuple(p for p in file.policies if file.whole and not p.broken)


# ---- objects that are about to be stored


def check_new(name: str, raw: bytes, old: bytes, schema: Schema) -> CheckedFile | None:
    """Checks the JSON of an object before it is stored; None if its spec does not change.

    `old` is the JSON of the object that it replaces, empty if there is none. A reserved weight that
    is stored already may stay.
    """
    # An invalid stored object can still get a label or lose a finalizer.
    if old and not changes_spec(raw, old):
        return None
    stored = bool(old) and (_spec(raw) or {}).get("weight") == (_spec(old) or {}).get("weight")
    return check_object(name, raw, schema, stored=stored).file


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
    """An examiner of checked objects beside the policies that exist. Thread-safe."""

    def __init__(self, schema: Schema, known: Callable[[], Validation]) -> None:
        """`known` returns all files and objects at the time, including broken ones."""
        self._schema = schema
        self._known = known

    def examine(self, file: CheckedFile) -> CheckedFile:
        """The file of an object with the diagnostics that follow from other policies.

        Among the known files the object has the name of its source.
        """
        known = self._known()
        found = (*self._about_uses(file, known), *_about_name(file, known))
        return replace(file, unread=(*file.unread, *found))

    def _about_uses(self, file: CheckedFile, known: Validation) -> Iterator[Diagnostic]:
        if not any(uses.uses_others(checked.policy) for checked in file.policies):
            return
        names = uses.known_names(known.policies, uses.checked_library(self._schema))
        for checked in file.policies:
            before = len(checked.diagnostics)
            yield from map(_curable, uses.resolve(checked, names).diagnostics[before:])


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


def _spec(raw: bytes) -> Mapping[str, object] | None:
    spec = (read_json(raw, dict) or {}).get("spec")
    return spec if isinstance(spec, dict) else None
