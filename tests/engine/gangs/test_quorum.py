"""Quorum: how many members are placed together of a gang some of which have ended."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from engine.gangs.gang import part_of
from engine.gangs.quorum import still_wanted
from engine.objects.peer import decode_controller
from engine.objects.pod_group import COSCHEDULING, LABEL, GroupName, PodGroup
from engine.objects.resources import decode_quota
from tests.engine.gangs.test_gangs import World
from tests.support import builders

NAMED, BY_LABEL = (
    'gang "together" { PARTS }',
    'gang "g" { of pods by peer.labels["job"] at least 2 }',
)


@pytest.mark.parametrize(
    ("number", "came", "wants", "is_all", "left"),
    [
        # The workload is the gang: what it wants is known, and is all.
        (4, 0, 4, True, 4),
        (4, 4, 1, True, 1),
        (4, 2, 2, True, 2),
        (4, 0, 2, True, 2),
        (2, 9, 5, True, 2),
        (2, 2, 0, True, 1),
        (4, 0, None, True, 4),
        # Others may come of workloads that do not exist yet.
        (5, 0, 1, False, 5),
        (5, 1, 4, False, 4),
        (2, 9, 5, False, 2),
        (2, 3, 1, False, 1),
        # Nobody says what is wanted.
        (4, 0, None, False, 4),
        (4, 3, None, False, 1),
        (4, 4, None, False, 1),
    ],
)
def test_what_is_still_wanted(
    number: int, came: int, wants: int | None, is_all: bool, left: int
) -> None:
    assert still_wanted(number, came, wants, is_all=is_all) == left


@pytest.mark.parametrize(
    ("spec", "status", "wants"),
    [
        ({"parallelism": 4, "completions": 5}, {}, 4),
        ({"parallelism": 4, "completions": 5}, {"succeeded": 4, "active": 1}, 1),
        ({"parallelism": 4, "completions": 9}, {"succeeded": 2, "failed": 7}, 4),
        ({"parallelism": 4, "completions": 6}, {"succeeded": 2, "failedIndexes": "1,3-4"}, 1),
        ({"parallelism": 4, "completions": 4}, {"failedIndexes": "x,9-3,-,1"}, 3),
        ({"parallelism": 4}, {}, 4),
        ({"parallelism": 4}, {"succeeded": 1}, 1),
        ({"parallelism": 0, "completions": 4}, {}, 0),
    ],
)
def test_what_a_job_wants(spec: Any, status: Any, wants: int) -> None:
    job = {"metadata": {"name": "j", "uid": "j"}, "spec": spec, "status": status}
    assert decode_controller("Job", builders.raw(job)).wants == wants


class Ending(World):
    """A world whose pods end, with Jobs."""

    def end(self, name: str, phase: str = "Succeeded", at: str = "2026-01-01T11:00:00Z") -> None:
        made = self.pods[name]
        made["spec"]["nodeName"] = self.on().get(name, "n1")
        ended = {"name": "main", "state": {"terminated": {"finishedAt": at}}}
        made["status"] = {"phase": phase, "containerStatuses": [ended]}
        self.watch(name)
        del self.pods[name]

    def job(self, name: str, **status: int) -> builders.Object:
        """A Job of two at a time, and three in all."""
        made = builders.controller("Job", name, "shop", replicas=2)
        made["spec"]["completions"] = 3
        self.cache.put_controller(decode_controller("Job", builders.raw(made | {"status": status})))
        return made


def waits(world: World, name: str) -> bool:
    return "members exist" in world.ask(name)


@pytest.mark.parametrize("gang", [NAMED, BY_LABEL])
def test_the_last_pod_of_a_job_comes_alone(gang: str) -> None:
    """Also if it is a retry, and where the other pods ended long ago."""
    world = Ending({"n1": "4"}, gang=gang)
    job = world.job("j")
    world.create("a0", owner=job)
    assert waits(world, "a0")
    world.job("j", succeeded=2)
    world.now += 2
    assert world.ask("a0") == ["n1"]


def test_pods_without_a_known_workload() -> None:
    """Those that succeeded count as having come, and those that failed do not."""
    world = Ending({"n1": "4"}, gang=BY_LABEL)
    world.create("a0", "b0")
    world.create("other", job="b")
    world.end("a0", "Failed")
    world.end("other")
    assert waits(world, "b0")
    world.create("a1")
    world.end("a1")
    world.now += 2
    assert world.ask("b0") == ["n1"]


def test_a_run_that_begins_again_is_a_new_one() -> None:
    world = Ending({"n1": "4"}, gang=BY_LABEL)
    world.create("a0", "a1", "a2")
    for name in ("a0", "a1", "a2"):
        world.end(name)
    world.create("a0", created="2026-01-01T12:00:00Z")
    assert waits(world, "a0")
    # Another Job with the same label, after the pods of the first one have ended.
    world = Ending({"n1": "4"}, gang=BY_LABEL)
    world.create("a0", owner=world.job("one"))
    world.end("a0", at="2025-12-31T10:00:00Z")
    world.create("b0", owner=world.job("two"))
    assert waits(world, "b0")


def test_the_pods_of_a_group_that_succeeded_have_come() -> None:
    world, group = Ending({"n1": "4"}, gang=NAMED), GroupName(COSCHEDULING, "g")
    world.cache.put_group("shop", group, PodGroup("g", 2))
    world.create("a0", "a1", labels={LABEL: "g"})
    assert isinstance(world.ask("a0"), list)
    world.end("a0")
    world.gangs.review()
    world.now += 3
    assert isinstance(world.ask("a1"), list)


def test_a_deployment_that_is_scaled_down() -> None:
    world = World({"n1": "4"}, "at least 3", gang=NAMED)
    owner = builders.controller("StatefulSet", "db", "shop", replicas=3)
    world.cache.put_controller(decode_controller("StatefulSet", builders.raw(owner)))
    world.create("a0", "a1", owner=owner)
    assert waits(world, "a0")
    owner["spec"]["replicas"] = 2
    world.cache.put_controller(decode_controller("StatefulSet", builders.raw(owner)))
    world.now += 2
    assert isinstance(world.ask("a0"), list)


ROLES = """gang "g" { of pods by peer.labels["job"] PARTS
  at least 1 of pods where peer.labels["role"] == "chief"
  at least 2 of pods where peer.labels["role"] in ["worker", "chief"] }"""


@pytest.mark.parametrize(
    ("parts", "roles", "said"),
    [
        ("", "cww", ""),
        ("", "wwww", '0 of 1 members with `peer.labels["role"] == "chief"` exist'),
        ("", "cccc", "0 of 2 members with"),
        ("", "cxx", "0 of 2 members with"),
        ("", "cw", "2 of 3 members exist"),
        ("at least 4", "cww", "3 of 4 members exist"),
        ("at least 4", "cwwx", ""),
        # There is room for four: the chief has to be among them, whatever its name is.
        ("", "wwwwwc", ""),
        ("at least 4", "xxxxwwxc", ""),
        ("at least 5", "cwwxx", "4 of 5 members fit"),
        # A chief that is too large, and workers for which nothing is left.
        ("", "Cwww", '2 of 3 members fit: 0 of 1 with `peer.labels["role"] == "chief"`'),
        ("at least 4", "cWWx", "2 of 4 members fit: 0 of 2 with `peer.labels"),
    ],
)
def test_roles(parts: str, roles: str, said: str) -> None:
    """A member has the first role that is its own, and counts for no other one."""
    world, names = World({"n1": "4"}, parts, gang=ROLES), {"c": "chief", "w": "worker", "x": "x"}
    for number, role in enumerate(roles):
        cpu = "9" if role.isupper() else "1"
        world.create(f"a{number}", labels={"role": names[role.lower()]}, cpu=cpu)
    roles = roles.lower()
    answer = world.ask(last := f"a{len(roles) - 1}")
    shown = world.gang(last)
    assert shown is not None
    assert [each.exist for each in shown.told.roles] == [roles.count("c"), roles.count("w")]
    assert said in shown.told.text
    (gang,) = world.gangs.known
    placed = Counter(roles[int(gang.keys[uid][-1])] for uid in gang.places)
    if said:
        assert said in answer
        assert not placed
    else:
        assert placed["c"] >= 1
        assert placed["w"] >= 2
        assert placed.total() == gang.quorum


@pytest.mark.parametrize(
    ("number", "said"),
    [
        ("0", ""),
        ("-1", ""),
        ("2.0", "1 of 2 members exist"),
        ("1.5", "its number of members cannot be evaluated"),
        ("NaN", "its number of members cannot be evaluated"),
        ("Infinity", "its number of members cannot be evaluated"),
        ("1e15", "more than"),
    ],
)
@pytest.mark.parametrize("role", ["", " of pods where has(peer.name)"])
def test_numbers_that_are_computed(role: str, number: str, said: str) -> None:
    """One member at least is placed; a number that is none is told."""
    clause = f'gang "g" {{ of pods by peer.labels["job"] at least double(pod.labels["n"]){role} }}'
    world = World({"n1": "4"}, gang=clause)
    world.create("a0")
    world.pods["a0"]["metadata"]["labels"]["n"] = number
    world.watch("a0")
    answer = world.ask("a0")
    assert said in answer if said else answer == ["n1"]


def test_the_member_that_says_the_largest_number_says_the_roles() -> None:
    """Whoever is asked about."""
    number = 'at least int(pod.labels["n"]) of pods where peer.labels["role"] == "worker"'
    chief = 'at least 1 of pods where peer.labels["role"] == "chief"'
    world = World(
        {"n1": "8"}, gang=f'gang "g" {{ of pods by peer.labels["job"] {chief} {number} }}'
    )
    for name, role, n in (("a0", "chief", "1"), ("a1", "worker", "3"), ("a2", "x", "1")):
        world.create(name, labels={"role": role, "n": n})
    world.create("a3", labels={"role": "x", "n": "1"})
    assert all("1 of 3 members with" in world.ask(name) for name in ("a0", "a1", "a2"))


def test_fewer_of_a_role_are_needed_while_members_are_held() -> None:
    """So the gang is complete."""
    number = 'at least int(pod.labels["n"]) of pods where peer.labels["role"] == "worker"'
    world = World({"n1": "8"}, gang=f'gang "g" {{ of pods by peer.labels["job"] {number} }}')
    labels = {"job": "a", "role": "worker", "n": "3"}
    world.create("a0", "a1", "a2", labels=labels)
    assert world.place("a0")
    assert world.place("a1")
    for name in ("a0", "a1", "a2"):
        world.relabel(name, {**labels, "n": "2"})
    world.gangs.review()
    assert world.ended == {"a0": "", "a1": ""}


@pytest.mark.parametrize("last", ["at a look", "at the release"])
def test_more_of_a_role_are_needed_while_members_are_held(last: str) -> None:
    """Also where as many of all are needed as before: they may all be of other roles."""
    number = 'at least int(pod.labels["n"]) of pods where peer.labels["role"] == "worker"'
    gang = f'gang "g" {{ of pods by peer.labels["job"] at least 3 {number} }}'
    world = World({"n1": "8"}, gang=gang)
    for name, role in (("a0", "worker"), ("a1", "x"), ("a2", "x")):
        world.create(name, labels={"role": role, "n": "1"})
    assert world.place("a0")
    assert world.place("a1")
    world.relabel("a0", {"job": "a", "role": "worker", "n": "2"})
    if last == "at a look":
        world.gangs.review()
    else:
        assert not world.place("a2")
    (gathered,) = world.gangs.known
    text = '2 members with `peer.labels["role"] == "worker"` are needed now'
    assert gathered.why_given_up == text
    assert all(text in world.ended[name] for name in ("a0", "a1"))
    world.now += 2
    # Whoever is asked about.
    for name in ("a2", "a0"):
        assert '1 of 2 members with `peer.labels["role"] == "worker"` exist' in world.ask(name)


def test_a_held_member_with_another_role_ends_its_gang() -> None:
    """The gang would be bound without a chief, else."""
    world = World({"n1": "4"}, gang=ROLES)
    for name, role in (("a0", "chief"), ("a1", "worker"), ("a2", "worker")):
        world.create(name, labels={"role": role})
    assert world.place("a0")
    world.relabel("a0", {"job": "a", "role": "x"})
    assert "member a0 has another role now" in world.ended["a0"]
    assert "0 of 1 members with" in world.ask("a2")


def test_a_gang_with_roles_goes_on_with_those_that_are_left() -> None:
    world = Ending({"n1": "4"}, gang=ROLES.replace("PARTS", ""))
    world.create("a0", labels={"role": "chief"})
    world.create("a1", "a2", labels={"role": "worker"})
    world.end("a0")
    assert isinstance(world.ask("a1"), list)


def make(world: World, kind: str, spec: Any, **status: Any) -> builders.Object:
    made = builders.controller(kind, "db", "shop", replicas=3)
    made["spec"] |= spec
    world.cache.put_controller(decode_controller(kind, builders.raw(made | {"status": status})))
    return made


@pytest.mark.parametrize(
    ("kind", "spec", "status", "why"),
    [
        ("StatefulSet", {}, {}, ": StatefulSet/db makes one pod after another"),
        (
            "StatefulSet",
            {"podManagementPolicy": "OrderedReady"},
            {},
            " makes one pod after another",
        ),
        (
            "StatefulSet",
            {"podManagementPolicy": "Parallel"},
            {},
            ": StatefulSet/db has made 1 of its 3 pods",
        ),
        ("Job", {"suspend": False, "parallelism": 3}, {}, ": Job/db has made 1 of its 3 pods"),
        ("Job", {"suspend": True}, {}, ": Job/db is suspended"),
        ("Deployment", {"paused": True}, {}, ": Deployment/db is paused"),
        ("ReplicaSet", {}, {}, ": ReplicaSet/db has made 1 of its 3 pods"),
    ],
)
def test_controllers_that_do_not_make_all_pods(kind: str, spec: Any, status: Any, why: str) -> None:
    world = World({"n1": "4"}, gang='gang "g" { of replicas at least 3 }')
    world.create("db-0", owner=make(world, kind, spec, **status))
    said = str(world.ask("db-0"))
    assert "1 of 3 members exist" in said
    assert said.endswith(why)
    shown = world.gang("db-0")
    assert shown is not None
    assert shown.told.text in said
    cause = part_of(shown.told, "shop/db-0", alone=True).cause
    assert cause is not None
    assert "create the other members" not in cause.hint
    assert [*world.gangs.notes()]


def test_the_pods_of_a_deployment_are_those_of_its_replica_sets() -> None:
    world = World({"n1": "4"}, gang='gang "g" { of replicas at least 3 }')
    deployment = make(world, "Deployment", {})
    for name, pod in (("old", "db-0"), ("new", "db-1")):
        owner = builders.controller("ReplicaSet", name, "shop", replicas=1, owner=deployment)
        world.cache.put_controller(decode_controller("ReplicaSet", builders.raw(owner)))
        world.create(pod, owner=owner)
    text = "2 of 3 members exist: Deployment/db has made 2 of its 3 pods"
    assert world.ask("db-0") == f"policy p: g: {text}"


@pytest.mark.parametrize(
    ("hard", "used", "said"),
    [
        ({"pods": "1"}, {"pods": "1"}, "1 of 1 pods"),
        ({"count/pods": "2", "pods": "9"}, {"count/pods": "2", "pods": "1"}, "2 of 2 count/pods"),
        ({"requests.cpu": "1500m"}, {"requests.cpu": "1"}, "1 of 1500m requests.cpu"),
        ({"limits.cpu": "3"}, {"limits.cpu": "2"}, "2 of 3 limits.cpu"),
        ({"cpu": "2", "requests.storage": "1", "count/jobs.batch": "1"}, {"cpu": "1"}, ""),
        ({"limits.memory": "1", "pods": "2"}, {"pods": "1"}, ""),
        ({"services": "1", "pods": "9"}, {"services": "2", "pods": "1"}, ""),
    ],
)
def test_the_quota_that_keeps_members_from_being_made(hard: Any, used: Any, said: str) -> None:
    world = World({"n1": "4"}, gang='gang "g" { of replicas at least 3 }')
    world.create("db-0", owner=make(world, "Job", {"parallelism": 3}))
    (container,) = world.pods["db-0"]["spec"]["containers"]
    container["resources"]["limits"] = {"cpu": "2"}
    world.watch("db-0")
    quota = decode_quota(builders.raw({"status": {"hard": hard, "used": used}}))
    full = decode_quota(builders.raw({"status": {"hard": {"pods": 0}}}))
    world.cache.quotas |= {"shop/team": quota, "other/full": full}
    why = f", ResourceQuota/team has used {said}" if said else ""
    assert str(world.ask("db-0")).endswith(f": Job/db has made 1 of its 3 pods{why}")
    shown = world.gang("db-0")
    assert shown is not None
    cause = part_of(shown.told, "shop/db-0", alone=True).cause
    assert cause is not None
    assert cause.hint.startswith("raise the quota" if said else "see the events")
    assert any("quota" in each.lower() for each in world.gangs.notes()) is bool(said)


def test_a_quota_is_named_as_soon_as_a_member_is_asked_about_again() -> None:
    """Nobody asks once more after that."""
    world = World({"n1": "4"}, gang='gang "g" { of replicas at least 3 }')
    owner = make(world, "Job", {"parallelism": 3})
    world.create("db-0", "db-1", owner=owner)
    assert "2 of 3 members exist" in world.ask("db-0")
    assert "2 of 3 members exist" in world.ask("db-1")
    full = {"hard": {"pods": 2}, "used": {"pods": 2}}
    world.cache.quotas["shop/team"] = decode_quota(builders.raw({"status": full}))
    world.watch("db-1")
    assert "ResourceQuota/team has used 2 of 2 pods" in world.ask("db-1")


@pytest.mark.parametrize(
    ("spec", "is_named"),
    [
        ({"scopes": ["Terminating"]}, False),
        ({"scopes": ["NotTerminating"]}, False),
        ({"scopeSelector": {"matchExpressions": [{"scopeName": "BestEffort"}]}}, False),
        ({"scopes": [], "scopeSelector": None}, True),
        (None, True),
    ],
)
def test_a_quota_with_scopes_is_not_named(spec: Any, *, is_named: bool) -> None:
    """Whether it is about pods of the gang is not looked at."""
    world = World({"n1": "4"}, gang='gang "g" { of replicas at least 3 }')
    world.create("db-0", owner=make(world, "Job", {"parallelism": 3}))
    full = {"spec": spec, "status": {"hard": {"pods": 1}, "used": {"pods": 1}}}
    world.cache.quotas["shop/team"] = decode_quota(builders.raw(full))
    assert ("ResourceQuota/team" in str(world.ask("db-0"))) is is_named


def test_a_controller_that_has_made_all_pods_is_not_named() -> None:
    world = World({"n1": "4"}, gang='gang "g" { of replicas at least 3 }')
    owner = make(world, "StatefulSet", {"podManagementPolicy": "Parallel"})
    world.create("db-0", "db-1", owner=owner)
    world.create("db-2", owner=owner, spec={"schedulerName": "volcano"})
    assert str(world.ask("db-0")).endswith(
        "2 of 3 members exist: 1 more of the scheduler `volcano`"
    )


def test_a_gang_that_has_enough_waits_for_no_controller() -> None:
    world = World({"n1": "4"}, gang='gang "g" { of replicas at least 2 }')
    owner = make(world, "StatefulSet", {"podManagementPolicy": "Parallel"})
    world.create("db-0", "db-1", owner=owner)
    assert world.ask("db-0") == ["n1"]
    assert [*world.gangs.notes()] == []


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ({"schedulingGates": [{"name": "b"}, {"name": "a"}]}, "1 more gated by `a`, `b`"),
        ({"schedulerName": "volcano"}, "1 more of the scheduler `volcano`"),
    ],
)
def test_members_that_never_come(more: Any, said: str) -> None:
    """They do not count; once they do, the gang is placed, and nobody is held before."""
    world = World({"n1": "4"}, gang=BY_LABEL)
    world.create("a0", "a1")
    made = world.pods["a1"]
    made["spec"] |= more
    world.watch("a1")
    assert str(world.ask("a0")).endswith(f"1 of 2 members exist: {said}")
    assert world.told == []
    for name in more:
        del made["spec"][name]
    world.watch("a1")
    world.now += 2
    assert world.ask("a0") == ["n1"]


def test_a_leader_that_runs_first() -> None:
    world = World({"n1": "4"}, gang=BY_LABEL)
    world.create("a0", labels={"spark-role": "driver"})
    assert str(world.ask("a0")).endswith("exist: a0 may have to run before the others are made")


def test_a_jobset_may_start_its_jobs_in_order() -> None:
    """Only the JobSet itself says it, and nobody reads that; but then some Jobs have no pods."""
    world = World({"n1": "4"}, gang=BY_LABEL)
    labels = {"jobset.sigs.k8s.io/jobset-name": "train", "jobset.sigs.k8s.io/global-replicas": "2"}
    world.create("a0", owner=make(world, "Job", {"parallelism": 1}), labels=labels)
    said = str(world.ask("a0"))
    assert said.endswith("exist: JobSet/train may start its Jobs one after another")
    (note,) = world.gangs.notes()
    assert note.startswith("shop: JobSet/train may start its Jobs one after another")
    shown = world.gang("a0")
    assert shown is not None
    cause = part_of(shown.told, "shop/a0", alone=True).cause
    assert cause is not None
    assert "startupPolicy" in cause.hint


def test_one_of_several_jobsets_is_named() -> None:
    world = World({"n1": "4"})
    for name, jobset in (("a0", "train"), ("a1", "eval")):
        world.create(name, labels={"jobset.sigs.k8s.io/jobset-name": jobset})
    said = str(world.ask("a0"))
    assert said.endswith("2 of 3 members exist: JobSet/eval may start its Jobs one after another")


def test_two_schedulers_that_ask() -> None:
    """The pods of the one that asks are its own, whatever names are known."""
    world = World({"n1": "4"}, gang=BY_LABEL)
    world.create("a0", "a1", spec={"schedulerName": "second"})
    assert world.ask("a0") == ["n1"]
