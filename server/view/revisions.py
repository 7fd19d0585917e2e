"""Revisions: the texts that each policy had, with when and by whom, as far as a replica has seen.

They belong to the states of policies and live as long as the replica. They are bounded by number
and by bytes: the oldest are forgotten.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import msgspec

from engine.enforced import EnforcedPolicies
from server.answers.overview_answers import Action, RevisionOfPolicy
from server.view.policy_yaml import EditedObject, FieldsManager, as_written

_MOST_OF_A_POLICY = 20
_MOST_BYTES = 4 << 20
# What a revision takes besides its text.
_REVISION_BYTES = 500


@dataclass(frozen=True, slots=True)
class Revision:
    """One text of a policy; `content` is that of its file, or the JSON of its object."""

    address: str
    at: str
    by: str
    action: Action
    content: str | bytes

    def in_full(self) -> RevisionOfPolicy:
        """The revision with what its author wrote. For a thread."""
        content = self.content
        text = as_written(content) if isinstance(content, bytes) else content
        return RevisionOfPolicy(self.at, self.by, self.action, text)


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
        last = [each for each in newest if each.action != "in force since the start"]
        return sorted(last, key=lambda each: (each.at, each.address), reverse=True)[:number]

    def _looked_at(self, address: str, source: str | bytes, at: str) -> _LastLook:
        before = self._seen.get(address)
        if before is not None and before.source is source:
            return before
        mark: object = source
        writer = FieldsManager()
        if isinstance(source, bytes):
            found = msgspec.json.decode(source, type=EditedObject)
            mark, writer = (found.metadata.uid, bytes(found.spec)), found.last_writer
            writer = FieldsManager(
                writer.manager, writer.time or found.metadata.creationTimestamp or at
            )
        if before is None or before.mark != mark:
            action: Action = "changed"
            if before is None:
                known: Action = "edited" if writer.manager else "in force since the start"
                action = "created" if self._has_looked else known
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
