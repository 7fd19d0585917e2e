"""Conversion of older configurations: what each predicate, priority, plugin and field becomes."""

from __future__ import annotations

import json
from typing import Any

import pytest

from cli.command import CommandError, Exit
from cli.doctor.configuration_text import configurations
from cli.doctor.conversion import (
    Conversion,
    convert,
    policy_of,
)
from cli.doctor.generator import OUR_URL, Extender
from cli.doctor.plugins import DEFAULTS, FILTERS, PLUGINS, PREDICATES, PRIORITIES, SCORES
from grammar.meaning.schema import load_schema
from grammar.tree.source import Source
from policies.validation import Validator
from tests.cli.conftest import Placet
from tests.support.books import section
from tests.support.scheduler_configs import OTHER, OURS

Json = dict[str, Any]


def converted(value: Json, *, url: str | None = None, binds: bool = False) -> Conversion:
    (found,) = configurations([("old", json.dumps(value))], lambda _path: None)
    return convert(found, Extender(OUR_URL), url=url, binds=binds)


def profile(value: Json) -> Json:
    (found,) = converted(value).document["profiles"]
    assert isinstance(found, dict)
    return found


def predicate(name: str, **argument: Any) -> Json:
    given = {"name": name, "argument": argument} if argument else {"name": name}
    return {"predicates": [given], "extenders": [OURS]}


def priority(name: str, weight: int = 1, **argument: Any) -> Json:
    return {
        "priorities": [{"name": name, "weight": weight, "argument": argument}],
        "extenders": [OURS],
    }


def test_what_has_a_successor_names_plugins_that_exist() -> None:
    for table in (PREDICATES, PRIORITIES, PLUGINS):
        for successor in table.values():
            assert {*successor.plugins} <= {*DEFAULTS}
    assert {*FILTERS, *SCORES} <= {*DEFAULTS}
    assert all(DEFAULTS[name] for name in SCORES)


@pytest.mark.parametrize("name", PREDICATES)
def test_a_predicate_keeps_its_plugins_on(name: str) -> None:
    off = profile(predicate(name))["plugins"]
    everywhere = {each["name"] for each in off.get("multiPoint", {}).get("disabled", ())}
    filters = {each["name"] for each in off.get("filter", {}).get("disabled", ())}
    always = {"TaintToleration", "NodeUnschedulable"}
    assert everywhere | filters == {*FILTERS} - {*PREDICATES[name].plugins} - always
    assert not everywhere & {*SCORES}


@pytest.mark.parametrize("name", PRIORITIES)
def test_a_priority_keeps_its_weight(name: str) -> None:
    found = profile(priority(name, 7))["plugins"]["score"]
    on = {each["name"]: each["weight"] for each in found.get("enabled", ())}
    assert on == dict.fromkeys(PRIORITIES[name].plugins, 7)
    assert {each["name"] for each in found["disabled"]} == {*SCORES} - {*on}


@pytest.mark.parametrize(
    ("old", "said"),
    [
        (priority("NodePreferAvoidPodsPriority"), 'score "avoid" weight -100'),
        (priority("mine", labelPreference={"label": "a"}), 'score "label" weight 10'),
        (priority("mine", serviceAntiAffinity={"label": "a"}), 'spread "apart"'),
        (predicate("mine", serviceAffinity={"labels": ["a"]}), 'filter "same"'),
        (priority("Mine"), "the priority `Mine` is left out: kube-scheduler never had it"),
        (predicate("Mine"), "the predicate `Mine` is left out: kube-scheduler never had it"),
        (priority("EqualPriority"), "is left out: it gives every node the same"),
    ],
)
def test_what_has_no_successor_is_said(old: Json, said: str) -> None:
    assert any(said in note for note in converted(old).notes)


@pytest.mark.parametrize(
    ("name", "argument", "strategy"),
    [
        ("LeastRequestedPriority", {}, "LeastAllocated"),
        ("MostRequestedPriority", {}, "MostAllocated"),
        (
            "mine",
            {
                "requestedToCapacityRatioArguments": {
                    "shape": [{"utilization": 0}, {"utilization": 100, "score": 10}],
                    "resources": [{"name": "example.com/gpu", "weight": 3}],
                }
            },
            "RequestedToCapacityRatio",
        ),
    ],
)
def test_a_priority_of_requests_is_a_strategy(name: str, argument: Json, strategy: str) -> None:
    (fit,) = profile(priority(name, **argument))["pluginConfig"]
    made = fit["args"]["scoringStrategy"]
    assert (fit["name"], made["type"]) == ("NodeResourcesFit", strategy)
    if argument:
        assert made["resources"] == [{"name": "example.com/gpu", "weight": 3}]
        assert made["requestedToCapacityRatio"]["shape"] == [
            {"score": 0, "utilization": 0},
            {"score": 10, "utilization": 100},
        ]


def test_labels_presence_is_an_added_affinity() -> None:
    old = {
        "predicates": [
            {"name": "a", "argument": {"labelsPresence": {"labels": ["x"], "presence": True}}},
            {"name": "b", "argument": {"labelsPresence": {"labels": ["y"], "presence": False}}},
        ],
        "hardPodAffinitySymmetricWeight": 10,
    }
    args = {each["name"]: each["args"] for each in profile(old)["pluginConfig"]}
    required = args["NodeAffinity"]["addedAffinity"][
        "requiredDuringSchedulingIgnoredDuringExecution"
    ]
    assert required["nodeSelectorTerms"] == [
        {
            "matchExpressions": [
                {"key": "x", "operator": "Exists"},
                {"key": "y", "operator": "DoesNotExist"},
            ]
        }
    ]
    assert args["InterPodAffinity"] == {"hardPodAffinityWeight": 10}


@pytest.mark.parametrize("version", ["v1alpha1", "v1beta1", "v1beta2", "v1beta3"])
def test_an_older_version_keeps_what_1_36_knows(version: str) -> None:
    group = "kubescheduler.config.k8s.io"
    old = {
        "apiVersion": f"{group}/{version}",
        "kind": "KubeSchedulerConfiguration",
        "healthzBindAddress": ":0",
        "leaderElection": {"leaderElect": True, "resourceLock": "endpoints"},
        "schedulerName": "mine",
        "plugins": {
            "score": {
                "enabled": [{"name": "NodeResourcesMostAllocated", "weight": 5}, {"name": "Mine"}],
                "disabled": [{"name": "NodeResourcesLeastAllocated"}],
            },
            "unreserve": {"enabled": [{"name": "Mine"}]},
        },
        "pluginConfig": [
            {
                "name": "InterPodAffinity",
                "args": {"apiVersion": f"{group}/{version}", "hardPodAffinityWeight": 3},
            },
            {"name": "NodePreferAvoidPods", "args": {}},
        ],
        "extenders": [OURS | {"enableHttps": False}, OTHER],
    }
    made = converted(old)
    assert made.document["apiVersion"] == f"{group}/v1"
    assert made.document["leaderElection"]["resourceLock"] == "leases"
    assert "healthzBindAddress" not in made.document
    assert "`healthzBindAddress` is left out: there is no such field" in made.notes
    assert "kube-scheduler 1.36 has no plugin `Mine`: build kube-scheduler with it" in made.notes
    assert made.document["profiles"] == [
        {
            "schedulerName": "mine",
            "plugins": {
                "score": {"enabled": [{"name": "NodeResourcesFit", "weight": 5}, {"name": "Mine"}]}
            },
            "pluginConfig": [
                {
                    "name": "NodeResourcesFit",
                    "args": {
                        "scoringStrategy": {
                            "type": "MostAllocated",
                            "resources": [
                                {"name": "cpu", "weight": 1},
                                {"name": "memory", "weight": 1},
                            ],
                        }
                    },
                },
                {"name": "InterPodAffinity", "args": {"hardPodAffinityWeight": 3}},
            ],
        }
    ]
    assert made.document["extenders"] == [OURS | {"enableHTTPS": False}, OTHER]


def test_an_extender_is_corrected_where_it_would_be_refused() -> None:
    old = {
        "predicates": [],
        "extenders": [
            {
                "urlPrefix": "http://127.0.0.1:1",
                "prioritizeVerb": "p",
                "httpTimeout": 1_500_000_000,
                "managedResources": [{"name": "cpu"}, {"name": "a.b/c"}],
            }
        ],
    }
    made = converted(old)
    assert made.document["extenders"] == [
        {
            "urlPrefix": "http://127.0.0.1:1",
            "prioritizeVerb": "p",
            "httpTimeout": "1.5s",
            "managedResources": [{"name": "a.b/c"}],
            "weight": 1,
        }
    ]
    assert any("`cpu`" in note for note in made.notes)


def old_scheduler(**more: Any) -> Json:
    """Return a configuration of v1alpha1."""
    version = "kubescheduler.config.k8s.io/v1alpha1"
    return {"apiVersion": version, "kind": "KubeSchedulerConfiguration", **more}


def read_old(source: Json, *, beside: Json | None = None) -> Conversion:
    """Return the conversion of one whose Policy may be in a ConfigMap beside it."""
    text = json.dumps(old_scheduler(algorithmSource=source))
    if beside is not None:
        data = {"policy.cfg": json.dumps(beside)}
        config_map = {"kind": "ConfigMap", "metadata": {"name": "p"}, "data": data}
        text += f"\n---\n{json.dumps(config_map)}"
    found, *others = configurations([("old", text)], lambda _path: None)
    policy = policy_of(found, others, {"/p.json": json.dumps(POLICY)}.get)
    return convert(found, Extender(OUR_URL), policy=policy)


POLICY: Json = {
    "kind": "Policy",
    "apiVersion": "v1",
    "priorities": [{"name": "MostRequestedPriority", "weight": 3}],
    "extenders": [{"urlPrefix": "http://127.0.0.1:9251", "filterVerb": "predicate"}],
}


@pytest.mark.parametrize(
    ("source", "beside"),
    [
        ({"policy": {"file": {"path": "/p.json"}}}, None),
        ({"policy": {"configMap": {"namespace": "kube-system", "name": "p"}}}, POLICY),
    ],
    ids=["file", "ConfigMap"],
)
def test_a_policy_that_v1alpha1_names_is_converted(source: Json, beside: Json | None) -> None:
    made = read_old(source, beside=beside).document
    assert made["extenders"] == POLICY["extenders"]
    (only,) = made["profiles"]
    assert only["plugins"]["score"]["enabled"] == [{"name": "NodeResourcesFit", "weight": 3}]
    assert "percentageOfNodesToScore" not in made


@pytest.mark.parametrize("kind", ["file", "configMap"])
def test_a_policy_that_is_not_there_is_not_forgotten(kind: str) -> None:
    place = {"path": "/q.json"} if kind == "file" else {"namespace": "n", "name": "q"}
    with pytest.raises(CommandError, match="`algorithmSource` names a Policy in"):
        read_old({"policy": {kind: place}})


def test_a_provider_is_a_profile() -> None:
    assert "profiles" not in read_old({"provider": "DefaultProvider"}).document
    (only,) = read_old({"provider": "ClusterAutoscalerProvider"}).document["profiles"]
    assert only["pluginConfig"][0]["args"]["scoringStrategy"]["type"] == "MostAllocated"


def test_fields_of_v1alpha1_keep_their_meaning() -> None:
    old = old_scheduler(
        schedulerName="mine",
        leaderElection={"lockObjectName": "mine", "lockObjectNamespace": "shop"},
        disablePreemption=True,
        hardPodAffinitySymmetricWeight=7,
        bindTimeoutSeconds=60,
        extenders=[OURS],
    )
    made = converted(old).document
    assert made["leaderElection"] == {"resourceName": "mine", "resourceNamespace": "shop"}
    assert made["profiles"] == [
        {
            "schedulerName": "mine",
            "plugins": {"postFilter": {"disabled": [{"name": "DefaultPreemption"}]}},
            "pluginConfig": [
                {"name": "InterPodAffinity", "args": {"hardPodAffinityWeight": 7}},
                {"name": "VolumeBinding", "args": {"bindTimeoutSeconds": 60}},
            ],
        }
    ]


def test_extenders_of_a_profile_are_those_of_all() -> None:
    profile = {"schedulerName": "a", "extenders": [OTHER]}
    made = converted({**old_scheduler(), "profiles": [profile], "extenders": [OURS]})
    assert made.document["extenders"] == [OURS, OTHER]
    assert made.document["profiles"] == [{"schedulerName": "a"}]
    assert any("`profiles[0].extenders` are `extenders`" in note for note in made.notes)


def test_a_list_of_plugins_turns_off_all_others() -> None:
    """As the design of the framework has it; a plugin that another point needs stays."""
    plugins = {"score": [{"name": "ImageLocality", "weight": 5}], "preScore": [], "bind": []}
    found = profile({"plugins": plugins, "extenders": [OURS]})["plugins"]
    assert found["score"] == {
        "enabled": [{"name": "ImageLocality", "weight": 5}],
        "disabled": [{"name": "*"}],
    }
    assert found["preScore"] == {"disabled": [{"name": "*"}]}
    assert found["bind"]["enabled"] == [{"name": "DefaultBinder"}]


def test_what_filters_need_stays_before_them() -> None:
    found = profile({"plugins": {"preFilter": [{"name": "Mine"}]}, "extenders": [OURS]})
    assert found["plugins"]["preFilter"]["disabled"] == [{"name": "*"}]
    kept = [each["name"] for each in found["plugins"]["preFilter"]["enabled"]]
    assert "NodeResourcesFit" in kept
    assert "NodeName" not in kept


@pytest.mark.parametrize(("version", "is_there"), [("1.34", False), ("1.35", True), ("", True)])
def test_plugins_that_came_later_are_left_out(
    placet: Placet, version: str, *, is_there: bool
) -> None:
    """kube-scheduler does not start with the name of a plugin that it has not."""
    old = json.dumps({"plugins": {"preFilter": [{"name": "Mine"}]}, "extenders": [OURS]})
    flags = ["--kube-version", version] if version else []
    done = placet("scheduler-config", "--from", "-", *flags, stdin=old)
    assert ("NodeDeclaredFeatures" in done.out) == ("NodeDeclaredFeatures" in done.err) == is_there


def test_a_kube_scheduler_that_does_not_read_v1_is_an_error(placet: Placet) -> None:
    done = placet(
        "scheduler-config",
        "--from",
        "-",
        "--kube-version",
        "1.24",
        stdin=json.dumps({"predicates": []}),
    )
    assert done.code == Exit.ERROR
    assert "writes `kubescheduler.config.k8s.io/v1`, which 1.24 does not read" in done.err


def test_arguments_that_are_left_out_are_named() -> None:
    old = {"plugins": {}, "pluginConfig": [{"name": "Mine", "args": {"a": 1}}], "extenders": [OURS]}
    assert "the `pluginConfig` of `Mine` is left out with it" in converted(old).notes


def test_extenders_of_others_stay() -> None:
    old = {"predicates": [], "extenders": [OTHER | {"nodeCacheCapable": False}]}
    made = converted(old)
    assert made.document["extenders"] == old["extenders"]
    assert "percentageOfNodesToScore" not in made.document
    assert "no extender has a URL of Placet, so that of each stays as it is" in made.notes
    made = converted(old, url=OTHER["urlPrefix"])
    assert made.document["extenders"][0]["nodeCacheCapable"] is True
    assert made.document["percentageOfNodesToScore"] == 100


def test_a_bind_verb_needs_a_placet_that_binds() -> None:
    old = {"predicates": [], "extenders": [OURS | {"bindVerb": "bind"}]}
    assert converted(old).document["extenders"] == [OURS]
    assert converted(old, binds=True).document["extenders"] == old["extenders"]
    assert any("binds no pod without `--bind`" in note for note in converted(old).notes)


def test_the_heavier_of_two_strategies_stays() -> None:
    old = {
        "priorities": [
            {"name": "MostRequestedPriority", "weight": 5},
            {"name": "LeastRequestedPriority", "weight": 2},
        ]
    }
    found = profile(old)
    assert found["plugins"]["score"]["enabled"] == [{"name": "NodeResourcesFit", "weight": 5}]
    assert found["pluginConfig"][0]["args"]["scoringStrategy"]["type"] == "MostAllocated"


def test_a_sound_configuration_stays_as_it_is() -> None:
    sound = {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "percentageOfNodesToScore": 100,
        "extenders": [OURS],
    }
    assert converted(sound).document == sound
    assert converted(sound).notes == ()


def test_every_row_of_the_tables_is_documented() -> None:
    page = section("operations", "From older configurations")
    # Priorities with arguments have any name, and the page says what their argument is called.
    arguments = {"RequestedToCapacityRatioPriority": "requestedToCapacityRatioArguments"}
    arguments |= {
        "LabelPreference": "labelPreference",
        "ServiceAntiAffinity": "serviceAntiAffinity",
    }
    names = [arguments.get(name, name) for name in (*PREDICATES, *PRIORITIES, *PLUGINS)]
    assert [name for name in names if name not in page] == []
    successors = {p for s in (*PREDICATES.values(), *PRIORITIES.values()) for p in s.plugins}
    assert [name for name in successors if name not in page] == []


def test_the_clauses_that_are_offered_are_legal() -> None:
    """They work when they are written into a policy, with other names in place of KEY and VALUE."""
    for table in (PREDICATES, PRIORITIES):
        for name, successor in table.items():
            if successor.clause:
                text = f"cluster policy a {{ {successor.clause} }}"
                found = Validator(load_schema()).validate([Source(name, text)]).findings()
                assert [d.message for d, _ in found if d.severity == "error"] == [], text
