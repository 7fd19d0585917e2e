"""`placet check --fix`, `--cost` and `--cluster`."""

import json
from pathlib import Path

import pytest

from tests.cli.conftest import Placet

WRONG = """\
cluster policy a {
  mode enforced
  missin pass
  let big = node.lables["x"] = "y" and pod.priority > 5u  # kept
  filter "a" { requires not node.ready or node.free["memory"] > "200K" }
  filter "b" { require not (node.ready) && node.nme.startWith("a") && big }
}
"""
MENDED = """\
cluster policy a {
  mode enforce
  missing pass
  let big = node.labels["x"] == "y" && pod.priority > 5  # kept
  filter "a" { require !node.ready || node.free["memory"] > "200k" }
  filter "b" { require ! (node.ready) && node.name.startsWith("a") && big }
}
"""
GOOD = 'cluster policy good { filter "ready" { require node.ready } }\n'
NESTED = """\
cluster policy dear {
  filter "a" { require node.pods.exists(p, node.pods.exists(q, p.name == q.name)) }
}
"""
ZONES = """\
cluster policy z {
  let zone = node.labels["topology.kubernetes.io/zones"]
  filter "a" { require zone == "a" && "nonsense" in node.labels }
  filter "b" { require node.zone == "a" && pod.labels["nonsense"] == "a" }
}
"""


def write(name: str, text: str) -> Path:
    path = Path(name)
    path.write_text(text, encoding="utf-8", newline="")
    return path


@pytest.mark.usefixtures("folder")
def test_fix_mends_what_is_certain(placet: Placet) -> None:
    path = write("a.policy", WRONG)
    done = placet("check", "--fix", ".")
    assert path.read_text(encoding="utf-8") == MENDED
    assert done.code == 0
    assert done.out.startswith("fixed 13 mistakes in a.policy\n")
    assert "  3:3 P0001: no clause begins with `missin`, now `missing`\n" in done.out
    assert done.out.endswith("1 policy in 1 file: no problems found\n")


@pytest.mark.usefixtures("folder")
def test_fix_leaves_other_files_and_line_ends_alone(placet: Placet) -> None:
    good = write("good.policy", GOOD)
    good.chmod(0o444)
    before = good.stat()
    bad = write("bad.policy", WRONG.replace("\n", "\r\n"))
    bad.chmod(0o640)
    assert placet("check", "--fix", ".").code == 0
    after = good.stat()
    assert (after.st_ino, after.st_mtime_ns) == (before.st_ino, before.st_mtime_ns)
    assert bad.read_bytes().decode() == MENDED.replace("\n", "\r\n")
    assert bad.stat().st_mode & 0o777 == 0o640
    assert sorted(p.name for p in Path().iterdir()) == ["bad.policy", "good.policy"]


@pytest.mark.usefixtures("folder")
@pytest.mark.parametrize(
    "text",
    ["not node.name == node.zone", "not x in [true]", "node.zzzzz", 'node.free["cpu"] > "q"'],
)
def test_fix_reports_what_is_uncertain(placet: Placet, text: str) -> None:
    path = write("a.policy", f'cluster policy a {{ filter "a" {{ require {text} }} }}\n')
    before = path.read_bytes()
    done = placet("check", "--fix", ".")
    assert (done.code, path.read_bytes()) == (1, before)
    assert "fixed" not in done.out


@pytest.mark.usefixtures("folder")
def test_fix_tells_machines_apart_from_people(placet: Placet) -> None:
    write("a.policy", WRONG)
    done = placet("check", "--fix", "-o", "json", ".")
    assert json.loads(done.out) == {"diagnostics": []}
    assert done.err.startswith("fixed 13 mistakes in a.policy\n")


@pytest.mark.usefixtures("folder")
def test_cost_shows_expressions_and_their_parts(placet: Placet) -> None:
    write("dear.policy", NESTED)
    done = placet("check", "--cost", ".")
    assert done.code == 0
    head, _, whole, part, *_ = done.out.splitlines()
    assert head == "cost of dear in steps for one node, of 1,000,000"
    assert whole.endswith("2:24  node.pods.exists(p, node.pods.exists(q, p.name == q.name))")
    assert part.endswith("2:44    node.pods.exists(q, p.name == q.name)")


@pytest.mark.usefixtures("folder")
def test_costs_are_for_people(placet: Placet) -> None:
    write("dear.policy", NESTED)
    assert placet("check", "--cost", "-o", "json", ".").code == 2


@pytest.mark.usefixtures("folder")
def test_cluster_knows_which_label_keys_there_are(placet: Placet) -> None:
    write("z.policy", ZONES)
    zone = {"topology.kubernetes.io/zone": "a"}
    nodes = [
        {"apiVersion": "v1", "kind": "Node", "metadata": {"name": f"n{i}", "labels": zone}}
        for i in range(3)
    ]
    nodes[0]["metadata"] = {"name": "n0"}
    write("nodes.json", json.dumps({"apiVersion": "v1", "kind": "List", "items": nodes}))
    assert placet("check", "-o", "plain", "z.policy").out == ""
    done = placet("check", "-o", "plain", "--cluster", "nodes.json", "z.policy")
    assert done.code == 0
    assert done.out == (
        "z.policy:2:26: warning[P0320]: 0 of 3 nodes have the label `topology.kubernetes.io/zones`"
        " (a similar label exists: 2 of 3 nodes have `topology.kubernetes.io/zone`)\n"
        "z.policy:3:39: warning[P0320]: 0 of 3 nodes have the label `nonsense`\n"
    )
    assert placet("check", "--strict", "--cluster", "nodes.json", "z.policy").code == 1
    assert placet("check", "--cluster", "none.json", "z.policy").code == 2


@pytest.mark.usefixtures("folder")
def test_rows_that_are_of_no_node_are_warned_of(placet: Placet) -> None:
    node = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n0"}}
    write("nodes.json", json.dumps({"apiVersion": "v1", "kind": "List", "items": [node]}))
    write("load.csv", "key,cpu,memory\n10.0.0.1:9100,1,1Gi\n")
    rule = 'filter "calm" { require data.load[node.name].cpu < "1" }'
    path = write("hot.policy", f'cluster policy hot {{ data "load" {{ from metrics }} {rule} }}\n')
    done = placet("check", "--cluster", "nodes.json", "--data", "load=load.csv", str(path))
    said = '`data "load"` is useless: no key of its 1 row is a node, as in `10.0.0.1:9100`'
    assert said in done.err
    done = placet("check", "--cluster", "nodes.json", "--data", "laod=load.csv", str(path))
    assert done.code == 2
    assert "write `load`" in done.err
    assert "add `--cluster SNAPSHOT`" in placet("check", "--data", "load=load.csv", str(path)).err
