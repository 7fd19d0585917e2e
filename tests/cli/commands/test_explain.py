"""`placet explain`: policies, verdicts, values and scores of a pod, as text of a fixed width."""

import re
from pathlib import Path

import pytest
import yaml

from tests.cli import shop
from tests.cli.conftest import Placet
from tests.support.builders import controller, kubectl_list, node, pod, raw

HEAD = """\
pod shop/web-1 at 2026-11-21T10:00:00Z

policy        applies    because
shop/shop     governs    it can reject, and `fallback` cannot
fallback      gives way  `shop/shop` governs
guards        no         its `for` has no value: there is no key `guarded`
shop/lenient  in audit   it is evaluated, but rejects nothing
and 1 policy of other namespaces
"""


@pytest.fixture(autouse=True)
def files(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "96")
    shop.write(folder)


def test_a_node_shows_every_value_and_bars_that_add_up(placet: Placet) -> None:
    done = placet("explain", "shop/web-1", "n-1", *shop.WORLD)
    assert (done.code, done.err) == (0, "")
    assert (
        done.out
        == HEAD
        + """\

node n-1 passes

shop/shop: headroom holds
  node.free["memory"] - pod.requests["memory"] >= "1Gi"  = true
    node.free["memory"] - pod.requests["memory"]         = 3Gi
      node.free["memory"]                                = 4Gi
      pod.requests["memory"]                             = 1Gi
  node.ready  = true

shop/shop: zone holds
  node.zone != "c"  = true
    node.zone       = "a"

shop/shop: one per node holds
  0 on this node, at most 1 with this pod

score 4 of 10
score                           weight  points  adds
shop/shop: pack                      3    25.0  1.88
shop/shop: spot                      1   100.0  2.50
sum, rounded to a whole number       4          4.38

shop/shop: pack
  node.usage["cpu"]                              = 0.25
    node.requested["cpu"] + pod.requests["cpu"]  = 1
      node.requested["cpu"]                      = 0
      pod.requests["cpu"]                        = 1
    node.allocatable["cpu"]                      = 4

shop/shop: spot
  spot                                 = true
    node.labels["capacity"] == "spot"  = true
      node.labels["capacity"]          = "spot"
"""
    )


def test_a_placed_pod_is_asked_about_as_if_it_were_not(placet: Placet) -> None:
    """Its own node has room for it, and its limit does not count it."""
    done = placet("explain", "shop/web-2", *shop.WORLD)
    assert "as if it were not on n-4" in done.out
    assert "n-4   passes " in done.out
    assert "2 of 4 nodes pass; 1 of them is held back for now" in done.out


def test_many_nodes_are_grouped_by_their_reasons(placet: Placet, folder: Path) -> None:
    nodes = [node(f"m-{i:02}", "a", memory="1Gi" if i % 3 else "8Gi") for i in range(24)]
    waiting = pod("web-1", "shop", cpu="1", memory="1Gi", labels={"tier": "web"})
    (folder / "cluster.json").write_bytes(raw(kubectl_list([*nodes, waiting])))
    done = placet("explain", "web-1", *shop.WORLD)
    assert (
        done.out.partition("\n\n")[2].partition("\n\n")[2]
        == """\
nodes  verdict  why                                      which
    8  pass     score 1                                  m-00, m-03, m-06, m-09 and 4 more
   16  fail     shop/shop: headroom: needs 1Gi to spare  m-01, m-02, m-04, m-05 and 12 more

8 of 24 nodes pass
shop/lenient, in audit, would reject 24 nodes (`none` 24), and leave none that passes
"""
    )


def test_nodes_that_are_left_to_another_pod_pass(placet: Placet, folder: Path) -> None:
    limit = 'limit "one" { pods where true per node at most 1 strict }'
    one = f'policy one in namespace "shop" {{ {limit} }}'
    (folder / "one.policy").write_text(one, encoding="utf-8")
    objects = [*map(node, ("n-1", "n-2", "n-3")), pod("a", "shop"), pod("b", "shop")]
    (folder / "two.json").write_bytes(raw(kubectl_list(objects)))
    done = placet("explain", "a", "--policies", "one.policy", "--cluster", "two.json")
    assert done.out.endswith("3 of 3 nodes pass; 1 of them is held back for now\n")
    assert "shop/one: one: held back: another pod may be on its way there" in done.out


def test_a_pod_may_come_from_a_manifest(placet: Placet, folder: Path) -> None:
    """With the second name left out, the first one is the node."""
    (folder / "pod.json").write_bytes(raw(pod("new", "shop", memory="9Gi", labels={"tier": "web"})))
    done = placet("explain", "--pod-file", "pod.json", "n-1", *shop.WORLD)
    assert done.code == 0
    assert "pod shop/new at" in done.out
    assert "node n-1 fails by shop/shop: headroom: needs 1Gi to spare" in done.out


def test_a_for_that_cannot_be_evaluated_rejects_every_node(placet: Placet, folder: Path) -> None:
    text = 'policy odd { for pods where 1 / pod.priority == 1 filter "a" { require node.ready } }'
    (folder / "shop.policy").write_text(text, encoding="utf-8")
    done = placet("explain", "shop/web-1", *shop.WORLD)
    assert "odd     rejects all  its `for` cannot be evaluated: division by zero" in done.out
    assert "0 of 4 nodes pass" in done.out


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["web-1"], "several pods are called `web-1`: `far/web-1`, `shop/web-1`"),
        (["shop/web-9"], "there is no pod `shop/web-9` in `cluster.json`"),
        (["shop/web-1", "n-9"], "there is no node `n-9` in `cluster.json`"),
        ([], "no pod is given"),
        (
            ["--pod-file", "shop.policy"],
            "`shop.policy` has something that is not an object",
        ),
        (
            ["--pod-file", "cluster.json"],
            "`cluster.json` has several pods and workloads: ReplicaSet `web`, Pod `web-1`, ",
        ),
    ],
    ids=["several", "no such pod", "no such node", "none", "no manifest", "a list"],
)
def test_names_that_lead_nowhere_are_an_error_with_a_hint(
    placet: Placet, arguments: list[str], message: str
) -> None:
    done = placet("explain", *arguments, *shop.WORLD)
    assert (done.code, done.out) == (2, "")
    first, help_line = done.err.splitlines()
    assert first.startswith(f"error: {message}")
    assert help_line.startswith("  = help: ")


def test_the_first_broken_policy_does_not_end_it(placet: Placet, folder: Path) -> None:
    text = """cluster policy a { missing pass filter "a" { require node.nme } }
cluster policy b { filter "b" { require node.zone == "b" } }
cluster policy c { missing pass filter "c" { require node.lables["x"] == "" } }
"""
    (folder / "shop.policy").write_text(text, encoding="utf-8")
    done = placet("explain", "shop/web-1", *shop.WORLD)
    assert done.code == 1
    assert "error[P0102]: Node has no field `nme`" in done.err
    assert "error[P0102]: Node has no field `lables`" in done.err
    assert re.search(r"^a +it is not enforced +shop.policy:1:", done.out, re.MULTILINE)
    assert re.search(r"^c +it is not enforced +shop.policy:3:", done.out, re.MULTILINE)
    assert "1 of 4 nodes passes" in done.out


OBJECT = """\
apiVersion: placement-policy.scheduling.x-k8s.io/v1
kind: PlacementPolicy
metadata: {name: zones, namespace: shop}
spec:
  podSelector: {}
  rules: 'filter "a" { require node.zone == "b" }'
"""


def test_a_list_of_nodes_pods_and_policies_is_both(placet: Placet, folder: Path) -> None:
    """As the snapshot alone, and as the file of policies beside another snapshot."""
    items = [*shop.cluster(), yaml.safe_load(OBJECT)]
    (folder / "all.json").write_bytes(raw(kubectl_list(items)))
    alone = placet("explain", "shop/web-1", "--cluster", "all.json")
    beside = placet("explain", "shop/web-1", "--cluster", "cluster.json", "--policies", "all.json")
    for done in (alone, beside):
        assert (done.code, done.err) == (0, "")
        assert "shop/zones  governs" in done.out
        assert "1 of 4 nodes passes" in done.out
    neither = placet("explain", "shop/web-1", "--cluster", "cluster.json")
    assert neither.err.startswith("error: there are no policies\n")


@pytest.mark.parametrize(
    "text",
    ["{}", "[]", "42", '"a"', '{"kind": "List", "items": {}}', '{"kind": "List", "items": [3]}'],
)
def test_a_snapshot_that_is_none_is_an_error(placet: Placet, folder: Path, text: str) -> None:
    (folder / "cluster.json").write_text(text, encoding="utf-8")
    done = placet("explain", "shop/web-1", *shop.WORLD)
    assert (done.code, done.out) == (2, "")
    assert done.err.startswith("error: `cluster.json` is not a cluster file")


def test_a_score_without_a_value_says_why(placet: Placet, folder: Path) -> None:
    """A label that is no number is missing, not 0."""
    (folder / "rank.policy").write_text(
        "cluster policy ranked { for pods where true\n"
        '  score "rank" weight 1 { value int(pod.labels["tier"]) missing 50 } }'
    )
    given = ("--cluster", "cluster.json", "--policies", "rank.policy")
    listed = placet("explain", "shop/web-1", *given)
    assert "ranked: rank is missing: `web` is not an int" in listed.out
    shown = placet("explain", "shop/web-1", "n-1", *given)
    assert re.search(r"ranked: rank, missing +1 +50\.0 +5\.00", shown.out)


@pytest.mark.parametrize(
    "counting",
    [
        'limit "one" { per node at most 3 strict }',
        'share "s" { pods where true on nodes where node.ready at most 50% strict }',
        'spread "s" { pods where true over node.zone skew at most 5 strict }',
    ],
    ids=["limit", "share", "spread"],
)
def test_values_are_those_of_the_node_beside_a_policy_that_counts(
    placet: Placet, folder: Path, counting: str
) -> None:
    """A strict count looks at every node, and leaves no other node's values behind."""
    (folder / "apart.policy").write_text(f"cluster policy apart {{ {counting} }}")
    done = placet("explain", "shop/web-1", "n-1", *shop.WORLD, "--policies", "apart.policy")
    assert re.search(r'node\.free\["memory"\] +=( 4Gi\n)', done.out)
    assert re.search(r'node\.zone +=( "a"\n)', done.out)


def test_counts_show_their_pods_by_name(placet: Placet, folder: Path) -> None:
    """Those on the node, and those that kube-scheduler has nominated it for."""
    labels = {"tier": "web"}
    web = controller("ReplicaSet", "web", "shop", replicas=3)
    waiting = pod("web-9", "shop", labels=labels, priority=7, owner=web)
    waiting["status"]["nominatedNodeName"] = "n-4"
    items = [*shop.cluster(), waiting]
    (folder / "cluster.json").write_bytes(raw(kubectl_list(items)))
    done = placet("explain", "shop/web-1", "n-4", *shop.WORLD)
    assert (
        """\
  2 on this node, at most 1 with this pod
    bound: shop/web-2
    nominated: shop/web-9
"""
        in done.out
    )


def test_an_address_without_its_flag_is_a_clear_error(placet: Placet) -> None:
    done = placet("explain", "web-1", "--url", "http://127.0.0.1:1", "--cluster", "c.json")
    assert (done.code, done.out) == (2, "")
    assert done.err.splitlines()[0] == "error: --url has no effect without --decision"


def test_a_decision_that_cannot_be_asked_for_is_an_error(placet: Placet, folder: Path) -> None:
    """What is decided now is shown before it."""
    asking = ("--decision", "--url", "http://127.0.0.1:1")
    done = placet("explain", "shop/web-1", *shop.WORLD, *asking)
    assert done.code == 2
    assert done.out.startswith("pod shop/web-1 at ")
    assert done.err.startswith("error: cannot reach `http://127.0.0.1:1`: ")


def test_two_clauses_that_only_help_together_are_named_together(
    placet: Placet, folder: Path
) -> None:
    """No node passes, so that is shown without `-o wide`."""
    text = """\
cluster policy both {
  filter "small" { require node.allocatable["cpu"] < "1" }
  filter "old" { require node.labels["age"] == "old" }
}
"""
    (folder / "shop.policy").write_text(text, encoding="utf-8")
    done = placet("explain", "far/db-0", *shop.WORLD)
    assert "both: small" in done.out
    assert done.out.endswith("  without both: small and both: old: 4 more nodes would pass\n")


def test_the_smallest_relaxation_is_shown_beside_all_nodes(placet: Placet) -> None:
    done = placet("explain", "shop/web-1", *shop.WORLD, "-o", "wide")
    assert "  without shop/shop: zone: 1 more node would pass\n" in done.out
    assert "would pass" not in placet("explain", "shop/web-1", *shop.WORLD).out
