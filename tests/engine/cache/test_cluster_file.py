"""Cluster files: reading what kubectl writes, and one-line errors for everything else."""

import json
from pathlib import Path

import pytest
import yaml

from engine.cache.cluster_copy import NamedPod
from engine.cache.cluster_file import ClusterFileError, Reading
from tests.support.builders import Object, controller, kubectl_list, namespace, node, pod, raw
from tests.support.engines import CODEC, read_files

CLUSTER = kubectl_list([node("n1"), node("n2"), pod("a", cpu="2", on="n1"), pod("b")])


def written(path: Path, *documents: Object) -> Path:
    """Write a file, YAML or JSON by its name."""
    if path.suffix == ".json":
        path.write_text("\n".join(json.dumps(d) for d in documents), encoding="utf-8")
    else:
        path.write_text(yaml.safe_dump_all(documents), encoding="utf-8")
    return path


def check(reading: Reading) -> None:
    """It is CLUSTER, however it was written."""
    snapshot = reading.cache.snapshot()
    assert set(snapshot.nodes) == {"n1", "n2"}
    requested = snapshot.nodes["n1"].requested
    assert requested is not None
    assert str(requested["cpu"]) == "2"
    assert [p.name for p in snapshot.pending.values()] == ["b"]
    assert reading.notices == ()


@pytest.mark.parametrize("name", ["cluster.json", "cluster.yaml", "cluster.yml", "cluster"])
def test_list_of_kubectl_is_read(tmp_path: Path, name: str) -> None:
    """JSON or YAML, by what is in the file."""
    check(read_files(CODEC, [written(tmp_path / name, CLUSTER)]))


def test_json_is_read_from_a_file_of_any_name(tmp_path: Path) -> None:
    for name in ("cluster.yaml", "cluster.txt"):
        path = tmp_path / name
        path.write_text(json.dumps(CLUSTER, indent=1), encoding="utf-8")
        check(read_files(CODEC, [path]))


def test_lists_of_one_kind_do_not_repeat_it(tmp_path: Path) -> None:
    """A NodeList, as the API server answers: the items have neither kind nor version."""
    own = {"metadata", "spec", "status"}
    bare = [{k: v for k, v in item.items() if k in own} for item in CLUSTER["items"]]
    nodes = written(
        tmp_path / "nodes.json", {"kind": "NodeList", "apiVersion": "v1", "items": bare[:2]}
    )
    pods = written(
        tmp_path / "pods.json", {"kind": "PodList", "apiVersion": "v1", "items": bare[2:]}
    )
    check(read_files(CODEC, [nodes, pods]))
    check(read_files(CODEC, [tmp_path]))


def test_documents_of_one_yaml_file_are_read(tmp_path: Path) -> None:
    check(read_files(CODEC, [written(tmp_path / "cluster.yaml", *CLUSTER["items"])]))


def test_times_without_quotes_are_read(tmp_path: Path) -> None:
    """YAML has times of its own; people write them by hand."""
    path = tmp_path / "cluster.yaml"
    path.write_text(
        "apiVersion: v1\nkind: Node\n"
        "metadata: {name: n1, creationTimestamp: 2026-11-21T10:00:00Z}\n"
        "status: {allocatable: {cpu: 8, memory: 32Gi}}\n",
        encoding="utf-8",
    )
    assert str(read_files(CODEC, [path]).cache.snapshot().newest()) == "2026-11-21T10:00:00Z"


@pytest.mark.parametrize("encoding", ["utf-8-sig", "utf-16"])
@pytest.mark.parametrize("name", ["cluster.json", "cluster.yaml"])
def test_byte_order_marks_are_read(tmp_path: Path, name: str, encoding: str) -> None:
    path = written(tmp_path / name, CLUSTER)
    path.write_text(path.read_text(encoding="utf-8"), encoding=encoding)
    check(read_files(CODEC, [path]))


def test_recorded_cluster_is_read() -> None:
    """What kubectl wrote of a cluster with eight nodes."""
    contract = Path(__file__).parents[2] / "contract"
    reading = read_files(CODEC, [contract / "nodes.json", contract / "pods.json"])
    assert len(reading.cache.snapshot().nodes) == 8
    assert all(view.pods for view in reading.cache.snapshot().nodes.values())
    assert reading.notices == ()


def test_other_objects_are_skipped_with_a_notice(tmp_path: Path) -> None:
    """Also another group's kind that has the name of one that is read."""
    service = {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "web"}}
    foreign = {"apiVersion": "longhorn.io/v1beta2", "kind": "Node", "metadata": {"name": "n1"}}
    more = [service, service, foreign, namespace("shop"), controller("Deployment", "web")]
    reading = read_files(
        CODEC, [written(tmp_path / "c.json", kubectl_list(CLUSTER["items"] + more))]
    )
    assert reading.notices == (
        "skipped objects that no rule reads: 1 Node of longhorn.io/v1beta2, 2 Service",
    )
    assert set(reading.cache.snapshot().namespaces) == {"shop"}


@pytest.mark.parametrize("spec", [{"replicas": 3}, {"replicas": 3, "parallelism": 5}, {}])
@pytest.mark.parametrize("kind", ["StatefulSet", "Job", "CloneSet"])
def test_a_workload_of_another_group_is_as_its_scale_says(
    tmp_path: Path, kind: str, spec: Object
) -> None:
    """By its own kind, as in a running cluster, where its pods name it and its scale its size."""
    foreign = {"apiVersion": "apps.kruise.io/v1beta1", "kind": kind, "spec": spec}
    foreign["metadata"] = {"name": "web", "namespace": "shop", "uid": "u"}
    listed = kubectl_list([node("n1"), pod("web-0", "shop", owner=foreign), foreign])
    cache = read_files(CODEC, [written(tmp_path / "c.json", listed)]).cache
    peer, known = cache.pod("shop/web-0"), cache.workloads.get("u")
    assert peer is not None
    assert peer.workload is not None
    assert (peer.workload.title, peer.workload.uid) == (f"{kind}/web", "u")
    assert (known is not None) == bool(spec)
    if known is not None:
        assert (known.workload.title, known.wants, known.withholds) == (f"{kind}/web", 3, "")


def test_oddities_are_noticed(tmp_path: Path) -> None:
    nodes = read_files(CODEC, [written(tmp_path / "nodes.json", kubectl_list([node("n1")]))])
    assert nodes.notices == ("it has no pods, so every node counts as empty",)
    items = [node("n1"), node("n1"), pod("a", on="n2"), pod("a", on="n2")]
    odd = read_files(CODEC, [written(tmp_path / "odd.json", kubectl_list(items))])
    assert odd.notices == (
        "2 of the nodes and pods appear twice; the later ones count",
        "1 of the pods are on unknown nodes and are not counted",
    )


BROKEN_NODE = node("n1") | {"status": {"allocatable": {"cpu": "many"}}}


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("c.json", "", "`c.json` is empty"),
        ("c.json", "  \n", "`c.json` is empty"),
        ("c.json", json.dumps(CLUSTER)[:-20], "`c.json` is not JSON: input data was truncated"),
        (
            "c.json",
            json.dumps(CLUSTER) * 2,
            "`c.json` is not JSON: trailing characters (byte ",
        ),
        ("c.json", "{'kind': 1}", "`c.json` is not JSON: object keys must be strings (byte 1)"),
        (
            "c.json",
            '{"a": 1}',
            "`c.json` is not a cluster file: it has no `kind`",
        ),
        (
            "c.json",
            "[1, 2]",
            "`c.json` is not a cluster file: it is not a Kubernetes object",
        ),
        (
            "c.json",
            '{"kind": "NodeList"}',
            "`c.json` is not a cluster file: its NodeList has no `items`",
        ),
        (
            "c.json",
            '{"kind": "List", "items": [{"kind": "Node"}]}',
            "`c.json` is not a cluster file: a Node in it has no name",
        ),
        ("c.json", '{"kind": "List", "items": []}', "there are no nodes in `c.json`"),
        ("c.json", '{"deep": ' * 1_000_000, "`c.json` is nested too deeply"),
        (
            "c.yaml",
            "just words",
            "`c.yaml` is not a cluster file: it is not a Kubernetes object",
        ),
        ("c.yaml", "# nothing\n", "there are no nodes in `c.yaml`"),
        ("c.yaml", "a: [1,\nb: 2", "`c.yaml` is neither YAML nor JSON: did not find expected ','"),
        (
            "c.yaml",
            "kind: \x00",
            "`c.yaml` is neither YAML nor JSON: control characters are not allowed",
        ),
        ("c.yaml", "? [1]\n: 2", "`c.yaml` is neither"),
        ("c.yaml", "[" * 1_000_000, "`c.yaml` is nested too deeply"),
    ],
)
def test_other_files_give_an_error_of_one_line(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    name: str,
    text: str,
    message: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    Path(name).write_text(text, encoding="utf-8")
    with pytest.raises(ClusterFileError) as raised:
        read_files(CODEC, [Path(name)])
    assert raised.value.message.startswith(message)
    assert "\n" not in raised.value.message
    assert raised.value.hint


@pytest.mark.parametrize("data", [b"\xff\xfe\x00", b'{"kind": "\xff"}', b"kind: \xff\n"])
def test_bytes_that_are_not_text_are_an_error(tmp_path: Path, data: bytes) -> None:
    path = tmp_path / "c"
    path.write_bytes(data)
    with pytest.raises(ClusterFileError):
        read_files(CODEC, [path])


def test_object_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    path = written(tmp_path / "c.json", kubectl_list([node("n2"), BROKEN_NODE]))
    with pytest.raises(ClusterFileError, match=r"^Node `n1` in `.*c\.json` cannot be read: ") as it:
        read_files(CODEC, [path])
    assert "status.allocatable" in it.value.message


def test_a_pod_with_a_number_beyond_64_bits_is_no_fault_of_placet() -> None:
    """What no rule reads is not looked at before somebody asks about the pod."""
    with pytest.raises(ClusterFileError, match="a pod has a number beyond 64 bits"):
        NamedPod.of(raw(pod("p", "shop") | {"status": 7}).replace(b"7", b"7" * 5000))


def test_errors_about_missing_paths_hint_at_the_command(tmp_path: Path) -> None:
    with pytest.raises(ClusterFileError, match=r"cannot read `.*c\.yaml`: no such file") as missing:
        read_files(CODEC, [tmp_path / "c.yaml"])
    assert "kubectl get nodes,pods,replicasets -A -o yaml" in missing.value.hint
    with pytest.raises(ClusterFileError, match="has no JSON or YAML files"):
        read_files(CODEC, [tmp_path])
    with pytest.raises(ClusterFileError, match=r"cannot read `.*`: file name too long"):
        read_files(CODEC, [tmp_path / ("a" * 300)])
