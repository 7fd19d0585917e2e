"""Manifests as policies: what their selectors, targets and settings become, and where it stands."""

from __future__ import annotations

import re

import pytest

from engine.clauses.programs import compile_policy
from engine.counting.bounds import target
from engine.objects.request_pod import ObjectCodec
from engine.program.frame import Frame
from engine.program.program import Program
from grammar.clauses.share import Share
from grammar.meaning.schema import load_schema
from grammar.tree.clause_parts import Bound, Repair
from grammar.tree.policy import Policy
from grammar.values.time import Timestamp
from policies.admission import CheckedObject, check_object, lines
from policies.sugar import CLAUSE, parts
from tests.support.books import DOCS
from tests.support.builders import (
    Object,
    cluster_placement_policy,
    node,
    on_wanted,
    placement_policy,
    pod,
    raw,
    without,
)

SCHEMA = load_schema()
CODEC = ObjectCodec(SCHEMA)


def checked(value: Object) -> CheckedObject:
    return check_object("policy", raw(value), SCHEMA)


def policy(value: Object) -> Policy:
    found = checked(value)
    assert lines(found.file, "error") == ()
    (only,) = found.file.policies
    return only.policy


def share(value: Object) -> Share:
    (clause,) = policy(value).clauses
    assert isinstance(clause, Share)
    return clause


def program(value: Object) -> Program:
    (only,) = checked(value).file.policies
    assert not only.broken
    return compile_policy(only)


def frame(labels: dict[str, str], annotations: dict[str, str] | None = None) -> Frame:
    """Of a pod, and of a node, that both have these."""
    made = CODEC.pod(raw(pod("a", labels=labels)))
    found = Frame(made, Timestamp.now(), slots=100)
    found.node = CODEC.node(raw(node("n", labels=labels, annotations=annotations)))
    return found


@pytest.mark.parametrize(
    ("requirement", "holds"),
    [
        ({"operator": "In", "values": ["x", ""]}, ["x", ""]),
        ({"operator": "In", "values": ["x"]}, ["x"]),
        ({"operator": "NotIn", "values": ["x"]}, ["y", "", None]),
        ({"operator": "NotIn", "values": ["x", ""]}, ["y", None]),
        ({"operator": "Exists"}, ["x", "y", ""]),
        ({"operator": "DoesNotExist"}, [None]),
    ],
    ids=str,
)
def test_requirements_hold_as_in_kubernetes(requirement: Object, holds: list[str | None]) -> None:
    """Of labels that are absent, empty, or something; an absent one is not an empty one."""
    selector = {"matchExpressions": [{"key": "a.b/c-d"} | requirement]}
    spec = on_wanted(1, action="MustNot") | {"podSelector": selector, "nodeSelector": selector}
    made = program(placement_policy(spec))
    assert made.select is not None
    for value in ("x", "y", "", None):
        here = frame({} if value is None else {"a.b/c-d": value})
        assert made.select(here) is (value in holds), value
        # A count that must not be on these nodes is a share of the others.
        assert made.counts[0].place(here) is not (value in holds), value


@pytest.mark.parametrize(
    ("operator", "bound", "holds"),
    [
        ("Gt", "5", {"6", "+7", "0010"}),
        ("Lt", "5", {"4", "-1"}),
        ("Gt", "-2", {"4", "-1", "6", "+7", "5", "0010"}),
    ],
)
def test_numbers_are_compared_as_in_kubernetes(operator: str, bound: str, holds: set[str]) -> None:
    requirement = {"key": "cpus", "operator": operator, "values": [bound]}
    spec = on_wanted(1) | {"nodeSelector": {"matchExpressions": [requirement]}}
    on = program(placement_policy(spec)).counts[0].place
    for value in ("6", "4", "5", "-1", "+7", "0010", "", "x", "1.5", "9" * 40, " 6"):
        assert on(frame({"cpus": value})) is (value in holds), value
    assert on(frame({})) is False


def test_annotations_select_nodes_too() -> None:
    """With a nodeSelector, both must."""
    selector = {"matchLabels": {"a": "1"}}
    spec = without(on_wanted(1), "nodeSelector") | {"annotationSelector": selector}
    on = program(placement_policy(spec)).counts[0].place
    assert on(frame({"a": "1"})) is False
    assert on(frame({}, {"a": "1"})) is True
    on = (
        program(placement_policy(spec | {"nodeSelector": {"matchLabels": {"b": "2"}}}))
        .counts[0]
        .place
    )
    assert on(frame({}, {"a": "1"})) is False
    assert on(frame({"b": "2"}, {"a": "1"})) is True


def test_values_are_texts_whatever_is_in_them() -> None:
    value = '"] || true || x == ["\\{node}'
    spec = on_wanted(1) | {"nodeSelector": {"matchLabels": {'k"': value}}}
    on = program(placement_policy(spec)).counts[0].place
    assert on(frame({'k"': value})) is True
    assert on(frame({'k"': "y"})) is False


@pytest.mark.parametrize(
    ("size", "more", "bound", "is_turned"),
    [
        ("40%", {}, Bound("exactly", 40, percent=True), False),
        ("40%", {"bound": "AtMost"}, Bound("at most", 40, percent=True), False),
        (3, {"bound": "AtLeast"}, Bound("at least", 3), False),
        ("40%", {"action": "MustNot"}, Bound("exactly", 60, percent=True), False),
        (
            "40%",
            {"action": "MustNot", "bound": "AtMost"},
            Bound("at most", 60, percent=True),
            False,
        ),
        (
            "40%",
            {"action": "MustNot", "rounding": "Up"},
            Bound("exactly", 60, percent=True, rounding="up"),
            False,
        ),
        (
            "40%",
            {"bound": "AtLeast", "rounding": "Down"},
            Bound("at least", 40, percent=True, rounding="down"),
            False,
        ),
        (3, {"action": "MustNot"}, Bound("exactly", 3), True),
        (3, {"action": "MustNot", "bound": "AtMost"}, Bound("at least", 3), True),
        (3, {"action": "MustNot", "bound": "AtLeast"}, Bound("at most", 3), True),
    ],
    ids=str,
)
def test_target_is_a_bound(
    size: int | str, more: dict[str, str], bound: Bound, is_turned: bool
) -> None:
    """A bound is about the pods on the selected nodes, `MustNot` or not."""
    value = placement_policy(on_wanted(size, **more))
    assert share(value).bound == bound
    on = program(value).counts[0].place
    assert on(frame({"node": "want"})) is not is_turned


def test_rounding_up_gives_the_numbers_of_the_plugins() -> None:
    """The table of the page; with `MustNot` the plugins take what `Must` leaves."""
    page = (DOCS / "policy-api.md").read_text(encoding="utf-8")
    section = page.partition("### Percentages of small workloads")[2].partition("\n#")[0]
    rows = [[*map(int, row)] for row in re.findall(r"(?m)^\|" + r" (\d+) \|" * 4 + "$", section)]
    assert [row[0] for row in rows] == [*range(1, 11)]
    for pods, must, there, here in rows:
        turned = {"action": "MustNot"}
        assert pods_on(on_wanted("40%"), pods) == must
        assert pods_on(on_wanted("40%", **turned), pods) == here
        assert pods_on(on_wanted("40%", **turned, rounding="Up"), pods) == there


def pods_on(spec: Object, pods: int) -> int:
    """How many of so many pods go on the selected nodes."""
    return target(program(placement_policy(spec)).counts[0].bound, pods)


@pytest.mark.parametrize(
    ("mode", "weight", "setting"),
    [("Strict", None, "enforce"), ("BestEffort", 100, "enforce"), ("Audit", None, "audit")],
)
def test_mode_is_the_strength_of_the_share(mode: str, weight: int | None, setting: str) -> None:
    value = placement_policy(on_wanted("40%", mode))
    assert share(value).strength.weight == weight
    assert policy(value).setting("mode", "") == setting


def test_settings() -> None:
    made = policy(placement_policy(on_wanted(1) | {"weight": 300, "failurePolicy": "Ignore"}))
    assert made.setting("weight", 0) == 300
    assert made.setting("missing", "") == "pass"
    assert (made.address, made.cluster) == ("default/web", False)
    made = policy(cluster_placement_policy(on_wanted(1), "guard"))
    assert (made.address, made.cluster) == ("guard", True)


def test_fields_are_texts_of_the_language() -> None:
    spec = on_wanted("40%") | {"namespaceSelector": {"matchLabels": {"team": "x"}}}
    manifest = checked(cluster_placement_policy(spec)).manifest
    assert manifest is not None
    assert [text for _, text in parts(manifest)][:2] == ["weight 101", "mode enforce"]
    assert [text for _, text in parts(manifest)][2] == (
        'for pods where "app" in pod.labels && pod.labels["app"] == "web"'
        ' && "team" in namespaceObject.labels && namespaceObject.labels["team"] == "x"'
    )
    assert [text for _, text in parts(manifest)][3] == (
        f'share "{CLAUSE}"'
        ' { of all pods where "app" in peer.labels && peer.labels["app"] == "web"'
        ' on nodes where "node" in node.labels && node.labels["node"] == "want"'
        ' exactly 40% strict message "policy web: exactly 40% of its pods on the selected nodes" }'
    )


def test_diagnostics_say_where_in_the_rules() -> None:
    rules = '# first\nfilter "a" {\n  require node.redy\n}\nfilter "b" { require ) }\n'
    found = checked(placement_policy(on_wanted("40%") | {"rules": rules}))
    assert found.manifest is not None
    assert lines(found.file, "error") == (
        "rules:3:16 error[P0102]: Node has no field `redy` (a similar name exists: `ready`)",
        "rules:5:22 error[P0001]: `)` is not allowed here (expected an expression)",
    )


@pytest.mark.parametrize(("failure", "count"), [("Fail", 1), ("Ignore", 0)])
def test_a_failure_policy_that_every_object_has_answers_no_warning(
    failure: str, count: int
) -> None:
    rules = 'filter "a" { require node.labels["a"] != "b" }'
    found = checked(placement_policy({"podSelector": {}, "rules": rules, "failurePolicy": failure}))
    assert len([d for d in found.file.diagnostics if d.code == "P0301"]) == count


def test_diagnostics_of_a_field_begin_with_it() -> None:
    manifest = placement_policy(on_wanted("40%"))
    manifest["spec"]["nodeSelector"] = {"matchLabels": {"kubernetes.io/os": "Linux"}}
    found = checked(manifest)
    assert lines(found.file, "error") == ()
    assert lines(found.file, "warning") == (
        (
            "spec.placementPolicy warning[P0333]: `Linux` is no value of `kubernetes.io/os`"
            ' (write `"linux"`)'
        ),
    )
    found = checked(placement_policy(on_wanted("140%")))
    assert found.manifest is None
    assert [each.policy.clauses for each in found.file.policies] == [()]
    assert not found.file.whole
    (line,) = lines(found.file, "error")
    assert line.startswith("spec.placementPolicy.targetSize error[P0503]: `140%` is not")


@pytest.mark.parametrize(
    ("rules", "field"),
    [
        ("weight 300", "spec.weight"),
        ("mode audit", "spec.enforcementMode"),
        ("missing pass", "spec.failurePolicy"),
        ("for pods where true", "spec.podSelector"),
    ],
)
def test_rules_do_not_say_again_what_a_field_says(rules: str, field: str) -> None:
    found = checked(placement_policy(on_wanted(1) | {"rules": rules}))
    (line,) = lines(found.file, "error")
    assert line.startswith("rules:1:1 error[P0201]")
    assert field in line


def test_rules_may_have_anything_else() -> None:
    rules = """
      description "x"
      let a = node.ready
      filter "a" { require a }
      limit "l" { per node at most 1 strict }
    """
    made = policy(placement_policy(on_wanted(1) | {"rules": rules}))
    assert [clause.name for clause in made.clauses] == [CLAUSE, "a", "l"]


def test_clause_of_the_rules_does_not_take_the_name() -> None:
    rules = f'filter "{CLAUSE}" {{ require node.ready }}'
    found = checked(placement_policy(on_wanted(1) | {"rules": rules}))
    (line,) = lines(found.file, "error")
    assert line.startswith("rules:1:8 error[P0205]")


@pytest.mark.parametrize("rules", ["# " + "x" * 65_530, "x " * 30_000, "(" * 200], ids=len)
def test_rules_that_are_too_much_are_told_so(rules: str) -> None:
    found = checked(placement_policy(on_wanted(1) | {"rules": rules}))
    assert found.file.whole == rules.startswith("#")


READY = {"podSelector": {}, "rules": 'filter "ready" { require node.ready }'}


def test_a_repair() -> None:
    """Its field becomes the setting, which the rules must not have then."""
    window = {"begins": "22:00", "ends": "06:30"}
    spec = {"perMinute": 5, "atOnce": 2, "evictsLocalData": True, "between": window}
    value = placement_policy(READY | {"repair": spec})
    found = Repair(5, 2, local_data=True, begins=22 * 60, ends=6 * 60 + 30)
    assert policy(value).repair == found
    assert policy(placement_policy(READY)).repair is None
    assert policy(placement_policy(READY | {"repair": {"perMinute": 1}})).repair == Repair(1)
    twice = placement_policy(READY | {"rules": f"repair at most 5 per minute {READY['rules']}"})
    (line,) = lines(checked(twice).file, "error")
    assert "remove it: `spec.repair` sets it" in line
