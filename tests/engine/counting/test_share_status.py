"""Share status: what is written to a policy's status about the pods of its share."""

from __future__ import annotations

from collections.abc import Sequence

from engine.cache.cache import Cache
from engine.cache.tallies import Scope
from engine.counting.count_clauses import PodCounts, ShareStatus
from engine.objects.peer import Peer, decode_controller
from tests.engine.counting.helpers import ASKED, clause_of
from tests.support.books import table
from tests.support.builders import Object, controller, node, pod, raw
from tests.support.engines import cache_of, evaluation_of, frame_of, node_of, peer_of
from tests.support.rows import rows

NODES = [node("on", labels={"cap": "spot"}), node("off", labels={"cap": "od"}), node("bare")]


def _is_web(peer: Peer) -> bool:
    return peer.labels.get("app") == "web"


def status_of(bound: str | None) -> ShareStatus:
    """The status of a share with this bound, or of a policy without one."""
    share = None
    if bound is not None:
        text = f'of pods where true on nodes where node.labels["cap"] == "spot" {bound} strict'
        clause = clause_of(f'share "s" {{ {text} }}')
        assert clause.kind == "share"
        share = clause
    return ShareStatus("web", Scope("default"), _is_web, share)


def pods(on: int, off: int, waiting: int = 0) -> list[Object]:
    where = ["on"] * on + ["off"] * off + [None] * waiting
    return [pod(f"p{i}", labels={"app": "web"}, on=n) for i, n in enumerate(where)]


def counts(bound: str | None, there: Sequence[Object]) -> PodCounts:
    cache = cache_of(NODES, there)
    return counted(status_of(bound), cache)


def counted(status: ShareStatus, cache: Cache) -> PodCounts:
    return status.count(cache, cache.snapshot(), evaluation_of(frame_of(ASKED)))


@table(
    """
    case                                   | bound        | on | off | waiting | target | violations
    at most: as it should be               | at most 40%  | 2  | 3   | 0       | 2      | 0
    at most: one too many on               | at most 40%  | 3  | 2   | 0       | 2      | 1
    at most: none on is fine               | at most 40%  | 0  | 5   | 0       | 2      | 0
    at most: of all pods, waiting ones too | at most 40%  | 3  | 0   | 2       | 2      | 1
    at least: as it should be              | at least 40% | 2  | 3   | 0       | 2      | 0
    at least: all on is fine               | at least 40% | 5  | 0   | 0       | 2      | 0
    at least: one too many off             | at least 40% | 1  | 4   | 0       | 2      | 1
    at least: the one that waits may go on | at least 40% | 1  | 3   | 1       | 2      | 0
    at least: and cannot make up for two   | at least 40% | 0  | 4   | 1       | 2      | 1
    exactly: as it should be               | exactly 40%  | 2  | 3   | 0       | 2      | 0
    exactly: one too many on               | exactly 40%  | 3  | 2   | 0       | 2      | 1
    exactly: one too many off              | exactly 40%  | 1  | 4   | 0       | 2      | 1
    exactly: those that wait break nothing | exactly 40%  | 1  | 1   | 3       | 2      | 0
    a number is at most all pods           | exactly 3    | 1  | 1   | 0       | 2      | 1
    """,
    on=int,
    off=int,
    waiting=int,
    target=int,
    violations=int,
)
def test_violations(
    bound: str, on: int, off: int, waiting: int, target: int, violations: int
) -> None:
    """Too many on: 'pods on' - 'target', but for `at least`.

    Too many off: 'pods off' - ('all pods' - 'target'), but for `at most`.
    """
    wanted = PodCounts(on + off + waiting, placed=on, target=target, violations=violations)
    assert counts(bound, pods(on, off, waiting)) == wanted


@rows(
    ("bound", "on", "off", "waiting", "target", "violations"),
    {
        "in the middle, more pods may be off": ("exactly 40%", 4, 9, 0, 4, 0),
        "at the end, those that are missing show": ("exactly 40%", 1, 9, 0, 4, 3),
        "pods on are never more than of those wanted": ("exactly 40%", 5, 8, 0, 4, 1),
        "the same of `at most`": ("at most 40%", 5, 8, 0, 4, 1),
        "100% are all pods": ("exactly 100%", 13, 0, 0, 13, 0),
        "a number is of all pods": ("exactly 12", 12, 1, 0, 12, 0),
        "those that wait are beyond it, too": ("exactly 40%", 4, 6, 3, 4, 0),
    },
)
def test_a_rollout_of_ten_pods(
    bound: str, on: int, off: int, waiting: int, target: int, violations: int
) -> None:
    owner = controller("Deployment", "web", replicas=10)
    there = pods(on, off, waiting)
    for each in there:
        each["metadata"]["ownerReferences"] = pod("p", owner=owner)["metadata"]["ownerReferences"]
    cache = cache_of(NODES)
    cache.put_controller(decode_controller("Deployment", raw(owner)))
    for each in there:
        cache.put_pod(peer_of(each))
    found = counted(status_of(bound), cache)
    assert found == PodCounts(on + off + waiting, on, target, violations)


@rows(
    ("there", "wanted"),
    {
        "no pod": ([], PodCounts(0, 0, 0, 0)),
        "not a pod of another kind": ([pod("a", on="on")], PodCounts(0, 0, 0, 0)),
        "not a pod outside the scope": (
            [pod("a", "shop", labels={"app": "web"}, on="on")],
            PodCounts(0, 0, 0, 0),
        ),
        "a node without the label is off": (
            [pod("a", labels={"app": "web"}, on="bare")],
            PodCounts(1, 0, 0, 0),
        ),
        "a node that is not known is not on": (
            [pod("a", labels={"app": "web"}, on="gone")],
            PodCounts(1, 0, 0, 0),
        ),
    },
)
def test_pods_that_count(there: Sequence[Object], wanted: PodCounts) -> None:
    assert counts("at most 40%", there) == wanted


def test_a_policy_without_a_share_has_only_the_number_of_its_pods() -> None:
    assert counts(None, pods(1, 2, 3)) == PodCounts(6)


def test_there_is_no_target_that_depends_on_the_pod() -> None:
    assert counts("at most size(pod.labels)", pods(1, 2, 3)) == PodCounts(6, placed=1)


def test_the_next_count_has_what_changed() -> None:
    cache, status = cache_of(NODES, pods(1, 1)), status_of("exactly 50%")
    assert counted(status, cache) == PodCounts(2, 1, 1, 0)
    cache.put_pod(peer_of(pod("late", labels={"app": "web"}, on="on")))
    assert counted(status, cache) == PodCounts(3, 2, 1, 1)
    cache.put_node(node_of(node("off", labels={"cap": "spot"})))
    assert counted(status, cache) == PodCounts(3, 3, 1, 2)
