"""Revisions: the texts that each policy had, with when and by whom, as far as a replica has seen.

They belong to the states of policies and live as long as the replica. They are bounded by number
and by bytes: the oldest are forgotten.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import msgspec
import yaml

from engine.enforced import EnforcedPolicies
from server.answers.overview_answers import Action

_MOST_OF_A_POLICY = 20
_MOST_BYTES = 4 << 20
# What a revision takes besides its text.
_REVISION_BYTES = 500
# What others than the author write into the metadata of an object.
_LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"


class _FieldsManager(msgspec.Struct, frozen=True):
    manager: str = ""
    time: str = ""
    subresource: str = ""


class _EditedMetadata(msgspec.Struct, frozen=True):
    name: str = ""
    namespace: str | None = None
    uid: str = ""
    creationTimestamp: str | None = None
    labels: dict[str, str] | None = None
    annotations: dict[str, str] | None = None
    managedFields: Sequence[_FieldsManager] = ()


class _EditedObject(msgspec.Struct, frozen=True):
    """The parts of an object that its author writes, and who has written them."""

    apiVersion: str = ""
    kind: str = ""
    metadata: _EditedMetadata = _EditedMetadata()
    spec: msgspec.Raw = msgspec.Raw(b"{}")

    @property
    def last_writer(self) -> _FieldsManager:
        """Who has written last, the status aside."""
        writers = [each for each in self.metadata.managedFields if not each.subresource]
        return max(writers, key=lambda each: each.time, default=_FieldsManager())


def as_written(raw: bytes) -> str:
    """The object as YAML, with what its author writes and nothing else. For a thread."""
    found = msgspec.json.decode(raw, type=_EditedObject)
    annotations = {
        k: v for k, v in (found.metadata.annotations or {}).items() if k != _LAST_APPLIED
    }
    named = {
        "name": found.metadata.name,
        "namespace": found.metadata.namespace,
        "labels": found.metadata.labels,
        "annotations": annotations,
    }
    whole = {
        "apiVersion": found.apiVersion,
        "kind": found.kind,
        "metadata": {key: value for key, value in named.items() if value},
        "spec": msgspec.json.decode(found.spec),
    }
    return yaml.dump(whole, Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=100)


class _Dumper(yaml.SafeDumper):
    """Writes texts of several lines as people do, as blocks."""


def _text(dumper: yaml.SafeDumper, text: str) -> yaml.ScalarNode:
    return dumper.represent_scalar(
        "tag:yaml.org,2002:str", text, style="|" if "\n" in text else None
    )


_Dumper.add_representer(str, _text)


@dataclass(frozen=True, slots=True)
class Revision:
    """One text of a policy; `content` is that of its file, or the JSON of its object."""

    address: str
    at: str
    by: str
    action: Action
    content: str | bytes

    @property
    def text(self) -> str:
        """What its author wrote. For a thread."""
        return as_written(self.content) if isinstance(self.content, bytes) else self.content


@dataclass(frozen=True, slots=True)
class _LastLook:
    """What was seen last of a policy: its file or its object, and what an edit would change."""

    source: str | bytes
    mark: object


class Revisions:
    """The revisions of all policies, by their addresses; the newest is the last."""

    def __init__(self, most_bytes: int = _MOST_BYTES) -> None:
        self._most_bytes = most_bytes
        self._by_policy: dict[str, list[Revision]] = {}
        self._seen: dict[str, _LastLook] = {}
        self._has_looked = False

    def look(self, read: EnforcedPolicies, objects: Mapping[str, bytes], at: str) -> None:
        """Adds what has changed since the last look."""
        seen: dict[str, _LastLook] = {}
        for file in read.validation.files:
            if file.private:
                continue
            source = objects.get(file.source.name, file.source.text)
            for checked in file.policies:
                address = checked.policy.address
                seen[address] = self._looked_at(address, source, at)
        for address in self._seen.keys() - seen.keys():
            self._add(Revision(address, at, "", "deleted", ""))
        self._seen, self._has_looked = seen, True

    def of(self, address: str) -> Sequence[Revision]:
        """Those of one policy, the oldest first."""
        return tuple(self._by_policy.get(address, ()))

    def edits(self, number: int) -> Sequence[Revision]:
        """The last edits, the newest first, each policy once; of a file only since the start."""
        newest = (found[-1] for found in self._by_policy.values())
        last = [each for each in newest if each.by or each.action != "in force since the start"]
        return sorted(last, key=lambda each: (each.at, each.address), reverse=True)[:number]

    def _looked_at(self, address: str, source: str | bytes, at: str) -> _LastLook:
        before = self._seen.get(address)
        if before is not None and before.source is source:
            return before
        mark: object = source
        writer = _FieldsManager()
        if isinstance(source, bytes):
            found = msgspec.json.decode(source, type=_EditedObject)
            mark, writer = (found.metadata.uid, bytes(found.spec)), found.last_writer
            writer = _FieldsManager(
                writer.manager, writer.time or found.metadata.creationTimestamp or at
            )
        if before is None or before.mark != mark:
            action: Action = "changed"
            if before is None:
                action = "created" if self._has_looked else "in force since the start"
            self._add(Revision(address, writer.time or at, writer.manager, action, source))
        return _LastLook(source, mark)

    def _add(self, revision: Revision) -> None:
        kept = self._by_policy.setdefault(revision.address, [])
        kept.append(revision)
        del kept[:-_MOST_OF_A_POLICY]
        # The longest history gives way, and keeps its newest.
        while sum(map(_size, self._by_policy.values())) > self._most_bytes:
            longest = max(
                self._by_policy.values(), key=lambda found: (len(found) > 1, _size(found))
            )
            gone = (a for a, found in self._by_policy.items() if found[-1].action == "deleted")
            if len(longest) > 1:
                del longest[0]
            elif (address := next(gone, None)) is not None:
                del self._by_policy[address]
            else:
                return


def _size(revisions: Sequence[Revision]) -> int:
    return sum(_REVISION_BYTES + len(each.content) for each in revisions)
