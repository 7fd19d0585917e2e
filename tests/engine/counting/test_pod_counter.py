"""The pod counter: which pods a clause counts, on which nodes, and against which total."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

import msgspec
import pytest

from engine.cache.pods_excluding import PodsExcluding
from engine.counting.groups import CountGroups
from engine.errors import DeadlineExceededError
from engine.objects.peer import TEMPLATE_HASH, decode_controller
from engine.objects.request_pod import Namespace, decode_namespace
from engine.program.frame import Frame
from engine.program.program import CountClause
from grammar.values.errors import EvaluationError
from grammar.values.time import Timestamp
from tests.engine.counting.helpers import (
    ASKED,
    Counted,
    clause_of,
    counting_of,
    update,
)
from tests.support.builders import CREATED, Object, controller, namespace, node, pod, raw, web
from tests.support.engines import NOW, peer_of
from tests.support.rows import rows

WEB = {"app": "web"}
IS_WEB = 'peer.labels["app"] == "web"'
PER_NODE = f'limit "l" {{ pods where {IS_WEB} per node at most 9 strict }}'
IS_EARLIER = 'peer.created < now + "1h"'
IS_LATER = 'now - peer.created > "1h"'
BY_TIME = f'limit "l" {{ pods where {IS_WEB} && {IS_EARLIER} per node at most 9 strict }}'
NODES = [node("n1"), node("n2"), node("n3", labels={"cap": "spot"})]


def share(of: str, bound: str = "at most 9") -> str:
    return f'share "s" {{ of {of} on nodes where node.name == "n3" {bound} strict }}'


def nominated(made: Object, to: str) -> Object:
    return made | {"status": made["status"] | {"nominatedNodeName": to}}


def counted(
    clause: str | CountClause, pods: Sequence[Object], asked: Object = ASKED, **options: Any
) -> Counted:
    found = clause_of(clause) if isinstance(clause, str) else clause
    return counting_of(NODES, pods).count(found, asked, **options)


# ---- which pods


@rows(
    ("clause", "pods", "wanted"),
    {
        "pods for which the condition is true": (
            PER_NODE,
            [web("a", on="n1"), web("b", on="n1"), web("c", on="n2")],
            {"n1": 2, "n2": 1},
        ),
        "not those for which it is false or missing": (
            PER_NODE,
            [pod("a", on="n1"), pod("b", labels={"app": "db"}, on="n2")],
            {},
        ),
        "not those for which it is an error": (
            'limit "l" { pods where 1 / peer.priority > 0 per node at most 9 strict }',
            [web("a", on="n1", priority=0), web("b", on="n2", priority=1)],
            {"n2": 1},
        ),
        "pods of the pod's namespace": (
            PER_NODE,
            [web("a", namespace="shop", on="n1"), web("b", on="n2")],
            {"n2": 1},
        ),
        "`all pods`: of every namespace": (
            PER_NODE.replace("pods where", "all pods where"),
            [web("a", namespace="shop", on="n1"), web("b", on="n2")],
            {"n1": 1, "n2": 1},
        ),
        "a condition may compare them with the pod": (
            (
                'limit "l" { pods where peer.labels["app"] == pod.labels["app"]'
                " per node at most 9 strict }"
            ),
            [web("a", on="n1"), pod("b", labels={"app": "db"}, on="n2")],
            {"n1": 1},
        ),
        "a limit counts terminating pods until they are gone": (
            PER_NODE,
            [web("a", on="n1", deleted=CREATED)],
            {"n1": 1},
        ),
        "a spread does not count terminating pods": (
            f'spread "z" {{ pods where {IS_WEB} over node.name skew at most 1 strict }}',
            [web("a", on="n1", deleted=CREATED), web("b", on="n2")],
            {"1": 1},
        ),
        "a share does not count terminating pods": (
            share(f"pods where {IS_WEB}"),
            [web("a", on="n3", deleted=CREATED), web("b", on="n2")],
            {"0": 1},
        ),
        "pods that have ended count nowhere": (
            PER_NODE,
            [web("a", on="n1", phase="Succeeded"), web("b", on="n2", phase="Failed")],
            {},
        ),
        "a pod on an unknown node counts on none": (PER_NODE, [web("a", on="gone")], {}),
        "the pod itself is left out, wherever it is": (
            PER_NODE,
            [web("asked", on="n1"), web("b", on="n1")],
            {"n1": 1},
        ),
    },
)
def test_pods_that_count(clause: str, pods: Sequence[Object], wanted: dict[str, int]) -> None:
    found = counted(clause, pods)
    assert found.high == found.low == wanted


@rows(
    ("asked", "wanted"),
    {
        "it is one of them": (ASKED, 1),
        "it has not the label": (pod("asked"), 0),
        "it is terminating, and a limit counts it": (web("asked", deleted=CREATED), 1),
    },
)
def test_self_match(asked: Object, wanted: int) -> None:
    assert counted(PER_NODE, [], asked).own == wanted


def test_pods_of_selected_namespaces() -> None:
    """A `namespaceSelector` is evaluated for each namespace that is known."""

    def selected(frame: Frame) -> object:
        space = frame.namespaceObject
        assert isinstance(space, Namespace)
        if space.labels["team"] == "broken":
            raise EvaluationError("it is broken")
        return space.labels["team"] == "a"

    def labelled(name: str, team: str) -> Namespace:
        return decode_namespace(raw(namespace(name, {"team": team})))

    clause = clause_of(PER_NODE.replace("pods where", "all pods where"))
    assert clause.kind == "limit"
    peers = dataclasses.replace(clause.count.peers, namespaces=selected)
    clause = dataclasses.replace(clause, count=dataclasses.replace(clause.count, peers=peers))
    pods = [web(f"p-{name}", namespace=name, on="n1") for name in ("a1", "a2", "b", "c", "unknown")]
    counting = counting_of(NODES, pods)
    for name, team in (("a1", "a"), ("a2", "a"), ("b", "b"), ("c", "broken")):
        counting.cache.put_namespace(labelled(name, team))
    assert counting.count(clause, web("asked", namespace="a1")).high == {"n1": 2}
    assert counting.count(clause, web("asked", namespace="a1")).own == 1
    assert counting.count(clause, web("asked", namespace="b")).own == 0
    counting.cache.put_namespace(labelled("b", "a"))
    assert counting.count(clause, web("asked", namespace="a1")).high == {"n1": 3}


def test_pods_by_the_labels_of_their_namespace() -> None:
    """They follow the namespace, and a namespace that is not known has no labels."""
    clause = clause_of(
        'limit "l" { all pods where peer.namespaceLabels["team"] == "a" per node at most 9 strict }'
    )
    pods = [web(f"p-{name}", namespace=name, on="n1") for name in ("a1", "b", "unknown")]
    counting = counting_of(NODES, pods)
    for name, team in (("a1", "a"), ("b", "b")):
        space = decode_namespace(raw(namespace(name, {"team": team})))
        counting.cache.put_namespace(space)
    assert counting.count(clause, web("asked", namespace="a1")).high == {"n1": 1}
    assert counting.count(clause, web("asked", namespace="a1")).own == 1
    assert counting.count(clause, web("asked", namespace="b")).own == 0
    counting.cache.put_pod(peer_of(web("early", namespace="b", on="n1")))
    counting.cache.put_namespace(decode_namespace(raw(namespace("b", {"team": "a"}))))
    counting.cache.put_pod(peer_of(web("late", namespace="b", on="n1")))
    assert counting.count(clause, web("asked", namespace="a1")).high == {"n1": 4}
    counting.cache.remove_namespace("b")
    assert counting.count(clause, web("asked", namespace="a1")).high == {"n1": 1}


def test_pods_by_the_name_of_their_workload() -> None:
    """Whoever makes a pod writes its owner: two with one uid may have two names."""
    clause = clause_of(
        'limit "l" { pods where peer.workload.name == "web" per node at most 9 strict }'
    )
    api, its_twin = controller("ReplicaSet", "api"), controller("ReplicaSet", "web")
    its_twin["metadata"]["uid"] = api["metadata"]["uid"]
    owners = (api, its_twin, api, None)
    counting = counting_of(NODES, [web(f"p{n}", owner=o, on="n1") for n, o in enumerate(owners)])
    assert counting.count(clause, web("asked")).high == {"n1": 1}
    for owner in (api, its_twin):
        counting.cache.put_pod(
            peer_of(web(f"late-{owner['metadata']['name']}", owner=owner, on="n2"))
        )
    assert counting.count(clause, web("asked")).high == {"n1": 1, "n2": 1}


def test_a_condition_about_the_pod_counts_other_pods_for_another_one() -> None:
    counting = counting_of(NODES, [web("a", on="n1"), pod("b", labels={"app": "db"}, on="n2")])
    clause = clause_of(
        'limit "l" { pods where peer.labels["app"] == pod.labels["app"] per node at most 9 strict }'
    )
    assert counting.count(clause, web("asked")).high == {"n1": 1}
    assert counting.count(clause, pod("asked", labels={"app": "db"})).high == {"n2": 1}
    assert counting.count(clause, web("another")).high == {"n1": 1}


# ---- the pods of a workload

WORKLOAD = 'limit "l" { per node at most 9 strict }'
SET = controller("ReplicaSet", "web-1", replicas=4)
OTHER = controller("ReplicaSet", "web-2", replicas=4)


def of_set(name: str, owner: Object = SET, revision: str = "", **fields: Any) -> Object:
    return pod(name, labels={TEMPLATE_HASH: revision} if revision else {}, owner=owner, **fields)


def test_without_a_condition_the_pods_of_the_workload_count() -> None:
    pods = [
        of_set("a", on="n1"),
        of_set("b", OTHER, on="n1"),
        of_set("c", on="n2", namespace="shop"),
        pod("d", on="n2"),
    ]
    found = counted(WORKLOAD, pods, of_set("asked"))
    assert (found.high, found.own) == ({"n1": 1}, 1)


def test_the_workload_is_the_root_controller() -> None:
    deployment = controller("Deployment", "web", replicas=4)
    sets = [controller("ReplicaSet", name, owner=deployment) for name in ("web-1", "web-2")]
    counting = counting_of(NODES)
    for each in (deployment, *sets):
        counting.cache.put_controller(decode_controller(each["kind"], raw(each)))
    for name, owner in zip("ab", sets, strict=True):
        counting.cache.put_pod(peer_of(of_set(name, owner, on="n1")))
    found = counting.count(clause_of(WORKLOAD), of_set("asked", sets[0]))
    assert (found.high, found.own) == ({"n1": 2}, 1)


@rows(
    ("clause", "wanted"),
    {
        "a limit counts it": (WORKLOAD, {"n1": 1}),
        "a share does not": (share("replicas"), {}),
        "a spread: no": ('spread "z" { over node.name skew at most 1 strict }', {}),
    },
)
def test_a_terminating_pod_of_the_workload(clause: str, wanted: dict[str, int]) -> None:
    assert counted(clause, [of_set("a", on="n1", deleted=CREATED)], of_set("asked")).high == wanted


def test_a_pod_without_a_controller_is_alone() -> None:
    found = counted(WORKLOAD, [pod("a", on="n1"), of_set("b", on="n1")], pod("asked"))
    assert (found.high, found.own, found.anywhere) == ({}, 1, False)


@pytest.mark.parametrize("on", [None, "n1", "n3"])
@pytest.mark.parametrize("owner", [SET, OTHER, None])
@pytest.mark.parametrize("clause", [WORKLOAD, share("replicas"), share(f"pods where {IS_WEB}")])
def test_of_a_pod_the_same_counts_before_and_after_a_watch_has_shown_it(
    clause: str, owner: Object | None, on: str | None
) -> None:
    made = web("asked") if owner is None else of_set("asked", owner)
    made["metadata"]["labels"] |= WEB
    shown = made | {"spec": made["spec"] | {"nodeName": on} if on else made["spec"]}
    others = [of_set("a", on="n1"), web("b", on="n1")]
    assert counted(clause, [*others, shown], made) == counted(clause, others, made)


@pytest.mark.parametrize("bound", ["exactly 50%", "at most 50%", "at least 50%"])
def test_the_revisions_of_a_rolling_update_have_one_share(bound: str) -> None:
    pods = [of_set("a", revision="1", on="n1"), of_set("b", revision="2", on="n1")]
    assert counted(share("replicas", bound), pods, of_set("asked", revision="1")).high == {"0": 2}


# ---- against which total


@rows(
    ("of", "replicas", "wanted"),
    {
        "`of replicas`: what the workload wants": ("replicas", 7, 7),
        "`of replicas` that nobody knows: what there is": ("replicas", None, 4),
        "`of pods`: all there are, and this one": (f"pods where {IS_WEB}", 7, 4),
        "`of placed pods`: with a node, and this": (f"placed pods where {IS_WEB}", 7, 3),
    },
)
def test_total(of: str, replicas: int | None, wanted: int) -> None:
    pods = [of_set(n, on=on) for n, on in (("a", "n1"), ("b", "n3"), ("c", None), ("asked", None))]
    asked = of_set("asked")
    for each in (*pods, asked):
        each["metadata"]["labels"] |= WEB
    assert counted(share(of), pods, asked, replicas=replicas).total == wanted


PLACED = f"placed pods where {IS_WEB}"
ALL_WEB = f"pods where {IS_WEB}"


@rows(
    ("of", "bound", "replicas", "wanted"),
    {
        "`of replicas`: one is too many": ("replicas", "at most 40%", 3, (3, 4)),
        "those that are still to come too": ("replicas", "at most 40%", 7, (7, 7)),
        "`of pods`: one of the workload's four": (ALL_WEB, "at most 40%", 3, (4, 5)),
        "it is about to be scaled down to none": (ALL_WEB, "at most 40%", 0, (1, 5)),
        "a workload that still grows": (ALL_WEB, "at most 40%", 7, (5, 5)),
        "a workload of unknown size": (ALL_WEB, "at most 40%", None, (5, 5)),
        "an exact share has no place for it": (ALL_WEB, "exactly 40%", 3, (4, 4)),
        "nor has an exact one of replicas": ("replicas", "exactly 40%", 3, (3, 3)),
        "a count is of no other number": (ALL_WEB, "at most 4", 3, (5, 5)),
        "`of placed pods`: of three, and one else": (PLACED, "at most 40%", 2, (3, 4)),
        "the one that waits is none of them": (PLACED, "at most 40%", 3, (4, 4)),
    },
)
def test_pods_beyond_those_that_are_wanted(
    of: str, bound: str, replicas: int | None, wanted: tuple[int, int]
) -> None:
    """The pods that are wanted, and all there are: the workload has four, one waits."""
    counting = counting_of(NODES)
    owner = controller("ReplicaSet", "web-1", replicas=replicas or 0)
    if replicas is not None:
        counting.cache.put_controller(decode_controller("ReplicaSet", raw(owner)))
    placed = [of_set("a", owner, on="n1"), of_set("b", owner, on="n3"), of_set("c", owner)]
    asked = of_set("asked", owner)
    for each in (*placed, asked, other := pod("alone", on="n1")):
        each["metadata"]["labels"] |= WEB
    for each in (*placed, other):
        counting.cache.put_pod(peer_of(each))
    found = counting.count(clause_of(share(of, bound)), asked)
    assert (found.total, found.pods) == wanted


def test_a_pod_that_a_watch_has_shown_is_no_surplus_of_its_own() -> None:
    owner = controller("ReplicaSet", "web-1", replicas=1)
    asked = of_set("asked", owner)
    asked["metadata"]["labels"] |= WEB
    counting = counting_of(NODES)
    counting.cache.put_controller(decode_controller("ReplicaSet", raw(owner)))
    for _ in range(2):
        found = counting.count(clause_of(share(ALL_WEB, "at most 40%")), asked)
        assert (found.total, found.pods) == (1, 1)
        counting.cache.put_pod(peer_of(asked))
    gone = PodsExcluding(counting.cache, [peer_of(asked)])
    found = counting.count(clause_of(share(ALL_WEB, "at most 40%")), of_set("b", owner), pods=gone)
    assert (found.total, found.pods) == (0, 0)


def test_a_placed_pod_that_is_asked_about_again_counts_once() -> None:
    pods = [web("a", on="n1"), web("asked", on="n3")]
    assert counted(share(f"placed pods where {IS_WEB}"), pods).total == 2


@rows(
    ("asked", "known", "wanted"),
    {
        "a pod that no watch has shown adds itself": (ASKED, [], 2),
        "a pod that a watch has shown counts once": (ASKED, [ASKED], 2),
        "and so does one that is bound": (ASKED, [web("asked", on="n1")], 2),
        "a pod that is not one of them adds none": (pod("asked"), [], 1),
        "an earlier pod of its name is another one": (
            ASKED,
            [ASKED | {"metadata": ASKED["metadata"] | {"uid": "before"}}],
            3,
        ),
    },
)
def test_the_pod_is_counted_once(asked: Object, known: Sequence[Object], wanted: int) -> None:
    assert (
        counted(share(f"pods where {IS_WEB}"), [web("a", on="n1"), *known], asked).total == wanted
    )


@rows(
    ("pods", "wanted"),
    {
        "none": ([], False),
        "itself": ([ASKED], False),
        "a pod of another kind": ([pod("a", on="n1")], False),
        "one that waits": ([web("a")], False),
        "one on an unknown node": ([web("a", on="gone")], False),
        "one on a node without the domain": ([web("a", on="n1")], False),
        "one on a node with the domain": ([web("a", on="n3")], True),
    },
)
def test_anywhere(pods: Sequence[Object], wanted: bool) -> None:
    """Whether another pod of the kind is in a group: the first may go where `at least` has none.

    As for InterPodAffinity, which counts the pods on nodes with the topology key.
    """
    near = f'limit "l" {{ pods where {IS_WEB} per node.labels["cap"] at least 1 strict }}'
    assert counted(near, pods).anywhere is wanted


@pytest.mark.parametrize("in_flight", [False, True])
@pytest.mark.parametrize(
    ("nodes", "wanted"), [("eligible", {}), ("selected", {}), ("all", {"0": 1})]
)
def test_a_spread_counts_pods_on_the_nodes_of_its_minimum(
    nodes: str, in_flight: bool, wanted: dict[str, int]
) -> None:
    """As for PodTopologySpread: of the nodes arm-a, amd-a and arm-b, an arm pod counts two."""
    arm, amd = {"arch": "arm"}, {"arch": "amd"}
    cluster = [
        node("arm-a", "a", labels=arm),
        node("amd-a", "a", labels=amd),
        node("arm-b", "b", labels=arm),
    ]
    text = (
        f'spread "z" {{ nodes {nodes} pods where {IS_WEB} over node.zone skew at most 1 strict }}'
    )
    asked = web("asked", spec={"nodeSelector": arm})
    counting = counting_of(cluster, [] if in_flight else [web("p", on="amd-a")])
    if in_flight:
        counting.offer(web("p"), "amd-a")
    assert counting.count(clause_of(text), asked).high == wanted
    (found,) = counting.headrooms(text, asked)
    opened = [
        name for name, is_open in zip(counting.table.rows, found.open, strict=True) if is_open
    ]
    assert opened == (["arm-b"] if wanted else ["arm-a", "amd-a", "arm-b"])


# ---- pods that are not there yet


def test_a_kind_that_is_only_in_flight_is_somewhere() -> None:
    """Else two first pods would go to two domains."""
    counting = counting_of(NODES)
    counting.offer(web("b"), "n1")
    found = counting.count(clause_of(PER_NODE.replace("at most", "at least")))
    assert found.anywhere


@rows(
    ("offered", "clause", "wanted"),
    {
        "one of the kind": (web("b"), PER_NODE, {"n1": 1}),
        "not one of another kind": (pod("b"), PER_NODE, {}),
        "not one of another namespace": (web("b", namespace="shop"), PER_NODE, {}),
        "not the pod itself": (ASKED, PER_NODE, {}),
        "one of the kind, by a condition that time can change": (web("b"), BY_TIME, {"n1": 1}),
        "once in a group, though it may be on several of its nodes": (
            web("b"),
            share(f"pods where {IS_WEB}"),
            {"0": 1},
        ),
    },
)
def test_in_flight_pods_that_count(offered: Object, clause: str, wanted: dict[str, int]) -> None:
    counting = counting_of(NODES)
    counting.offer(offered, "n1", *(["n2"] if clause.startswith("share") else []))
    for _ in range(2):
        found = counting.count(clause_of(clause))
        assert (found.high, found.low) == (wanted, {})


def test_a_pod_that_may_be_anywhere_likely_ends_nowhere() -> None:
    """One that another replica may have answered."""
    counting = counting_of(NODES)
    counting.in_flight.take_over([peer_of(web("b"))], counting.table)
    clause = clause_of(PER_NODE)
    assert counting.count(clause).high == {"n1": 1, "n2": 1, "n3": 1}
    assert counting.count(clause, predicted=True).high == {}


def test_an_assumed_pod_is_there_for_upper_bounds_alone() -> None:
    """Its binding was sent, and no watch has shown it: it may still fail."""
    counting = counting_of(NODES, [web("a", on="n1"), web("b"), pod("c")])
    for name in "bc":
        known = counting.cache.pod(f"default/{name}")
        assert known is not None
        counting.cache.assume(known, "n1", until=60.0)
    found = counting.count(clause_of(PER_NODE))
    assert (found.high, found.low) == ({"n1": 2}, {"n1": 1})
    found = counting.count(clause_of(PER_NODE), web("b"))
    assert (found.high, found.low) == ({"n1": 1}, {"n1": 1}), "not against itself"


@rows(
    ("other", "own", "wanted"),
    {
        "of the same priority": (web("b", priority=5), 5, {"n1": 1}),
        "of a higher priority": (web("b", priority=6), 5, {"n1": 1}),
        "not of a lower priority": (web("b", priority=4), 5, {}),
        "not of another kind": (pod("b", priority=9), 5, {}),
        "not the pod itself": (web("asked", priority=5), 5, {}),
    },
)
def test_room_is_left_for_nominated_pods(other: Object, own: int, wanted: dict[str, int]) -> None:
    """Of no lower priority, as in kube-scheduler (RunFilterPluginsWithNominatedPods)."""
    found = counted(PER_NODE, [nominated(other, "n1")], web("asked", priority=own))
    assert (found.high, found.low) == (wanted, {})


def test_a_nominated_pod_that_is_in_flight_counts_once() -> None:
    other = nominated(web("b", priority=5), "n1")
    counting = counting_of(NODES, [other])
    counting.offer(other, "n1", "n2")
    assert counting.count(clause_of(PER_NODE)).high == {"n1": 1, "n2": 1}


# ---- some pods gone


def test_pods_excluding_some() -> None:
    """As after an eviction: in tallies, in scopes, by key, assumed and nominated."""
    pods = [web("a", on="n1"), web("b", on="n1"), web("c"), nominated(web("d"), "n2")]
    counting = counting_of(NODES, pods)
    peers = {each["metadata"]["name"]: peer_of(each) for each in pods}
    counting.cache.assume(peers["c"], "n3", until=60.0)
    clause = clause_of(PER_NODE)
    assert counting.count(clause).high == {"n1": 2, "n2": 1, "n3": 1}
    without = PodsExcluding(counting.cache, [peers["a"]])
    assert counting.count(clause, pods=without).high == {"n1": 1, "n2": 1, "n3": 1}
    assert without.pod("default/a") is None
    assert without.pod("default/b") is not None
    gone = [msgspec.structs.replace(peers["c"], nodeName="n3"), peers["d"]]
    found = counting.count(clause, pods=PodsExcluding(counting.cache, gone))
    assert (found.high, found.low) == ({"n1": 2}, {"n1": 2})
    assert counting.count(clause_of(BY_TIME), pods=without).high == {"n1": 1, "n2": 1, "n3": 1}
    elsewhere = PodsExcluding(counting.cache, [peer_of(web("e", namespace="shop", on="n1"))])
    assert counting.count(clause, pods=elsewhere).high == {"n1": 2, "n2": 1, "n3": 1}
    found = counting.count(clause)
    assert found.high == {"n1": 2, "n2": 1, "n3": 1}, "the tally is whole"


# ---- over time


def test_counts_follow_events() -> None:
    counting = counting_of(NODES, [web("a", on="n1")])
    clause = clause_of(PER_NODE)
    assert counting.count(clause).high == {"n1": 1}
    counting.cache.put_pod(peer_of(web("b", on="n2")))
    assert counting.count(clause).high == {"n1": 1, "n2": 1}
    counting.cache.remove_pod("default/a")
    assert counting.count(clause).high == {"n2": 1}


def test_a_condition_that_reads_the_time_is_evaluated_each_time() -> None:
    counting = counting_of(NODES, [web("a", on="n1")])
    clause = clause_of(f'limit "l" {{ pods where {IS_LATER} per node at most 9 strict }}')
    assert counting.count(clause).high == {}
    counting.now = Timestamp(NOW.nanos + 2 * 3600 * 10**9)
    assert counting.count(clause).high == {"n1": 1}


def test_a_tally_outlives_the_deadline_of_its_request() -> None:
    """The next event counts a pod when no request is there; its time must not be over."""
    looks: list[int] = []

    def late() -> None:
        looks.append(1)
        if len(looks) > 1:
            raise DeadlineExceededError("too late")

    counting = counting_of(NODES, [web(f"p{number}", on="n1") for number in range(3)])
    looped = "[1, 2].exists(n, string(n) == peer.labels['n'])"
    clause = clause_of(f'limit "l" {{ pods where {looped} per node at most 9 strict }}')
    groups = CountGroups(clause)
    update(groups, counting.table)
    counting.counter(check=late).count(clause, groups, predicted=False)
    for number in range(10_000):
        labels = {"n": str(number)}
        counting.cache.put_pod(peer_of(pod("p", labels=labels, on="n1")))
    assert counting.count(clause).high == {}
