"""Refusals: places that members were offered and did not take, which are tried last from then on.

Somebody behind Placet refuses them: a second extender, volumes, devices, affinity. None of them
says so, and their reasons may go. Refusals live as long as Gangs do.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping

from engine.decision.plugin_filters import PluginFilters
from engine.gangs.gang import KnownGang, Offer, Template
from engine.objects.remembered import Remembered
from engine.objects.request_pod import RequestPod

# A pod that is asked about again after so long has not taken what it was offered before.
_CYCLE_SECONDS = 0.005
# For how long a pod is probably on its way to the place that it was offered.
_ON_ITS_WAY_SECONDS = 1.0
# For how long a refusal counts.
_KEPT_SECONDS = 1800.0
# The bytes of all that is kept; a node takes some 100.
_MOST_BYTES, _NODE_BYTES = 4 << 20, 100


class Refusals:
    """Refusals by template: the nodes, each with the time."""

    def __init__(self, clock: Callable[[], float], plugins: PluginFilters) -> None:
        self._clock = clock
        self._plugins = plugins
        self._known: Remembered[Template, Mapping[str, float]] = Remembered(
            _MOST_BYTES, lambda template, nodes: len(template[1]) + _NODE_BYTES * len(nodes)
        )

    def offered(self, gang: KnownGang, pod: RequestPod) -> None:
        """Takes the news that a member is offered its place."""
        template = pod.namespace, self._plugins.kind(pod)
        gang.offers[pod.uid] = Offer(template, gang.places[pod.uid], self._clock())

    def has_refused(self, gang: KnownGang, pod: RequestPod) -> bool:
        """Whether a member that is asked about again did not take its place.

        kube-scheduler may ask several times in one cycle about a pod of a group of its own.
        """
        offer = gang.offers.get(pod.uid)
        if offer is None or offer.node != gang.places[pod.uid] or pod.own_group:
            return False
        if self._clock() < offer.at + _CYCLE_SECONDS:
            return False
        self._add(offer)
        return True

    def stay(self, gang: KnownGang, uid: str) -> frozenset[str]:
        """The members that are held or on their way to their places, without one that is asked."""
        since = self._clock() - _ON_ITS_WAY_SECONDS
        new = (other for other, offer in gang.offers.items() if offer.at > since)
        return frozenset(gang.holds).union(new) - {uid}

    def came(self, gang: KnownGang, uid: str) -> None:
        """Takes the news that a member has come to its place."""
        if (offer := gang.offers.pop(uid, None)) is not None:
            nodes = self._lately(offer.template)
            if offer.node in nodes:
                left = {name: at for name, at in nodes.items() if name != offer.node}
                self._known.put(offer.template, left)

    def end(self, gang: KnownGang) -> None:
        """Takes the news that the others did not come in time."""
        for offer in gang.offers.values():
            self._add(offer)

    def nodes(self, pod: RequestPod) -> Collection[str]:
        """The nodes that are tried last for a pod."""
        return self._lately((pod.namespace, self._plugins.kind(pod))) if len(self._known) else ()

    def _add(self, offer: Offer) -> None:
        nodes = {**self._lately(offer.template), offer.node: self._clock()}
        self._known.put(offer.template, nodes)

    def _lately(self, template: Template) -> Mapping[str, float]:
        since = self._clock() - _KEPT_SECONDS
        nodes = self._known.get(template) or {}
        return {name: at for name, at in nodes.items() if at > since}
