"""Group cycles: tests of the numbers by which members of a PodGroup know who is with them."""

from __future__ import annotations

from engine.counting.in_flight_pods import GroupCycles
from engine.objects.request_pod import RequestPod, RequestPodReader
from tests.support.builders import pod, raw
from tests.support.engines import CODEC


def asked(name: str, group: str = "", namespace: str = "shop") -> RequestPod:
    spec = {"schedulingGroup": {"podGroupName": group}} if group else {}
    return RequestPodReader(CODEC).read(raw(pod(name, namespace, spec=spec)))


def test_only_members_of_one_namespace_in_a_row_have_one_number() -> None:
    cycles = GroupCycles()
    first, second = (cycles.of(asked(name, "ring")) for name in ("a", "b"))
    assert first == second > 0
    assert cycles.of(asked("alone")) == 0
    third, fourth = cycles.of(asked("c", "ring")), cycles.of(asked("d", "ring", "other"))
    assert len({0, first, third, fourth}) == 4
