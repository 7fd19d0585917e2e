"""The registry: which policies decide about a pod, and which of them governs."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from engine.decision.registry import Registry, Selection
from engine.errors import NotSyncedError, WaitingError
from tests.support.builders import Object, pod
from tests.support.engines import evaluation_of, frame_of, programs_of

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


@pytest.mark.parametrize(
    ("texts", "wanted"),
    [
        pytest.param([], "", id="no policy"),
        pytest.param([f"policy a {{ {FOR_WEB} {REJECTS} }}"], "a", id="the only one"),
        pytest.param(
            [
                f"policy a {{ weight 1 {FOR_WEB} {REJECTS} }}",
                f"policy b {{ weight 2 {FOR_WEB} {SCORES} }}",
            ],
            "b a",
            id="the higher weight, though it only scores",
        ),
        pytest.param(
            [f"policy a {{ {FOR_WEB} {SCORES} }}", f"policy b {{ {FOR_WEB} {REJECTS} }}"],
            "b a",
            id="of one weight, the one that can reject",
        ),
        pytest.param(
            [
                f'policy a in namespace "shop" {{ {SCORES} }}',
                f"policy b {{ {FOR_WEB} {REJECTS} }}",
            ],
            "b a",
            id="the one that can reject, though the other is namespaced",
        ),
        pytest.param(
            [
                f"policy a {{ {FOR_WEB} {REJECTS} }}",
                f'policy b in namespace "shop" {{ {REJECTS} }}',
            ],
            "b a",
            id="of one strictness, the namespaced one",
        ),
        pytest.param(
            [f"policy {name} {{ {FOR_WEB} {REJECTS} }}" for name in "cab"],
            "a b c",
            id="of all alike, the first by name",
        ),
        pytest.param(
            [
                f"policy a {{ weight 9 {FOR_WEB.replace('web', 'db')} {REJECTS} }}",
                f"policy b {{ {FOR_WEB} {SCORES} }}",
            ],
            "b",
            id="not one that does not select the pod",
        ),
        pytest.param(
            [
                f'policy a in namespace "other" {{ weight 9 {REJECTS} }}',
                f'policy b in namespace "shop" {{ {SCORES} }}',
            ],
            "b",
            id="not one of another namespace",
        ),
        pytest.param(
            [
                f"policy a {{ weight 9 mode audit {FOR_WEB} {REJECTS} }}",
                f"policy b {{ {FOR_WEB} {SCORES} }}",
            ],
            "b",
            id="not one in audit mode",
        ),
        pytest.param(
            [
                f"cluster policy a {{ weight 9 {REJECTS} }}",
                f"policy b {{ {FOR_WEB} {SCORES} }}",
            ],
            "b",
            id="not a guardrail, which applies besides",
        ),
        pytest.param(
            [
                f"policy a {{ for pods where false {REJECTS} }}",
                f"policy b {{ {FOR_WEB} {SCORES} }}",
            ],
            "b",
            id="not one that is for use alone",
        ),
    ],
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


@pytest.mark.parametrize(
    ("text", "empty"),
    [
        pytest.param(f"policy a {{ {FOR_WEB} {REJECTS} }}", False, id="a governing policy"),
        pytest.param(f"cluster policy a {{ {REJECTS} }}", False, id="a guardrail"),
        pytest.param(f"cluster policy a {{ mode audit {REJECTS} }}", False, id="a policy in audit"),
        pytest.param(
            f"cluster policy a {{ for pods where 1 / pod.priority > 0 {REJECTS} }}",
            False,
            id="a policy whose `for` cannot be evaluated",
        ),
        pytest.param(
            f'cluster policy a {{ for pods where pod.labels["app"] == "db" {REJECTS} }}',
            True,
            id="a policy for other pods",
        ),
    ],
)
def test_a_selection_is_empty_if_nothing_concerns_the_pod(text: str, empty: bool) -> None:
    assert select([text]).empty is empty


# ---- conditions that cannot be evaluated


@pytest.mark.parametrize(
    ("settings", "condition", "wanted"),
    [
        pytest.param("", "1 / pod.priority > 0", "a", id="an error refuses the pod"),
        pytest.param("missing fail", "1 / pod.priority > 0", "a", id="`missing fail`"),
        pytest.param("missing pass", "1 / pod.priority > 0", "", id="`missing pass`"),
        pytest.param("mode audit", "1 / pod.priority > 0", "", id="audit mode refuses nobody"),
        pytest.param("", 'pod.labels["none"] == "x"', "", id="a missing value selects nobody"),
    ],
)
def test_a_for_that_cannot_be_evaluated(settings: str, condition: str, wanted: str) -> None:
    selection = select([f"cluster policy a {{ {settings} for pods where {condition} {REJECTS} }}"])
    assert " ".join(each.program.name for each in selection.unselectable) == wanted
    assert selection.guardrails == ()


# ---- policies that are not known, or not valid


def refusing(text: str, asked: Object = WEB) -> Selection:
    registry = Registry(refusing=programs_of(text))
    return registry.select(asked["metadata"]["namespace"], evaluation_of(frame_of(asked)))


@pytest.mark.parametrize(
    "text",
    [
        pytest.param(f"policy a {{ {FOR_WEB} {REJECTS} }}", id="it selects the pod"),
        pytest.param(f'policy a in namespace "shop" {{ {REJECTS} }}', id="it is of its namespace"),
        pytest.param(f"cluster policy a {{ {REJECTS} }}", id="it is a guardrail"),
    ],
)
def test_pods_of_a_policy_without_a_valid_version_wait(text: str) -> None:
    with pytest.raises(WaitingError, match=r"^policy (shop/)?a is not "):
        refusing(text)


@pytest.mark.parametrize(
    "text",
    [
        pytest.param(
            f"policy a {{ {FOR_WEB.replace('web', 'db')} {REJECTS} }}", id="it is for other pods"
        ),
        pytest.param(f'policy a in namespace "db" {{ {REJECTS} }}', id="it is of another one"),
        pytest.param(
            f"policy a {{ for pods where 1 / pod.priority > 0 {REJECTS} }}",
            id="its `for` cannot be evaluated",
        ),
    ],
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


@pytest.mark.parametrize(
    ("clauses", "counts", "soft"),
    [
        pytest.param(REJECTS, False, False, id="a filter counts nothing"),
        pytest.param(
            'limit "l" { per node at most 1 strict }', True, False, id="a strict limit counts"
        ),
        pytest.param(
            'limit "l" { per node at most 1 best effort weight 1 }',
            True,
            True,
            id="a best-effort limit counts, as a preference",
        ),
    ],
)
def test_whether_policies_count(clauses: str, counts: bool, soft: bool) -> None:
    registry = Registry(programs_of(f"cluster policy a {{ {clauses} }}"))
    assert (registry.counts, registry.soft_counts) == (counts, soft)
