"""Bindings that wait: which entry has the verb bind, its timeout, and gangs of kube-scheduler."""

import json
from dataclasses import replace
from pathlib import Path

import pytest
import yaml

from cli.doctor.configuration_text import configurations
from cli.doctor.context import ConfigurationContext, SchedulerRequirements, read_requirements
from cli.doctor.findings import examine
from cli.doctor.schema import placets
from grammar.messages.diagnostics import Diagnostic
from tests.cli.conftest import Placet
from tests.support.scheduler_configs import BIND_APART, OTHER, Json, configuration, ours

GANG = """policy ml {
  for pods where true
  gang "jobs" { of pods by peer.labels["job"] at least 3 for at most 2m }
}"""
WAIT = """policy volumes {
  for pods where true
  bind "ready" { wait until pod.annotations["example.com/ready"] == "true" for at most 90s }
}"""
# An entry with all verbs that these policies need in it.
MAIN = ours("prioritizeVerb", "weight")
SHARED = MAIN | {"bindVerb": "bind"}
GATED = MAIN | {"managedResources": [{"name": "a.b/c"}]}


def needs(folder: Path, *policies: str) -> SchedulerRequirements:
    for number, policy in enumerate(policies):
        (folder / f"{number}.policy").write_text(policy, encoding="utf-8")
    return read_requirements([folder])


def examined(
    requirements: SchedulerRequirements, config: Json, *more: tuple[str, str]
) -> list[tuple[str, Diagnostic]]:
    """Path and diagnostic of each finding, where `placet serve` has the flags that are right."""
    texts = [("s.yaml", json.dumps(config)), *more]
    (read,) = configurations(texts)
    context = ConfigurationContext(read, *placets(read.extenders), 5.0, requirements)
    context = replace(context, binds=context.entry_of("bind") is not None)
    return [(place.path, diagnostic) for diagnostic, place in examine(context)]


def codes(found: list[tuple[str, Diagnostic]]) -> list[tuple[str, str, str]]:
    return [(diagnostic.code, diagnostic.severity, path) for path, diagnostic in found]


def test_the_longest_wait_is_that_of_a_gang_and_a_condition(tmp_path: Path) -> None:
    """A pod may wait for both, one after the other; and then its binding is made."""
    found = needs(tmp_path, GANG, WAIT, GANG.replace("ml", "other").replace("2m", "1m"))
    assert found.longest_wait == 120 + 90
    assert found.words["gang"] == ["ml/jobs", "other/jobs"]
    assert found.bind_timeout(5.0) == 215
    assert SchedulerRequirements().bind_timeout(5.0) == 0
    audited = needs(tmp_path, GANG.replace("{", "{ mode audit", 1), "", "")
    assert (audited.longest_wait, audited.words) == (0, {})


@pytest.mark.parametrize(
    ("policy", "entries", "expected"),
    [
        (GANG, [MAIN, BIND_APART], []),
        (GANG, [BIND_APART, MAIN], []),
        (GANG, [OTHER, MAIN, OTHER | {"urlPrefix": "http://[::1]:1"}, BIND_APART], []),
        (
            GANG,
            [MAIN, BIND_APART | {"httpTimeout": "2m4s"}],
            [("waiting-bind", "error", "extenders[1].httpTimeout")],
        ),
        (WAIT, [MAIN, BIND_APART | {"httpTimeout": "95s"}], []),
        (WAIT, [SHARED], [("waiting-bind", "error", "extenders[0].httpTimeout")]),
        (
            WAIT,
            [SHARED | {"httpTimeout": "95s"}],
            [("timeout", "warning", "extenders[0].httpTimeout")],
        ),
        (GANG, [MAIN], [("no-binder", "error", "extenders[0].bindVerb")]),
        (WAIT, [MAIN], [("no-binder", "error", "extenders[0].bindVerb")]),
        (
            GANG,
            [MAIN, BIND_APART | {"ignorable": True}],
            [
                ("ignorable", "error", "extenders[1].ignorable"),
                ("ignorable", "warning", "extenders[1].ignorable"),
            ],
        ),
        (
            GANG,
            [MAIN, BIND_APART | {"managedResources": [{"name": "a.b/c"}]}],
            [("managed-resources", "warning", "extenders[1].managedResources")],
        ),
        (
            WAIT,
            [GATED, BIND_APART],
            [
                ("managed-resources", "warning", "extenders[0].managedResources"),
                ("managed-resources", "warning", "extenders[1].managedResources"),
            ],
        ),
    ],
    ids=[
        *["apart", "bind first", "beside others", "too short", "shorter wait", "shared"],
        *["shared and long", "gang without bind", "wait without bind", "ignorable"],
        *["only marked pods wait", "only filter is of marked pods"],
    ],
)
def test_two_entries_are_one_placet(
    tmp_path: Path, policy: str, entries: list[Json], expected: list[tuple[str, str, str]]
) -> None:
    assert codes(examined(needs(tmp_path, policy), configuration(*entries))) == expected


def test_what_is_told_of_a_short_timeout(tmp_path: Path) -> None:
    found = needs(tmp_path, GANG)
    (apart,) = examined(found, configuration(MAIN, BIND_APART | {"httpTimeout": "1m"}))
    assert apart[1].message == (
        "kube-scheduler gives a binding up after 60 s, and for `ml/jobs` a binding may take 125 s"
    )
    assert apart[1].hint == "write `httpTimeout: 125s`"
    (shared,) = examined(found, configuration(SHARED))
    assert shared[1].message == (
        "bind has the `httpTimeout` of the other verbs, 5 s, and for `ml/jobs` a binding may take"
        " 125 s"
    )
    (none,) = examined(found, configuration(MAIN))
    assert none[1].hint == (
        "add an entry with the same `urlPrefix`, `bindVerb: bind` and `httpTimeout: 125s`, and"
        " serve with `--bind`"
    )


def test_the_certificate_of_each_entry_is_checked(tmp_path: Path) -> None:
    https = {"urlPrefix": "https://127.0.0.1:12345/api/scheduler", "enableHTTPS": True}
    insecure = https | {"tlsConfig": {"insecure": True}}
    found = examined(needs(tmp_path, GANG), configuration(MAIN | insecure, BIND_APART | https))
    assert codes(found) == [
        ("no-ca", "error", "extenders[1].tlsConfig"),
        ("no-ca", "warning", "extenders[0].tlsConfig.insecure"),
    ]


def manifest(*flags: str) -> tuple[str, str]:
    container = {"command": ["kube-scheduler", "--config=s.yaml", *flags]}
    return "m.yaml", json.dumps({"kind": "Pod", "spec": {"containers": [container]}})


GANGS_ON = {"plugins": {"multiPoint": {"enabled": [{"name": "GangScheduling"}]}}}
GANGS_OFF = {"plugins": {"multiPoint": {"disabled": [{"name": "GangScheduling"}]}}}
AT_PERMIT = {"plugins": {"permit": {"enabled": [{"name": "GangScheduling"}]}}}
ON = "--feature-gates=GenericWorkload=true,GangScheduling=true"


@pytest.mark.parametrize(
    ("profiles", "flags", "places"),
    [
        ([{}], [], []),
        ([{"schedulerName": "a"}, GANGS_ON | {"schedulerName": "b"}], [], [1]),
        ([AT_PERMIT], [], [0]),
        ([{}], [ON], [None]),
        ([{}], ["--feature-gates", "AllAlpha=true"], [None]),
        ([{}], ["--feature-gates=AllAlpha=true,GangScheduling=false"], []),
        ([GANGS_OFF], [ON], []),
    ],
)
def test_gangs_of_kube_scheduler_beside_ours(
    tmp_path: Path, profiles: list[Json], flags: list[str], places: list[int | None]
) -> None:
    lease = {"resourceName": "mine"}
    config = configuration(MAIN, BIND_APART, profiles=profiles, leaderElection=lease)
    more = [manifest(*flags)] if flags else []
    found = examined(needs(tmp_path, GANG), config, *more)
    assert [d.code for _, d in found] == ["two-gangs"] * len(places)
    for (path, diagnostic), place in zip(found, places, strict=True):
        assert diagnostic.severity == "error"
        assert path.startswith("" if place is None else f"profiles[{place}].plugins.")


@pytest.mark.parametrize(
    ("flag", "version"),
    [(ON, "1.37"), ("--feature-gates=WorkloadAwarePreemption=true", "1.36"), ("--v=2", "")],
)
def test_pod_groups_evict_without_asking(tmp_path: Path, flag: str, version: str) -> None:
    policy = 'cluster policy p { preempt "kept" { protect pods where victim.priority > 5 } }'
    lease = {"resourceName": "mine"}
    config = configuration(MAIN, leaderElection=lease)
    found = examined(needs(tmp_path, policy), config, manifest(flag))
    assert [d.code for _, d in found] == ["group-preemption"] * bool(version)
    assert all(version in d.message and "`p/kept`" in d.message for _, d in found)


def test_gangs_of_kube_scheduler_alone(tmp_path: Path) -> None:
    config = configuration(MAIN, BIND_APART, profiles=[GANGS_ON])
    assert examined(needs(tmp_path, WAIT), config) == []


def test_a_conversion_without_bind_leaves_no_entry_behind(placet: Placet, folder: Path) -> None:
    (folder / "s.yaml").write_text(json.dumps(configuration(MAIN, BIND_APART)), encoding="utf-8")
    done = placet("scheduler-config", "--from", "s.yaml")
    assert done.code == 0
    assert yaml.safe_load(done.out)["extenders"] == [MAIN]
