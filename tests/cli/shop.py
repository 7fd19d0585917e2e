"""A small cluster and its policies, as files for commands to look at."""

from argparse import Namespace
from collections.abc import Callable
from contextlib import AbstractContextManager
from functools import partial
from pathlib import Path

from cli.sources import AskedCluster, source_of
from tests.support.builders import Object, controller, kubectl_list, node, pod, raw

POLICY = """\
policy shop in namespace "shop" {
  for pods where pod.labels["tier"] == "web"
  let spot = node.labels["capacity"] == "spot"
  filter "headroom" {
    require node.free["memory"] - pod.requests["memory"] >= "1Gi"
    require node.ready
    message "needs 1Gi to spare"
    detail "{node.free['memory']} free"
  }
  filter "zone" { require node.zone != "c" }
  limit "one per node" { per node at most 1 strict message "one is there" }
  score "pack" weight 3 { value node.usage["cpu"] range 0 .. 1 }
  score "spot" weight 1 { value spot missing 20 }
}
policy fallback { for pods where pod.priority >= 0 score "any" weight 1 { value 1 } }
policy far in namespace "far" { score "any" weight 1 { value 1 } }
cluster policy guards {
  for pods where pod.labels["guarded"] == "yes"
  filter "a" { require node.ready }
}
policy lenient in namespace "shop" {
  mode audit
  filter "none" { require node.spec.unschedulable }
}
"""


def cluster() -> list[Object]:
    """Four nodes; of the pods called web-1 one runs in each of two namespaces."""
    web = controller("ReplicaSet", "web", "shop", replicas=3)
    labels = {"tier": "web"}
    return [
        node("n-1", "a", cpu="4", memory="4Gi", labels={"capacity": "spot"}),
        node("n-2", "b", cpu="4", memory="2Gi"),
        node("n-3", "c", cpu="4", memory="2Gi"),
        node("n-4", "a", cpu="4", memory="8Gi"),
        web,
        pod("web-1", "shop", cpu="1", memory="1Gi", labels=labels, owner=web),
        pod("web-2", "shop", cpu="1", memory="1Gi", labels=labels, owner=web, on="n-4"),
        pod("web-1", "far", cpu="1", on="n-2"),
        pod("db-0", "far", cpu="2", memory="512Mi", on="n-2"),
    ]


def write(folder: Path) -> None:
    """`cluster.json` and `shop.policy`."""
    (folder / "shop.policy").write_text(POLICY, encoding="utf-8")
    (folder / "cluster.json").write_bytes(raw(kubectl_list(cluster())))


WORLD = ("--cluster", "cluster.json", "--policies", "shop.policy")


def snapshot(file: str) -> Callable[[], AbstractContextManager[AskedCluster]]:
    """A file as the source of a cluster."""
    args = Namespace(cluster=[Path(file)], kubeconfig=None, context=None)
    return partial(source_of, args)
