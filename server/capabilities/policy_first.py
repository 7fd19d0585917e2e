"""PolicyFirst: pods of some namespaces wait until the policies that are older than them are known.

A policy and its workload that come in one apply race. In these namespaces a new pod waits at filter
until Placet has asked the API server which policies there are, and has each of them in force or
knows its errors. A version of the API server orders pods and policies. PolicyFirst belongs to a
running server, on one event loop.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable, Mapping

import msgspec

from engine.cluster.client import Api, path_of
from engine.errors import ApiError, ApiUnreachableError, BriefWaitError, why
from engine.objects.api_types import ListMeta
from engine.objects.decoding import revision_of
from engine.objects.request_pod import RequestPod
from grammar.values.time import SECOND, Timestamp
from policies.admission import CheckedObject
from policies.resource import Metadata
from server.capabilities.capability import Capability, LedCluster, Opened, Site
from server.capabilities.policy_statuses import GROUP_PATH

WAITS = "waiting until the policies that are older than the pod are in force"
# What goes wrong with policies must not keep pods waiting for ever.
_MOST_SECONDS = 60.0
_PAUSE_SECONDS = 0.05
# Then the policies are listed again, if pods still wait: one may be deleted meanwhile.
_MOST_LOOKS = 20
_WORK = "see which policies are older than new pods"


def _open(site: Site) -> Opened:
    if (led := site.led) is None or not site.options.policy_first:
        return Opened()
    first = PolicyFirst(site.options.policy_first)
    return Opened(hold=first.check, work={"policy-first": lambda: first.follow(site, led)})


POLICY_FIRST = Capability(name="policy first", open=_open)


class _ListedPolicy(msgspec.Struct):
    metadata: Metadata


class _PolicyList(msgspec.Struct):
    metadata: ListMeta
    items: list[_ListedPolicy] = msgspec.field(default_factory=list)


class PolicyFirst:
    """The policies that come first: which pods wait for them, and the work that ends it."""

    def __init__(
        self, namespaces: frozenset[str], now: Callable[[], Timestamp] = Timestamp.now
    ) -> None:
        self._namespaces = namespaces
        self._now = now
        # By namespace, the version up to which its policies are known.
        self._known: dict[str, int] = {}
        # And up to which pods wait.
        self._asked: dict[str, int] = {}
        self._is_due = asyncio.Event()

    def waiting(self, pod: RequestPod) -> str:
        """The reason why a pod has to wait, or empty."""
        if pod.namespace not in self._namespaces or not pod.revision or pod.created is None:
            return ""
        if pod.revision <= self._known.get(pod.namespace, 0):
            return ""
        if self._now().nanos - pod.created.nanos > _MOST_SECONDS * SECOND:
            return ""
        self._asked[pod.namespace] = max(self._asked.get(pod.namespace, 0), pod.revision)
        self._is_due.set()
        return WAITS

    def check(self, pod: RequestPod) -> None:
        """Raises BriefWaitError where a pod has to wait."""
        if reason := self.waiting(pod):
            raise BriefWaitError(reason)

    async def follow(self, site: Site, led: LedCluster) -> None:
        """Looks at policies while pods wait, until it is cancelled."""
        while True:
            await self._is_due.wait()
            self._is_due.clear()
            asked, self._asked = self._asked, {}
            for namespace, revision in asked.items():
                if revision <= self._known.get(namespace, 0):
                    continue
                try:
                    await self._look(namespace, site, led.api)
                except (ApiError, ApiUnreachableError) as error:
                    led.report(_WORK, why(_WORK, error))
                    await asyncio.sleep(_PAUSE_SECONDS)
                else:
                    led.report(_WORK, "")

    async def _look(self, namespace: str, site: Site, api: Api) -> None:
        """Waits a while until the policies of now are known. Raises as `Api.request`."""
        lists = [
            await _list(api, "placementpolicies", namespace),
            await _list(api, "clusterplacementpolicies", ""),
        ]
        wanted = {name: generation for each, _ in lists for name, generation in each.items()}
        for _ in range(_MOST_LOOKS):
            known = site.enforced().objects
            if all(n in known and _generation(known[n]) >= wanted[n] for n in wanted):
                # The first list knows of nothing that came after it.
                self._known[namespace] = max(self._known.get(namespace, 0), lists[0][1])
                return
            await site.catch_up()
            await asyncio.sleep(_PAUSE_SECONDS)


async def _list(api: Api, resource: str, namespace: str) -> tuple[Mapping[str, int], int]:
    """The generation of each policy, by name as the cache has it, and the version."""
    body = await api.request("GET", path_of(GROUP_PATH, resource, namespace))
    found = msgspec.json.decode(body, type=_PolicyList)
    generations = dict[str, int]()
    for each in (item.metadata for item in found.items):
        where = f"{each.namespace}/" if each.namespace else ""
        generations[f"{resource}/{where}{each.name}"] = each.generation
    return generations, revision_of(found.metadata.resourceVersion)


def _generation(checked: CheckedObject) -> float:
    """That of the manifest; an object of which there is none has no policy, whatever it says."""
    if checked.is_late:
        return -math.inf
    return checked.manifest.metadata.generation if checked.manifest is not None else math.inf
