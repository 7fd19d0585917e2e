"""Conversion of older configurations: what each plugin and field becomes."""

from __future__ import annotations

import json
from typing import Any

import pytest

from cli.doctor.configuration_text import Conversion, configurations, convert
from cli.doctor.generator import OUR_URL
from tests.support.scheduler_configs import OTHER, OURS, configuration

Json = dict[str, Any]


def converted(value: Json, *, url: str | None = None, binds: bool = False) -> Conversion:
    (found,) = configurations([("old", json.dumps(value))], lambda _path: None)
    return convert(found, [{"urlPrefix": OUR_URL}], url=url, binds=binds)


@pytest.mark.parametrize(
    ("old", "said"),
    [
        ({"predicates": [{"name": "HostName"}]}, "`predicates`"),
        ({"priorities": [{"name": "EqualPriority", "weight": 1}]}, "`priorities`"),
        ({"predicates": [], "alwaysCheckAllPredicates": True}, "`alwaysCheckAllPredicates`"),
        ({"predicates": [], "hardPodAffinitySymmetricWeight": 5}, "`hardPodAffinitySymmetricW"),
        ({"predicates": [], "wieght": 5}, "`wieght` is not converted: there is no such field"),
        (
            {"predicates": [], "extenders": [OURS | {"weight": "5"}]},
            "`extenders[0].weight` is not converted: it is not a whole number of 64 bits",
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
        "leaderElection": {"leaderElect": True, "resourceLock": "leases"},
        "profiles": [{"schedulerName": "mine"}],
        "extenders": [OURS | {"enableHTTPS": False}, OTHER],
        "percentageOfNodesToScore": 100,
    }
    assert made.notes == (
        "`healthzBindAddress` is not converted: there is no such field",
        f"`apiVersion` is `{group}/v1`: it was `{group}/{version}`",
        "`profiles[0].plugins` is not converted: the plugins of 1.36 are others",
        "`profiles[0].pluginConfig` is not converted: the plugins of 1.36 are others",
        "`resourceLock` is `leases`: `endpoints` no longer exists",
        "`percentageOfNodesToScore` is 100, so that Placet gets every node",
    )


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
    assert "`algorithmSource` is not converted: there is no such field" in made.notes


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


def test_plugins_of_the_present_version_stay() -> None:
    plugins = {"score": {"enabled": [{"name": "Mine", "weight": 5}]}}
    profile = {"plugins": plugins, "pluginConfig": [{"name": "Mine", "args": {"a": 1}}]}
    sound = configuration(profiles=[profile])
    assert converted(sound).document == sound


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


def test_a_sound_configuration_stays_as_it_is() -> None:
    sound = {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "percentageOfNodesToScore": 100,
        "extenders": [OURS],
    }
    assert converted(sound).document == sound
    assert converted(sound).notes == ()
