"""`placet drift`: which pods break rules, as the leader tells it, and in files."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from cli.command import module_of
from engine.decision.journal import Journal
from engine.drift.drift_document import DriftDocument
from engine.drift.survey import Survey, answered
from tests.cli.conftest import Placet
from tests.support.builders import controller, kubectl_list, node, pod, raw
from tests.support.engines import Known, cache_of, engine_over
from tests.support.view_server import Cluster, Parts, Running, running

POLICY = """
policy web in namespace "shop" {
  filter "ssd" { require node.labels["ssd"] == "yes" }
}
"""
WEB = controller("ReplicaSet", "web", "shop", replicas=3)
NODES = [node("n1"), node("n2", labels={"ssd": "yes"})]
PODS = [
    pod("web-1", "shop", on="n1", owner=WEB),
    pod("web-2", "shop", on="n2", owner=WEB),
    pod("bare", "shop", on="n1"),
    pod("other", "far", on="n1"),
]
FILES = ("--cluster", "cluster.json", "--policies", "web.policy")


@pytest.fixture(autouse=True)
def environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "200")


@pytest.fixture
def files(folder: Path) -> None:
    (folder / "web.policy").write_text(POLICY, encoding="utf-8")
    (folder / "cluster.json").write_bytes(raw(kubectl_list([*NODES, *PODS])))


@pytest.fixture
def two() -> Iterator[Running]:
    """A replica that does not lead, and the leader."""
    bodies = {f"{p['metadata']['namespace']}/{p['metadata']['name']}": raw(p) for p in PODS}
    cache = cache_of(NODES, PODS)
    survey = Survey("placet-1", engine_over(POLICY, cache), Known(cache), lambda: 0.0)
    found = answered(survey.look(), bodies.get)
    waiting = Cluster(drift=DriftDocument(replica="placet-0", problem="another replica leads"))
    with running(
        Parts(Journal(), cluster=waiting), Parts(Journal(), "placet-1", Cluster(drift=found))
    ) as both:
        yield both


def test_the_leader_is_asked(placet: Placet, two: Running) -> None:
    done = placet("drift", "--url", two.urls[1])
    lines = done.out.splitlines()
    assert done.code == 1
    assert lines[0].startswith("2 pods of 4 break rules at 20")
    assert lines[0].endswith("a repair would move 1")
    assert lines[2].split() == ["policy", "clause", "kind", "pods", "moved", "stuck", "since"]
    assert lines[3].split()[:6] == ["shop/web", "ssd", "filter", "2", "1", "0"]
    assert "shop/web-1  n1     shop/web: ssd" in done.out
    assert "stays: no controller makes it anew" in done.out
    failed = placet("drift", "--url", two.urls[0])
    assert "nobody knows what has drifted: another replica leads" in failed.err


def test_questions_to_the_running_placet_have_one_document(placet: Placet, two: Running) -> None:
    """And the same flags, with or without an answer of all."""
    asked = ("-o", "json", "--url", two.urls[1], "-n", "shop")
    for question in ("audit", "drift", "decisions", "status"):
        found = json.loads(placet(question, *(asked if question != "status" else asked[:4])).out)
        assert list(found) == ["version", "replicas"]
        assert (found["version"], len(found["replicas"])) == (1, 1)
        assert found["replicas"][0]["replica"] == "placet-1"
    flags = [
        {flag.name for flag in module_of(each).ARGUMENTS if flag.names}
        for each in ("audit", "decisions", "drift")
    ]
    assert flags[0] == flags[1] == flags[2] - {"--cluster", "--policies", "--data"}


def test_files_are_looked_at(placet: Placet, files: None) -> None:
    done = placet("drift", *FILES, "-o", "json")
    (found,) = json.loads(done.out)["replicas"]
    assert [each["pod"] for each in found["pods"]] == ["shop/bare", "shop/web-1"]
    assert found["pods"][1]["places"] == ["n2"]
    assert found["version"] == 1
    assert placet("drift", "shop/web", *FILES).code == 1
    done = placet("drift", "-n", "far", *FILES)
    assert (done.code, done.out[:31]) == (0, "no pod breaks a rule where it i")


def test_policies_need_a_cluster(placet: Placet, files: None) -> None:
    done = placet("drift", "--policies", "web.policy")
    assert "policies are given without a cluster" in done.err


def test_a_policy_with_errors_is_a_finding(placet: Placet, files: None, folder: Path) -> None:
    """As for `explain`: otherwise no pod breaks a rule, and all seems well."""
    (folder / "web.policy").write_text(POLICY.replace("require", "demand"), encoding="utf-8")
    done = placet("drift", *FILES)
    assert done.code == 1
    assert "error[P0001]" in done.err


def test_a_policy_that_is_not_there_is_named(placet: Placet, files: None) -> None:
    done = placet("drift", "shop/wbe", *FILES)
    assert done.code == 2
    assert done.err.startswith("error: there is no policy `shop/wbe` in force\n")
    assert "there is shop/web" in done.err
