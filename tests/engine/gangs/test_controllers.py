"""Gangs of pods as other controllers make them: their labels, owners and gates, in their order.

The clauses are those of docs/examples/workloads.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from pathlib import Path

from engine.objects.peer import decode_controller
from tests.engine.gangs.test_gangs import World
from tests.support import builders
from tests.support.rows import rows

JOB = {"batch.kubernetes.io/job-name": "train", "controller-uid": "u"}
SET, LWS = "jobset.sigs.k8s.io", "leaderworkerset.sigs.k8s.io"
MEMBERS = {"placet.dev/gang-members": "3"}
APP = {"spark-app-selector": "spark-1"}
DRIVER = builders.pod("pi-driver", "shop", labels=APP | {"spark-role": "driver"}, on="n1")
RUN = {f"{SET}/jobset-uid": "s", f"{SET}/restart-attempt": "0"}
# What runs when the members come, and is no member: of a JobSet, a pod of the run before.
RUNNING = {
    "executors-of-spark": DRIVER,
    "jobsets": builders.pod("set-driver-0-0", "shop", labels=RUN, on="n1"),
}


@dataclass
class Made:
    """A pod that a controller makes."""

    name: str
    labels: dict[str, str]
    annotations: dict[str, str] = field(default_factory=dict)
    owner: builders.Object | None = None
    gates: tuple[str, ...] = ()


def worker(number: int, leader: str = "lws-0") -> Made:
    labels = {f"{LWS}/name": "lws", f"{LWS}/group-index": "0", f"{LWS}/group-key": "3e2387"}
    is_leader, owner = number == 0, "lws" if number == 0 else leader
    made = builders.controller("StatefulSet", owner, "shop", replicas=1 if is_leader else 2)
    name = leader if is_leader else f"{leader}-{number}"
    return Made(name, labels | {f"{LWS}/worker-index": str(number)}, {f"{LWS}/size": "3"}, made)


def of_set(job: str, index: int, parallelism: int) -> Made:
    labels = RUN | {f"{SET}/replicatedjob-name": job, f"{SET}/restart-attempt": "1"}
    owner = builders.controller("Job", f"set-{job}-0", "shop", replicas=parallelism)
    return Made(f"set-{job}-0-{index}", labels, MEMBERS, owner=owner)


def indexed(index: int, *gates: str) -> Made:
    labels = JOB | {"batch.kubernetes.io/job-completion-index": str(index)}
    owner = builders.controller("Job", "train", "shop", replicas=3)
    return Made(f"train-{index}", labels, owner=owner, gates=gates)


def grouped(index: int) -> Made:
    labels = {"kueue.x-k8s.io/queue-name": "q", "kueue.x-k8s.io/pod-group-name": "sample"}
    total = {"kueue.x-k8s.io/pod-group-total-count": "3"}
    return Made(f"sample-{index}", labels, total, gates=("kueue.x-k8s.io/admission",))


def executor(index: int) -> Made:
    labels = APP | {"spark-role": "executor", "spark-exec-id": str(index)}
    return Made(f"pi-exec-{index}", labels, MEMBERS, owner=DRIVER)


POLICIES = (Path(__file__).parents[3] / "docs/examples/workloads/workloads.policy").read_text()
CLAUSES = dict(re.findall(r"(?ms)^policy (\S+) \{.*?(^  gang .*?)^\}", POLICIES))
CASES = {
    "Job that Kueue has resumed": ("jobs", [indexed(n) for n in range(3)]),
    "Job that Kueue ungates by topology": (
        "jobs",
        [indexed(n, "kueue.x-k8s.io/topology") for n in range(3)],
    ),
    "pod group of Kueue": ("pod-groups-of-kueue", [grouped(n) for n in range(3)]),
    "JobSet": (
        "jobsets",
        [of_set("driver", 0, 1), of_set("workers", 0, 2), of_set("workers", 1, 2)],
    ),
    "LeaderWorkerSet": ("leader-worker-sets", [worker(n) for n in range(3)]),
    "executors of Spark, and not their driver": (
        "executors-of-spark",
        [executor(n) for n in range(1, 4)],
    ),
}


@rows(("clause", "made"), CASES)
def test_the_gang_of_a_controller_runs_to_its_end(clause: str, made: list[Made]) -> None:
    """Nobody is bound before the last is there without gates, and nothing is left at the end."""
    world = World({"n1": "2", "n2": "2"}, gang=CLAUSES[clause])
    if clause in RUNNING:
        world.pods["other"] = RUNNING[clause]
        world.watch("other")
    for each in made:
        spec = {"schedulingGates": [{"name": gate} for gate in each.gates]} if each.gates else {}
        world.pods[each.name] = builders.pod(
            each.name,
            "shop",
            cpu="1",
            labels=each.labels,
            annotations=each.annotations,
            owner=each.owner,
            spec=spec,
        )
        if each.owner is not None and each.owner["kind"] != "Pod":
            kind, owner = each.owner["kind"], builders.raw(each.owner)
            world.cache.put_controller(decode_controller(kind, owner))
        world.watch(each.name)
    names = [each.name for each in made]
    for number, name in enumerate(names):
        if world.pods[name]["spec"].pop("schedulingGates", None):
            world.watch(name)
            if number < len(names) - 1:
                assert isinstance(world.ask(name), str)
    held = [world.place(name) for name in names]
    assert held == [True, True, False]
    assert world.ended == dict.fromkeys(names, "")
    for name in names:
        world.pods[name]["spec"]["nodeName"] = world.on()[name]
        world.pods[name]["status"]["phase"] = "Succeeded"
        world.watch(name)
        world.delete(name)
    world.now += 1000
    world.gangs.review()
    assert world.gangs.statuses() == []
