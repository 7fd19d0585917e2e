"""Scales: how many pods the workloads want whose kinds are not watched, as their `scale` says.

The pods of an Argo Rollout or a CloneSet name their owner, and discovery says whether its kind has
the subresource. An owner is asked once, and again when it has another number of pods.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field

import msgspec

from engine.cache.cache import Cache
from engine.cluster.client import path_of
from engine.cluster.data_fetching import DataApi, SourceError, refusal
from engine.cluster.data_watching import resource_of
from engine.errors import ApiError, ApiUnreachableError, BadObjectError, why
from engine.objects.peer import Controller, Peer, decode_controller
from engine.objects.remembered import Remembered

_SECONDS, _MOST_BYTES = 10.0, 64 << 10
# The bytes of the kinds whose paths are known.
_MOST_KINDS = 1 << 18


@dataclass(eq=False, slots=True)
class Scales:
    """The scales in one cluster, which its cache has as controllers."""

    _api: DataApi
    _cache: Cache
    # The path of the resource of each kind; empty for one without a scale.
    _paths: Remembered[str, str] = field(default_factory=lambda: Remembered(_MOST_KINDS))
    # By the uid of an owner: its pods when it was asked, and what went wrong; the last one last.
    _asked: dict[str, tuple[int, str]] = field(default_factory=dict)

    async def take(self) -> str:
        """Asks owners that were not asked yet, then failed ones. Returns a failure, or nothing."""
        owners = self._owners()
        for uid in self._asked.keys() - owners.keys():
            del self._asked[uid]
            self._cache.remove_controller(uid)
        failed = {uid: None for uid, (_, failure) in self._asked.items() if failure}
        same = failed.keys() | {u for u, (_, n) in owners.items() if self._asked.get(u) == (n, "")}
        for uid in (*(u for u in owners if u not in same), *failed):
            pod, number = owners[uid]
            self._asked.pop(uid, None)
            self._asked[uid] = number, ""
            try:
                self._cache.put_controller(await self._scaled(pod))
            except SourceError as error:
                if error.reason != "absent":
                    self._asked[uid] = number, str(error)
                if uid in failed or error.reason not in ("absent", "denied"):
                    break
        return next((failure for _, failure in self._asked.values() if failure), "")

    def _owners(self) -> Mapping[str, tuple[Peer, int]]:
        """A pod of each owner that is not watched, and the number of them all, by its uid."""
        found = dict[str, tuple[Peer, int]]()
        for pod, number in self._cache.owned():
            if (owner := pod.workload) is not None and owner.version:
                found[owner.uid] = pod, found.get(owner.uid, (pod, 0))[1] + number
        return found

    async def _scaled(self, pod: Peer) -> Controller:
        """The owner of a pod with what it wants. Raises SourceError."""
        owner = pod.workload
        assert owner is not None, "only pods with an owner are asked about"
        kind = f"{owner.version}/{owner.kind}"
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
        path = path_of(group, resource, pod.namespace, owner.name, "scale")
        try:
            body = await self._api.request(
                "GET", path, timeout_seconds=_SECONDS, most_bytes=_MOST_BYTES
            )
        except (ApiError, ApiUnreachableError) as error:
            work = f"read how many pods {owner.title} in `{pod.namespace}` wants"
            raise SourceError(refusal(work, error).reason, why(work, error)) from None
        with suppress(BadObjectError):
            scale = decode_controller("Scale", body)
            # A pod may name any uid: only the object itself says that it is this owner.
            if scale.workload.uid == owner.uid:
                replicas = scale.wants or 0
                return Controller(msgspec.structs.replace(owner, replicas=replicas), None, replicas)
        raise SourceError("absent", f"the scale of {owner.title} cannot be read")
