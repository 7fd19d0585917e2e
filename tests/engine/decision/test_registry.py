"""The registry: which policies decide about a pod, and which of them governs."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from engine.decision.registry import Registry, Selection
from engine.errors import NotSyncedError, WaitingError
from tests.support.builders import Object, pod
from tests.support.engines import evaluation_of, frame_of, programs_of
from tests.support.rows import rows

WEB = pod("asked", "shop", labels={"app": "web"}, priority=0)
REJECTS = 'filter "x" { require true }'
SCORES = 'score "x" weight 1 { value 1 }'
FOR_WEB = 'for pods where pod.labels["app"] == "web"'


def select(texts: Sequence[str], asked: Object = WEB) -> Selection:
    registry = Registry(programs_of("\n".join(texts)))
    return registry.select(asked["metadata"]["namespace"], evaluation_of(frame_of(asked)))


def governing(selection: Selection) -> str:
    return selection.governing.name if selection.governing is not None else ""


# ---- precedence


@rows(
    ("texts", "wanted"),
    {
        "no policy": ([], ""),
        "the only one": ([f"policy a {{ {FOR_WEB} {REJECTS} }}"], "a"),
        "the higher weight, though it only scores": (
            [
                f"policy a {{ weight 1 {FOR_WEB} {REJECTS} }}",
                f"policy b {{ weight 2 {FOR_WEB} {SCORES} }}",
            ],
            "b a",
        ),
        "of one weight, the one that can reject": (
            [f"policy a {{ {FOR_WEB} {SCORES} }}", f"policy b {{ {FOR_WEB} {REJECTS} }}"],
            "b a",
        ),
        "the one that can reject, though the other is namespaced": (
            [
                f'policy a in namespace "shop" {{ {SCORES} }}',
                f"policy b {{ {FOR_WEB} {REJECTS} }}",
            ],
            "b a",
        ),
        "of one strictness, the namespaced one": (
            [
                f"policy a {{ {FOR_WEB} {REJECTS} }}",
                f'policy b in namespace "shop" {{ {REJECTS} }}',
            ],
            "b a",
        ),
        "of all alike, the first by name": (
            [f"policy {name} {{ {FOR_WEB} {REJECTS} }}" for name in "cab"],
            "a b c",
        ),
        "not one that does not select the pod": (
            [
                f"policy a {{ weight 9 {FOR_WEB.replace('web', 'db')} {REJECTS} }}",
                f"policy b {{ {FOR_WEB} {SCORES} }}",
            ],
            "b",
        ),
        "not one of another namespace": (
            [
                f'policy a in namespace "other" {{ weight 9 {REJECTS} }}',
                f'policy b in namespace "shop" {{ {SCORES} }}',
            ],
            "b",
        ),
        "not one in audit mode": (
            [
                f"policy a {{ weight 9 mode audit {FOR_WEB} {REJECTS} }}",
                f"policy b {{ {FOR_WEB} {SCORES} }}",
            ],
            "b",
        ),
        "not a guardrail, which applies besides": (
            [
                f"cluster policy a {{ weight 9 {REJECTS} }}",
                f"policy b {{ {FOR_WEB} {SCORES} }}",
            ],
            "b",
        ),
        "not one that is for use alone": (
            [
                f"policy a {{ for pods where false {REJECTS} }}",
                f"policy b {{ {FOR_WEB} {SCORES} }}",
            ],
            "b",
        ),
    },
)
def test_which_policy_governs(texts: Sequence[str], wanted: str) -> None:
    """The first governs; the others are its gave_way, in the order in which they would."""
    selection = select(texts)
    gave_way = [program.name for program in selection.gave_way]
    assert " ".join([governing(selection), *gave_way]).strip() == wanted


def test_guardrails_all_apply_and_come_first() -> None:
    texts = [
        f"policy a {{ {FOR_WEB} {REJECTS} }}",
        f"cluster policy z {{ {REJECTS} }}",
        f"cluster policy y {{ weight 9 {SCORES} }}",
        f"cluster policy x {{ {FOR_WEB.replace('web', 'db')} {REJECTS} }}",
        f"cluster policy w {{ mode audit {REJECTS} }}",
    ]
    selection = select(texts)
    assert [program.name for program in selection.guardrails] == ["z", "y"]
    assert [program.name for program in selection.enforced] == ["z", "y", "a"]
    assert [program.name for program in selection.audited] == ["w"]
    assert not selection.empty


@rows(
    ("text", "empty"),
    {
        "a governing policy": (f"policy a {{ {FOR_WEB} {REJECTS} }}", False),
        "a guardrail": (f"cluster policy a {{ {REJECTS} }}", False),
        "a policy in audit": (f"cluster policy a {{ mode audit {REJECTS} }}", False),
        "a policy whose `for` cannot be evaluated": (
            f"cluster policy a {{ for pods where 1 / pod.priority > 0 {REJECTS} }}",
            False,
        ),
        "a policy for other pods": (
            f'cluster policy a {{ for pods where pod.labels["app"] == "db" {REJECTS} }}',
            True,
        ),
    },
)
def test_a_selection_is_empty_if_nothing_concerns_the_pod(text: str, empty: bool) -> None:
    assert select([text]).empty is empty


# ---- conditions that cannot be evaluated


@rows(
    ("settings", "condition", "wanted"),
    {
        "an error refuses the pod": ("", "1 / pod.priority > 0", "a"),
        "`missing fail`": ("missing fail", "1 / pod.priority > 0", "a"),
        "`missing pass`": ("missing pass", "1 / pod.priority > 0", ""),
        "audit mode refuses nobody": ("mode audit", "1 / pod.priority > 0", ""),
        "a missing value selects nobody": ("", 'pod.labels["none"] == "x"', ""),
    },
)
def test_a_for_that_cannot_be_evaluated(settings: str, condition: str, wanted: str) -> None:
    selection = select([f"cluster policy a {{ {settings} for pods where {condition} {REJECTS} }}"])
    assert " ".join(each.program.name for each in selection.unselectable) == wanted
    assert selection.guardrails == ()


# ---- policies that are not known, or not valid


def refusing(text: str, asked: Object = WEB) -> Selection:
    registry = Registry(refusing=programs_of(text))
    return registry.select(asked["metadata"]["namespace"], evaluation_of(frame_of(asked)))


@rows(
    "text",
    {
        "it selects the pod": f"policy a {{ {FOR_WEB} {REJECTS} }}",
        "it is of its namespace": f'policy a in namespace "shop" {{ {REJECTS} }}',
        "it is a guardrail": f"cluster policy a {{ {REJECTS} }}",
    },
)
def test_pods_of_a_policy_without_a_valid_version_wait(text: str) -> None:
    with pytest.raises(WaitingError, match=r"^policy (shop/)?a is not "):
        refusing(text)


@rows(
    "text",
    {
        "it is for other pods": f"policy a {{ {FOR_WEB.replace('web', 'db')} {REJECTS} }}",
        "it is of another one": f'policy a in namespace "db" {{ {REJECTS} }}',
        "its `for` has an error": f"policy a {{ for pods where 1 / pod.priority > 0 {REJECTS} }}",
    },
)
def test_other_pods_do_not_wait(text: str) -> None:
    assert refusing(text).empty


def test_no_pod_passes_while_there_may_be_other_policies() -> None:
    with pytest.raises(NotSyncedError):
        Registry(complete=False).select("shop", evaluation_of(frame_of(WEB)))


# ---- what the registry says of all policies


def test_a_policy_for_use_alone_is_not_in_force() -> None:
    limit = 'limit "l" { per node at most 1 strict }'
    registry = Registry(programs_of(f"cluster policy a {{ for pods where false {limit} }}"))
    assert (registry.programs, registry.counts) == ((), False)


@rows(
    ("clauses", "counts", "soft"),
    {
        "a filter counts nothing": (REJECTS, False, False),
        "a strict limit counts": ('limit "l" { per node at most 1 strict }', True, False),
        "a best-effort limit counts, as a preference": (
            'limit "l" { per node at most 1 weight 1 }',
            True,
            True,
        ),
    },
)
def test_whether_policies_count(clauses: str, counts: bool, soft: bool) -> None:
    registry = Registry(programs_of(f"cluster policy a {{ {clauses} }}"))
    assert (registry.counts, registry.soft_counts) == (counts, soft)
