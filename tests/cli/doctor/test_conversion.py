"""Conversion of older configurations: what each plugin and field becomes."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

import pytest
import yaml

from cli.doctor.configuration_text import configurations
from cli.doctor.findings import converted as made_of
from cli.doctor.generator import OUR_URL
from tests.support.scheduler_configs import OTHER, OURS, configuration

Json = dict[str, Any]
SAMPLED = (
    "with 100 nodes or more Placet gets a sample of them, and a pod that fits on no node of the "
    "sample stays pending"
)


@dataclass(frozen=True, slots=True)
class Conversion:
    """Conversion: the document that is written, and what is said of it."""

    document: Json
    notes: list[str]


def converted(value: Json, *, url: str = OUR_URL, binds: bool = False) -> Conversion:
    (found,) = configurations([("old", json.dumps(value))])
    new = OURS | {"bindVerb": "bind"} if binds else OURS
    text, notes = made_of(found, [new], 5.0, url)
    return Conversion(yaml.safe_load(text), notes)


@pytest.mark.parametrize(
    ("old", "said"),
    [
        ({"predicates": [{"name": "HostName"}]}, "`predicates`"),
        ({"priorities": [{"name": "EqualPriority", "weight": 1}]}, "`priorities`"),
        ({"predicates": [], "alwaysCheckAllPredicates": True}, "`alwaysCheckAllPredicates`"),
        ({"predicates": [], "hardPodAffinitySymmetricWeight": 5}, "`hardPodAffinitySymmetricW"),
        ({"predicates": [], "wieght": 5}, "`wieght` is not converted: there is no field `wieght`"),
        (
            {"predicates": [], "extenders": [OURS | {"weight": "5"}]},
            "`extenders[0].weight` is not converted: `extenders[0].weight` is not a whole number",
        ),
    ],
)
def test_what_is_not_converted_is_said(old: Json, said: str) -> None:
    (note,) = [note for note in converted(old).notes if note.startswith(said)]
    assert "is not converted" in note


@pytest.mark.parametrize("version", ["v1beta1", "v1beta2", "v1beta3"])
def test_an_older_version_keeps_its_fields_without_plugins(version: str) -> None:
    group = "kubescheduler.config.k8s.io"
    old = {
        "apiVersion": f"{group}/{version}",
        "kind": "KubeSchedulerConfiguration",
        "healthzBindAddress": ":0",
        "leaderElection": {"leaderElect": True, "resourceLock": "endpoints"},
        "profiles": [
            {
                "schedulerName": "mine",
                "plugins": {"score": {"enabled": [{"name": "NodeResourcesMostAllocated"}]}},
                "pluginConfig": [{"name": "InterPodAffinity", "args": {}}],
            }
        ],
        "extenders": [OURS | {"enableHttps": False}, OTHER],
    }
    made = converted(old)
    assert made.document == {
        "apiVersion": f"{group}/v1",
        "kind": "KubeSchedulerConfiguration",
        "leaderElection": {"leaderElect": True},
        "profiles": [{"schedulerName": "mine"}],
        "extenders": [OURS | {"enableHTTPS": False}, OTHER],
        "percentageOfNodesToScore": 100,
    }
    assert made.notes == [
        "`healthzBindAddress` is not converted: there is no field `healthzBindAddress`",
        f"`apiVersion` is `{group}/v1`: it was `{group}/{version}`",
        "`profiles[0].plugins` is not converted: the plugins of 1.36 are others",
        "`profiles[0].pluginConfig` is not converted: the plugins of 1.36 are others",
        "`resourceLock` is `leases`: `endpoints` no longer exists",
        f"{SAMPLED}, so `percentageOfNodesToScore` is 100 now",
    ]


def test_the_name_of_a_second_scheduler_stays() -> None:
    """As v1alpha1 has it, without which it would be the default one."""
    old = {
        "apiVersion": "kubescheduler.config.k8s.io/v1alpha1",
        "kind": "KubeSchedulerConfiguration",
        "schedulerName": "mine",
        "algorithmSource": {"policy": {"file": {"path": "/p.json"}}},
    }
    made = converted(old)
    assert made.document["profiles"] == [{"schedulerName": "mine"}]
    assert "`algorithmSource` is not converted: there is no field `algorithmSource`" in made.notes


def test_an_extender_is_corrected_where_it_would_be_refused() -> None:
    """And what doctor says of the rest is said."""
    old = {
        "predicates": [],
        "extenders": [
            {
                "urlPrefix": "http://127.0.0.1:1",
                "prioritizeVerb": "p",
                "httpTimeout": 1_500_000_000,
                "managedResources": [{"name": "cpu"}, {"name": "a.b/c"}, {"name": "d"}],
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
            "weight": 10,
        }
    ]
    for name, place in (("cpu", 0), ("d", 2)):
        left_out = f"so `extenders[0].managedResources[{place}]` is left out now"
        said = f"`{name}` is not an extended resource: kube-scheduler refuses to start, {left_out}"
        assert said in made.notes
    hint = "give its `urlPrefix` with `--url`, or add the output of `placet scheduler-config"
    assert f"no extender is known to be Placet: {hint} --section`" in made.notes


def test_plugins_of_the_present_version_stay() -> None:
    plugins = {"score": {"enabled": [{"name": "Mine", "weight": 5}]}}
    profile = {"plugins": plugins, "pluginConfig": [{"name": "Mine", "args": {"a": 1}}]}
    sound = configuration(profiles=[profile])
    assert converted(sound).document == sound


def test_extenders_of_others_stay() -> None:
    old = {"predicates": [], "extenders": [OTHER | {"nodeCacheCapable": False}]}
    made = converted(old)
    assert made.document["extenders"] == old["extenders"]
    assert any(note.startswith("no extender is known to be Placet: ") for note in made.notes)
    made = converted(old, url=OTHER["urlPrefix"])
    assert made.document["extenders"][0]["nodeCacheCapable"] is True
    assert made.document["percentageOfNodesToScore"] == 100


def test_a_bind_verb_needs_a_placet_that_binds() -> None:
    old = {"predicates": [], "extenders": [OURS | {"bindVerb": "bind"}]}
    assert converted(old).document["extenders"] == [OURS]
    assert converted(old, binds=True).document["extenders"] == old["extenders"]
    assert any("has no verb bind without `--bind`" in note for note in converted(old).notes)


def test_a_sound_configuration_stays_as_it_is() -> None:
    sound = {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "percentageOfNodesToScore": 100,
        "extenders": [OURS],
    }
    assert converted(sound).document == sound
    assert converted(sound).notes == []
