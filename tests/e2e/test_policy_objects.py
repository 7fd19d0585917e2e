"""PlacementPolicies that users apply: where the pods go that they are about."""

import re
import shlex
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.e2e.cluster import Cluster
from tests.e2e.control_plane import ControlPlane
from tests.e2e.manifests import node, pod
from tests.e2e.policies import cluster_policy, define, policy, wait_ready
from tests.e2e.process import until
from tests.e2e.stage import GOVERNED, Stage

pytestmark = pytest.mark.e2e

WANT = {"capacity": "spot"}
DOCS = Path(__file__).parents[2] / "docs"
_FENCE = re.compile(r"(?ms)^```console\n\$ kubectl ([^\n]*\bplp\b[^\n]*)\n(.*?)^```$")


@pytest.fixture(autouse=True)
def defined(plane: ControlPlane, cluster: Cluster) -> Iterator[None]:
    """Define our resources; a test's cluster-wide policies end with it."""
    define(cluster)
    yield
    cluster.kubectl("delete", "clusterplacementpolicies", "--all")


@pytest.fixture
def nodes(cluster: Cluster) -> None:
    """Register w1 and w2, which policies select, and w3."""
    cluster.create_nodes([node("w1", WANT), node("w2", WANT), node("w3")])


def sides(where: dict[str, str]) -> tuple[int, int]:
    """How many pods are on selected nodes, and how many are elsewhere."""
    on = sum(name in ("w1", "w2") for name in where.values())
    return on, len(where) - on


def schedule(cluster: Cluster, served: Stage, *applied: dict[str, Any]) -> None:
    """Serve no policies but those that are applied, which have to be in force before pods come.

    So has the Lease: what is refused until then waits for kube-scheduler's backoff.
    """
    cluster.apply(*applied)
    server = served.watch_objects()
    server.wait_ready()
    server.wait_leading()
    served.schedule(server)


def create(cluster: Cluster, count: int, name: str = "web", **fields: Any) -> list[str]:
    names = [f"{name}-{number}" for number in range(count)]
    labels = fields.pop("labels", GOVERNED)
    cluster.create_pods(pod(each, cluster.namespace, labels, **fields) for each in names)
    return names


@pytest.mark.usefixtures("nodes")
def test_strict_must(cluster: Cluster, served: Stage) -> None:
    """Of ten pods four on w1 and w2."""
    schedule(cluster, served, policy(cluster, "40%", enforcementMode="Strict"))
    assert sides(cluster.wait_placed(create(cluster, 10))) == (4, 6)


def test_best_effort_where_the_selected_nodes_are_full(cluster: Cluster, served: Stage) -> None:
    cluster.create_nodes([node("w1", WANT, cpu="1"), node("w2", WANT, cpu="1"), node("w3")])
    schedule(cluster, served, policy(cluster, "80%", enforcementMode="BestEffort"))
    assert sides(cluster.wait_placed(create(cluster, 10, cpu="500m"))) == (4, 6)


@pytest.mark.usefixtures("nodes")
def test_two_workloads_that_share_labels(cluster: Cluster, served: Stage) -> None:
    schedule(cluster, served, policy(cluster, "40%", enforcementMode="Strict"))
    names = [*create(cluster, 5, "a"), *create(cluster, 5, "b")]
    assert sides(cluster.wait_placed(names)) == (4, 6)


@pytest.mark.usefixtures("nodes")
def test_the_greater_weight_governs_and_then_the_name(cluster: Cluster, served: Stage) -> None:
    """300 before 200; of two strict ones of one weight the first by name."""
    mode: dict[str, Any] = {"enforcementMode": "Strict"}
    schedule(
        cluster,
        served,
        policy(cluster, "0%", name="light", weight=200, **mode),
        policy(cluster, "50%", name="heavy", weight=300, **mode),
        policy(cluster, "100%", name="a", labels={"app": "even"}, **mode),
        policy(cluster, "0%", name="b", labels={"app": "even"}, **mode),
    )
    assert sides(cluster.wait_placed(create(cluster, 10))) == (5, 5)
    even = create(cluster, 4, "even", labels={"app": "even"})
    assert sides(cluster.wait_placed(even)) == (4, 0)


@pytest.mark.usefixtures("nodes")
def test_at_most_so_many_on_ephemeral_nodes(cluster: Cluster, served: Stage) -> None:
    """The proposal's first use case: 40 % at most, whatever else the nodes look like."""
    target = {"targetSize": "40%", "bound": "AtMost"}
    applied = policy(cluster, placementPolicy=target, enforcementMode="Strict")
    schedule(cluster, served, applied)
    on, elsewhere = sides(cluster.wait_placed(create(cluster, 10)))
    assert on <= 4
    assert on + elsewhere == 10


def test_at_least_so_many_on_cheap_nodes_and_the_rest_overflows(
    cluster: Cluster, served: Stage
) -> None:
    """The second one: 80 % if they have room, and they have for six."""
    cluster.create_nodes([node("w1", WANT, cpu="3"), node("w2", WANT, cpu="3"), node("w3")])
    target = {"targetSize": "80%", "bound": "AtLeast"}
    applied = policy(cluster, placementPolicy=target, enforcementMode="BestEffort")
    schedule(cluster, served, applied)
    on, elsewhere = sides(cluster.wait_placed(create(cluster, 10, cpu="1")))
    assert (on, elsewhere) == (6, 4)


@pytest.mark.usefixtures("nodes")
def test_a_guardrail_with_rules(cluster: Cluster, served: Stage) -> None:
    rules = 'filter "steady" { require node.name == "w3" message "not steady" }'
    schedule(cluster, served, cluster_policy("steady", rules))
    assert sides(cluster.wait_placed(create(cluster, 3))) == (0, 3)


@pytest.mark.usefixtures("nodes")
def test_a_rolling_update_and_a_scale_down(cluster: Cluster, served: Stage) -> None:
    """The new revision takes the place of the old one; what goes makes room on its side."""
    schedule(cluster, served, policy(cluster, "40%", enforcementMode="Strict"))
    old = create(cluster, 10, "old")
    assert sides(cluster.wait_placed(old)) == (4, 6)
    for number in range(5):
        # Two come, then two go, as a surge of 20 % has it.
        new = create(cluster, 2, f"new-{number}")
        cluster.wait_placed(new)
        for name in old[2 * number : 2 * number + 2]:
            cluster.delete_pod(name)
    on, elsewhere = sides(cluster.placements())
    assert on + elsewhere == 10
    assert on <= 4


@pytest.mark.usefixtures("nodes")
def test_an_object_that_does_not_hold_keeps_the_last_good_version(
    cluster: Cluster, served: Stage
) -> None:
    """Also after a restart, as its status remembers it."""
    rules = 'filter "steady" { require node.name == "w3" message "not steady" }'
    applied = policy(cluster, rules=rules)
    schedule(cluster, served, applied)
    wait_ready(cluster, "web", "True")
    applied["spec"]["rules"] = 'filter "steady" { require node.nmae == "w3" }'
    cluster.apply(applied)
    wait_ready(cluster, "web", "False")
    assert sides(cluster.wait_placed(create(cluster, 3))) == (0, 3)
    status = cluster.get("placementpolicies", "web")["status"]
    assert status["inForce"] == {"generation": 1, "rules": rules}
    hint = "(a similar name exists: `name`)"
    assert status["diagnostics"] == [f"rules:1:32 error[P0102]: Node has no field `nmae` {hint}"]
    again = served.watch_objects()
    again.wait_ready()
    answer = again.filter(pod("asked", cluster.namespace, GOVERNED), ["w1", "w2", "w3"])
    assert answer["NodeNames"] == ["w3"]


@pytest.mark.usefixtures("nodes")
def test_parameters_are_kept_and_checked(cluster: Cluster, served: Stage) -> None:
    """The API server stores numbers, texts, bools and lists."""
    applied = policy(cluster, rules='use "library/young-nodes"')
    applied["spec"]["parameters"] = {"after": "0s"}
    schedule(cluster, served, applied)
    wait_ready(cluster, "web", "True", 60)
    applied["spec"]["parameters"] = values = {"after": 1.5, "a": True, "b": ["c", 1]}
    cluster.apply(applied)
    wait_ready(cluster, "web", "False", 60)
    stored = cluster.get("placementpolicies", "web")
    assert stored["spec"]["parameters"] == values
    assert stored["status"]["inForce"]["parameters"] == {"after": "0s"}
    assert [line.partition(": ")[0] for line in stored["status"]["diagnostics"]] == [
        "spec.parameters error[P0128]",
        "spec.parameters error[P0126]",
        "spec.parameters error[P0126]",
    ]


@pytest.mark.usefixtures("nodes")
def test_status(cluster: Cluster, served: Stage) -> None:
    schedule(cluster, served, policy(cluster, "40%", enforcementMode="Strict"))
    cluster.wait_placed(create(cluster, 10))
    # The first survey of what has drifted comes some seconds later.
    expected = {
        "matchedPods": 10,
        "placedPods": 4,
        "targetPods": 4,
        "violations": 0,
        "driftedPods": 0,
    }

    def numbers() -> dict[str, Any]:
        status = cluster.get("placementpolicies", "web").get("status", {})
        return {key: status.get(key) for key in expected}

    until(lambda: numbers() == expected, 30.0, lambda: f"{expected}, not {numbers()}")
    line = cluster.kubectl("get", "plp", "web", "-n", cluster.namespace).splitlines()
    columns = ["NAME", "READY", "REASON", "MODE", "TARGET", "PLACED", "MATCHED", "WEIGHT", "AGE"]
    assert line[0].split() == columns
    assert line[1].split()[:8] == "web True InForce Strict exactly 40% 4 10".split()
    version = cluster.get("placementpolicies", "web")["metadata"]["resourceVersion"]
    time.sleep(3.0)
    assert cluster.get("placementpolicies", "web")["metadata"]["resourceVersion"] == version
    counts = Counter(each["reason"] for each in cluster.events("PlacementPolicy"))
    assert counts == Counter()


@pytest.mark.usefixtures("nodes")
def test_kubectl_prints_what_the_page_shows(cluster: Cluster, served: Stage) -> None:
    """The page's command in the test's namespace; ages and widths of columns are its own."""
    ((command, shown),) = _FENCE.findall((DOCS / "troubleshooting.md").read_text(encoding="utf-8"))
    for name in ("shop", "fast"):
        file = DOCS / "examples" / "elsewhere" / f"{name}.yaml"
        each = yaml.safe_load(file.read_text(encoding="utf-8"))
        cluster.apply(each | {"metadata": {"name": name, "namespace": cluster.namespace}})
    served.schedule(served.watch_objects())
    wait_ready(cluster, "shop", "True")
    wait_ready(cluster, "fast", "False")

    def printed() -> list[list[str]]:
        words = shlex.split(command.replace("-n shop", f"-n {cluster.namespace}"))
        return _cells(cluster.kubectl(*words))

    until(lambda: printed() == _cells(shown), 10.0, lambda: f"{_cells(shown)}, not {printed()}")


def _cells(table: str) -> list[list[str]]:
    """The cells of each line, without the age."""
    lines = [re.split(r" {2,}", line.strip()) for line in table.strip().splitlines()]
    return [[cell for cell in line if not re.fullmatch(r"\d+[smhd]+", cell)] for line in lines]


# ---- an edited policy file decides about the next pods, without a restart


# Policy files are polled every half second; the other half is for reading and compiling.
IN_FORCE_SECONDS = 1.0


def disk_is(kind: str) -> str:
    """Return a filter for nodes with this kind of disk."""
    return f'  filter "disk" {{ require node.labels["disk"] == "{kind}" message "needs {kind}" }}'


def test_edited_policy_moves_the_next_pods(cluster: Cluster, served: Stage) -> None:
    """Pods placed before the edit stay; those created a second after it obey the new text."""
    disks = {f"n{number}": "ssd" if number % 2 else "hdd" for number in range(6)}
    cluster.create_nodes(node(name, {"disk": disk}) for name, disk in disks.items())
    calls = served.start(disk_is("ssd"))

    before = [f"before-{number}" for number in range(4)]
    cluster.create_pods(pod(name, cluster.namespace, GOVERNED) for name in before)
    assert {disks[where] for where in cluster.wait_placed(before).values()} == {"ssd"}

    served.write_policy(disk_is("hdd"))
    time.sleep(IN_FORCE_SECONDS)

    after = [f"after-{number}" for number in range(4)]
    cluster.create_pods(pod(name, cluster.namespace, GOVERNED) for name in after)
    assert {disks[where] for where in cluster.wait_placed(after).values()} == {"hdd"}
    assert calls.failures() == []


# ---- two hundred policies of one namespace, and a stream of pods that some of them select


POLICIES, SECONDS, A_SECOND = 200, 6, 20
# Some policies select a few pods, and most select none.
CHOSEN = 53
# Each policy has one of a few bounds, with a message of its own.
SPREAD = """
  spread "even" {{
    pods where peer.labels["app"] == "{app}" over node.name skew at most 1 strict
  }}
"""
RULES = (
    'limit "few" {{ pods where peer.labels["app"] == "{app}" per node at most 3 strict }}',
    'filter "ready" {{ require node.ready message "{app} needs a node that is ready" }}',
    SPREAD,
    'score "empty" weight 10 {{ value size(node.pods) range 10 .. 0 }}',
)


def test_pods_keep_coming_under_many_policies(cluster: Cluster, served: Stage) -> None:
    define(cluster)
    cluster.create_nodes(node(f"n{number}", cpu="64") for number in range(10))
    apps = [f"app-{number}" for number in range(POLICIES)]
    cluster.apply(
        *(
            policy(cluster, name=app, labels={"app": app}, rules=RULES[n % 4].format(app=app))
            for n, app in enumerate(apps)
        )
    )
    server = served.watch_objects(None, "--lease=none")
    server.wait_ready()
    calls = served.schedule(server)
    wait_ready(cluster, apps[-1], "True", 60.0)
    names: list[str] = []
    began = time.monotonic()
    for number in range(SECONDS * A_SECOND):
        names.append(f"p{number}")
        labels = {"app": apps[number * 7 % CHOSEN]}
        cluster.create_pods([pod(names[-1], cluster.namespace, labels, cpu="10m")])
        time.sleep(max(0.0, began + (number + 1) / A_SECOND - time.monotonic()))

    cluster.wait_placed(names, 60.0)

    assert calls.failures() == []
    assert server.compare()["count"] == 0
    cluster.kubectl("delete", "placementpolicies", "--all", f"-n={cluster.namespace}")
