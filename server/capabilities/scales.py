"""Scales: how many pods the workloads want whose kinds nobody watches, asked of the API server."""

from __future__ import annotations

from engine.cache.cache import Cache
from engine.cluster.scales import Scales
from engine.counting.count_clauses import by_replicas, of_unknown_size
from engine.work import shared_pause
from server.capabilities.capability import Capability, Opened, Site
from server.capabilities.policy_statuses import ReportedPolicy, StatusPart, condition

_LOOK_SECONDS = 5.0


def _open(site: Site) -> Opened:
    if (led := site.led) is None or site.api is None:
        return Opened()
    scales = Scales(site.api, led.cache)

    async def take() -> None:
        while True:
            if (needs := site.enforced().needs).workloads or needs.repairs:
                led.report("read the scales of workloads", await scales.take())
            await shared_pause(_LOOK_SECONDS)

    return Opened(status=lambda: unknown_replicas(led.cache), work={"scales": take})


SCALES = Capability(name="scales", open=_open, rights={"rbac.workloads": "get */scale.*"})


def unknown_replicas(cache: Cache) -> StatusPart:
    """What statuses say of workloads of which nobody knows how many pods they want."""

    def part(policy: ReportedPolicy) -> None:
        selection = policy.selection
        if policy.program is None or selection is None or not by_replicas(policy.program.counts):
            return
        selected = (p for p, _ in cache.owned() if selection.scope.holds(p) and selection.has(p))
        owners = {pod.workload for pod in selected if pod.workload is not None}
        wanted = ((each, cache.workload(each.uid)) for each in owners)
        text = of_unknown_size(each for each, of in wanted if of is None or of.replicas is None)
        quiet = "how many pods its workloads want is known"
        policy.conditions["UnknownReplicas"] = condition("NoScale", text, quiet)

    return part
