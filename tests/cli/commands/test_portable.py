"""`placet check --portable`, `placet compile`, and what `placet explain` shows of a form."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.cli.conftest import Placet
from tests.support.builders import Object, kubectl_list, node, pod, raw

PAGE = (Path(__file__).parents[3] / "docs" / "portable.md").read_text(encoding="utf-8")
FORM = "placet.dev/portable"
REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
POLICY = """\
policy web in namespace "shop" {
  portable
  filter "pool" { require node.labels["pool"] == pod.namespace }
  limit "apart" {
    pods where peer.labels["app"] == pod.labels["app"] per node at most 1 strict mutual
  }
  filter "room" { require node.free["cpu"] > 0 }
}
cluster policy soft { score "s" weight 1 { value node.ready } }
"""


@pytest.fixture(autouse=True)
def files(folder: Path) -> None:
    (folder / "web.policy").write_text(POLICY)
    write(folder / "pod.yaml", pod("web-1", "shop", labels={"app": "web"}))


def write(file: Path, value: Object) -> None:
    file.write_text(yaml.safe_dump(value))


def test_check_says_what_can_be_told(placet: Placet) -> None:
    done = placet("check", "--portable", "web.policy")
    assert (done.code, done.err) == (0, "")
    assert done.out == (
        "policy shop/web (portable)\n"
        "  pool: told as it is\n"
        '  apart: stays in Placet: `pod.labels["app"]` can change\n'
        "  room: stays in Placet: `node.free` is no label of the node\n\n"
        "policy soft (not `portable`, so nobody is told)\n"
        "  no clause rejects nodes\n\n"
        "2 policies in 1 file: no problems found\n"
    )
    done = placet("check", "--portable", "--frozen-label", "app", "web.policy")
    assert "  apart: told as it is\n" in done.out


def test_check_names_a_policy_whose_pods_can_change(placet: Placet, folder: Path) -> None:
    selector = 'for pods where pod.labels["x"] == "y"'
    text = f'cluster policy p {{ portable {selector} filter "f" {{ require true }} }}'
    (folder / "p.policy").write_text(text)
    done = placet("check", "--portable", "p.policy")
    line = '  all clauses: stays in Placet: its `for`: `pod.labels["x"]` can change\n'
    assert line in done.out
    done = placet("check", "--portable", "-o", "json", "p.policy")
    assert (done.code, done.err.splitlines()[0]) == (
        2,
        "error: `--portable` works only with the human format",
    )


def test_a_clause_that_is_told_in_part(placet: Placet, folder: Path) -> None:
    text = 'limit "l" { pods where "a" in peer.labels per zone at most 0 strict mutual }'
    (folder / "p.policy").write_text(f"cluster policy p {{ {text} }}")
    done = placet("check", "--portable", "p.policy")
    assert "  l: told in part; Placet rejects more nodes\n" in done.out


def test_compile_prints_what_a_pod_gets(placet: Placet) -> None:
    arguments = ("compile", "--pod-file", "pod.yaml", "--policies", "web.policy")
    done = placet(*arguments, "--frozen-label", "app")
    assert (done.code, done.err) == (0, "")
    comments = [line for line in done.out.splitlines() if line.startswith("#")]
    assert comments == [
        "# policy shop/web, clause `pool`: below",
        "# policy shop/web, clause `apart`: below",
        "# policy shop/web, clause `room`: stays in Placet: `node.free` is no label of the node",
    ]
    found: Any = yaml.safe_load(done.out)
    assert re.fullmatch(r"shop/web@[0-9a-f]{12}", found["metadata"]["annotations"][FORM])
    (term,) = found["spec"]["affinity"]["nodeAffinity"][REQUIRED]["nodeSelectorTerms"]
    assert term["matchExpressions"] == [{"key": "pool", "operator": "In", "values": ["shop"]}]
    assert "podAntiAffinity" in found["spec"]["affinity"]


def test_compile_of_a_pod_that_nothing_is_said_about(placet: Placet, folder: Path) -> None:
    write(folder / "pod.yaml", pod("db-1", "bank"))
    arguments = ("compile", "--pod-file", "pod.yaml", "--policies", "web.policy")
    assert placet(*arguments).out == "# no portable policy keeps bank/db-1 from any node\n"
    (folder / "web.policy").write_text(POLICY.replace("  portable\n", ""))
    write(folder / "pod.yaml", pod("web-1", "shop"))
    assert placet(*arguments).out == "# no portable policy keeps shop/web-1 from any node\n"


def test_compile_reports_policies_with_errors(placet: Placet, folder: Path) -> None:
    (folder / "web.policy").write_text('cluster policy p { portable filter "f" { require 1 } }')
    done = placet("compile", "--pod-file", "pod.yaml", "--policies", "web.policy")
    assert done.code == 2
    assert done.err.startswith("error[P0105]: this is an int, not a bool\n")


def test_explain_shows_the_form_of_a_pod(placet: Placet, folder: Path) -> None:
    done = placet(
        "compile", "--pod-file", "pod.yaml", "--policies", "web.policy", "--frozen-label=app"
    )
    told: Any = yaml.safe_load(done.out)
    made = pod("web-1", "shop", labels={"app": "web"})
    made["metadata"]["annotations"] = told["metadata"]["annotations"]
    made["spec"] |= told["spec"]
    cluster = folder / "cluster.json"
    cluster.write_bytes(raw(kubectl_list([node("n1", labels={"pool": "shop"}), made])))
    explain = ("explain", "shop/web-1", "--cluster", "cluster.json", "--policies", "web.policy")
    assert "others know policy shop/web from the spec of the pod\n" in placet(*explain).out
    (folder / "web.policy").write_text(POLICY.replace('"pool"', '"other"'))
    assert "others know another version of policy shop/web from" in placet(*explain).out
    (folder / "web.policy").write_text("cluster policy soft { weight 200 }")
    assert "others know policy shop/web, which is not in force, from" in placet(*explain).out


def test_the_page_shows_what_is_printed(placet: Placet, folder: Path) -> None:
    (policy,) = re.findall(r"(?ms)^   ```placet\n(.*?)^   ```$", PAGE)
    (shown,) = re.findall(r"(?ms)^```yaml\n(.*?)^```$", PAGE)
    (folder / "web.policy").write_text(re.sub(r"(?m)^   ", "", policy))
    done = placet(
        "compile", "--pod-file", "pod.yaml", "--policies", "web.policy", "--frozen-label", "app"
    )
    assert re.sub(r"(?<=@)[0-9a-f]{12}", "DIGEST", done.out) == shown
