"""One explanation in four renderings: data, `explain`, one node, and the REPL.

`tests/golden/explanation/document.json` is what is found out about a pod of the tests' cluster. The
other files there are its renderings; the page shows the same document in `tests/browser`.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import msgspec
import pytest
import yaml

from cli.console import Part, put, put_document
from cli.explanation import (
    cause_lines,
    every_node,
    head,
    not_in_force,
    one_node,
    then_and_now,
)
from cli.repl.conversation import ReplSession, answer
from cli.sources import AskedCluster
from cli.world import explained
from engine.decision.journal import PreemptionDetail
from engine.explanation.document import ConcernedPolicy, NodeGroup, PodDecision, PodExplanation
from engine.explanation.explanation import Asker, changes
from tests.cli import shop
from tests.cli.conftest import Placet
from tests.support.builders import kubectl_list, raw

GOLDEN = Path(__file__).parents[1] / "golden" / "explanation"
SAID = "0/4 nodes are available: 1 node(s) had untolerated taint(s), 3 policy shop: zone."
THEN = PodDecision(
    number=1,
    pod="shop/web-1",
    at="2026-11-21T09:58:00Z",
    nodes=3,
    passing=1,
    heldBack=0,
    seconds=0.001,
    scoredSeconds=None,
    replica="placet-0",
    uid="u",
    generation=1,
    policiesChanged=False,
    policies=[ConcernedPolicy("shop/shop", "governs", "", "an older one")],
    groups=[NodeGroup([], 1, ["n-1"])],
    preemption=PreemptionDetail("2026-11-21T09:58:01Z", offered=2, kept=1),
)


@pytest.fixture(autouse=True)
def files(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "120")
    shop.write(folder)
    items = shop.cluster()
    for item in items:
        named = item["metadata"]
        if (item["kind"], named["name"]) == ("Node", "n-1"):
            item["spec"]["taints"] = [{"key": "team", "value": "ads", "effect": "NoSchedule"}]
        if (named.get("namespace"), named["name"]) == ("shop", "web-1"):
            condition = {"type": "PodScheduled", "status": "False", "message": SAID}
            item["status"] = {"conditions": [condition]}
    (folder / "cluster.json").write_bytes(raw(kubectl_list(items)))
    (folder / "broken.policy").write_text(
        'cluster policy broken { filter "x" { require nod } missing pass }'
    )


def found() -> PodExplanation:
    """What is found out about the pod, with the node n-2 in full and the last decision."""
    paths = [Path("shop.policy"), Path("broken.policy")]
    world = AskedCluster(argparse.Namespace(cluster=[Path("cluster.json")], policies=paths)).world()
    asked = world.cluster.pod("shop/web-1")
    now = explained(world, asked, node="n-2", asker=Asker(then=THEN))
    return msgspec.structs.replace(now, changes=changes(THEN, now))


def golden() -> PodExplanation:
    return msgspec.json.decode((GOLDEN / "document.json").read_bytes(), type=PodExplanation)


def test_the_golden_document_is_what_is_found_out() -> None:
    """Also every field that a rendering needs is in it."""
    encoded = (GOLDEN / "document.json").read_bytes()
    assert msgspec.json.decode(msgspec.json.encode(found())) == msgspec.json.decode(encoded)
    empty = {
        name for name, value in msgspec.to_builtins(golden()).items() if value in (None, [], "")
    }
    # Nobody but a replica has a name; the pod has no node, problem, exemption, form or gang.
    assert empty == {"replica", "on", "problem", "exempt", "toldToOthers", "gang"}


@pytest.mark.parametrize("name", ["document.yaml", "explain.txt", "node.txt", "then.txt"])
def test_each_rendering_is_of_the_document(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    shown = golden()
    assert shown.cause is not None
    first: list[Part] = [*cause_lines(shown.cause), "", *not_in_force(shown.notInForce)]
    match name:
        case "document.yaml":
            put_document(shown, "yaml")
        case "explain.txt":
            put([*first, *head(shown), *every_node(shown)])
        case "node.txt":
            put([*head(shown), *one_node(shown)])
        case _:
            put(then_and_now(shown))
    assert capsys.readouterr().out == (GOLDEN / name).read_text(encoding="utf-8")


def test_commands_and_the_session_show_this_document(
    placet: Placet, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """`-o json` is the document itself; the REPL has the tables of `explain`."""
    (folder / "broken.policy").unlink()
    done = placet("explain", "shop/web-1", *shop.WORLD, "-o", "json")
    keys = msgspec.json.decode(done.out, type=PodExplanation, strict=True)
    assert (keys.pod, keys.passing) == ("shop/web-1", golden().passing)
    assert msgspec.to_builtins(keys).keys() == msgspec.to_builtins(golden()).keys()
    done = placet("explain", "shop/web-1", *shop.WORLD)
    tables = done.out.partition("\n\npod shop")[2]
    session = ReplSession([Path("shop.policy")], shop.snapshot("cluster.json"))
    session.reload()
    answer(session, ":pod shop/web-1")
    capsys.readouterr()
    answer(session, ":explain")
    assert capsys.readouterr().out.partition("pod shop")[2] == tables


def test_the_yaml_is_the_json() -> None:
    text = (GOLDEN / "document.yaml").read_text(encoding="utf-8")
    assert yaml.safe_load(text) == msgspec.json.decode((GOLDEN / "document.json").read_bytes())
