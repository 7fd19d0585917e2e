"""Needs of policies: what the cache keeps for them besides nodes and pods."""

import pytest

from engine.enforced import needs
from tests.support.engines import checked

OF_WEB = 'of pods where peer.labels["app"] == "web" on nodes where node.ready'
WEB = 'pods where peer.labels["app"] == "web"'


@pytest.mark.parametrize(
    ("clause", "wanted"),
    [
        pytest.param('filter "f" { require node.ready }', False, id="nothing is counted"),
        pytest.param(
            'filter "f" { require pod.workload.name == "web" }', True, id="`workload` is read"
        ),
        pytest.param('spread "s" { over node.zone skew at most 1 strict }', True, id="by workload"),
        pytest.param(f'share "s" {{ {OF_WEB} at most 3 strict }}', False, id="a number of pods"),
        pytest.param(
            f'share "s" {{ {OF_WEB} at most 40% strict }}',
            True,
            id="a percentage is of the pods that workloads want",
        ),
        pytest.param('gang "g" { }', True, id="a gang of a workload"),
        pytest.param(
            'gang "g" { of pods by peer.labels["job"] at least 2 }', False, id="a gang by a label"
        ),
        pytest.param(
            f'limit "l" {{ {WEB} per node at most 1 strict }}', False, id="a limit of pods"
        ),
    ],
)
def test_workloads(clause: str, wanted: bool) -> None:
    (policy,) = checked(f"cluster policy p {{ {clause} }}")
    assert needs([policy.policy]).workloads is wanted


def test_annotations_of_gangs() -> None:
    """What `by` reads of other pods is kept of them, through a `let` too."""
    items = 'let job = peer.annotations["example.com/job"] gang "g" { of pods by job at least 2 }'
    (policy,) = checked(f"cluster policy p {{ {items} }}")
    assert "example.com/job" in needs([policy.policy]).annotations


@pytest.mark.parametrize(
    ("items", "wanted"),
    [
        ('filter "f" { require size(pod.failures) < 3 }', True),
        ('let last = pod.failures filter "f" { require size(last) < 3 }', True),
        ('filter "f" { require pod.workload.name == "failures" }', False),
    ],
)
def test_failures(items: str, wanted: bool) -> None:
    (policy,) = checked(f"cluster policy p {{ {items} }}")
    assert needs([policy.policy]).failures is wanted
