"""A random world: a cluster, policies, and a kube-scheduler that asks about one pod after another.

Its name decides all of it; only where a pod goes depends on the answers. Between two calls the
server is told what has changed, and asked nothing before it knows.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from tests.recorder import answers
from tests.recorder.api_server import ApiServer, Object, key_of
from tests.recorder.clusters import Cluster
from tests.recorder.dice import Dice
from tests.recorder.policies import Theme
from tests.recorder.served import Served

Step = list[Any]
# The fourth rejection of a pod within ten seconds is an error: what depends on time is left out.
_MOST_ASKED = 3


class World:
    """One world on one server, from its first object to its last. Its record is `steps`."""

    def __init__(self, name: str, theme: Theme, api: ApiServer, served: Served) -> None:
        self.steps: list[Step] = []
        self._dice = Dice(f"world {name}")
        self._theme = theme
        self._api = api
        self._served = served
        self._cluster = Cluster(self._dice, name)
        self._asked: dict[str, int] = {}

    async def play(self, before: Callable[[], Awaitable[str]] | None = None) -> None:
        """Plays it all. `before` is called before each pod, and says what it did."""
        for item in self._cluster.objects:
            self._api.store(item["kind"], item)
        waiting = [self._cluster.pod(f"new-{i}") for i in range(self._dice.randint(3, 6))]
        if self._dice.chance(0.5):
            for pod in waiting:
                self._api.store("Pod", pod)
        for pod in waiting:
            if key_of(pod) not in self._pods:
                self._api.store("Pod", pod)
            if before is not None:
                self._note(await before())
            await self._schedule(key_of(pod))
            if self._dice.chance(0.3):
                self._happen()
        left = [key for key, pod in self._pods.items() if not pod["spec"].get("nodeName")]
        for key in left:
            if self._asked.get(key, 0) < _MOST_ASKED:
                await self._schedule(key)
        self._api.clear()
        await self._served.knows(self._api)

    @property
    def _pods(self) -> dict[str, Object]:
        return self._api.kinds_of["Pod"]

    @property
    def _nodes(self) -> dict[str, Object]:
        return self._api.kinds_of["Node"]

    async def _schedule(self, key: str) -> None:
        """What kube-scheduler does with one pod: filter, prioritize, preempt or bind."""
        dice = self._dice
        await self._served.knows(self._api)
        if key not in self._pods or self._pods[key]["spec"].get("nodeName"):
            return
        full = dice.chance(self._theme.full_nodes)
        names = await self._filter(key, full=full)
        if len(names) > 1 or dice.chance(0.2):
            await self._prioritize(key, names or list(self._nodes), full=full)
        if not names or dice.chance(self._theme.preempts):
            await self._preempt(key, full=full)
        if names and self._asked[key] < _MOST_ASKED and dice.chance(0.2):
            names = await self._filter(key, full=full)
        await self._settle(key, names)

    async def _settle(self, key: str, names: list[str]) -> None:
        """What becomes of a pod after the answer to filter."""
        dice = self._dice
        fate = dice.random()
        if not names:
            if fate < 0.3:
                self._give_up(key)
            elif fate < 0.5:
                await self._bind(key, dice.choice(list(self._nodes) or ["gone"]))
        elif fate < 0.5:
            if dice.chance(0.3):
                # The binding is made, and no watch shows it for a while.
                self._api.hold_pods()
            await self._bind(key, dice.choice(names))
        elif fate < 0.55:
            await self._bind(key, dice.choice(list(self._nodes)))
        elif fate < 0.75:
            self._api.bind(key, dice.choice(names))
            self._note("bound by others", key)
        elif fate < 0.85:
            self._give_up(key)
        elif fate < 0.9:
            self._api.remove("Pod", key)
            self._note("deleted", key)
        # All others stay on their way.

    # ---- calls

    async def _filter(self, key: str, *, full: bool) -> list[str]:
        names = self._offered()
        self._asked[key] = self._asked.get(key, 0) + 1
        body, nodes = self._request(key, names, full=full)
        answer = answers.filtered(*await self._served.post("filter", body), nodes)
        self._note("filter", key, names, answer)
        if self._api.pods_are_held:
            self._api.release_pods()
            await self._served.knows(self._api)
        return [name for name in answers.feasible(answer) if name in self._nodes]

    async def _prioritize(self, key: str, names: list[str], *, full: bool) -> None:
        body, _ = self._request(key, names, full=full)
        answer = answers.prioritized(*await self._served.post("prioritize", body))
        self._note("prioritize", key, names, answer)

    async def _preempt(self, key: str, *, full: bool) -> None:
        """Proposes some of the pods on each node, those of high priority first."""
        proposed: dict[str, Object] = {}
        for name in self._offered():
            there = [p for p in self._pods.values() if p["spec"].get("nodeName") == name]
            there.sort(key=lambda pod: -pod["spec"].get("priority", 0))
            chosen = [pod for pod in there if self._dice.chance(0.7)]
            pods = chosen if full else [{"UID": pod["metadata"]["uid"]} for pod in chosen]
            if pods:
                violations = self._dice.choice((0, 0, 1))
                proposed[name] = {"Pods": pods, "NumPDBViolations": violations}
        body = {
            "Pod": self._pods[key],
            "NodeNameToVictims": proposed if full else None,
            "NodeNameToMetaVictims": None if full else proposed,
        }
        answer = answers.preempted(*await self._served.post("preempt", body))
        self._note("preempt", key, list(proposed), answer)

    async def _bind(self, key: str, node: str) -> None:
        metadata = self._pods[key]["metadata"]
        body = {
            "PodName": metadata["name"],
            "PodNamespace": metadata["namespace"],
            "PodUID": metadata["uid"],
            "Node": node,
        }
        before = len(self._api.bindings)
        status, answer = await self._served.post("bind", body)
        made = self._api.bindings[before:]
        self._note("bind", key, node, answers.bound(status, answer, made))

    def _request(
        self, key: str, names: list[str], *, full: bool
    ) -> tuple[Object, list[Object] | None]:
        """The body of filter and prioritize, and the nodes in it if it carries them."""
        if not full:
            return {"Pod": self._pods[key], "Nodes": None, "NodeNames": names}, None
        nodes = [self._nodes[name] for name in names if name in self._nodes]
        return {"Pod": self._pods[key], "Nodes": {"items": nodes}, "NodeNames": None}, nodes

    def _offered(self) -> list[str]:
        """The nodes that kube-scheduler asks about: most of them, in any order."""
        dice, names = self._dice, list(self._nodes)
        dice.shuffle(names)
        if dice.chance(0.2):
            names = names[: dice.randint(1, max(1, len(names)))]
        if dice.chance(0.05):
            names.append("unheard-of")
        return names

    # ---- what happens besides

    def _give_up(self, key: str) -> None:
        """The pod's condition says that it was not scheduled, as kube-scheduler writes it."""
        pod = self._pods[key]
        condition = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}
        condition["message"] = f"after {self._asked[key]}"
        self._api.store("Pod", {**pod, "status": {**pod["status"], "conditions": [condition]}})
        self._note("given up", key)

    def _happen(self) -> None:
        """Something else changes in the cluster."""
        dice = self._dice
        match dice.choice(("label", "node", "leave", "end", "scale", "cordon", "namespace")):
            case "label":
                node = self._nodes[dice.choice(list(self._nodes))]
                labels = {**node["metadata"]["labels"], "pool": dice.choice("ab"), "cap": "spot"}
                self._api.store(
                    "Node", {**node, "metadata": {**node["metadata"], "labels": labels}}
                )
            case "node":
                self._api.store("Node", self._cluster.node(len(self._asked) + 20))
            case "leave":
                if len(self._nodes) > 1:
                    self._api.remove("Node", dice.choice(list(self._nodes)))
            case "end":
                if there := [k for k, p in self._pods.items() if p["spec"].get("nodeName")]:
                    pod = self._pods[dice.choice(there)]
                    status = {"phase": dice.choice(("Succeeded", "Failed"))}
                    self._api.store("Pod", {**pod, "status": status})
            case "scale":
                for kind in ("Deployment", "StatefulSet"):
                    for item in list(self._api.kinds_of[kind].values()):
                        self._api.store(kind, {**item, "spec": {"replicas": dice.randint(0, 9)}})
            case "cordon":
                node = self._nodes[dice.choice(list(self._nodes))]
                self._api.store("Node", {**node, "spec": {**node["spec"], "unschedulable": True}})
            case _:
                item = self._api.kinds_of["Namespace"][self._cluster.namespaces[0]]
                labels = {**item["metadata"]["labels"], "team": dice.choice(("red", "blue"))}
                metadata = {**item["metadata"], "labels": labels}
                self._api.store("Namespace", {**item, "metadata": metadata})

    def _note(self, *step: Any) -> None:
        self.steps.append(list(step))
