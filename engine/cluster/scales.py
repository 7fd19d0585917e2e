"""Scales: how many pods the workloads want whose kinds are not watched, as their `scale` says.

The pods of an Argo Rollout or a CloneSet name their owner, and discovery says whether its kind has
the subresource. An owner is asked once, and again when it has another number of pods; a few are
asked at once, after one of each kind.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field

import msgspec

from engine.cache.cache import Cache
from engine.cluster.client import path_of
from engine.cluster.data_fetching import DataApi, SourceError, refusal
from engine.cluster.data_watching import resource_of
from engine.errors import ApiError, ApiUnreachableError, BadObjectError, why
from engine.objects.peer import Controller, Workload, decode_controller
from engine.objects.remembered import Remembered

# What an answer may take, so that one that hangs leaves others their time.
_SECONDS, _BYTES = 5.0, 64 << 10
_AT_ONCE = 8
# An owner, its namespace, and how many pods it has.
_Owner = tuple[Workload, str, int]


@dataclass(eq=False, slots=True)
class Scales:
    """The scales in one cluster, which its cache has as controllers."""

    _api: DataApi
    _cache: Cache
    # The path of the resource of each kind; empty for one without a scale.
    _paths: Remembered[str, str] = field(default_factory=Remembered)
    # By the uid of an owner: its pods when it was asked, and what went wrong; the last one last.
    _asked: dict[str, tuple[int, str]] = field(default_factory=dict)

    async def take(self) -> str:
        """Asks owners that were not asked yet, then failed ones. Returns a failure, or nothing."""
        owners = self._owners()
        for uid in self._asked.keys() - owners.keys():
            del self._asked[uid]
            self._cache.remove_controller(uid)
        failed = [uid for uid, (_, failure) in self._asked.items() if failure]
        same = {*failed, *(u for u, (_, _, n) in owners.items() if self._asked.get(u) == (n, ""))}
        due, down = [*(uid for uid in owners if uid not in same), *failed], set[str]()
        first = {(o.version, o.kind): uid for uid in reversed(due) for o in owners[uid][:1]}
        for some in ({*first.values()}, {*due}.difference(first.values())):
            left = iter([uid for uid in due if uid in some])
            async with asyncio.TaskGroup() as tasks:
                for _ in range(min(_AT_ONCE, len(some))):
                    tasks.create_task(self._ask(left, owners, down))
        return next((failure for _, failure in self._asked.values() if failure), "")

    async def _ask(self, left: Iterator[str], owners: Mapping[str, _Owner], down: set[str]) -> None:
        """Asks the owners that are left, but those of kinds that cannot be asked now."""
        for uid in left:
            owner, namespace, number = owners[uid]
            if (kind := f"{owner.version}/{owner.kind}") in down:
                continue
            failure = ""
            try:
                self._cache.put_controller(await self._scaled(owner, namespace, kind))
            except SourceError as error:
                failure = "" if error.reason == "absent" else str(error)
                is_one = error.reason == "denied" and uid not in self._asked and kind in self._paths
                if failure and not is_one:
                    down.add(kind)
            self._asked.pop(uid, None)
            self._asked[uid] = number, failure

    def _owners(self) -> Mapping[str, _Owner]:
        """The owners that are not watched, by uid."""
        found = dict[str, _Owner]()
        for pod, number in self._cache.owned():
            if (owner := pod.workload) is not None and owner.version:
                pods = found[owner.uid][2] if owner.uid in found else 0
                found[owner.uid] = owner, pod.namespace, pods + number
        return found

    async def _scaled(self, owner: Workload, namespace: str, kind: str) -> Controller:
        """The owner with what it wants. Raises SourceError."""
        if (served := self._paths.get(kind)) is None:
            try:
                served = (await resource_of(self._api, kind, "scale")).path
            except SourceError as error:
                if error.reason != "absent":
                    raise
                served = ""
            self._paths.put(kind, served)
        group, _, resource = served.rpartition("/")
        if not resource:
            raise SourceError("absent", f"a {owner.kind} has no scale")
        path = path_of(group, resource, namespace, owner.name, "scale")
        try:
            body = await self._api.request("GET", path, timeout_seconds=_SECONDS, most_bytes=_BYTES)
        except (ApiError, ApiUnreachableError) as error:
            work = f"read how many pods {owner.title} in `{namespace}` wants"
            raise SourceError(refusal(work, error).reason, why(work, error)) from None
        with suppress(BadObjectError):
            scale = decode_controller("Scale", body)
            # A pod may name any uid: only the object itself says that it is this owner.
            if (its := scale.workload).uid == owner.uid:
                wants = scale.wants or 0
                known = msgspec.structs.replace(owner, replicas=wants, created=its.created)
                return Controller(known, None, wants)
        raise SourceError("absent", f"the scale of {owner.title} cannot be read")
