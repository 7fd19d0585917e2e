"""Page and terminal say the same of 200 random pods: both show one document."""

from __future__ import annotations

import argparse
import random
from pathlib import Path
from typing import Any

import msgspec
import pytest
from playwright.sync_api import Page

from cli.sources import AskedCluster
from cli.world import explained
from engine.decision.journal import Journal
from engine.explanation.explanation import Asker
from tests.support.builders import Object, kubectl_list, node, pod, raw
from tests.support.engines import Known, cache_of, engine_over
from tests.support.view_server import Cluster, Parts, running

pytestmark = pytest.mark.browser
POLICIES = """
policy web {
  for pods where pod.labels["app"] == "web"
  filter "disk" {
    require node.labels["disk"] == pod.labels["disk"]
    message "another disk"
    detail "it has {node.labels['disk']}"
  }
  limit "zone" {
    pods where peer.labels["app"] == "web"
    per node.labels["topology.kubernetes.io/zone"]
    at most 6
    strict
  }
  score "warm" weight 2 { value int(node.labels["degrees"]) range 0 .. 40 }
  score "fast" weight 1 { value node.labels["disk"] == "ssd" }
}
policy db {
  for pods where pod.labels["app"] == "db"
  filter "cool" { require int(node.labels["degrees"]) < 25 message "too warm" }
  spread "zones" { over node.labels["topology.kubernetes.io/zone"] skew at most 1 strict }
}
cluster policy ready { filter "ready" { require !node.spec.unschedulable message "is cordoned" } }
"""
# What only a replica has, or only a command: who answers and when, offers, and decisions. A command
# offers nodes, so it tells those that are held back apart, and scores the others alone.
APART = ("replica", "at", "heldBack", "then", "changes", "version", "rows", "caveat", "node")
# With what is folded, and with the rows that come when they are asked for.
SHOWN = """async () => {
  for (const each of document.querySelectorAll("main li > button")) each.click();
  for (let turn = 0; turn < 2; turn += 1) await new Promise(requestAnimationFrame);
  return {
    cause: document.querySelector(".cause")?.innerText ?? "",
    answer: document.querySelector(".answer").innerText,
    text: document.querySelector("main").textContent,
  };
}"""


def cluster(chance: random.Random) -> tuple[list[Object], list[Object]]:
    """Nodes, and 200 pods without a node beside 30 that have one."""
    nodes = [
        node(
            f"n{number}",
            f"z{number % 3}",
            cpu=chance.choice(["2", "8", "32"]),
            labels={"disk": chance.choice(["ssd", "hdd"]), "degrees": str(chance.randrange(41))},
            unschedulable=chance.random() < 0.1,
        )
        for number in range(30)
    ]
    pods = []
    for number in range(230):
        labels = {"app": chance.choice(["web", "db", "job"]), "disk": chance.choice(["ssd", "hdd"])}
        on = f"n{number % 30}" if number >= 200 else None
        cpu = chance.choice(["100m", "4", "64"]) if on is None else "100m"
        made = pod(f"p{number}", "shop", cpu=cpu, labels=labels, on=on)
        if on is None and chance.random() < 0.5:
            said = "0/30 nodes are available: 12 Insufficient cpu, 18 another disk."
            made["status"]["conditions"] = [
                {"type": "PodScheduled", "status": "False", "message": said}
            ]
        pods.append(made)
    return nodes, pods


def test_200_random_pods(page: Page, tmp_path: Path) -> None:
    nodes, pods = cluster(random.Random(42))
    (tmp_path / "cluster.json").write_bytes(raw(kubectl_list([*nodes, *pods])))
    (tmp_path / "all.policy").write_text(POLICIES, encoding="utf-8")
    named = {"cluster": [tmp_path / "cluster.json"], "policies": [tmp_path / "all.policy"]}
    world = AskedCluster(argparse.Namespace(**named)).world()
    cache = cache_of(nodes, pods)
    known = {f"shop/{each['metadata']['name']}": raw(each) for each in pods}
    engine = engine_over(POLICIES, cache)
    made = Parts(Journal(), cluster=Cluster(POLICIES, engine, known, state=Known(cache)))
    causes = set[str]()
    with running(made) as found:
        answers: list[Any] = []
        page.on("response", lambda r: answers.append(r) if "/api/v1/explain/" in r.url else None)
        for number in range(200):
            key = f"shop/p{number}"
            terminal = explained(world, world.cluster.pod(key), asker=Asker(is_live=True))
            wanted = plain(msgspec.json.decode(msgspec.json.encode(terminal)))
            answers.clear()
            page.goto(f"{found.urls[0]}/ui/#/pods/{key}")
            page.locator("h1", has_text=key).wait_for()
            page.locator(".caveat").wait_for()
            document = plain(answers[-1].json())
            scores = {each["node"]: each for each in document.pop("scores") or ()}
            offered = wanted.pop("scores") or ()
            assert document == wanted, key
            assert all(scores[each["node"]] == each for each in offered), key
            wanted["scores"] = offered
            is_shown(page.evaluate(SHOWN), wanted)
            causes.add((wanted["cause"] or {"kind": "none"})["kind"])
    assert len(causes) > 3, causes


def plain(document: Any) -> Any:
    """What both can know."""
    kept = {name: value for name, value in document.items() if name not in APART}
    passing = [group for group in kept["groups"] if not group["rejectedBy"]]
    names = sorted(name for group in passing for name in group["names"])
    kept["groups"] = [group for group in kept["groups"] if group["rejectedBy"]]
    kept["passingNames"] = names
    for group in kept["groups"]:
        group.pop("heldBack", None)
    return kept


def is_shown(shown: Any, document: Any) -> None:
    """The page has the texts and the numbers of the document."""
    if document["cause"] is not None and document["cause"]["kind"] != "placed":
        assert document["cause"]["text"][1:] in shown["cause"]
    passes = "passes" if document["passing"] == 1 else "pass"
    assert f"{document['passing']} of {document['nodes']} nodes {passes}." in shown["answer"]
    for group in document["groups"]:
        assert all(each["text"] in shown["text"] for each in group["rejectedBy"])
    for miss in document["nearest"]:
        for each in miss["rejectedBy"]:
            for part in each.get("expressions", ()):
                assert all(value["expression"] in shown["text"] for value in part["values"])
    for each in document["unfit"]:
        assert each["text"] in shown["text"]
    for each in (document["scores"] or [])[:50]:
        assert f"{each['score']} of 10" in shown["text"]
