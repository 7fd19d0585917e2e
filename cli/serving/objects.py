"""The policy objects of the cluster, checked: what each says and remembers, whom it keeps out."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

import msgspec
from msgspec.structs import replace

from grammar.clauses import File
from grammar.policy_checker import Checked
from grammar.schema import Schema
from policies.objects import CheckedObject, check_object
from policies.page import object_page
from policies.resource import Manifest, Metadata
from policies.sugar import policy_of
from policies.validation import Identity, checked_file, identity


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
