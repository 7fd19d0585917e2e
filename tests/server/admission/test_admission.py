"""The admission webhooks over HTTP: errors, warnings and defaults."""

from __future__ import annotations

import pytest

from grammar.meaning.schema import load_schema
from policies.admission import Examiner
from policies.validation import Validation
from server.settings import Settings
from tests.server.conftest import Serve
from tests.support.builders import (
    GROUP,
    WANT,
    Object,
    cluster_placement_policy,
    on_wanted,
    placement_policy,
    raw,
    without,
)
from tests.support.reviews import ALLOWED, raw_review, refused, responded, review
from tests.support.rows import rows
from tests.support.served import Served

# A number: a percentage gives a warning if there are few pods.
GOOD = on_wanted(3)


@pytest.fixture
async def served(serve: Serve) -> Served:
    examiner = Examiner(load_schema(), lambda: Validation(()))
    return await serve(examiner=examiner, settings=Settings(http_timeout=60))


@pytest.mark.parametrize(
    "value",
    [
        placement_policy(GOOD),
        placement_policy({"podSelector": {}, "rules": 'filter "a" { require node.ready }'}),
        placement_policy(without(GOOD, "placementPolicy") | {"policy": {"targetSize": 3}}),
        cluster_placement_policy(GOOD | {"namespaceSelector": {"matchLabels": {"a": "b"}}}),
    ],
    ids=["share", "rules", "old name", "cluster"],
)
@pytest.mark.parametrize("version", ["v1", "v1alpha1"])
async def test_a_valid_policy_is_allowed(served: Served, value: Object, version: str) -> None:
    value = value | {"apiVersion": f"{GROUP}/{version}"}
    assert await responded(served, review(value)) == ALLOWED
    assert await responded(served, review(value, dryRun=True)) == ALLOWED


SIZE = "spec.placementPolicy.targetSize error[P0503]"
BAD: dict[str, tuple[Object, str]] = {
    "no pods": (without(GOOD, "podSelector"), "spec.podSelector error[P0503]: is missing"),
    "no nodes": (without(GOOD, "nodeSelector"), "spec.nodeSelector error[P0503]: is missing"),
    "every node": (
        GOOD | {"nodeSelector": {}},
        "spec.nodeSelector error[P0503]: is empty and would select every node",
    ),
    "weight 100": (
        GOOD | {"weight": 100},
        "spec.weight error[P0503]: `100` must be greater than 100 (0 to 100 are reserved)",
    ),
    "weight -5": (GOOD | {"weight": -5}, "spec.weight error[P0503]: `-5` must be greater than 100"),
    "140 %": (on_wanted("140%"), f"{SIZE}: `140%` is not a percentage from 0% to 100%"),
    "-1": (on_wanted(-1), f"{SIZE}: `-1` is not a number of pods"),
    "-1 %": (on_wanted("-1%"), f"{SIZE}: `-1%` is not a percentage from 0% to 100%"),
    "no enum": (
        GOOD | {"enforcementMode": "Strickt"},
        "spec.enforcementMode error[P0503]: `Strickt` is not allowed",
    ),
    "no action": (
        on_wanted("40%", action="Should"),
        "spec.placementPolicy.action error[P0503]: `Should` is not allowed",
    ),
    "two targets": (
        GOOD | {"policy": {"targetSize": 1}},
        "spec.policy error[P0503]: is the same field as `spec.placementPolicy`",
    ),
    "no syntax": (GOOD | {"rules": "filter {"}, "rules:1:8 error[P0001]: "),
    "no field": (
        GOOD | {"rules": '\nfilter "a" { require node.redy }'},
        "rules:2:27 error[P0102]: Node has no field `redy` (a similar name exists: `ready`)",
    ),
    "65537 bytes": (GOOD | {"rules": " " * 65537}, "spec.rules error[P0503]: is longer than 65536"),
    "64 KiB": (GOOD | {"rules": "x " * 32768}, "rules:1:1 error[P0010]: the text has 32,768 token"),
    "open": (
        GOOD | {"rules": "(" * 65536},
        "rules:1:101 error[P0011]: this is nested more than 100 levels deep",
    ),
    "unknown": (GOOD | {"nodeSelecter": WANT}, "spec.nodeSelecter error[P0503]: unknown field"),
    "dear": (
        {
            "podSelector": {},
            "rules": 'filter "a" { require node.pods.all(a, node.pods.all(b, node.pods.all(c,'
            " a.name != b.name && b.name != c.name))) }",
        },
        "rules:1:22 error[P0401]",
    ),
}


@rows(("spec", "line"), BAD)
@pytest.mark.parametrize("operation", ["CREATE", "UPDATE"])
async def test_an_invalid_policy_is_refused_with_the_field(
    served: Served, spec: Object, line: str, operation: str
) -> None:
    old = placement_policy(GOOD | {"weight": 300}) if operation == "UPDATE" else None
    body = review(placement_policy(spec), operation, oldObject=old)
    assert (await refused(served, body))[0].startswith(line)


async def test_all_errors_are_reported_together(served: Served) -> None:
    spec = GOOD | {"weight": 1, "nodeSelector": {}, "placementPolicy": {"targetSize": "140%"}}
    lines = await refused(served, review(placement_policy(spec)))
    fields = ["spec.weight", "spec.placementPolicy.targetSize", "spec.nodeSelector"]
    assert sorted(line.split()[0] for line in lines) == sorted(fields)


async def test_the_number_of_errors_is_limited(served: Served) -> None:
    rules = "\n".join(f'filter "f{n}" {{ require node.redy }}' for n in range(1000))
    lines = await refused(served, review(placement_policy(GOOD | {"rules": rules})))
    assert len(lines) == 64
    assert lines[-1] == "and 937 more"


async def test_an_error_is_one_line(served: Served) -> None:
    lines = await refused(served, review(placement_policy(on_wanted("4\n\u2028\x1b[31m"))))
    found = rf"{SIZE}: `4\n\u2028\x1b[31m` is not a percentage from 0% to 100%"
    assert lines[0].startswith(found)
    assert len(lines) == 1


async def test_an_allowed_object_can_have_warnings(served: Served) -> None:
    value = placement_policy(GOOD | {"weight": 100}, version="v1alpha1")
    found = await responded(served, review(value))
    assert found["allowed"]
    assert found["warnings"] == [
        "spec.weight warning[P0321]: `100` must be greater than 100 (0 to 100 are reserved)"
    ]


async def test_warnings_fit_into_headers(served: Served) -> None:
    name = "x" * 400
    rules = "\n".join(f'let {name}{n} = 1\nfilter "f{n}" {{ require true }}' for n in range(40))
    found = await responded(served, review(placement_policy({"podSelector": {}, "rules": rules})))
    assert found["allowed"]
    assert len(found["warnings"]) == 16
    assert {len(w) <= 256 and w.isprintable() for w in found["warnings"]} == {True}
    assert found["warnings"][-1].startswith("and ")


async def test_a_refused_object_can_have_warnings(served: Served) -> None:
    value = placement_policy(GOOD | {"weight": 100, "rules": "filter {"}, version="v1alpha1")
    found = await responded(served, review(value))
    assert not found["allowed"]
    assert found["warnings"][0].startswith("spec.weight warning")


async def test_deletions_are_not_checked(served: Served) -> None:
    broken = placement_policy(BAD["no syntax"][0])
    assert await responded(served, review(None, "DELETE", oldObject=broken)) == ALLOWED


async def test_status_updates_are_not_checked(served: Served) -> None:
    broken = placement_policy(BAD["no syntax"][0])
    body = review(broken, "UPDATE", oldObject=placement_policy(GOOD), subResource="status")
    assert await responded(served, body) == ALLOWED


async def test_an_invalid_object_can_still_lose_its_finalizers(served: Served) -> None:
    broken = placement_policy(without(BAD["no syntax"][0], "enforcementMode"))
    held = broken | {"metadata": broken["metadata"] | {"finalizers": ["a.example/b"]}}
    body = review(broken, "UPDATE", oldObject=held)
    assert await responded(served, body) == ALLOWED


async def test_a_stored_weight_of_v1alpha1_may_stay(served: Served) -> None:
    """The API server shows an object in both versions, whichever it was written in."""
    old = placement_policy(GOOD | {"weight": 100})
    new = placement_policy(GOOD | {"weight": 100, "enforcementMode": "Audit"})
    found = await responded(served, review(new, "UPDATE", oldObject=old))
    assert found["allowed"]
    assert found["warnings"][0].startswith("spec.weight warning")
    assert await refused(served, review(new, "UPDATE", oldObject=placement_policy(GOOD)))


HOSTILE = {
    "nothing": (b"null", "is not JSON"),
    "a list": (b"[]", "kind: must be"),
    "text": (b'"x"', "kind: must be"),
    "no UTF-8": (b'{"apiVersion":"\xff"}', "is not JSON"),
    "deep": (b'{"a":' * 500 + b"1" + b"}" * 500, "kind: must be"),
    "deep in a field": (
        raw(placement_policy({"podSelector": 7})).replace(b"7", b"[" * 500 + b"]" * 500),
        "spec.podSelector error[P0503]: is a list, not an object",
    ),
    "another kind": (
        raw(placement_policy(GOOD)).replace(b"PlacementPolicy", b"X"),
        "kind: must be",
    ),
    "another version": (raw(placement_policy(GOOD, version="v7")), "apiVersion: unknown version"),
    "a name": (raw(placement_policy(GOOD, name="A B")), "metadata.name error[P0503]: `A B`"),
}


@rows(("value", "line"), HOSTILE)
async def test_hostile_objects_are_refused(served: Served, value: bytes, line: str) -> None:
    assert line in (await refused(served, raw_review(value)))[0]


async def test_objects_of_other_groups_are_allowed(served: Served) -> None:
    """The rules of a webhook may match too much."""
    value = {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "a"}}
    found = await responded(served, review(value))
    assert found == ALLOWED | {"warnings": ["Placet does not check objects of apps"]}
