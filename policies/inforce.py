"""Which version of each policy is in force: the newest that holds, else the last that did."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, replace

from grammar.policy_checker import Checked
from policies.validation import Identity, Validation, identity


@dataclass(frozen=True, slots=True)
class Standing:
    """A policy in force. `stale` says that its file has another version, which does not hold."""

    checked: Checked
    file: str
    stale: bool


@dataclass(frozen=True, slots=True)
class InForce:
    """The policies in force, in the order of their files.

    `idle` are the addresses of policies that are written somewhere and govern nothing, because no
    version of them ever held.
    """

    standing: tuple[Standing, ...] = ()
    idle: tuple[str, ...] = ()

    @property
    def policies(self) -> tuple[Checked, ...]:
        return tuple(s.checked for s in self.standing)

    @property
    def stale(self) -> tuple[Standing, ...]:
        return tuple(s for s in self.standing if s.stale)


def succeed(previous: InForce, now: Validation, unread: Collection[str] = ()) -> InForce:
    """What is in force after a change of the files; `unread` names those that gave no text.

    A policy that does not hold keeps its last good version; so does every policy of a file that
    could not be read whole, where nobody knows what it meant to say of the others. A policy that is
    in no file any more is gone.
    """
    old = {identity(s.checked.policy): s for s in previous.standing}
    files = [file for file in now.files if not file.private]
    written = {identity(p.policy) for f in files if f.whole for p in f.policies}
    found: dict[Identity, Standing] = {}

    def keep(file: str) -> None:
        for key, standing in old.items():
            if standing.file == file and key not in written:
                found.setdefault(key, replace(standing, stale=True))

    for file in files:
        name = file.source.name
        if not file.whole:
            keep(name)
            continue
        for checked in file.policies:
            key = identity(checked.policy)
            if not checked.broken:
                found[key] = Standing(checked, name, stale=False)
            elif key in old:
                found.setdefault(key, replace(old[key], file=name, stale=True))
    for name in unread:
        keep(name)
    idle = (p.policy.address for p in now.policies if identity(p.policy) not in found)
    return InForce(tuple(found.values()), tuple(dict.fromkeys(idle)))
