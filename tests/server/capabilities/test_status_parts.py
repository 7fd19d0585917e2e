"""Parts of the status of a policy object: its gangs, its sources of data, and its drift."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping

from msgspec.structs import replace

from engine.cache.cache import Cache
from engine.clauses.gang import GangProgram
from engine.drift.drift_document import PolicyRepair
from engine.enforced import EnforcedPolicies
from engine.gangs.gang import GangName, Hold, KnownGang, given_up
from engine.objects.peer import Controller, Workload
from engine.program.tables import SourceStatus
from policies.resource import PolicyStatus, StatusCondition
from server.capabilities.data import data_facts, data_samples, source_part
from server.capabilities.drift import drift_part
from server.capabilities.gangs import gang_facts, gang_numbers, gang_samples
from server.capabilities.policy_statuses import ReportedPolicy, Statuses, StatusPart
from server.capabilities.scales import unknown_replicas
from tests.server.capabilities.test_missed_pods import no_time
from tests.server.runtime.test_objects import READY, Read, stored
from tests.support.builders import pod
from tests.support.engines import peer_of
from tests.support.view_server import Cluster


def status_of(rules: str, part: Callable[[EnforcedPolicies], StatusPart]) -> PolicyStatus:
    """The status of an object with these rules, to which one part is added."""
    read, objects = Read(), stored(rules)
    read.read(objects)
    last = read.last
    assert last is not None
    statuses = Statuses(Cache(), no_time, [lambda: part(last)])
    (report,) = statuses.reports(last, objects, Cache().snapshot())
    return report.wanted


# ---- gangs

GANG = 'gang "g" { of pods by peer.labels["job"] at least 2 }'


def gang(name: str, state: str, policy: str = "shop/web") -> tuple[KnownGang, float]:
    """The gang, which has been in the state for a second."""
    program = GangProgram(
        policy=policy,
        name="g",
        when=None,
        message=lambda _: "",
        by=None,
        number=2,
        percent=False,
        domain=None,
        seconds=60.0,
    )
    found = KnownGang(GangName(program, "shop", ("string", name)), 2, 0, 0.0, f"shop/{name}")
    if state == "gathering":
        found.places["uid"] = "n1"
    if state == "given up":
        found.why_given_up, found.text = "late", given_up("late")
    assert found.state == state
    return found, 1.0


def numbers(rules: str, *gangs: tuple[KnownGang, float]) -> tuple[int | None, ...]:
    found = status_of(rules, lambda _: gang_numbers(gangs, {}))
    return found.waitingGangs, found.gatheringGangs, found.givenUpGangs


def test_the_gangs_of_a_policy_are_counted_by_state() -> None:
    waiting = [gang("a", "waiting"), gang("b", "waiting"), gang("c", "waiting", "shop/other")]
    others = [gang("d", "gathering"), gang("e", "given up")]
    assert numbers(GANG, *waiting, *others) == (2, 1, 1)
    assert numbers(GANG) == (0, 0, 0)


def test_a_policy_without_gangs_has_no_such_numbers() -> None:
    assert numbers(READY, gang("a", "waiting")) == (None, None, None)


def test_what_a_pod_group_says_otherwise_is_a_condition() -> None:
    """That of a policy of all namespaces names none of their PodGroups."""
    text = "shop: PodGroup g says minCount 2 and not 3"
    said = gang_numbers((), {"shop/web": text, "all": text})
    found = {each.type: each for each in status_of(GANG, lambda _: said).conditions}["Contradicted"]
    assert (found.status, found.reason, found.message) == ("True", "PodGroup", text)
    reported = list[ReportedPolicy]()
    status_of(GANG, lambda _: reported.append)
    (program,) = Cluster(f"policy all {{ for pods where true {GANG} }}").enforced.registry.programs
    of_all = dataclasses.replace(reported[0], program=program)
    said(of_all)
    text = "a PodGroup says otherwise: `placet check --cluster` names it"
    assert of_all.conditions["Contradicted"] == ("True", "PodGroup", text)


def test_gangs_are_told_and_counted_by_policy_and_state() -> None:
    known = [gang("a", "waiting"), gang("b", "gathering"), gang("c", "given up")]
    facts = gang_facts(["shop/none", "shop/web"], known, {"shop/web": "minCount 2"})
    numbers = {"waiting": 1, "gathering": 1, "given up": 1, "longest wait (s)": 1.0}
    assert facts["gangs"][1] == {"policy": "shop/web", **numbers, "PodGroup": "minCount 2"}
    shown = [(row["gang"], row["state"], row["places"]) for row in facts["some gangs"]]
    assert shown == [
        ("shop/b", "gathering", ["n1"]),
        ("shop/a", "waiting", []),
        ("shop/c", given_up("late"), []),
    ]
    known[1][0].holds["uid"], known[1][0].keys["uid"] = Hold(0.0, lambda _: None), "shop/b-0"
    held = gang_facts(["shop/web"], known, {})["held pods"]
    assert held == [{"pod": "shop/b-0", "gang": "shop/b", "node": "n1"}]
    found = {(name, *labels): value for name, labels, value in gang_samples(["shop/web"], known)}
    assert found["placet_known_gangs", "shop/web", "given_up"] == 1
    assert found["placet_gang_longest_wait_seconds", "shop/web"] == 1.0


# ---- sources of data

RACKS = """
data "racks" { from configmap "shop/racks" file "racks.csv" by "rack" columns { watts: double } }
data "owners" { from configmap "shop/owners" file "x.csv" by "team" columns { room: string } }
filter "power" { require data.racks[node.labels["rack"]].watts < 5.0 }
filter "own" { require has(data.owners["web"].room) }
"""


def condition(rules: str, *sources: SourceStatus) -> StatusCondition | None:
    """The condition, where the sources are those of the tables by their names."""

    def parts(read: EnforcedPolicies) -> StatusPart:
        (program,) = read.programs.values()
        digests = {table.name: table.digest for table in program.tables}
        return source_part([replace(s, digest=digests.get(s.name, "other")) for s in sources])

    found = status_of(rules, parts)
    return next((c for c in found.conditions if c.type == "DataFailing"), None)


LENT = """
policy racks { for pods where false
  data "racks" { from configmap "bank/racks" file "racks.csv" by "rack" columns { watts: double } }
  filter "power" { require data.racks[node.labels["rack"]].watts < 5.0 }
}
policy web in namespace "shop" { use "racks" }
"""


def test_of_a_table_of_another_namespace_a_policy_says_no_more_than_a_word() -> None:
    """What is wrong there may quote the table."""
    programs = Cluster(LENT).enforced.registry.programs
    program = next(each for each in programs if each.namespace == "shop")
    (table,) = program.tables
    failing = source("racks", "no rows", "row 3: `secret` is no double")
    reported = list[ReportedPolicy]()
    status_of(READY, lambda _: reported.append)
    found = dataclasses.replace(reported[0], program=program)
    source_part([replace(failing, digest=table.digest)])(found)
    assert "secret" not in str(found.conditions["DataFailing"])
    assert "no rows" in str(found.conditions["DataFailing"])


def source(name: str, reason: str = "", error: str = "", *, stale: bool = False) -> SourceStatus:
    text = f"{error} (try 7)" if error else ""
    return SourceStatus(
        name,
        "",
        "configmap",
        ("shop/web",),
        rows=2,
        age=0.0,
        error=text,
        reason=reason,
        told_error=error,
        is_stale=stale,
    )


def told(rules: str, *sources: SourceStatus) -> tuple[str, str, str]:
    found = condition(rules, *sources)
    assert found is not None
    return found.status, found.reason, found.message


def test_sources_that_work() -> None:
    assert told(RACKS, source("racks"), source("owners")) == (
        "False",
        "None",
        "its tables are read",
    )
    assert told(RACKS) == ("False", "None", "its tables are read"), "they are not asked yet"


def test_a_source_that_fails_is_named_with_its_error() -> None:
    found = told(RACKS, source("racks", "absent", "there is no ConfigMap"), source("owners"))
    text = "racks (configmap): the last rows are read: there is no ConfigMap"
    assert found == ("True", "OldRows", text)


def test_two_that_fail_and_one_without_rows() -> None:
    found = told(
        RACKS,
        source("racks", "unusable", "line 3 is not UTF-8", stale=True),
        source("owners", "denied", "Placet may not watch configmaps"),
    )
    owners = "owners (configmap): the last rows are read: Placet may not watch configmaps"
    racks = "racks (configmap): no rows are read: line 3 is not UTF-8"
    assert found == ("True", "NoRows", f"{owners}; {racks}")


def test_rows_that_are_stale_when_they_come() -> None:
    status, reason, text = told(RACKS, source("racks", stale=True))
    assert (status, reason) == ("True", "NoRows")
    assert text == "racks (configmap): no rows are read: they are stale when they come"


def test_rows_that_are_of_no_use_are_read_all_the_same() -> None:
    useless = replace(source("racks", "useless", "it has no rows"), lacking=3)
    assert told(RACKS, useless)[1:] == ("UselessRows", "racks (configmap): useless: it has no rows")
    doubtful = source("owners", "doubtful", "Prometheus warns: partial")
    assert told(RACKS, doubtful)[1] == "DoubtfulRows"
    assert told(RACKS, doubtful, useless)[1] == "UselessRows"
    states = [
        row["state"] for row in data_facts([useless, replace(source("a"), lacking=1)])["data"]
    ]
    assert states == ["useless: it has no rows (try 7)", "ok, 1 node without a row"]
    found = {name: value for name, _, value in data_samples([useless])}
    assert (found["placet_data_useless"], found["placet_data_lacking_nodes"]) == (True, 3)


def test_a_source_of_another_policy_is_not_named() -> None:
    other = source("elsewhere", "absent", "there is no ConfigMap", stale=True)
    assert told(RACKS, other) == ("False", "None", "its tables are read")


def test_sources_of_one_name_are_as_bad_as_the_worst() -> None:
    one, two = source("racks"), replace(source("racks", stale=True), age=7.5, left_out=1, cause="x")
    assert [row["state"] for row in data_facts([one, two])["data"]] == [
        "ok",
        "stale: 1 left out: x",
    ]
    assert data_facts([]) == {"data": []}
    found = {name: (*labels, value) for name, labels, value in data_samples([one, two])}
    assert found == {
        "placet_data_rows": ("racks (configmap)", 4),
        "placet_data_stale": ("racks (configmap)", True),
        "placet_data_useless": ("racks (configmap)", False),
        "placet_data_age_seconds": ("racks (configmap)", 7.5),
    }


def test_a_policy_without_tables_has_no_such_condition() -> None:
    assert condition(READY, source("racks", "absent", "gone")) is None


# ---- drift


def drift_status(drift: Mapping[str, Mapping[str, int]] | None) -> PolicyStatus:
    return status_of(READY, lambda _: drift_part(drift, ()))


def test_what_is_done_about_pods_that_break_clauses() -> None:
    repair = PolicyRepair("shop/web", "no place", "nowhere", 1, 0, 0, 0, (), ())
    found = status_of(READY, lambda _: drift_part(None, [repair]))
    (condition,) = [c for c in found.conditions if c.type == "Repairing"]
    assert (condition.status, condition.reason, condition.message) == (
        "False",
        "NoPlace",
        "nowhere",
    )


def drifted(found: PolicyStatus) -> list[tuple[str, str, str]]:
    return [(c.status, c.reason, c.message) for c in found.conditions if c.type == "Drifted"]


def test_pods_are_counted_once_for_each_kind() -> None:
    found = drift_status({"shop/web": {"share": 2, "filter": 1}})
    assert found.driftedPods == 3
    text = "pods break clauses of these kinds: filter, share; see `placet drift`"
    assert drifted(found) == [("True", "PodsBreakClauses", text)]


def test_a_policy_that_nobody_breaks() -> None:
    found = drift_status({})
    assert found.driftedPods == 0
    assert [each[:2] for each in drifted(found)] == [("False", "None")]


def test_what_nobody_has_looked_at_is_not_said() -> None:
    found = drift_status(None)
    assert (found.driftedPods, drifted(found)) == (None, [])


# ---- wanted replicas


def test_workloads_of_unknown_size_are_a_condition() -> None:
    """Of a policy that needs to know how many pods they want."""
    cache, made = Cache(), pod("a", "shop")
    owner = {"apiVersion": "ray.io/v1", "kind": "RayCluster", "name": "llm", "uid": "r"}
    made["metadata"]["ownerReferences"] = [{**owner, "controller": True}]
    cache.put_pod(peer_of(made))
    share = 'share "s" { of replicas on nodes where node.zone == "a" at most 50% strict }'

    def said(rules: str) -> StatusCondition | None:
        found = status_of(rules, lambda _: unknown_replicas(cache)).conditions
        return next((each for each in found if each.type == "UnknownReplicas"), None)

    assert said(READY) is None
    found = said(share)
    assert found is not None
    assert (found.status, found.reason) == ("True", "NoScale")
    assert found.message.startswith("how many pods `RayCluster/llm` wants is not known")
    cache.put_controller(Controller(Workload("RayCluster", "llm", "r", 3), None, 3))
    found = said(share)
    assert found is not None
    assert found.status == "False"
