"""EarlyPods: pods that were placed before their policy was in force.

A policy and its workload that come in one apply race: the first pods may be placed before the
policy is compiled. Nothing takes them back, so the status of the policy and an event say how many
they are. EarlyPods belong to the Statuses of a running server.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from engine.objects.peer import Peer
from grammar.values.errors import EvaluationError
from grammar.values.time import SECOND, Timestamp
from policies.resource import Metadata, PolicyStatus
from server.runtime.policy_statuses import ReportedPolicy


class EarlyPods:
    """Counts them when a policy is in force for the first time.

    `decided` says whether a pod was decided about with the policy of an address. What was there
    when the server `started` is not looked at: nobody knows any more when it came into force.
    """

    def __init__(
        self,
        decided: Callable[[Peer, str], bool],
        started: Timestamp,
    ) -> None:
        self._decided = decided
        # A creation is told in whole seconds: a policy of the second of the start counts as newer.
        self._started = started.nanos // SECOND
        # By the address of a policy whose status does not say yet that it is in force.
        self._counted: dict[str, tuple[str, int]] = {}

    def part(self, policy: ReportedPolicy) -> None:
        program, selection = policy.program, policy.selection
        if selection is None or program is None or program.audit:
            return
        policy.fields["earlyPods"] = self.count(
            policy.address,
            policy.metadata,
            policy.written,
            policy.snapshot.pods,
            lambda pod: selection.scope.holds(pod) and selection.has(pod),
        )

    def count(
        self,
        address: str,
        metadata: Metadata,
        written: PolicyStatus,
        pods: Callable[[], Mapping[str, Peer]],
        selects: Callable[[Peer], bool],
    ) -> int | None:
        """The number for the status; None where it is not known."""
        if written.inForce is not None:
            self._counted.pop(address, None)
            return written.earlyPods
        uid, number = self._counted.get(address, ("", 0))
        if uid == metadata.uid:
            return number
        created = _parsed(metadata.creationTimestamp)
        if created is None or created.nanos // SECOND < self._started:
            return written.earlyPods
        every = pods().values()
        number = sum(self._is_early(pod, address, created) and selects(pod) for pod in every)
        self._counted[address] = metadata.uid, number
        return number

    def _is_early(self, pod: Peer, address: str, created: Timestamp) -> bool:
        """Whether a pod is younger than the policy, and has a node that the policy did not see."""
        if not pod.nodeName or pod.created is None or pod.created.nanos < created.nanos:
            return False
        return not self._decided(pod, address)


def early_text(pods: int) -> str:
    """The note of the event about so many pods."""
    was = "1 pod was" if pods == 1 else f"{pods} pods were"
    return f"{was} placed before this policy was in force: delete them to have them placed again"


def _parsed(text: str) -> Timestamp | None:
    try:
        return Timestamp.parse(text)
    except EvaluationError:
        return None
