"""kube-scheduler: a plain model of it, which asks one Placet and binds pods of a simulated cluster.

It takes one pod after the other, asks filter and prioritize, and binds beside the next ones. A pod
that policies refuse waits until somebody else updates it: so whatever Placet does not wake stays
pending. A pod that it refuses itself waits for a change of a node, and after an error it asks again
by itself.
"""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from random import Random
from typing import Any

import aiohttp

from engine.errors import ApiError
from tests.chaos.observer import OURS
from tests.chaos.simulated.api import ClusterApi, Object
from tests.chaos.simulated.replica import Replica
from tests.e2e.gangs import MEMBERS
from tests.e2e.recorder import Call

LEASE = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases/kube-scheduler"
_FIRST_PAUSE, _MOST_PAUSE = 1.0, 10.0
_HTTP_SECONDS = 5.0
# The entry of bind has a time above every wait of a gang.
_BIND_SECONDS = 60.0
# The label of a pod that its own kube-scheduler lets go to one node alone.
PINNED = "pinned"
# How long a cycle takes beside its calls, and a Binding on its way.
_CYCLE_SECONDS, _BINDING_SECONDS = 0.002, (0.005, 0.05)


class _CallError(Exception):
    """A call without an answer, or with an error."""


@dataclass
class _Waiting:
    """A pod that waits, until a time, for its own update, or for a change of a node."""

    uid: str
    due: float
    tries: int = 0
    for_node: bool = False


class KubeScheduler:
    """One process. `calls` are those that were answered; faults are set by a nemesis."""

    def __init__(
        self,
        name: str,
        api: ClusterApi,
        replica: Replica,
        random: Random,
        found: Callable[[str, str], None],
        *,
        binds: bool,
    ) -> None:
        self.name = name
        self.calls: list[Call] = []
        self.offers: dict[str, float] = {}
        self.refused: set[str] = set()
        self.flow = asyncio.Event()
        self.flow.set()
        # Whether a call of the verb gets lost or comes twice, and how late a Binding is.
        self.loses: Callable[[str], bool] = lambda _: False
        self.doubles: Callable[[str], bool] = lambda _: False
        self.delay: Callable[[], float] = lambda: 0.0
        # Who wants to know each answer of filter, with the pod that it is about.
        self.heard: Callable[[Object, Call], None] = lambda *_: None
        self._api = api
        self._replica = replica
        # Which Placet it asks next, in place of its own.
        self.route: Callable[[], Replica] | None = None
        self._random = random
        self._found = found
        self._binds = binds
        self._waiting: dict[str, _Waiting] = {}
        # The pods on their way to a node, with the nodes that were offered, the chosen one first.
        self.assumed: dict[str, list[str]] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._news = asyncio.Event()
        self._running: asyncio.Task[None] | None = None

    # ---- its life

    def lead(self) -> None:
        """Begin as a new process that knows nothing yet."""
        for key, pod in self._api.pods().items():
            self.pod_changed(key, None, pod)
        self._running = asyncio.create_task(self._run())

    def end(self) -> None:
        """End at once: what was on its way is lost."""
        for task in [self._running, *self._tasks]:
            if task is not None:
                task.cancel()
        self._running = None
        self._waiting.clear()
        self.assumed.clear()

    @property
    def leads(self) -> bool:
        return self._running is not None

    def _own(self) -> Replica:
        return self._replica

    def asks(self, replica: Replica) -> bool:
        return self._replica is replica

    # ---- events

    def pod_changed(self, key: str, old: Object | None, new: Object | None) -> None:
        """Takes a change that somebody else made."""
        if new is None or new["spec"].get("nodeName"):
            self._waiting.pop(key, None)
            if new is None or old is None or old["metadata"]["uid"] != new["metadata"]["uid"]:
                self.assumed.pop(key, None)
            return
        if new["spec"].get("schedulerName", OURS) != OURS or new["spec"].get("schedulingGates"):
            return
        uid = new["metadata"]["uid"]
        known = self._waiting.get(key)
        if known is None or known.uid != uid:
            if key not in self.assumed:
                self._waiting[key] = _Waiting(uid, self._now())
        elif known.due == float("inf") and _is_update(old, new):
            known.due = self._now() + self._pause(known)
        self._news.set()

    def node_changed(self) -> None:
        for each in self._waiting.values():
            if each.for_node and each.due == float("inf"):
                each.due = self._now() + self._pause(each)
        self._news.set()

    # ---- a cycle

    async def _run(self) -> None:
        while True:
            await self.flow.wait()
            now = self._now()
            due = min(self._waiting.items(), key=lambda each: each[1].due, default=None)
            if due is None or due[1].due > now:
                self._news.clear()
                wait = None if due is None or due[1].due == float("inf") else due[1].due - now
                try:
                    async with asyncio.timeout(wait):
                        await self._news.wait()
                except TimeoutError:
                    pass
                continue
            await asyncio.sleep(_CYCLE_SECONDS)
            await self._place(*due)

    async def _place(self, key: str, entry: _Waiting) -> None:
        pod = self._api.pods().get(key)
        if pod is None or self._waiting.get(key) is not entry:
            return
        entry.tries += 1
        entry.due, entry.for_node = float("inf"), False
        nodes = self._api.nodes()
        names = [n for n, node in nodes.items() if _is_open(node, pod) and self._has_room(n, pod)]
        if not names:
            entry.for_node = True
            self._refuse(key, pod, "Unschedulable", Counter({"Insufficient cpu": len(nodes)}))
            return
        try:
            answer = await self._call("filter", key, {"Pod": pod, "NodeNames": names}, names)
            self.heard(pod, self.calls[-1])
            offered = answer["NodeNames"] or []
            scores = (
                await self._call("prioritize", key, {"Pod": pod, "NodeNames": offered}, offered)
                if len(offered) > 1
                else []
            )
        except _CallError as error:
            if self._waiting.get(key) is entry:
                entry.due = self._now() + self._pause(entry)
                self._refuse(key, pod, "SchedulerError", Counter({str(error): 1}))
            return
        if self._waiting.get(key) is not entry:
            return
        if not offered:
            failed = {**answer["FailedNodes"], **answer["FailedAndUnresolvableNodes"]}
            self._refuse(key, pod, "Unschedulable", Counter(failed.values()))
            return
        best = {each["Host"]: each["Score"] for each in scores}
        most = max(best.values(), default=0)
        node = self._random.choice([name for name in offered if best.get(name, 0) == most])
        del self._waiting[key]
        self.assumed[key] = [node, *offered]
        task = asyncio.create_task(self._bind(key, pod, node, entry))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _bind(self, key: str, pod: Object, node: str, entry: _Waiting) -> None:
        metadata = pod["metadata"]
        try:
            await asyncio.sleep(self._random.uniform(*_BINDING_SECONDS) + self.delay())
            await self.flow.wait()
            if self._binds:
                body = {
                    "PodName": metadata["name"],
                    "PodNamespace": metadata["namespace"],
                    "PodUID": metadata["uid"],
                    "Node": node,
                }
                is_member = MEMBERS in metadata.get("annotations", {})
                await self._call(
                    "bind", key, body, [], _BIND_SECONDS if is_member else _HTTP_SECONDS
                )
                self._check_bound(key, metadata["uid"], node)
            else:
                sent = {"metadata": {"uid": metadata["uid"]}, "target": {"name": node}}
                self._api.bind(key, sent)
        except (_CallError, ApiError) as error:
            self.assumed.pop(key, None)
            now = self._api.pods().get(key)
            if now is None or now["metadata"]["uid"] != entry.uid or now["spec"].get("nodeName"):
                return
            entry.due = self._now() + self._pause(entry)
            self._waiting[key] = entry
            self._refuse(key, now, "SchedulerError", Counter({str(error): 1}))
            self._news.set()

    def _check_bound(self, key: str, uid: str, node: str) -> None:
        """Who answers that a pod was bound has bound it."""
        now = self._api.pods().get(key)
        if now is None or now["metadata"]["uid"] != uid:
            return
        if (has := now["spec"].get("nodeName")) != node:
            self._found("not bound", f"{key} to {node}, as was answered; it has {has}")

    def _refuse(self, key: str, pod: Object, reason: str, why: Counter[str]) -> None:
        """Set the condition of the pod, if it says something else."""
        known = self._api.pods().get(key)
        if known is None or known["metadata"]["uid"] != pod["metadata"]["uid"] or self._api.down:
            return
        texts = ", ".join(sorted(f"{count} {text}" for text, count in why.items()))
        message = f"0/{len(self._api.nodes())} nodes are available: {texts}."
        condition = {
            "type": "PodScheduled",
            "status": "False",
            "reason": reason,
            "message": message if reason == "Unschedulable" else texts,
        }
        if condition not in known.get("status", {}).get("conditions", []):
            self._api.set_condition(key, condition)

    def _has_room(self, name: str, pod: Object) -> bool:
        """Whether the node has the processors and the ports that a pod needs, beside the others."""
        needs, ports = _takes(pod)
        if needs < 1.0 and not ports:
            return True
        taken = 0.0
        for key, other in self._api.pods().items():
            if (other["spec"].get("nodeName") or self.assumed.get(key, [""])[0]) == name:
                its_needs, its_ports = _takes(other)
                taken += its_needs
                if ports & its_ports:
                    return False
        return taken + needs <= float(self._api.nodes()[name]["status"]["allocatable"]["cpu"])

    # ---- calls

    async def _call(
        self,
        verb: str,
        key: str,
        body: Mapping[str, Any],
        names: list[str],
        seconds: float = _HTTP_SECONDS,
    ) -> Any:
        """The answer of a verb. Raises _CallError."""
        try:
            if self.doubles(verb):
                await (self.route or self._own)().ask(verb, body, seconds)
            status, answer = await (self.route or self._own)().ask(verb, body, seconds)
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            raise _CallError(repr(error)) from error
        name, now = key.rpartition("/")[2], self._now()
        self.calls.append(Call(verb, name, len(names), status, answer, now, tuple(names)))
        if self.loses(verb):
            await asyncio.sleep(_HTTP_SECONDS)
            raise _CallError("context deadline exceeded")
        if status != 200:
            raise _CallError(f"code {status}: {answer}")
        if isinstance(answer, dict) and (text := answer.get("Error") or answer.get("error")):
            if verb == "filter":
                self.refused.add(name)
            raise _CallError(text)
        if verb == "filter":
            if answer["NodeNames"]:
                self.offers[name] = now
            else:
                self.refused.add(name)
        return answer

    def _pause(self, entry: _Waiting) -> float:
        return float(min(_MOST_PAUSE, _FIRST_PAUSE * 2 ** (entry.tries - 1)))

    def _now(self) -> float:
        return asyncio.get_running_loop().time()


def _is_open(node: Object, pod: Object) -> bool:
    """Whether kube-scheduler's own filters let the pod there."""
    closed = node["spec"].get("unschedulable") or node["spec"].get("taints")
    labels, name = pod["metadata"].get("labels", {}), node["metadata"]["name"]
    return not closed and "oversized" not in labels and labels.get(PINNED, name) == name


def _takes(pod: Object) -> tuple[float, set[int]]:
    """The processors and the ports of its node that a pod takes."""
    (container,) = pod["spec"]["containers"]
    cpu = container["resources"]["requests"]["cpu"]
    number = float(cpu[:-1]) / 1000 if cpu.endswith("m") else float(cpu)
    return number, {each["hostPort"] for each in container.get("ports", ())}


def _is_update(old: Object | None, new: Object) -> bool:
    """Whether somebody else than kube-scheduler has changed the pod."""
    return old is None or _without_own(old) != _without_own(new)


def _without_own(pod: Object) -> str:
    conditions = pod.get("status", {}).get("conditions", [])
    others = [each for each in conditions if each["type"] != "PodScheduled"]
    metadata = {k: v for k, v in pod["metadata"].items() if k != "resourceVersion"}
    return json.dumps([metadata, pod["spec"], others], sort_keys=True)
