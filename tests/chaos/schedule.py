"""Schedule: the actions of a nemesis, phase by phase; a pure function of a seed and of minutes.

A schedule is a value. Its text can be printed, shortened and read again, so that a finding comes
with what led to it. Every action names its objects itself, and has no effect if they are missing:
so a part of a schedule is a schedule too.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from random import Random
from typing import TypeVar

# A phase is actions, then a quiet time in which every pod that fits gets its node.
PHASES_A_MINUTE = 1
PHASE_SECONDS = 35.0
# One with repairs is longer: a leader evicts nothing in its first minute.
REPAIR_SECONDS = 190.0
REPLICAS = ("a", "b")
SCHEDULERS = ("1", "2")
APPS = ("shared", "even", "limited", "summed", "budget", "pooled", "plain")
# Pods of these are moved into each other's counts by an edit of their label.
MOVED = ("shared", "limited", "even")
POLICIES = ("shared", "even", "limited", "summed", "budget", "pooled")
# With a bindVerb there are pods that take cards, too, and the policy of this name.
CARDS = "cards"
# The policy whose pods are evicted where they break it, and their app.
REPAIRED, MINUTE = "repaired", 60.0
NODES = tuple(f"n{number}" for number in range(12))
ZONES = ("a", "b", "c")
POOLS = ("x", "y")
# What is tried in the quiet time after a phase of a simulated cluster; see `simulated/trials.py`.
TRIALS = ("ends", "changes", "unseen", "returns", "terms", "lease", "neighbours")
# The policies of these, and the apps that they are about: those of floors, and of a mutual limit.
OF_TRIALS, APPS_OF_TRIALS = ("floored", "guarded"), ("floored", "guarded", "crowd")
WITH_BIND = ("tight", "members", "held")
_TRIALS_A_PHASE = 2
_HEADING = "phase"
_NO_TIMES: Mapping[str, str] = {}
# Each fault: its kind and what is fixed of its values. A kube-scheduler with a `route` asks one
# `among` some Placets, as by a Service of them. Of `watch`, `expired` says that the server has lost
# the version (410), and `missed` shows no change before it says so. Of `bind`, `lost` and `doubled`
# are a `share` of the calls of the verb, and `unanswered` one of the Bindings and of the looks at
# pods, to which the API server's answer gets lost; `delayed` is a Binding of kube-scheduler that
# arrives late. A `lease` is `deleted`, `restored` as a new object that has the content of when the
# phase began, or `edited` so that somebody else holds it. By a `partition`, requests of a Placet do
# not reach the API server, or answers do not come back: to all requests, or to those about its
# Lease.
FAULTS = (
    "kill",
    "kill",
    "stop",
    "restart",
    "clock",
    "scheduler-kill",
    "scheduler-stop",
    "scheduler-restart",
    "route",
    "route",
    "api",
    "watch fault=late",
    "watch fault=cut",
    "watch fault=frozen",
    "watch fault=repeated",
    "watch fault=expired",
    "watch fault=missed",
    "bind fault=lost",
    "bind fault=doubled",
    "bind fault=unanswered",
    "lease how=deleted",
    "lease how=restored",
    "lease how=edited",
    "negative",
    "partition fault=requests of=all",
    "partition fault=answers of=all",
    "partition fault=requests of=lease",
    "partition fault=answers of=lease",
)
# What puts the lead of a Placet in doubt, and by what somebody sees or binds late in that time.
# Those come twice by which the old leader may still bind when the next one decides. With no doubt,
# the leader itself sees and binds late.
_NO_DOUBT = ""
_DOUBTS = (
    *(2 * (_NO_DOUBT,)),
    "lease how=restored",
    "lease how=deleted",
    "stop",
    *(2 * ("restart",)),
    "partition fault=requests of=all",
    *(2 * ("partition fault=answers of=all",)),
    *(2 * ("partition fault=requests of=lease",)),
    "partition fault=answers of=lease",
)
_SIGHTS = (
    *(3 * ("watch fault=frozen",)),
    *(2 * ("watch fault=missed",)),
    "watch fault=late",
    "watch fault=cut",
)
_LAGS = ("bind fault=lost", "bind fault=doubled", "bind fault=unanswered", "bind fault=unanswered")
# How often the last leader sees late as the next one does, and binds late; for how long that is at
# most.
_LATE_TOO, _BINDS_LATE, _MOST_LATE_SECONDS = 0.3, 0.7, 18.0
# What a pod says that it takes where that is nothing: less than nothing, or no number.
_AMOUNTS = ("-1", "-300", "-10000", "-1000000", "-9223372036854775808", "9" * 20, "nan", "")
# As many pods as fill their bound nearly: 24 are `limited` or have a card. Others go, mostly.
_FULL, _GO = 20, 0.8
# More pods than a bound has room for, and what happens while they wait to who has refused them, if
# anything does.
_TOO_MANY = 30
_NOTHING = ""
_WHILE_THEY_WAIT = (
    *(3 * (_NOTHING,)),
    "kill",
    "kill",
    "restart",
    "stop",
    "scheduler-kill",
    "watch fault=frozen",
    "lease how=deleted",
    "partition fault=requests of=lease",
)
# Faults of kube-scheduler's Bindings, without a bindVerb.
_OF_KUBE_SCHEDULER = ("bind fault=delayed", "bind fault=delayed")
# Of the pods that go, so many are still there for a while.
_GO_SLOWLY = 0.4


@dataclass(frozen=True, slots=True)
class Action:
    """What is done `at` a time, in seconds from the start of its phase."""

    at: float
    kind: str
    values: Mapping[str, str] = field(default_factory=dict)

    def __str__(self) -> str:
        return " ".join(
            [f"{self.at:.1f}", self.kind, *(f"{k}={v}" for k, v in self.values.items())]
        )

    @staticmethod
    def read(line: str) -> Action:
        """The action of a line that is the text of one; ValueError if it is not."""
        at, kind, *values = line.split()
        pairs = (value.partition("=") for value in values)
        return Action(float(at), kind, {key: value for key, _, value in pairs})

    def seconds(self, name: str) -> float:
        return float(self.values[name])

    def pods(self) -> list[str]:
        """The names of the pods that the action is about."""
        values = self.values
        first = int(values.get("first", "0"))
        return [f"{values['name']}-{each}" for each in range(first, first + int(values["count"]))]


Schedule = Sequence[Sequence[Action]]


def text(schedule: Schedule) -> str:
    """The schedule as lines, which `read` understands."""
    lines = (line for phase in schedule for line in (_HEADING, *map(str, phase)))
    return "\n".join(lines) + "\n"


def read(lines: str) -> Schedule:
    """The schedule of a text; `#` begins a comment."""
    phases: list[list[Action]] = []
    for each in lines.splitlines():
        line = each.partition("#")[0].strip()
        if line == _HEADING:
            phases.append([])
        elif line:
            phases[-1].append(Action.read(line))
    return phases


def length(phase: Sequence[Action]) -> float:
    """The seconds for which a phase acts."""
    repairs = any(each.kind == "deploy" for each in phase)
    most = REPAIR_SECONDS if repairs else PHASE_SECONDS
    return min(most, max((each.at for each in phase), default=0.0) + 1.0)


def schedule(
    seed: int,
    minutes: float,
    *,
    binds: bool,
    repairs: bool = False,
    a_minute: int = PHASES_A_MINUTE,
) -> Schedule:
    """The same phases for the same seed; more minutes only add phases. `binds`: a bindVerb.

    With `repairs` there is a policy with a repair, and nodes change sides for long.
    """
    maker = _Maker(Random(seed), binds=binds)
    if repairs:
        phases = max(1, round(minutes * MINUTE / (REPAIR_SECONDS + PHASE_SECONDS)))
        return [maker.repaired() for _ in range(phases)]
    return [maker.phase() for _ in range(max(1, round(minutes * a_minute)))]


class _Maker:
    """Makes phases one after the other; it knows which pods the actions before have created."""

    def __init__(self, random: Random, *, binds: bool) -> None:
        self._random = random
        self._apps = (*APPS, CARDS) if binds else APPS
        self._kinds = (*FAULTS, *(() if binds else _OF_KUBE_SCHEDULER))
        self._taking = ("summed", *([CARDS] if binds else []))
        self._made = 0
        # The sets of pods that there are, with their app and size.
        self._sets: dict[str, tuple[str, int]] = {}
        self._faults: list[str] = []
        self._lags = _LAGS if binds else _OF_KUBE_SCHEDULER
        self._doubts: list[str] = []
        self._kinds_of_trials = (*TRIALS, *(WITH_BIND if binds else ()))
        self._trials: list[str] = []
        self._phases = 0
        self._kinds_of_phase = (self._busy, self._handover, self._waiting)

    def phase(self) -> list[Action]:
        self._phases += 1
        kind = self._kinds_of_phase[(self._phases - 1) % len(self._kinds_of_phase)]
        actions = [*self._tidy(), *kind(), *self._trials_after()]
        return sorted(actions, key=lambda action: action.at)

    def _trials_after(self) -> Iterator[Action]:
        """Trials for the quiet time: each comes once before any comes again."""
        for _ in range(_TRIALS_A_PHASE):
            if not self._trials:
                self._trials = self._random.sample(
                    self._kinds_of_trials, len(self._kinds_of_trials)
                )
            seed = f"{self._random.randrange(999)}"
            yield Action(0.0, "trial", {"name": self._trials.pop(), "seed": seed})

    def repaired(self) -> list[Action]:
        """Nodes become spot nodes, so that pods drift; there are faults before and meanwhile."""
        uniform = self._random.uniform
        # Pods that were moved break it again when nodes change: without an edit it would stop.
        found = [*self._tidy(), Action(0.2, "deploy"), *self._edit_actions(1.0)]
        found += [self._burst(uniform(1.0, 30.0), app) for app in ("shared", "even", "limited")]
        # The second half of them is steady.
        for name in self._random.sample(NODES[len(NODES) // 2 :], self._random.randint(3, 5)):
            spot = {"name": name, "label": "capacity", "value": "spot"}
            found.append(Action(uniform(15.0, 40.0), "label", spot))
        for at in (uniform(2.0, 20.0), uniform(90.0, 130.0), uniform(115.0, 160.0)):
            if not self._faults:
                self._faults = self._random.sample(self._kinds, len(self._kinds))
            found.append(self._fault(at, self._faults.pop()))
        found += self._random.choice([self._cordon_actions, self._edit_actions])(
            uniform(80.0, 150.0)
        )
        ends = Action(REPAIR_SECONDS - 1.0, "delete", {"name": "nobody", "count": "1"})
        return sorted([*found, ends], key=lambda action: action.at)

    def _edit_actions(self, at: float) -> Iterator[Action]:
        yield Action(at, "policy", {"name": REPAIRED, "state": "edited"})

    def _tidy(self) -> Iterator[Action]:
        """Deletes half of what earlier phases have left: the cluster does not fill up."""
        for name in list(self._sets)[: len(self._sets) // 2]:
            yield self._deleted(0.0, name)

    def _busy(self) -> Iterator[Action]:
        """Users and faults do what comes to their minds."""
        yield from self._work()
        yield from self._trouble()

    def _work(self) -> Iterator[Action]:
        """What users and controllers do."""
        for app in self._random.sample(self._apps, len(self._apps)):
            yield self._burst(self._random.uniform(0.2, 2.5), app)
        kinds = {
            "burst": 4,
            "again": 2,
            "delete": 1,
            "end": 1,
            "rollout": 2,
            "relabel": 2,
            "special": 4,
            "policy": 3,
            "node": 1,
            "nodes": 1,
            "zone": 1,
            "cordon": 2,
            "node_labels": 1,
            "gates": 1,
            "namespaces": 1,
        }
        at = 3.0
        while (at := at + self._random.uniform(0.6, 1.9)) < PHASE_SECONDS - 2.0:
            kind = self._random.choices(list(kinds), list(kinds.values()))[0]
            yield from getattr(self, f"_{kind}_actions")(at)

    def _trouble(self) -> Iterator[Action]:
        """Faults: each kind comes once before any comes again."""
        at = 1.0
        while (at := at + self._random.uniform(1.5, 4.5)) < PHASE_SECONDS - 3.0:
            if not self._faults:
                self._faults = self._random.sample(self._kinds, len(self._kinds))
            yield self._fault(at, self._faults.pop())

    def _handover(self) -> Iterator[Action]:
        """One Placet leads, then its lead is in doubt, while both are asked about a crowd.

        Each doubt comes once before any comes again. Without one, it alone is asked, sees late and
        binds late.
        """
        if not self._doubts:
            self._doubts = self._random.sample(_DOUBTS, len(_DOUBTS))
        doubt = self._doubts.pop()
        uniform, choice = self._random.uniform, self._random.choice
        leader, other = self._random.sample(REPLICAS, 2)
        begins = uniform(7.0, 9.0)
        yield from self._crowd(2.0)
        for scheduler in SCHEDULERS:
            for at, among in ((1.0, leader), (begins, "".join(REPLICAS) if doubt else leader)):
                lasts = f"{(PHASE_SECONDS if at == begins else begins - 0.2) - at:.1f}"
                values = {"scheduler": scheduler, "among": among, "for": lasts}
                yield Action(at, "route", values | {"seed": f"{self._random.randrange(99)}"})
        if not doubt:
            yield self._fault(begins, choice(_SIGHTS), leader, self._long())
            yield self._fault(begins, choice(self._lags), leader, self._long())
            return
        long = {"for": f"{uniform(12.0, PHASE_SECONDS - begins):.1f}"}
        yield self._fault(begins, doubt, leader, long if doubt.startswith("partition") else {})
        # Who sees late misses the last pods of the leader, and still does when the other one leads.
        since = begins + (-uniform(1.0, 6.0) if doubt == "restart" else uniform(2.0, 9.0))
        late = self._long()
        yield self._fault(since, choice(_SIGHTS), other, late)
        if self._random.random() < _LATE_TOO:
            yield self._fault(since, choice(_SIGHTS), leader, late)
        if self._random.random() < _BINDS_LATE:
            yield self._fault(since, choice(self._lags), leader)

    def _long(self) -> dict[str, str]:
        """For how long somebody sees late, or binds late, if much happens in that time."""
        return {"for": f"{self._random.uniform(8.0, _MOST_LATE_SECONDS):.1f}"}

    def _waiting(self) -> Iterator[Action]:
        """Pods wait for room, who has refused them may end meanwhile, and then there is room.

        Nodes are closed first, and have room all the time: nobody may be woken for that. Others go
        and come back while pods are on their way.
        """
        uniform = self._random.uniform
        closed = self._random.sample(NODES, self._random.randint(0, 3))
        state = self._random.choice(["cordoned", "tainted"])
        for name in closed:
            yield Action(0.2, "state", {"name": name, "state": state})
        crowded = ["limited", "budget", *self._taking]
        full = [
            self._burst(at, app, _TOO_MANY // 5)
            for app in crowded
            for at in (0.5, 0.6, 0.7, 0.8, 0.9)
        ]
        yield from full
        if self._random.random() < _BINDS_LATE:
            lag = self._random.choice(self._lags)
            for replica in REPLICAS:
                yield self._fault(0.3, lag, replica, self._long())
        yield from self._nodes_actions(uniform(3.0, 8.0))
        if meanwhile := self._random.choice(_WHILE_THEY_WAIT):
            yield self._fault(uniform(9.0, 13.0), meanwhile)
        yield self._fault(uniform(2.0, 13.0), "negative")
        ends = uniform(20.0, 26.0)
        for app in crowded:
            for each in self._random.sample([a for a in full if a.values["app"] == app], 2):
                yield self._deleted(ends, each.values["name"])
        for name in closed:
            yield Action(ends + 3.0, "state", {"name": name, "state": "free"})

    def _crowd(self, at: float) -> Iterator[Action]:
        """Pods of the bounds that are full soon, all the time; as many go as come."""
        apps = [
            *MOVED,
            "limited",
            "summed",
            "budget",
            *(2 * [CARDS] if CARDS in self._apps else []),
        ]
        full = [self._burst(at, app, _FULL // 4) for app in ("limited", apps[-1]) for _ in range(4)]
        yield from full
        for _ in range(2):
            yield self._fault(at + self._random.uniform(0.0, 15.0), "negative")
            yield from self._nodes_actions(at + self._random.uniform(3.0, 25.0))
        crowd = [each.values["name"] for each in full]
        while (at := at + self._random.uniform(0.6, 1.6)) < PHASE_SECONDS - 3.0:
            joins = self._burst(at, self._random.choice(apps), self._random.randint(2, 6))
            crowd.append(joins.values["name"])
            yield joins
            if self._random.random() < _GO:
                goes = self._ended if self._random.random() < _GO_SLOWLY else self._deleted
                yield goes(at, crowd.pop(self._random.randrange(len(crowd))))

    def _fault(
        self, at: float, text: str, replica: str = "", times: Mapping[str, str] = _NO_TIMES
    ) -> Action:
        """A fault of `FAULTS`, with a target, which may be given, and its times."""
        kind, *values = text.split()
        found = dict(value.split("=") for value in values)
        target = self._target(kind, replica or self._random.choice(REPLICAS))
        return Action(at, kind, {**target, **found, **self._times(kind), **times})

    def _target(self, kind: str, replica: str) -> dict[str, str]:
        if kind.startswith("scheduler") or kind == "route":
            return {"scheduler": self._random.choice(SCHEDULERS)}
        return {} if kind in ("api", "lease", "negative") else {"replica": replica}

    def _times(self, kind: str) -> dict[str, str]:
        """How long it lasts, and what else is chosen at random."""
        uniform = self._random.uniform
        match kind:
            case "kill" | "scheduler-kill":
                return {"down": f"{uniform(0.2, 6.0):.1f}"}
            case "stop" | "partition":
                return {"for": f"{uniform(5.0, 30.0):.1f}"}
            case "route":
                among = {"among": "".join(REPLICAS)}
                return {
                    **among,
                    "for": f"{uniform(5.0, 30.0):.1f}",
                    "seed": f"{self._random.randrange(99)}",
                }
            case "scheduler-stop":
                return {"for": f"{uniform(5.0, 15.0):.1f}"}
            case "api":
                return {"down": f"{uniform(0.5, 3.0):.1f}"}
            case "watch":
                return {"for": f"{uniform(4.0, 12.0):.1f}", "late": f"{uniform(0.5, 2.0):.1f}"}
            case "bind":
                return {
                    "for": f"{uniform(5.0, 15.0):.1f}",
                    "seed": f"{self._random.randrange(99)}",
                    "share": self._random.choice(["0.2", "0.9"]),
                }
            case "negative":
                self._made += 1
                return {
                    "name": f"negative-{self._made}",
                    "app": self._random.choice(self._taking),
                    "count": f"{self._random.randint(1, 3)}",
                    "node": self._random.choice(NODES),
                    "amount": self._random.choice(_AMOUNTS),
                    "index": f"{self._random.randint(0, 1)}",
                    "for": f"{uniform(5.0, 15.0):.1f}",
                }
            case "clock":
                return {"off": f"{self._random.choice([-1, 1]) * uniform(2.0, 60.0):.1f}"}
            case _:
                return {}

    # ---- what users do

    def _name(self, app: str, count: int) -> str:
        self._made += 1
        name = f"{app}-{self._made}"
        self._sets[name] = (app, count)
        return name

    def _burst(self, at: float, app: str, count: int = 0) -> Action:
        count = count or self._random.randint(4, 20)
        return Action(
            at, "create", {"name": self._name(app, count), "app": app, "count": f"{count}"}
        )

    def _deleted(self, at: float, name: str) -> Action:
        _, count = self._sets.pop(name)
        return Action(at, "delete", {"name": name, "count": f"{count}"})

    def _ended(self, at: float, name: str) -> Action:
        """As `_deleted`, but pods that have a node end in some seconds."""
        deleted = self._deleted(at, name)
        return Action(at, "end", {**deleted.values, "for": f"{self._random.uniform(1.0, 9.0):.1f}"})

    def _any(self, apps: Sequence[str] = ()) -> str | None:
        names = [name for name, (app, _) in self._sets.items() if not apps or app in apps]
        return self._random.choice(names) if names else None

    def _part(self, name: str) -> dict[str, str]:
        """Some of the pods of a set."""
        count = self._sets[name][1]
        first = self._random.randrange(count)
        return {
            "name": name,
            "first": f"{first}",
            "count": f"{self._random.randint(1, count - first)}",
        }

    def _burst_actions(self, at: float) -> Iterator[Action]:
        # More than have room under the limit: those that wait matter most.
        yield self._burst(at, self._random.choice([*self._apps, "limited", "limited"]))

    def _again_actions(self, at: float) -> Iterator[Action]:
        """Pods are deleted, and at once there are others under their names."""
        if (name := self._any()) is not None:
            part = self._part(name)
            yield Action(at, "delete", part)
            yield Action(at + 0.1, "create", {**part, "app": self._sets[name][0]})

    def _delete_actions(self, at: float) -> Iterator[Action]:
        if (name := self._any()) is not None:
            yield self._deleted(at, name)

    def _end_actions(self, at: float) -> Iterator[Action]:
        if (name := self._any()) is not None:
            yield self._ended(at, name)

    def _rollout_actions(self, at: float) -> Iterator[Action]:
        """New pods for old ones, two at a time, with a label of another template."""
        if (old := self._any()) is None:
            return
        app, count = self._sets.pop(old)
        new = self._name(app, count)
        for step, first in enumerate(range(0, count, 2)):
            few = {"first": f"{first}", "count": f"{min(2, count - first)}"}
            begins = at + 0.6 * step
            yield Action(begins, "create", {"name": new, **few, "app": app, "hash": new})
            yield Action(begins + 0.5, "delete", {"name": old, **few})

    def _relabel_actions(self, at: float) -> Iterator[Action]:
        if (name := self._any(MOVED)) is not None:
            app = self._random.choice([each for each in MOVED if each != self._sets[name][0]])
            yield Action(at, "relabel", {**self._part(name), "app": app})

    def _special_actions(self, at: float) -> Iterator[Action]:
        """Pods that kube-scheduler does not place."""
        app, kind = (
            self._random.choice(self._apps),
            self._random.choice(["gated", "foreign", "oversized"]),
        )
        count = self._random.randint(1, 3)
        values = {"name": self._name(app, count), "count": f"{count}"}
        yield Action(at, "create", {**values, "app": app, "kind": kind})
        if kind == "gated" and self._random.random() < 0.5:
            yield Action(at + self._random.uniform(2.0, 8.0), "open", values)

    def _policy_actions(self, at: float) -> Iterator[Action]:
        policy = self._random.choice(POLICIES)
        states = ["edited", "edited", "broken", "to-and-fro"]
        states += ["moved"] if policy == "pooled" else []
        state = self._random.choice(states)
        if state == "to-and-fro":
            turn = "moved" if policy == "pooled" else "edited"
            for number in range(2 * self._random.randint(2, 5)):
                yield Action(at + 0.4 * number, "policy", {"name": policy, "state": turn})
            return
        yield Action(at, "policy", {"name": policy, "state": state})
        if state == "broken":
            mended = {"name": policy, "state": "edited"}
            yield Action(at + self._random.uniform(2.0, 8.0), "policy", mended)

    def _node_actions(self, at: float) -> Iterator[Action]:
        down = self._random.uniform(0.1, 3.0)
        yield Action(at, "node", {"name": self._random.choice(NODES), "down": f"{down:.1f}"})

    def _nodes_actions(self, at: float) -> Iterator[Action]:
        """Several nodes go, and come back under their names in another order."""
        names = self._random.sample(NODES, self._random.randint(2, 5))
        yield from self._gone(at, names, self._random.uniform(0.1, 2.0))

    def _zone_actions(self, at: float) -> Iterator[Action]:
        """All nodes of a zone go, or nobody may be placed there, and then it is over."""
        zone, ends = self._random.choice(ZONES), at + self._random.uniform(1.0, 6.0)
        if self._random.random() < 0.5:
            yield Action(at, "zone", {"name": zone, "state": "gone"})
            yield Action(ends, "zone", {"name": zone, "state": "back"})
        else:
            yield Action(at, "zone", {"name": zone, "state": "tainted"})
            yield Action(ends, "zone", {"name": zone, "state": "free"})

    def _gone(self, at: float, names: Sequence[str], down: float) -> Iterator[Action]:
        for name in names:
            yield Action(at, "node", {"name": name, "down": f"{down:.1f}"})
            at += 0.2
            down = max(0.1, down + self._random.uniform(-0.8, 0.4))

    def _cordon_actions(self, at: float) -> Iterator[Action]:
        """Nodes close to new pods, by a cordon or a taint, for a while."""
        state, ends = self._random.choice(["cordoned", "tainted"]), self._random.uniform(1.0, 8.0)
        for name in self._random.sample(NODES, self._random.randint(1, 4)):
            yield Action(at, "state", {"name": name, "state": state})
            yield Action(at + ends, "state", {"name": name, "state": "free"})

    def _node_labels_actions(self, at: float) -> Iterator[Action]:
        """Nodes change sides while pods are on their way there, and change back."""
        label, values = self._random.choice([("capacity", ("spot", "steady")), ("pool", POOLS)])
        ends = self._random.uniform(1.0, 8.0)
        for name in self._random.sample(NODES, self._random.randint(1, 2)):
            found = {"name": name, "label": label}
            yield Action(at, "label", {**found, "value": self._random.choice(values)})
            yield Action(at + ends, "label", {**found, "value": ""})

    def _gates_actions(self, at: float) -> Iterator[Action]:
        """Many pods lose their gates at once."""
        app = self._random.choice(self._apps)
        values = {"app": app, "count": f"{self._random.randint(4, 12)}"}
        values["name"] = self._name(app, int(values["count"]))
        yield Action(at, "create", {**values, "kind": "gated"})
        yield Action(at + self._random.uniform(1.0, 4.0), "open", values)

    def _namespaces_actions(self, at: float) -> Iterator[Action]:
        """Namespaces come with pods of all apps, and go at once."""
        self._made += 1
        count = self._random.randint(2, 5)
        values = {"name": f"burst-{self._made}", "count": f"{count}"}
        yield Action(at, "namespaces", values)
        yield Action(at + self._random.uniform(0.5, 4.0), "namespaces-gone", values)


# ---- shortening: a schedule that still fails, with fewer actions (delta debugging)


T = TypeVar("T")
MOST_TRIES = 16
_LAST_PHASES = 2


def shortened(
    schedule: Schedule, fails: Callable[[Schedule], bool], tries: int = MOST_TRIES
) -> Schedule:
    """A part of a schedule that fails, after at most so many tries; the phases first."""

    def fails_yet(tried: Schedule) -> bool:
        nonlocal tries
        tries -= 1
        return tries >= 0 and bool(tried) and fails(tried)

    # What matters has mostly happened in the last phase, with which a finding ends a run.
    for last in range(1, len(schedule)):
        if last <= _LAST_PHASES and fails_yet(schedule[-last:]):
            schedule = schedule[-last:]
            break
    schedule = _fewer(schedule, fails_yet)
    actions = [(number, each) for number, phase in enumerate(schedule) for each in phase]
    left = _fewer(actions, lambda tried: fails_yet(_phases(tried)))
    return _phases(left)


def _phases(actions: Sequence[tuple[int, Action]]) -> Schedule:
    numbers = sorted({number for number, _ in actions})
    return [[each for at, each in actions if at == number] for number in numbers]


def _fewer(items: Sequence[T], fails: Callable[[Sequence[T]], bool]) -> Sequence[T]:
    """Some of the items, without parts that are not needed: first halves, then smaller ones."""
    parts = 2
    while len(items) > 1:
        size = -(-len(items) // parts)
        for start in range(0, len(items), size):
            rest = [*items[:start], *items[start + size :]]
            if fails(rest):
                items, parts = rest, max(2, parts - 1)
                break
        else:
            if size == 1:
                break
            parts = min(len(items), 2 * parts)
    return items
