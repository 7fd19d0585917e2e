"""Texts of a cluster that would steer a terminal: no command shows them as they are.

Each text that a user can write is hostile here: labels, annotations, names, images, conditions,
events, policies and files. An output is right if it can be printed, and no line begins as one that
a text has forged.
"""

from __future__ import annotations

import json
import os
import random
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from cli.streams import beneath, escaped_streams
from engine.decision.journal import Journal
from engine.decision.recent_answers import AfterDecision
from tests.cli import shop
from tests.cli.conftest import Outcome, Placet
from tests.cli.live import asked, live_cluster, policy, put_event
from tests.support.builders import Object, kubectl_list, raw
from tests.support.engines import engine_of
from tests.support.pseudo_terminal import terminal
from tests.support.view_server import Parts, running

FORGED = "FORGED"
# Escape sequences, C1 controls, bidi marks, every kind of line break, tags and half of a pair.
PARTS = (
    "\x1b]0;title\x07", "\x1b[2J", "\x1b[31m", "\x9b31m", "\x90q\x9c", "\x7f", "\x08\x08", "\x00",
    "\u202e", "\u2066", "\u200f", "\u061c", "\u200b", "\ufeff", "\U000e0041",
    f"\n{FORGED}", f"\r\n{FORGED}", f"\r{FORGED}", f"\x0b{FORGED}", f"\x0c{FORGED}",
    f"\x85{FORGED}", f"\u2028{FORGED}", f"\u2029{FORGED}", f"\n  {FORGED}", f"\n\t{FORGED}",
)  # fmt: skip

RULES = """\
let own = pod.annotations["own"]
let container = pod.spec.containers[0]
filter "told" {
  require own == node.annotations["own"]
  message "wants {pod.labels[?'own'].orValue('nothing')}"
  detail "wants {own}, has {node.annotations['own']}"
}
filter "lost" { require node.labels[own] == "x" }
filter "late" { require node.status.conditions.exists(c, c.message == container.image) }
share "spot" { of replicas on nodes where node.annotations["own"] == own at most 50% strict }
score "names" weight 2 { value own == node.name ? 1 : 0 }
"""


def hostile(seed: int) -> str:
    dice = random.Random(seed)
    return "a" + "b".join(dice.sample(PARTS, len(PARTS)))


def written_by_users(item: Object, text: str) -> Object:
    """The object with a hostile text in every field whose text nobody checks."""
    metadata: dict[str, Any] = item["metadata"]
    metadata["annotations"] = {"own": text, f"key{text}": text}
    status: dict[str, Any] = item.setdefault("status", {})
    said = {"lastTransitionTime": "2026-11-21T10:00:00Z", "reason": text, "message": text}
    if item["kind"] == "Pod":
        container = item["spec"]["containers"][0]
        container |= {"image": text, "env": [{"name": "A", "value": text}]}
        item["spec"]["tolerations"] = [{"key": text, "operator": "Exists"}]
        status["conditions"] = [{"type": "PodScheduled", "status": "False", **said}]
        status |= {"message": text, "reason": text}
    if item["kind"] == "Node":
        status["conditions"] = [
            {"type": "Ready", "status": "True", **said},
            {"type": f"Own{text}", "status": text, **said},
        ]
        item["spec"] = {"taints": [{"key": text, "value": text, "effect": "PreferNoSchedule"}]}
    return item


def not_checked(item: Object, text: str) -> Object:
    """What a file can have and an API server refuses: hostile labels and quantities."""
    item["metadata"]["labels"] = {**item["metadata"].get("labels", {}), text: text}
    if item["kind"] == "Pod" and item["metadata"]["name"] == "web-1":
        item["spec"]["schedulerName"] = f"own{text}"
        item["spec"]["schedulingGates"] = [{"name": text}]
    return item


def harmless(done: Outcome, command: object) -> None:
    """Fails where an output could steer a terminal or has a forged line."""
    for out in (done.out, done.err):
        bad = {c for c in out if not c.isprintable() and c not in "\n\t"}
        assert not bad, (command, bad, out)
        # What a table or YAML has folded is indented.
        forged = [line for line in out.split("\n") if line.startswith(FORGED)]
        assert not forged, (command, forged, out)
    assert "Traceback" not in done.err, (command, done.err)


@pytest.fixture(autouse=True)
def environment(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KUBECONFIG", str(folder / "config"))
    monkeypatch.setenv("COLUMNS", "140")


POD = ("shop/web-1", "--cluster", "c.json", "--policies", "p.policy")
OF_FILES = (
    ("explain", *POD),
    ("explain", *POD, "-o", "wide"),
    ("explain", *POD, "-o", "json"),
    ("explain", *POD, "-o", "yaml"),
    ("explain", "shop/web-1", "n-2", *POD[1:]),
    ("explain", "--pod-file", "pod.yaml", *POD[1:]),
    ("eval", "pod.annotations", "--pod", "shop/web-1", "--cluster", "c.json"),
    ("eval", 'pod.annotations["own"]', "--pod", "shop/web-1", "--cluster", "c.json"),
    ("eval", 'node.labels[pod.annotations["own"]]', "--pod", "shop/web-1", "--node", "n-1",
     "--cluster", "c.json"),
    ("eval", 'int(pod.annotations["own"])', "--pod", "shop/web-1",
     "--cluster", "c.json"),
    ("eval", "node.annotations", "--cluster", "c.json", "-o", "json"),
    ("eval", "node.annotations", "--cluster", "c.json", "-o", "yaml"),
    ("simulate", "--cluster", "c.json", "--policies", "p.policy"),
    ("simulate", "--cluster", "c.json", "--policies", "p.policy", "-o", "json"),
    ("simulate", "--cluster", "c.json", "--policies", "p.policy", "--diff", "q.policy"),
    ("check", "p.policy", "q.policy", "broken.policy", "manifest.yaml", "--cluster", "c.json"),
    ("check", "broken.policy", "manifest.yaml", "-o", "plain"),
    ("check", "broken.policy", "manifest.yaml", "-o", "json"),
    ("check", "broken.policy", "manifest.yaml", "-o", "github"),
    ("check", "p.policy", "--cost", "--portable"),
    ("check", "none\x1b[31m\nFORGED.policy"),
    ("fmt", "--check", "broken.policy"),
    ("test", "broken.policy", "t.policy"),
    ("test", "t.policy", "--verbose"),
    ("compile", "p.policy", "--pod", "pod.yaml"),
    ("doctor", "scheduler.yaml"),
    ("doctor", "scheduler.yaml", "-o", "json"),
    ("doctor", "scheduler.yaml", "-o", "plain"),
    ("scheduler-config", "--from", "scheduler.yaml"),
)  # fmt: skip
ASKED_OF_THE_REPL = """\
:pod shop/web-1
pod.annotations["own"]
pod.spec.containers
node.annotations
:node n-1
int(pod.annotations["own"])
node.labels[pod.annotations["own"]]
:explain
:explain n-1
:explain -o wide
:check
"""


def write(folder: Path, seed: int) -> None:
    text = hostile(seed)
    items = [not_checked(written_by_users(item, text), text) for item in shop.cluster()]
    (folder / "c.json").write_bytes(raw(kubectl_list(items)))
    pod = next(item for item in items if item["metadata"]["name"] == "web-1")
    (folder / "pod.yaml").write_text(json.dumps(pod), encoding="utf-8")
    literal = json.dumps(text.encode("ascii", "backslashreplace").decode())
    in_line = text.replace("\n", " ").replace("\r", " ")
    rules = RULES.replace('"names"', '"names" # ' + in_line + "\n")
    files = {
        "p.policy": f'policy p in namespace "shop" {{\n{rules}}}\n',
        "q.policy": 'policy q { filter "a" { require node.ready } }\n',
        "broken.policy": (
            f"policy b {{ filter {literal} {{ require node.nme == {literal} }} # {in_line}\n}}\n"
            f"policy c {{ {in_line} }}\n"
        ),
        "t.policy": (
            f'policy t {{ filter "a" {{ require pod.annotations["own"] == node.name }}\n'
            f'test "it says so" {{ node "n" {{ }} pod "p" {{ annotations {{ "own" = {literal} }}'
            " } expect passes } }\n"
        ),
    }
    for name, content in files.items():
        (folder / name).write_text(content, encoding="utf-8", errors="replace")
    manifest = policy("m", f'filter "f" {{ require node.nme == "a" }} # {in_line}')
    manifest["metadata"]["labels"] = {text: text}
    manifest["spec"]["targetSize"] = text
    (folder / "manifest.yaml").write_text(yaml.safe_dump(manifest), encoding="utf-8")
    extender = {"urlPrefix": f"http://localhost:1/{text}", "filterVerb": text, text: text}
    scheduler = {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "profiles": [{"schedulerName": text, "plugins": {text: {"disabled": [{"name": text}]}}}],
        "extenders": [extender],
    }
    (folder / "scheduler.yaml").write_text(yaml.safe_dump(scheduler), encoding="utf-8")


@pytest.mark.parametrize("command", OF_FILES, ids=" ".join)
def test_commands_over_files(placet: Placet, folder: Path, command: tuple[str, ...]) -> None:
    write(folder, len(" ".join(command)))
    harmless(placet(*command), command)


def test_the_repl(placet: Placet, folder: Path) -> None:
    write(folder, 1)
    arguments = ("repl", "--cluster", "c.json", "--policies", "p.policy")
    done = placet(*arguments, stdin=ASKED_OF_THE_REPL)
    harmless(done, arguments)
    assert "FORGED" in done.out


OF_A_CLUSTER = (
    ("explain", "web-1"),
    ("explain", "web-1", "-o", "wide"),
    ("explain", "web-1", "-o", "json"),
    ("explain", "web-1", "-o", "yaml"),
    ("explain", "web-1", "n-2"),
    ("explain",),
    ("explain", "-A"),
    ("explain", "-A", "-o", "wide"),
    ("explain", "-A", "-o", "json"),
    ("eval", "pod.annotations", "--pod", "web-1"),
    ("repl",),
)


@pytest.mark.parametrize("command", OF_A_CLUSTER, ids=" ".join)
async def test_commands_over_a_cluster(
    placet: Placet, folder: Path, command: tuple[str, ...]
) -> None:
    text = hostile(len(" ".join(command)))
    items = [written_by_users(item, text) for item in shop.cluster()]
    broken = policy("broken", f'filter "f" {{ require node.nme == "{text}" }} # {text}')
    broken["status"] = {"conditions": [{"type": "Ready", "status": text, "message": text}]}
    async with live_cluster(folder, *items, policy("p", RULES), broken) as server:
        put_event(server, "web-1", f"0/4 nodes are available: 4 {text}.")
        harmless(await asked(placet, *command, stdin=ASKED_OF_THE_REPL), command)


async def test_a_caller_with_few_rights(placet: Placet, folder: Path) -> None:
    text = hostile(7)
    items = [written_by_users(item, text) for item in shop.cluster()]
    broken = policy("broken", "filter")
    broken["status"] = {"conditions": [{"type": "Ready", "status": text, "message": text}]}
    async with live_cluster(folder, *items, broken) as server:
        put_event(server, "web-1", text)
        server.forbidden = {"/api/v1/nodes", "/api/v1/pods"}
        done = await asked(placet, "explain", "web-1")
    harmless(done, "few rights")
    assert "which nodes would pass is not known" in done.out


@pytest.fixture
def view(folder: Path) -> Iterator[str]:
    """The address of a view with a decision about a hostile pod."""
    text, journal = hostile(3), Journal()
    items = [written_by_users(item, text) for item in shop.cluster()]
    rules = f'policy p in namespace "shop" {{\n{RULES}}}\n'
    nodes = [item for item in items if item["kind"] == "Node"]
    engine = engine_of(rules, nodes, after=AfterDecision(journal=journal))
    pod = next(item for item in items if item["metadata"]["name"] == "web-1")
    engine.filter(raw(pod), [each["metadata"]["name"] for each in nodes], None, float("inf"))
    with running(Parts(journal)) as found:
        yield found.urls[0]


@pytest.mark.parametrize(
    "command",
    [
        ("decisions",),
        ("decisions", "shop/web-1"),
        ("decisions", "shop/web-1", "n-2"),
        ("decisions", "-o", "json"),
        ("decisions", "shop/web-1", "-o", "yaml"),
        ("status",),
        ("status", "-o", "json"),
    ],
    ids=" ".join,
)
def test_commands_over_a_replica(placet: Placet, view: str, command: tuple[str, ...]) -> None:
    harmless(placet(*command, "--url", view), command)


def test_whatever_is_printed_is_escaped(capsys: pytest.CaptureFixture[str]) -> None:
    """Also by a library, or by a command that does not think of it."""
    text = hostile(8)
    with escaped_streams():
        sys.stdout.write(text)
        sys.stderr.writelines([text, "\n"])
        beneath(sys.stdout).write("\x1b[1mours\x1b[0m\n")
    out, err = capsys.readouterr()
    assert out.endswith("\x1b[1mours\x1b[0m\n")
    assert {c for c in out.rpartition("\x1b[1m")[0] + err if not c.isprintable()} <= {"\n", "\t"}


def test_json_keeps_what_a_text_is(placet: Placet, folder: Path) -> None:
    write(folder, 5)
    done = placet(
        "eval", 'pod.annotations["own"]', "--pod", "shop/web-1", "--cluster", "c.json", "-o", "json"
    )
    assert json.loads(done.out) == hostile(5)


@pytest.mark.process
def test_colours_are_only_our_own(folder: Path) -> None:
    write(folder, 6)
    command = [sys.executable, "-m", "cli", "explain", *POD]
    repository = Path(__file__).parents[2]
    environment = {**os.environ, "PYTHONPATH": str(repository), "TERM": "xterm-256color"}
    environment.pop("NO_COLOR", None)
    with terminal(command, folder, environment) as screen:
        screen.expect("nodes? pass")
        screen.ends()
    shown = screen.raw.decode()
    assert "\x1b[3" in shown
    text = re.sub(r"\x1b\[[0-9;]*m", "", shown)
    assert not {c for c in text if not c.isprintable() and c not in "\r\n"}
    assert "\x1b[31mb" not in shown
