"""Tests of forms: which policies say something about a pod, together with what the pod says."""

from __future__ import annotations

from typing import Any

import pytest

from engine.errors import ExpensivePolicyError
from engine.objects.request_pod import (
    FORM,
    NO_EXEMPTIONS,
    Exemptions,
    RequestPod,
    RequestPodReader,
    form_versions,
)
from engine.portable.portable_form import PortableAddition, PortableForm, added, form_of, patch
from engine.selectors.terms import Frozen
from tests.support.builders import Object, pod, raw
from tests.support.engines import CODEC, registry_of

REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
FROZEN = Frozen(labels=frozenset({"app"}))
POOL = 'filter "pool" { require node.labels["pool"] == pod.namespace }'
ARM = 'filter "arm" { require node.labels["kubernetes.io/arch"] == "arm64" }'
POOLED = {"key": "pool", "operator": "In", "values": ["shop"]}


def read(spec: Object | None = None, **more: Any) -> RequestPod:
    made = pod("web", namespace="shop", labels={"app": "web"}, **more)
    if more.get("annotations") is None:
        made["metadata"].pop("annotations", None)
    return RequestPodReader(CODEC).read(raw({**made, "spec": {**made["spec"], **(spec or {})}}))


def form(policies: str, asked: RequestPod | None = None, **more: Any) -> PortableForm:
    return form_of(asked or read(), registry_of(policies), NO_EXEMPTIONS, FROZEN, **more)


def terms(addition: PortableAddition) -> Any:
    assert "affinity" in addition.spec
    return [
        term["matchExpressions"]
        for term in addition.spec["affinity"]["nodeAffinity"][REQUIRED]["nodeSelectorTerms"]
    ]


def said(found: PortableForm) -> tuple[list[str], list[tuple[str, str]]]:
    """The addresses of the policies of the parts, and what is left with its reason."""
    return [p.address for p, _ in found.parts], [(p.address, e.reason) for p, e in found.left]


def test_only_portable_policies_say_something() -> None:
    policies = f"cluster policy a {{ portable {POOL} }} cluster policy b {{ {ARM} }}"
    assert said(form(policies)) == (["a"], [])


def test_the_policy_that_governs_says_something_and_others_do_not() -> None:
    policies = (
        f'policy low in namespace "shop" {{ portable {POOL} }}'
        f'policy high in namespace "shop" {{ portable weight 200 {ARM} }}'
        f'policy elsewhere in namespace "bank" {{ portable weight 300 {ARM} }}'
        f"cluster policy everybody {{ portable {POOL} }}"
    )
    assert said(form(policies)) == (["everybody", "shop/high"], [])


def test_a_policy_says_nothing_while_another_one_may_come_to_govern() -> None:
    heavy = 'policy heavy in namespace "shop" { weight 200 for pods where pod.labels["x"] == "y" }'
    light = f'policy light in namespace "shop" {{ portable {POOL} }}'
    reason = 'policy shop/heavy may come to govern the pod: `pod.labels["x"]` can change'
    assert said(form(heavy + light)) == ([], [("shop/light", reason)])
    settled = heavy.replace('pod.labels["x"] == "y"', 'pod.labels["app"] == "db"')
    assert said(form(settled + light)) == (["shop/light"], [])


def test_a_policy_that_may_not_stay_the_pods_says_nothing() -> None:
    found = form(f'cluster policy p {{ portable for pods where pod.labels["x"] == "y" {POOL} }}')
    assert said(found) == ([], [("p", 'its `for`: `pod.labels["x"]` can change')])


def test_no_policy_says_something_about_an_exempt_pod() -> None:
    registry = registry_of(f"cluster policy p {{ portable {POOL} }}")
    exempt = Exemptions(frozenset({"shop"}))
    assert form_of(read(), registry, exempt, FROZEN) == PortableForm()


def test_a_policy_without_time_says_nothing() -> None:
    def refuse(policy: str) -> Any:
        raise ExpensivePolicyError(policy)

    found = form(f"cluster policy p {{ portable {POOL} }}", using=refuse)
    assert said(found) == ([], [("p", "its `for`: the policy takes too much time")])


def test_the_terms_of_the_pod_are_kept() -> None:
    own = [
        {"matchExpressions": [{"key": "a", "operator": "Exists"}]},
        {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n1"]}]},
        {},
    ]
    affinity: Any = {
        "nodeAffinity": {REQUIRED: {"nodeSelectorTerms": own}, "preferred": 1},
        "podAffinity": {"x": 1},
    }
    asked = read({"affinity": affinity})
    found = added(asked, form(f"cluster policy p {{ portable {POOL} }}", asked))
    assert terms(found) == [[{"key": "a", "operator": "Exists"}, POOLED], [POOLED]]
    assert "affinity" in found.spec
    joined = found.spec["affinity"]["nodeAffinity"][REQUIRED]["nodeSelectorTerms"]
    assert joined[1]["matchFields"] == [
        {"key": "metadata.name", "operator": "In", "values": ["n1"]}
    ]
    assert found.spec["affinity"]["nodeAffinity"]["preferred"] == 1
    assert found.spec["affinity"]["podAffinity"] == {"x": 1}


def test_a_pod_that_selects_no_node_gets_none_more() -> None:
    asked = read({"affinity": {"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": [{}]}}}})
    found = added(asked, form(f"cluster policy p {{ portable {POOL} }}", asked))
    assert "affinity" not in found.spec


def test_a_policy_that_rejects_every_node_selects_none() -> None:
    found = added(read(), form('cluster policy p { portable filter "f" { require false } }'))
    key = "kubernetes.io/hostname"
    nowhere = [{"key": key, "operator": "Exists"}, {"key": key, "operator": "DoesNotExist"}]
    assert terms(found) == [nowhere]


def test_there_are_at_most_64_terms() -> None:
    own = [{"matchExpressions": [{"key": f"k{i}", "operator": "Exists"}]} for i in range(40)]
    asked = read({"affinity": {"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": own}}}})
    two = 'filter "f" { require node.labels["a"] == "b" || "c" in node.labels }'
    made = form(f"cluster policy p {{ portable {two} {POOL} }}", asked)
    found = added(asked, made)
    reason = "with the pod's own node affinity it would take more than 64 terms"
    assert [each.reason for _, each in found.left] == [reason]
    assert len(terms(found)) == 40
    assert terms(found)[0] == [{"key": "k0", "operator": "Exists"}, POOLED]


SPREAD = (
    'spread "s" { pods where peer.labels["app"] == "web" over node.zone skew at most 1 strict }'
)
NEAR = 'limit "near" { pods where peer.labels["app"] == "db" per zone at least 1 strict }'
AWAY = 'limit "away" { pods where peer.labels["app"] == "web" per node at most 1 strict mutual }'


def test_a_pod_has_one_spread_constraint_that_rejects() -> None:
    soft = {"topologyKey": "x", "whenUnsatisfiable": "ScheduleAnyway"}
    strict = {"topologyKey": "x", "whenUnsatisfiable": "DoNotSchedule"}
    policies = f"cluster policy p {{ portable {SPREAD} }}"
    for own, count, reasons in (
        ([soft], 2, []),
        ([strict], None, ["the pod has another spread constraint"]),
    ):
        asked = read({"topologySpreadConstraints": own})
        found = added(asked, form(policies, asked))
        constraints = found.spec.get("topologySpreadConstraints")
        assert (constraints and len(constraints)) == count
        assert [each.reason for _, each in found.left] == reasons


def test_a_pod_has_one_term_of_affinity_and_any_number_of_anti_affinity() -> None:
    term = {"topologyKey": "x", "labelSelector": {}}
    own = {"podAffinity": {REQUIRED: [term]}, "podAntiAffinity": {REQUIRED: [term]}}
    policies = f"cluster policy p {{ portable {NEAR} {AWAY} }}"
    alone, beside = read(), read({"affinity": own})
    found = added(alone, form(policies, alone))
    assert "affinity" in found.spec
    assert len(found.spec["affinity"]["podAffinity"][REQUIRED]) == 1
    assert not found.left
    found = added(beside, form(policies, beside))
    assert "affinity" in found.spec
    assert found.spec["affinity"]["podAffinity"] == own["podAffinity"]
    assert found.spec["affinity"]["podAntiAffinity"][REQUIRED][0] == term
    assert len(found.spec["affinity"]["podAntiAffinity"][REQUIRED]) == 2
    reason = "a pod must match all terms of pod affinity at once"
    assert [each.reason for _, each in found.left] == [reason]


def test_the_patch_names_the_policies_and_comes_once() -> None:
    policies = f"cluster policy a {{ portable {POOL} }} cluster policy b {{ portable {ARM} }}"
    for own, path in (
        (None, "/metadata/annotations"),
        ({"x": "y"}, "/metadata/annotations/placet.dev~1portable"),
    ):
        asked = read(annotations=own)
        made = form(policies, asked)
        changes = patch(asked, added(asked, made))
        assert [change["path"] for change in changes] == [path, "/spec/affinity"]
        value = changes[0]["value"]
        text = value[FORM] if own is None else value
        digests = {p.address: p.digest for p, _ in made.parts}
        assert form_versions({FORM: text}) == digests
        again = read(annotations={FORM: text})
        assert patch(again, added(again, form(policies, again))) == []


def test_nothing_to_say_is_no_patch() -> None:
    asked = read()
    made = form('cluster policy p { portable filter "f" { require true } }')
    assert patch(asked, added(asked, made)) == []


@pytest.mark.parametrize("text", ["", "web", ",,"])
def test_an_annotation_that_names_no_version(text: str) -> None:
    assert form_versions({FORM: text}) == {}
