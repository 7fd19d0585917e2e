"""`placet check`: output in every format, and the exit code."""

import json
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest

from tests.cli.conftest import Placet

GOOD = 'cluster policy good { filter "ready" { require node.ready } }\n'
BAD = """\
cluster policy bad {
  filter "disk" { require node.lables["disk"] == "ssd" }
}
"""


@pytest.fixture(autouse=True)
def files(folder: Path) -> None:
    (folder / "bad.policy").write_text(BAD, encoding="utf-8")
    (folder / "good.policy").write_text(GOOD, encoding="utf-8")


def test_human_shows_the_place(placet: Placet) -> None:
    done = placet("check", ".")
    assert (done.code, done.err) == (1, "")
    assert (
        done.out
        == """\
error[P0102]: Node has no field `lables`
 --> bad.policy:2:32
  |
2 |   filter "disk" { require node.lables["disk"] == "ssd" }
  |                                ^^^^^^ unknown field
  = help: a similar name exists: `labels`

1 error in 2 files
"""
    )


def test_plain_is_one_line_each(placet: Placet) -> None:
    """The summary is not among them."""
    done = placet("check", "-o", "plain", ".")
    assert done.code == 1
    assert done.out == (
        "bad.policy:2:32: error[P0102]: Node has no field `lables`"
        " (a similar name exists: `labels`)\n"
    )
    assert done.err == "1 error in 2 files\n"


def test_github_is_an_annotation_each(placet: Placet) -> None:
    done = placet("check", "-o", "github", ".")
    assert done.code == 1
    assert done.out == (
        "::error file=bad.policy,line=2,endLine=2,col=32,endColumn=38,title=P0102"
        "::Node has no field `lables` (a similar name exists: `labels`)\n"
    )


def test_json_is_one_document(placet: Placet) -> None:
    done = placet("check", "-o", "json", ".")
    assert (done.code, done.err) == (1, "")
    assert json.loads(done.out) == {
        "diagnostics": [
            {
                "file": "bad.policy",
                "line": 2,
                "column": 32,
                "endLine": 2,
                "endColumn": 38,
                "severity": "error",
                "code": "P0102",
                "message": "Node has no field `lables`",
                "hint": "a similar name exists: `labels`",
                "notes": [],
                "fix": {"line": 2, "column": 32, "endLine": 2, "endColumn": 38, "text": "labels"},
            }
        ]
    }
    assert json.loads(placet("check", "-o", "json", "good.policy").out) == {"diagnostics": []}


def test_path_that_gives_nothing_is_an_error(placet: Placet, folder: Path) -> None:
    """The other paths are checked all the same."""
    (folder / "latin.policy").write_bytes(b"\xe9")
    done = placet("check", "bad.policy", "latin.policy", "missing.policy")
    assert done.code == 2
    assert "P0102" in done.out
    assert done.err == (
        "error: `latin.policy` is not UTF-8 text at byte 0\n"
        "  = help: save it as UTF-8\n"
        "error: `missing.policy` does not exist\n"
        "  = help: check the path\n"
    )


def test_warnings_alone_are_success_unless_strict(placet: Placet, folder: Path) -> None:
    (folder / "bad.policy").unlink()
    text = 'cluster policy odd { filter "x" { require node.labels["disk"] != "hdd" } }'
    (folder / "odd.policy").write_text(text, encoding="utf-8")
    done = placet("check", ".")
    assert done.code == 0
    assert done.out.startswith("warning[P0301]")
    assert done.out.endswith("1 warning in 2 files\n")
    assert placet("check", "--strict", ".").code == 1


STREAM = """\
apiVersion: v1
kind: List
items:
- apiVersion: v1
  kind: ConfigMap
  metadata: {name: a}
- apiVersion: placement-policy.scheduling.x-k8s.io/v1
  kind: ClusterPlacementPolicy
  metadata: {name: web, namespace: shop}
  spec:
    podSelector: {}
    rules: 'filter "a" { require node.ready }'
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: web}
---
apiVersion: placement-policy.scheduling.x-k8s.io/v1
kind: PlacementPolicy
metadata: {name: web, namespace: shop}
spec:
  podSelector: {}
  rules: |
    filter "disk" { require node.lables["disk"] == "ssd" }
"""


def test_a_stream_with_other_kinds_is_checked_at_its_lines(placet: Placet) -> None:
    done = placet("check", "-o", "plain", "-", stdin=STREAM)
    assert done.code == 1
    first, second = done.out.splitlines()
    assert first.startswith("stdin.yaml:9:36: error[P0503]: metadata.namespace: a Cluster")
    assert second.startswith("stdin.yaml:24:34: error[P0102]: Node has no field `lables`")
    assert done.err == "note: 2 objects of other kinds skipped\n2 errors in 1 file\n"
    assert placet("check", "-", stdin=GOOD).out == "1 policy in 1 file: no problems found\n"
    assert placet("check", "--fix", "-", stdin=GOOD).code == 2


def test_sarif_is_one_log(placet: Placet) -> None:
    done = placet("check", "--output", "sarif", ".")
    assert (done.code, done.err) == (1, "")
    log = json.loads(done.out)
    assert log["version"] == "2.1.0"
    (run,) = log["runs"]
    (result,) = run["results"]
    assert run["tool"]["driver"]["rules"][result["ruleIndex"]]["id"] == result["ruleId"] == "P0102"
    assert result["level"] == "error"
    (location,) = result["locations"]
    assert location["physicalLocation"] == {
        "artifactLocation": {"uri": "bad.policy"},
        "region": {"startLine": 2, "startColumn": 32, "endLine": 2, "endColumn": 38},
    }


def test_junit_has_a_suite_for_each_file(placet: Placet) -> None:
    done = placet("check", "--output", "junit", ".")
    assert (done.code, done.err) == (1, "")
    bad, good = ET.fromstring(done.out)  # noqa: S314 - it is our own
    assert (bad.get("name"), bad.get("failures"), good.get("failures")) == ("bad.policy", "1", "0")
    (case,) = bad
    (failure,) = case
    assert case.get("name") == "P0102 in line 2"
    assert failure.get("message") == "Node has no field `lables`"
    assert [each.get("name") for each in good] == ["check"]


MANIFEST = """apiVersion: placement-policy.scheduling.x-k8s.io/v1
kind: PlacementPolicy
metadata: {name: p, namespace: shop}
spec: {podSelector: {}, rules: 'filter "f" { require node.redy }'}
"""


@pytest.mark.usefixtures("folder")
def test_files_as_people_keep_them(placet: Placet) -> None:
    """A list of an API server is read; of what others make files of, it is said how to check it."""
    head, spec = MANIFEST.split("metadata: ")
    items = "items:\n- metadata: " + spec.replace("spec:", "  spec:")
    Path("list.yaml").write_text(head.replace("Policy\n", "PolicyList\n") + items)
    done = placet("check", "list.yaml")
    assert "error[P0102]: Node has no field `redy`" in done.out
    assert "kustomization" not in done.out
    Path("chart.yaml").write_text("{{- if .Values.on }}\n" + MANIFEST + "{{- end }}\n")
    assert "`helm template CHART | placet check -`" in placet("check", "chart.yaml").out
    Path("kustomization.yaml").write_text("kind: Kustomization\n")
    assert "`kustomize build FOLDER | placet check -`" in placet("check", "list.yaml").out
    assert "kustomize" not in placet("check", "-", stdin=MANIFEST).out


def test_without_a_file_nothing_is_checked(placet: Placet) -> None:
    done = placet("check")
    assert (done.code, done.out) == (2, "")
    assert done.err == "error: nothing to check is named\n  = help: name files or folders, or `-`\n"
