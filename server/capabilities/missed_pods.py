"""Missed pods: those that a policy selects and about which nobody asked it.

UngatedPods have no marker, so that kube-scheduler does not ask about them. They tell statuses and
events of a running server.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from engine.cache.cache import Cache
from engine.cache.tallies import Adding
from engine.cluster.events import PodEvent, Regarding
from engine.counting.in_flight_pods import Schedulers
from engine.fairness import FairQueue
from engine.objects.gate import ENABLED, GATE, OPT_IN
from engine.objects.peer import Peer
from engine.objects.request_pod import Exemptions
from grammar.values.time import SECOND, Timestamp
from policies.admission import CheckedObject
from server.capabilities.capability import Capability, Opened, Site
from server.capabilities.policy_statuses import PodSelection, ReportedPolicy, condition

UNGATED = (
    f"pods that it selects were created without `{GATE}`, so kube-scheduler did not ask about "
    f"them: label their namespaces with `{OPT_IN}={ENABLED}`, and create the pods again"
)
_WITHOUT_MARKER = (
    f"the pod was created without `{GATE}`, so kube-scheduler does not ask about it: label the "
    f"namespace with `{OPT_IN}={ENABLED}`, and create the pod again"
)
# There is no event about a pod that is older than this when a watch first shows it: after a start,
# or with the first use of the gate, these are all pods.
_NEW_SECONDS = 60.0
_MOST_NEW = 1000


def _open(site: Site) -> Opened:
    if (led := site.led) is None:
        return Opened()
    schedulers, engine = site.options.schedulers, site.engine
    ungated = UngatedPods(led.cache, schedulers, lambda: engine.exemptions)
    return Opened(
        pod_changed=ungated.pod_changed,
        status=lambda: ungated.part,
        events=lambda: ungated.events(site.enforced().objects.items() if led.leads() else ()),
    )


MISSED_PODS = Capability(name="missed pods", open=_open)


@dataclass(frozen=True, slots=True)
class UngatedPods:
    """The ungated pods, which were created without the marker, and the new ones among them.

    They are told of where kube-scheduler asks only about marked pods. No policy decides about pods
    of `exemptions`, so they need no marker. On one event loop.
    """

    cache: Cache
    schedulers: Schedulers
    exemptions: Callable[[], Exemptions]
    now: Callable[[], Timestamp] = Timestamp.now
    _new: FairQueue[Peer] = field(default_factory=lambda: FairQueue(_MOST_NEW))

    def among(self, selects: Callable[[Peer], bool]) -> Callable[[Peer], bool]:
        """Whether a pod is ungated, and selected."""
        pass_by, exempts = self.schedulers.pass_by, self.exemptions().exempts
        return lambda pod: pass_by(pod) and selects(pod) and not exempts(pod)

    def pod_changed(self, old: Peer | None, new: Peer | None, _revision: int) -> None:
        """Takes a change of the cache."""
        if old is not None or new is None or new.created is None:
            return
        age = (self.now().nanos - new.created.nanos) / SECOND
        if age < _NEW_SECONDS and self.among(lambda _: True)(new):
            self._new.put(new.namespace, new)

    def take_new(self) -> Sequence[Peer]:
        """The new ungated pods since the last call; of too many, the last of each namespace."""
        found = list(self._new)
        self._new.clear()
        return found

    def part(self, policy: ReportedPolicy) -> None:
        """The number in a status; the condition names none, because it changes often."""
        selection = policy.selection
        if selection is None or not self.schedulers.gate:
            return
        version = ("ungated", policy.name, selection.version, self.exemptions())
        tally = self.cache.tallies.get(version, selection.scope, Adding(self.among(selection.has)))
        number = tally.placed + len(tally.waiting)
        policy.fields["ungatedPods"] = number
        policy.conditions["Ungated"] = condition(
            "NoMarker", UNGATED if number else "", f"all pods that it selects have `{GATE}`"
        )

    def events(self, objects: Iterable[tuple[str, CheckedObject]]) -> Iterator[PodEvent]:
        """The events about new ungated pods since the last call."""
        for pod in self.take_new():
            if note := self._why(pod, objects):
                about = Regarding("v1", "Pod", pod.namespace, pod.name, pod.uid)
                yield PodEvent(about, "Warning", "Ungated", "Schedule", note)

    def _why(self, pod: Peer, objects: Iterable[tuple[str, CheckedObject]]) -> str:
        """The note of the event about an ungated pod; empty where no object selects it."""
        for name, checked in objects:
            if checked.manifest is None:
                continue
            selection = PodSelection(checked.manifest, self.cache)
            if selection.scope.holds(pod) and selection.has(pod):
                return f"the policy `{name.partition('/')[2]}` had no say: {_WITHOUT_MARKER}"
        return ""
