"""Portable: what others are told of the policies of an engine, by webhooks and statuses."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from engine.cache.cache import Cache
from engine.cache.tallies import Adding
from engine.engine import Engine
from engine.errors import ExpensivePolicyError
from engine.objects.peer import Peer
from engine.objects.request_pod import FORM, ObjectCodec, RequestPodReader, form_versions
from engine.portable.portable_clauses import ClauseVerdict, portability
from engine.portable.portable_form import EXPENSIVE, added, form_of, patch
from engine.program.policy_time import PolicyTimes
from engine.program.program import Program
from engine.selectors.terms import Frozen
from server.capabilities.capability import Capability, Opened, Site
from server.capabilities.policy_statuses import Outcome, ReportedPolicy, StatusPart

# The pods that are tried to find out what can be told of a policy: statuses must not take long.
_PODS = 4


def _open(site: Site) -> Opened:
    pods = PortablePods(site.engine, site.codec, site.options.frozen, site.times)
    if (led := site.led) is None:
        return Opened(patch=pods.patch)
    return Opened(status=lambda: portable_part(led.cache, pods.portability), patch=pods.patch)


PORTABLE = Capability(name="portable", open=_open, keys={FORM: "an annotation of pods"})


class PortablePods:
    """New pods that tell others of portable policies. On one event loop.

    `frozen` is what nobody can change in a pod. The time of `times` is charged to each policy.
    """

    def __init__(
        self, engine: Engine, codec: ObjectCodec, frozen: Frozen, times: PolicyTimes
    ) -> None:
        self._engine = engine
        self._codec = codec
        self._frozen = frozen
        self._times = times
        # A reader of its own: that of the engine keeps the pod that kube-scheduler asks about.
        self._pods = RequestPodReader(codec)
        self._verdicts: dict[str, tuple[str, Sequence[ClauseVerdict]]] = {}

    def patch(self, body: bytes) -> Sequence[Any]:
        """The JSON patch of a new pod. Raises BadObjectError."""
        pod, engine = self._pods.read(body), self._engine
        form = form_of(
            pod, engine.registry, engine.exemptions, self._frozen, using=self._times.using
        )
        return patch(pod, added(pod, form))

    def portability(self, program: Program) -> Sequence[ClauseVerdict]:
        """What others can be told of a policy; worked out once for each version."""
        digest, verdicts = self._verdicts.get(program.address, ("", ()))
        if digest == program.digest:
            return verdicts
        try:
            with self._times.using(program.address):
                found = portability(program.source, self._codec, self._frozen, _PODS)
        except ExpensivePolicyError:
            return [ClauseVerdict("", exact=False, reason=EXPENSIVE)]
        known = {p.address for p in self._engine.registry.programs}
        self._verdicts = {a: v for a, v in self._verdicts.items() if a in known}
        self._verdicts[program.address] = program.digest, found
        return found


def portable_part(
    cache: Cache, portability: Callable[[Program], Sequence[ClauseVerdict]]
) -> StatusPart:
    """What statuses say of a portable policy."""

    def part(policy: ReportedPolicy) -> None:
        program, selection = policy.program, policy.selection
        if selection is None or program is None or not program.source.policy.portable:
            return
        policy.conditions["Portable"] = _told(portability(program))
        address, digest = program.address, program.digest

        def is_outdated(pod: Peer) -> bool:
            told = form_versions(pod.annotations).get(address, digest)
            return told != digest and selection.has(pod)

        version = ("outdated", policy.name, selection.version, digest)
        tally = cache.tallies.get(version, selection.scope, Adding(is_outdated))
        policy.fields["outdatedPods"] = len(tally.waiting)

    return part


def _told(verdicts: Sequence[ClauseVerdict]) -> Outcome:
    """What others are told: all, some or none of the clauses, and why not the rest."""
    left = [f"{v.clause or 'all clauses'}: {v.reason}" for v in verdicts if v.reason]
    text = "; ".join(left)
    if not left and all(verdict.exact for verdict in verdicts):
        return "True", "Told", "new pods say all of it in Kubernetes' own words"
    if len(left) < len(verdicts):
        return "True", "ToldInPart", text
    return "False", "StaysInPlacet", text
