"""The status of a policy object says which of its sources of data fails, and why."""

from __future__ import annotations

from msgspec.structs import replace

from engine.cache.cache import Cache
from engine.program.tables import SourceStatus
from policies.resource import StatusCondition
from server.runtime.data_tables import source_part
from server.runtime.policy_statuses import Statuses
from tests.server.runtime.test_objects import READY, Read, stored
from tests.server.runtime.test_ungated import no_time

RACKS = """
data "racks" { from configmap "shop/racks" key "racks.csv" by "rack" columns { watts: double } }
data "owners" { from configmap "shop/owners" key "x.csv" by "team" columns { room: string } }
filter "power" { require data.racks[node.labels["rack"]].watts < 5.0 }
filter "own" { require has(data.owners["web"].room) }
"""


def condition(rules: str, *sources: SourceStatus) -> StatusCondition | None:
    """The condition, where the sources are those of the tables by their names."""
    read, objects = Read(), stored(rules)
    read.read(objects)
    assert read.last is not None
    (program,) = read.last.programs.values()
    digests = {table.name: table.digest for table in program.tables}
    found = [replace(each, digest=digests.get(each.name, "other")) for each in sources]
    statuses = Statuses(Cache(), no_time, [lambda: source_part(found)])
    (report,) = statuses.reports(read.last, objects, Cache().snapshot())
    return next((c for c in report.wanted.conditions if c.type == "DataFailing"), None)


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
        first_error=error,
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


def test_a_source_that_fails_is_named_with_its_first_error() -> None:
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


def test_a_source_of_another_policy_is_not_named() -> None:
    other = source("elsewhere", "absent", "there is no ConfigMap", stale=True)
    assert told(RACKS, other) == ("False", "None", "its tables are read")


def test_a_policy_without_tables_has_no_such_condition() -> None:
    assert condition(READY, source("racks", "absent", "gone")) is None
