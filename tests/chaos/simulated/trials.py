"""Trials: what is tried in the quiet times of a simulated cluster, where every answer is known.

Nothing else happens then, so what Placet answers is compared with the Model, which has nothing but
the objects of the API server: nobody may be offered a node that the model does not have, and where
no pod is on its way, nobody may be refused who has one there. A trial is an action of a schedule: a
name and a seed. What it did is counted, and a run that did too little of it has a finding.
"""

from __future__ import annotations

import json
import time
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AsyncExitStack, suppress
from functools import partial
from pathlib import Path
from random import Random
from typing import Any

from tests.chaos import workload
from tests.chaos.actor import partition, trouble_watches
from tests.chaos.gang_observer import IN_RACK, GangObserver
from tests.chaos.observer import BOUNDED, BUDGETS, MINUTE, PODS, Finding, Report
from tests.chaos.schedule import (
    APPS,
    APPS_OF_TRIALS,
    CARDS,
    MOVED,
    NODES,
    OF_TRIALS,
    POOLS,
    TRIALS,
    WITH_BIND,
    ZONES,
    Action,
    Schedule,
)
from tests.chaos.simulated.api import NODES_PATH, PODS_PATH, POLICIES, ClusterApi
from tests.chaos.simulated.kube_scheduler import PINNED
from tests.chaos.simulated.model import Model
from tests.chaos.simulated.play import LEASE_PATH, NAMESPACE, Play
from tests.chaos.simulated.replica import Replica
from tests.e2e.control_plane import Change
from tests.e2e.gangs import MEMBERS
from tests.e2e.manifests import pod
from tests.e2e.recorder import Call
from tests.support.fake_api_server import listening

Object = dict[str, Any]
# By then a watch has shown a change.
_SEEN_SECONDS, _SETTLED_SECONDS = 0.3, 1.0
# After a takeover pods may be on their way of whom nobody knows where to.
_WINDOW_SECONDS = 40.0
_TERM_SECONDS = 30.0
_MOST_PINNED = 0.6
# From the first to the last Binding of a gang, and how long one takes for which there is room: one
# whose members come at once, and one whose members are late.
_TOGETHER_SECONDS, _WHOLE_SECONDS, _LATE_SECONDS = 0.5, 8.0, 40.0
# By then a held call is over after the event that ends its gang.
_ENDED_SECONDS = 5.0
A_ZONE = len(NODES) // len(ZONES)
# How often a run that has had every trial, as in two minutes, does what at least.
_FLOOR = {
    "answers compared, with nobody on the way": 60,
    "terms began": 3,
    "terms began with pods on their way": 1,
    "nodes came back with pods on their way": 2,
    "relists after changes that no watch has shown": 1,
    **{f"slow ends of {app}": 1 for app in (*BOUNDED, *APPS_OF_TRIALS) if app != "repaired"},
    **{f"answers about {app} that leave out nodes": 1 for app in APPS_OF_TRIALS},
}
_FLOOR_WITHOUT_BIND = {"answers compared, with pods on their way": 5}
_FLOOR_WITH_BIND = {"gangs bound whole": 3, "gangs that lost a member": 1, "ends of held gangs": 6}


class _FoundError(Exception):
    """The observer has found something: the trial ends."""


class Trials(Play):
    """A run with its trials."""

    def __init__(self, api: ClusterApi, folder: Path, seed: int, *, binds: bool) -> None:
        super().__init__(api, folder, seed, binds=binds)
        self._apps = [*APPS, *APPS_OF_TRIALS, *([CARDS] if binds else [])]
        self._dice = Random(seed)
        self._probes = 0
        self._trial = ""
        self._played: set[str] = set()
        # Whether a trial is being played whose answers can be compared.
        self._compares = False
        # What changed lately, but for pods that were bound, with the time.
        self._news: deque[tuple[float, str]] = deque(maxlen=50)
        self._shown: dict[str, str] = {}
        self._client, self._term_at = "", 0.0
        zones = {n: workload.node_named(n)["metadata"]["labels"] for n in NODES}
        racks = {name: labels["topology.kubernetes.io/zone"] for name, labels in zones.items()}
        self._together = GangObserver(racks, len(NODES) * 100, self._loop.time)
        for each in self.schedulers.values():
            each.heard = self._heard

    # ---- what the API server tells

    def changed(self, change: Change) -> None:
        super().changed(change)
        if change.key.startswith(f"{PODS}{NAMESPACE}/"):
            self._together.change(change)
        before, shown = self._shown.get(change.key), _substance(change.value)
        if shown != before:
            self._shown[change.key] = shown
            self._news.append((self._loop.time(), change.key))

    def _elect(self) -> None:
        super()._elect()
        client = self._api.leader(LEASE_PATH)
        if client and client != self._client:
            self._client, self._term_at = client, self._loop.time()
            self._did("terms began")
            if any(self._counted_flights()):
                self._did("terms began with pods on their way")

    def _did(self, what: str, times: int = 1) -> None:
        self.report.did[what] += times

    # ---- what is compared

    def _flights(self) -> Mapping[str, Sequence[str]]:
        """The nodes that were offered to pods whose Binding is on its way."""
        found: dict[str, Sequence[str]] = {}
        for each in self.schedulers.values():
            found |= each.assumed
        pods = self._api.pods()
        return {k: n for k, n in found.items() if k in pods and not pods[k]["spec"].get("nodeName")}

    def _counted_flights(self) -> list[str]:
        pods, counted = self._api.pods(), {*BOUNDED, *APPS_OF_TRIALS}
        return [k for k in self._flights() if pods[k]["metadata"]["labels"].get("app") in counted]

    def _heard(self, asked: Object, call: Call) -> None:
        """Compares an answer of filter with the model, if that is possible."""
        metadata = asked["metadata"]
        key, app = f"{metadata['namespace']}/{metadata['name']}", metadata["labels"].get("app", "")
        now = self._loop.time()
        news = max((at for at, each in self._news if not each.endswith(f"/{key}")), default=0.0)
        is_ours = metadata["namespace"] == NAMESPACE and app in self._apps
        if not (self._compares and is_ours) or now - news < _SEEN_SECONDS:
            return
        flights, pods = self._flights(), self._api.pods()
        others = {k: p for k, p in pods.items() if k != key and _is_near(k, app)}
        wall = time.time()
        if app == "budget" and not 1.0 < wall % MINUTE < MINUTE - 1.0:
            return
        model = Model(
            self._api.nodes(),
            others,
            flights,
            budget=BUDGETS[int(wall // MINUTE) % 2],
            pool=self._pool,
        )
        offered = set(call.answer["NodeNames"] or ())
        there = set(model.open_to(app, call.names))
        what = f"{key} of {app}, offered {sorted(offered)} of {list(call.names)}"
        if self._binds and (flights or app == CARDS):
            # With a bindVerb, bind decides.
            there = there if not flights else set(call.names)
        if extra := offered - there:
            self._find("offered too much", f"{what}: not {sorted(extra)}, {self._trial}")
        if flights:
            self._did("answers compared, with pods on their way")
            return
        if now - self._term_at < _WINDOW_SECONDS and not self._binds:
            return
        self._did("answers compared, with nobody on the way")
        if app in APPS_OF_TRIALS and len(there) < len(call.names):
            self._did(f"answers about {app} that leave out nodes")
        if there and not offered:
            text = f"{what}: why not {sorted(there)}? {self._trial}"
            self._find("refused without a cause", text)

    # ---- a trial

    async def _try(self, name: str, seed: int) -> None:
        self._trial = f"in the trial {name} {seed}"
        self._dice = Random(f"{name} {seed}")
        self._compares = True
        self._played.add(name)
        with suppress(_FoundError):
            await getattr(self, f"_{name}")()
        for each in self.schedulers.values():
            each.delay = lambda: 0.0
            each.route = None
        self._compares = False
        for key in list(self._api.pods()):
            if key.startswith((f"{NAMESPACE}/probe-", f"{NAMESPACE}/gang-")):
                self._api.remove(PODS_PATH, key)
        self._mend_nodes()
        await self._run_until(self._loop.time() + _SETTLED_SECONDS)

    def _mend_nodes(self) -> None:
        for name in NODES:
            self._create_node(name)
            self._set_state(name, "free")
            for label in ("capacity", "pool"):
                self._set_label(name, label, "")

    async def _start(self) -> None:
        await super()._start()
        for name in OF_TRIALS:
            self._api.create(POLICIES, workload.policy(name, NAMESPACE))
        if self._binds:
            self._api.create(POLICIES, workload.gang_policy(NAMESPACE))

    async def play(self, schedule: Schedule, is_over: Callable[[], bool]) -> Report:
        report = await super().play(schedule, is_over)
        wanted = {*TRIALS, *(WITH_BIND if self._binds else ())}
        if wanted <= self._played and not report.findings:
            more = _FLOOR_WITH_BIND if self._binds else _FLOOR_WITHOUT_BIND
            for what, least in {**_FLOOR, **more}.items():
                if (number := report.did[what]) < least:
                    text = f"{what}: {number} times, and {least} are the least"
                    report.findings.append(Finding("did too little", text))
        return report

    async def _pause(self, seconds: float) -> None:
        await self._run_until(self._loop.time() + seconds)
        if self.observer.findings:
            # No time passes any more.
            raise _FoundError

    def _probe(self, app: str, node: str = "", **more: Any) -> str:
        """Creates a pod of an app that its own kube-scheduler lets go to that node alone."""
        self._probes += 1
        values = {"name": f"probe-{app}-{self._probes}", "app": app, "count": "1", **more}
        (made,) = workload.pods_of(Action(0.0, "create", values), NAMESPACE)
        if node:
            made["metadata"]["labels"][PINNED] = node
        self._create_pod(made)
        return f"{NAMESPACE}/{made['metadata']['name']}"

    async def _ask(self, apps: Iterable[str], seconds: float = _SETTLED_SECONDS) -> list[str]:
        """Has pods be asked about one after the other. Those that stay without a node go."""
        keys = []
        for app in apps:
            pinned = self._dice.random() < _MOST_PINNED
            keys.append(key := self._probe(app, self._dice.choice(NODES) if pinned else ""))
            await self._pause(seconds)
            self._drop_pending([key])
        return keys

    def _drop_pending(self, keys: Iterable[str]) -> None:
        flights = self._flights()
        for key in keys:
            pod = self._api.pods().get(key)
            if pod is not None and not pod["spec"].get("nodeName") and key not in flights:
                self._api.remove(PODS_PATH, key)

    def _bound(self, app: str = "") -> list[str]:
        """The keys of pods that are on nodes, of one app or of all."""
        return [
            key
            for key, each in self._api.pods().items()
            if key.startswith(f"{NAMESPACE}/")
            and each["spec"].get("nodeName")
            and each["spec"]["schedulerName"] != "another"
            and each["metadata"]["labels"].get("app") in ((app,) if app else self._apps)
            and "deletionTimestamp" not in each["metadata"]
        ]

    def _some(self, keys: Sequence[str], most: int) -> list[str]:
        return self._dice.sample(keys, min(len(keys), self._dice.randint(1, most)))

    def _names(self, keys: Iterable[str]) -> list[str]:
        return [key.rpartition("/")[2] for key in keys]

    # ---- trials without pods on their way

    async def _ends(self) -> None:
        """Pods of every count end slowly, and then they are gone."""
        await self._ask(self._dice.sample(self._apps * 3, 3 * len(self._apps)))
        slow = []
        for app in self._apps:
            keys = self._some(self._bound(app), 4)
            self._did(f"slow ends of {app}", len(keys))
            slow += keys
        self._end_pods(self._names(slow))
        await self._pause(_SETTLED_SECONDS)
        await self._ask(self._dice.sample(self._apps * 3, 3 * len(self._apps)))
        self._delete_pods(self._names(slow))
        await self._pause(_SETTLED_SECONDS)
        await self._ask(self._dice.sample(self._apps, len(self._apps)))

    async def _changes(self) -> None:
        """Objects change one after the other."""
        await self._ask(self._dice.sample(self._apps, len(self._apps)))
        for _ in range(6):
            self._change()
            await self._pause(3.5)
            await self._ask(self._dice.choices(self._apps, k=4))

    async def _unseen(self) -> None:
        """Objects change while no watch shows it; then the server has forgotten the version."""
        await self._ask(self._dice.sample(self._apps * 2, 2 * len(self._apps)))
        self._compares = False
        mends = [trouble_watches(each.door, "missed", 0.0) for each in self.replicas.values()]
        await self._pause(_SETTLED_SECONDS)
        for app in self._apps:
            self._delete_pods(self._names(self._some(self._bound(app), 3)))
        for _ in range(self._dice.randint(0, 3)):
            self._change()
            await self._pause(1.0)
        for mend in mends:
            mend()
        self._did("relists after changes that no watch has shown")
        await self._pause(30.0)
        self._compares = True
        await self._ask(self._dice.sample(self._apps * 2, 2 * len(self._apps)))

    def _change(self) -> None:
        """One change that users or controllers make."""
        dice = self._dice
        keys, node = self._names(self._some(self._bound(), 3)), dice.choice(NODES)
        match dice.randrange(11):
            case 0:
                self._delete_pods(keys)
            case 1:
                for name in keys:
                    self._delete_pods([name])
                    values = {"name": name.rpartition("-")[0], "first": name.rpartition("-")[2]}
                    values |= {"count": "1", "app": dice.choice(self._apps)}
                    self._create_pods(workload.pods_of(Action(0.0, "create", values), NAMESPACE))
            case 2:
                self._relabel_pods(keys, dice.choice([*MOVED, "budget", "plain"]))
            case 3:
                self._end_pods(keys)
                self._later(dice.uniform(5.0, 20.0), partial(self._delete_pods, keys))
            case 4:
                for each in self._pods(keys):
                    status = each["status"] | {"phase": dice.choice(["Succeeded", "Failed"])}
                    self._api.change(PODS_PATH, each | {"status": status})
            case 5 | 6:
                self._delete_node(node)
                self._later(dice.choice([0.0, 0.01, 2.0]), partial(self._create_node, node))
            case 7:
                self._set_state(node, dice.choice(["cordoned", "tainted"]))
                self._later(dice.uniform(5.0, 20.0), partial(self._set_state, node, "free"))
            case 8:
                label, values_of = dice.choice(
                    [
                        ("capacity", ("spot", "steady")),
                        ("pool", POOLS),
                        ("topology.kubernetes.io/zone", ZONES),
                    ]
                )
                self._set_label(node, label, dice.choice(values_of))
                self._later(20.0, partial(self._set_label, node, label, ""))
            case 9:
                self._edit(dice.choice(workload.policies(binds=self._binds)), "edited")
            case _:
                self._foreign(dice.choice(["shared", "even", "limited", "budget"]), node)

    def _foreign(self, app: str, node: str) -> None:
        """Somebody else binds a pod."""
        self._probes += 1
        made = pod(f"probe-foreign-{self._probes}", NAMESPACE, {"app": app}, nodeName=node)
        made["spec"]["schedulerName"] = "another"
        self._create_pods([made])

    async def _neighbours(self) -> None:
        """Pods of a mutual limit come beside each other, and few or many of floors are left."""
        dice = self._dice
        for first in (("crowd", "crowd", "guarded"), ("guarded", "crowd", "crowd")) * 3:
            node, keys = dice.choice(NODES), []
            for app in (*first, *dice.choices(("guarded", "crowd"), k=2)):
                keys.append(self._probe(app, node))
                await self._pause(_SETTLED_SECONDS)
            self._drop_pending(keys)
            self._set_label(node, "topology.kubernetes.io/zone", dice.choice(ZONES))
            await self._pause(_SETTLED_SECONDS)
            # They never fit, so floors may still get them.
            waiting = [self._probe("floored", kind="oversized") for _ in range(dice.randint(0, 4))]
            await self._ask(["floored"] * 4)
            self._drop_pending(waiting)
            self._delete_pods(self._names(self._some(self._bound(dice.choice(APPS_OF_TRIALS)), 3)))
            self._set_label(node, "topology.kubernetes.io/zone", "")
            await self._pause(_SETTLED_SECONDS)

    # ---- trials with pods on their way

    def _slow(self, least: float, most: float) -> None:
        """Bindings take long from now on."""
        for each in self.schedulers.values():
            each.delay = partial(self._dice.uniform, least, most)

    async def _returns(self) -> None:
        """Nodes go and come back while pods are on their way there, in every phase of these."""
        dice = self._dice
        for _ in range(4):
            self._slow(2.0, 6.0)
            app, node = dice.choice(["limited", "summed", "budget", "shared", "even", "crowd"]), ""
            if app in ("limited", "summed", "crowd"):
                node = dice.choice(NODES)
                there = [k for k in self._bound(app) if self._node_of(k) == node]
                self._delete_pods(self._names(there[: dice.randint(1, 2)]))
                await self._pause(_SETTLED_SECONDS)
            keys = []
            for _ in range(3):
                keys.append(self._probe(app, node))
                await self._pause(0.4)
            offered = [name for k, names in self._flights().items() if k in keys for name in names]
            gone = {node or dice.choice(offered or NODES), dice.choice(NODES)}
            await self._pause(dice.uniform(0.0, 2.0))
            # Others take the rows of nodes that are gone.
            for name in gone:
                self._delete_node(name)
            if (down := dice.choice([0.01, 0.5, 1.0, 3.0])) > _SEEN_SECONDS:
                # Somebody asks while they are gone.
                keys.append(self._probe(dice.choice([app, "plain"])))
            await self._pause(down)
            for name in dice.sample(sorted(gone), len(gone)):
                self._create_node(name)
            self._did("nodes came back with pods on their way", len(self._counted_flights()))
            await self._pause(0.4)
            for _ in range(3):
                keys.append(self._probe(app, node))
                await self._pause(0.5)
            self._slow(0.0, 0.0)
            await self._pause(8.0)
            self._drop_pending(keys)
            await self._ask([app, app])

    def _node_of(self, key: str) -> str:
        return str(self._api.pods().get(key, {}).get("spec", {}).get("nodeName", ""))

    async def _terms(self) -> None:
        """A leader knows of pods, another one leads and places them, and it leads again."""
        dice = self._dice
        app = dice.choice(["limited", "summed"])
        first, second = dice.sample(sorted(self.replicas.values(), key=lambda e: e.name), 2)
        await self._lead(first)
        keys = [self._probe(app) for _ in range(26)]
        await self._pause(6.0)
        await self._lead(second)
        if not self._binds:
            await self._pause(_WINDOW_SECONDS)
        self._slow(18.0, 24.0)
        for _ in range(5):
            full = self._bound(app)
            self._delete_pods(self._names(dice.sample(full, min(len(full), 2))))
            await self._pause(3.0)
            if self._counted_flights():
                break
        await self._lead(first)
        for _ in range(3):
            held = [names[0] for names in self._flights().values()]
            keys.append(self._probe(app, dice.choice(held) if held else ""))
            await self._pause(_SETTLED_SECONDS)
        self._slow(0.0, 0.0)
        await self._pause(25.0)
        self._drop_pending(keys)

    async def _lead(self, replica: Replica) -> None:
        """Has a Placet be asked alone until it leads."""
        for each in self.schedulers.values():
            each.route = lambda: replica
        ends = self._loop.time() + _TERM_SECONDS
        while not self._client.startswith(f"{replica.name}-") and self._loop.time() < ends:
            key = self._probe("limited")
            await self._pause(_SETTLED_SECONDS)
            self._drop_pending([key])

    async def _lease(self) -> None:
        """The leader cannot renew the Lease, or is stopped for longer than it, and is asked."""
        dice = self._dice
        first, second = dice.sample(sorted(self.replicas.values(), key=lambda e: e.name), 2)
        await self._lead(first)
        for each in self.schedulers.values():
            each.route = partial(dice.choice, [first, second])
        if dice.random() < 0.5:
            mend = partition(first.door, dice.choice(["requests", "answers"]), "lease")
        else:
            first.freeze()
            mend = first.thaw
        for number in range(40):
            await self._ask([dice.choice(["limited", "budget", "shared"])])
            if number == 25:
                for each in self.schedulers.values():
                    each.route = lambda: first
                mend()

    # ---- gangs

    def _gang(self, sizes: Sequence[str], port: int = 0) -> list[str]:
        """Creates the members of a gang, one for each amount of processors; their keys."""
        self._probes += 1
        name, made = f"gang-{self._probes}", []
        for number, cpu in enumerate(sizes):
            member = pod(f"{name}-{number}", NAMESPACE, {IN_RACK: name}, cpu=cpu)
            member["metadata"]["annotations"] = {MEMBERS: f"{len(sizes)}"}
            if port:
                member["spec"]["containers"][0]["ports"] = [
                    {"containerPort": port, "hostPort": port}
                ]
            made.append(member)
            self._create_pod(member)
        return [f"{NAMESPACE}/{each['metadata']['name']}" for each in made]

    async def _whole(self, keys: Sequence[str], seconds: float = _WHOLE_SECONDS) -> None:
        """Waits until all members have nodes; finds what is in part, or in vain."""
        name, ends = keys[0].rpartition("/")[2].rpartition("-")[0], self._loop.time()
        ends += seconds
        while self._loop.time() < ends and not all(map(self._node_of, keys)):
            await self._pause(0.5)
        without = [key for key in keys if not self._node_of(key)]
        if without:
            self._find("gang stuck", f"{without} after {seconds:g} s, {self._trial}")
            return
        seen = self._together.gangs()[name]
        self._did("gangs bound whole")
        if seen.seconds > _TOGETHER_SECONDS:
            text = f"{name}: its members were bound within {seen.seconds:.1f} s, {self._trial}"
            self._find("gang in part", text)
        for each in self._together.overruns():
            self._find(each.kind, f"{each.text}, {self._trial}")

    async def _members(self) -> None:
        """Members come late, or go before they are bound."""
        dice = self._dice
        for number in range(4):
            loses = number % 2 == 0
            self._slow(3.0 if loses else 0.0, 6.0)
            keys = self._gang(["10m"] * dice.randint(2, 6))
            if loses:
                await self._pause(dice.uniform(0.3, 5.0))
                goes = dice.choice(keys)
                if not any(map(self._node_of, keys)):
                    member = self._api.pods()[goes]
                    self._api.remove(PODS_PATH, goes)
                    await self._pause(8.0)
                    if there := [key for key in keys if key != goes and self._node_of(key)]:
                        self._find("gang in part", f"{there} without {goes}, {self._trial}")
                    self._did("gangs that lost a member")
                    metadata = {k: member["metadata"][k] for k in ("name", "namespace", "labels")}
                    metadata["annotations"] = {MEMBERS: f"{len(keys)}"}
                    self._create_pod({"metadata": metadata, "spec": dict(member["spec"])})
            await self._whole(keys, _LATE_SECONDS)
            self._delete_pods(self._names(keys))
            await self._pause(_SETTLED_SECONDS)

    async def _held(self) -> None:
        """What ends or completes a gang whose last member never comes: nobody is held then."""
        events = [
            *(self._lose_member, self._lose_number, self._lower_number, self._bind_member),
            *(self._lose_policy, self._lose_node, self._kill_leader, self._freeze_leader),
        ]
        for event in self._dice.sample(events, len(events)):
            keys = self._gang(["10m"] * self._dice.randint(2, 6))
            last = self._api.pods()[keys[-1]]
            labels = last["metadata"]["labels"] | {"oversized": ""}
            self._api.change(PODS_PATH, last | {"metadata": last["metadata"] | {"labels": labels}})
            ends = self._loop.time() + _LATE_SECONDS
            while len(self._calls_about(keys)) < len(keys) - 1 and self._loop.time() < ends:
                await self._pause(0.3)
            await self._pause(0.5)
            before = self._calls_about(keys)
            if len(before) < len(keys) - 1:
                self._find("gang not held", f"{sorted(before)} of {keys}, {self._trial}")
                return
            wanted = await event(keys)
            await self._pause(_ENDED_SECONDS)
            now, what = self._calls_about(keys), f"{event.__name__[1:]} of {keys}, {self._trial}"
            if left := sorted(key for key, call in before.items() if now.get(key) is call):
                self._find("held in vain", f"{left} after {what}")
            bound = [key for key in keys if self._node_of(key)]
            if wanted is not None and len(bound) != wanted:
                self._find("gang in part", f"{bound} bound, not {wanted}, after {what}")
            for each in () if wanted is None else self._together.overruns():
                self._find(each.kind, f"{each.text} after {what}")
            # Without its policy or number a gang may be anywhere.
            self._together.forget()
            self._did("ends of held gangs")
            self._delete_pods(self._names(keys))
            self._mend_nodes()
            if f"{NAMESPACE}/gangs" not in self._api.objects(POLICIES):
                self._api.create(POLICIES, workload.gang_policy(NAMESPACE))
            await self._pause(2 * _SETTLED_SECONDS)

    def _calls_about(self, keys: Iterable[str]) -> Mapping[str, Sequence[str]]:
        """The calls of bind about these pods that have no answer yet."""
        every = {
            key: call for each in self.schedulers.values() for key, call in each.assumed.items()
        }
        return {key: every[key] for key in keys if key in every and not self._node_of(key)}

    # What ends a gang. Each says how many members are bound afterwards, None for any number.

    async def _lose_member(self, keys: Sequence[str]) -> int | None:
        self._api.remove(PODS_PATH, self._dice.choice(keys))
        return 0

    def _annotate(self, keys: Iterable[str], annotations: Mapping[str, str]) -> None:
        for key in keys:
            member = self._api.pods()[key]
            metadata = member["metadata"] | {"annotations": annotations}
            self._api.change(PODS_PATH, member | {"metadata": metadata})

    async def _lose_number(self, keys: Sequence[str]) -> int | None:
        self._annotate([self._dice.choice(keys)], {})
        return 0

    async def _lower_number(self, keys: Sequence[str]) -> int | None:
        self._annotate(keys, {MEMBERS: f"{len(keys) - 1}"})
        return len(keys) - 1

    async def _bind_member(self, keys: Sequence[str]) -> int | None:
        """Somebody else binds the last one to a node of another."""
        uid = self._api.pods()[keys[-1]]["metadata"]["uid"]
        node = self._calls_about(keys)[keys[0]][0]
        self._api.bind(keys[-1], {"metadata": {"uid": uid}, "target": {"name": node}})
        return len(keys)

    async def _lose_policy(self, _: Sequence[str]) -> int | None:
        self._api.remove(POLICIES, f"{NAMESPACE}/gangs")
        return None

    async def _lose_node(self, keys: Sequence[str]) -> int | None:
        self._api.remove(NODES_PATH, self._calls_about(keys)[keys[0]][0])
        return 0

    def _leader_of_gangs(self) -> Replica:
        client = self._api.leader(LEASE_PATH)
        return next(
            (r for n, r in self.replicas.items() if client.startswith(f"{n}-")),
            next(iter(self.replicas.values())),
        )

    async def _kill_leader(self, _: Sequence[str]) -> int | None:
        leader = self._leader_of_gangs()
        leader.kill()
        self._later(_SETTLED_SECONDS, leader.start)
        return 0

    async def _freeze_leader(self, _: Sequence[str]) -> int | None:
        """For so long that another one leads, and its calls are over."""
        leader = self._leader_of_gangs()
        leader.freeze()
        await self._pause(_TERM_SECONDS)
        leader.thaw()
        return 0

    async def _tight(self) -> None:
        """Gangs of mixed sizes, or with ports of their nodes, that fill the zones."""
        dice = self._dice
        for _ in range(3):
            gangs = []
            for number in range(dice.randint(1, 3)):
                if dice.random() < 0.5:
                    sizes = ["40"] * A_ZONE + ["20"] * A_ZONE
                    gangs.append(self._gang(dice.sample(sizes, len(sizes))))
                else:
                    gangs.append(self._gang(["3"] * A_ZONE, 8000 + dice.randint(0, number)))
            for keys in gangs:
                await self._whole(keys)
            for keys in gangs:
                self._delete_pods(self._names(keys))
            await self._pause(_SETTLED_SECONDS)


def _is_near(key: str, app: str) -> bool:
    """Whether a pod may matter to one of ours: cards are for all namespaces."""
    return app == CARDS or key.startswith(f"{NAMESPACE}/")


def _substance(value: bytes | None) -> str:
    """What a count may read of an object, but for the node of a pod."""
    if value is None:
        return ""
    found = json.loads(value)
    metadata, spec = found["metadata"], found.get("spec", {})
    if "containers" in spec:
        spec = spec.get("schedulingGates")
    parts = [metadata["uid"], metadata.get("labels"), metadata.get("deletionTimestamp")]
    return json.dumps([*parts, spec, found.get("status", {}).get("phase")])


async def play(
    schedule: Schedule, folder: Path, seed: int, *, binds: bool, is_over: Callable[[], bool]
) -> Report:
    """Play a schedule in a new cluster, until a phase ends and it is over."""
    api = ClusterApi(seed)
    async with AsyncExitStack() as stack:
        await stack.enter_async_context(listening(api))
        run = Trials(api, folder, seed, binds=binds)
        api.told, api.sent = run.changed, run.sent
        stack.enter_context(run.watched())
        for replica in run.replicas.values():
            stack.push_async_callback(replica.close)
        for scheduler in run.schedulers.values():
            stack.callback(scheduler.end)
        return await run.play(schedule, is_over)
