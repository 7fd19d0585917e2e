"""`placet decisions`: what replicas tell, by a URL and through the API server."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from engine.decision.journal import Journal
from engine.decision.preemption import Victims
from engine.decision.recent_answers import AfterDecision
from engine.engine import Engine
from grammar.values.time import Timestamp
from tests.cli.conftest import Placet
from tests.support.builders import node, pod, raw
from tests.support.engines import engine_of
from tests.support.kubeconfig import kubeconfig
from tests.support.view_server import ForwardingApi, Parts, Running, running

POLICY = """
policy web {
  for pods where pod.namespace == "shop"
  filter "fast" { require node.labels["disk"] == "ssd" message "wants a fast disk" }
}
"""
NODES = [node("n1", labels={"disk": "ssd"}), node("n2", labels={"disk": "hdd"})]
NAMES = ["n1", "n2"]


def journal_at(time: str, *pods: str) -> tuple[Journal, Engine]:
    """A journal with a decision about each pod, and the engine that writes it."""
    journal = Journal(now=lambda: Timestamp.parse(f"2026-11-21T{time}Z"))
    engine = engine_of(POLICY, NODES, after=AfterDecision(journal=journal))
    for each in pods:
        decide(engine, each)
    return journal, engine


def decide(engine: Engine, address: str) -> None:
    namespace, _, name = address.partition("/")
    engine.filter(raw(pod(name, namespace)), NAMES, None, math.inf)


@pytest.fixture(autouse=True)
def environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "96")


@pytest.fixture
def one() -> Iterator[Running]:
    """A view with three decisions."""
    journal, _ = journal_at("12:00:00", "far/tool", "far/web-1", "shop/web-1")
    with running(Parts(journal)) as found:
        yield found


def test_a_url_lists_decisions(placet: Placet, one: Running) -> None:
    assert placet("decisions", "--url", one.urls[0]).out == LISTING


def test_a_pod_shows_its_reasons(placet: Placet, one: Running) -> None:
    url = ("--url", one.urls[0])
    assert placet("decisions", "shop/web-1", *url).out == DECISION
    assert placet("decisions", "tool", *url).out.endswith("2 of 2 nodes pass\n")
    passing = placet("decisions", "shop/web-1", "n1", *url).out
    assert passing.endswith("node n1 passes\nnot scored\n")
    failing = placet("decisions", "shop/web-1", "n2", *url).out
    assert failing.endswith("node n2 fails by web: fast: wants a fast disk\n")


LISTING = """\
pod         asked at              pass  of  governed by
shop/web-1  2026-11-21T12:00:00Z     1   2  web
far/web-1   2026-11-21T12:00:00Z     2   2
far/tool    2026-11-21T12:00:00Z     2   2
"""
DECISION = """\
pod shop/web-1, asked about at 2026-11-21T12:00:00Z

policy  applies  because
web     governs

nodes  verdict  why                           which
    1  pass                                   n1
    1  fail     web: fast: wants a fast disk  n2

1 of 2 nodes passes
"""


LIMIT = """
policy web {
  for pods where pod.namespace == "shop"
  limit "one" { pods where peer.labels["app"] == "web" per node at most 1 strict }
}
"""
PREEMPTED = """\
pod shop/web-1, asked about at 2026-11-21T12:00:00Z

policy  applies  because
web     governs

preempt kept 2 of 3 nodes where kube-scheduler may evict pods, at 2026-11-21T12:00:00Z
"""


def test_a_pod_shows_what_preempt_has_kept(placet: Placet) -> None:
    labels = {"app": "web"}
    there = pod("a", "shop", on="n1", labels=labels)
    other = pod("other", "shop", on="n2", labels={"app": "db"})
    journal = Journal(now=lambda: Timestamp.parse("2026-11-21T12:00:00Z"))
    engine = engine_of(LIMIT, NODES, [there, other], after=AfterDecision(journal=journal))
    asked = raw(pod("web-1", "shop", labels=labels, priority=9))
    first, second = there["metadata"]["uid"], other["metadata"]["uid"]
    proposed = {"n1": Victims([first], 0), "n2": Victims([second], 0), "n9": Victims(["u"], 0)}
    engine.preempt(asked, proposed, math.inf)
    with running(Parts(journal)) as found:
        url = ("--url", found.urls[0])
        assert placet("decisions", "web-1", *url).out == PREEMPTED
        (detail,) = json.loads(placet("decisions", "web-1", "-o", "json", *url).out)["replicas"]
    assert detail["preemption"] == {
        "at": "2026-11-21T12:00:00Z",
        "offered": 3,
        "kept": 2,
    }


@pytest.mark.parametrize(
    ("arguments", "message", "hint"),
    [
        (
            "web-1",
            "several pods are called `web-1`: `far/web-1`, `shop/web-1`",
            "give the namespace too, as in `far/web-1`",
        ),
        (
            "shop/web-9",
            "no replica has a decision about `shop/web-9`",
            "list the recorded decisions with: placet decisions",
        ),
        (
            "web-9",
            "no replica has a decision about `web-9`",
            "list the recorded decisions with: placet decisions",
        ),
    ],
)
def test_what_is_not_there_is_an_error(
    placet: Placet, one: Running, arguments: str, message: str, hint: str
) -> None:
    done = placet("decisions", *arguments.split(), "--url", one.urls[0])
    assert (done.code, done.err) == (2, f"error: {message}\n  = help: {hint}\n")


def test_a_node_that_was_not_offered_is_an_error(placet: Placet, one: Running) -> None:
    done = placet("decisions", "shop/web-1", "n9", "--url", one.urls[0])
    message = "kube-scheduler did not send node `n9` as a candidate"
    assert (done.code, done.err.splitlines()[0]) == (2, f"error: {message}")


@pytest.mark.parametrize("form", ["json", "yaml"])
def test_answers_are_data(placet: Placet, one: Running, form: str) -> None:
    url = ("--url", one.urls[0])
    read = json.loads if form == "json" else yaml.safe_load
    (listing,) = read(placet("decisions", "-o", form, *url).out)["replicas"]
    assert (listing["replica"], len(listing["decisions"])) == ("placet-0", 3)
    (detail,) = read(placet("decisions", "tool", "-o", form, *url).out)["replicas"]
    assert (detail["pod"], detail["groups"]) == ("far/tool", [])


def test_an_empty_journal_says_so(placet: Placet) -> None:
    with running(Parts(Journal())) as found:
        assert placet("decisions", "--url", found.urls[0]).out == "there are no decisions yet\n"


# ---- through the API server


def through(api: Running, folder: Path) -> tuple[str, str]:
    return "--kubeconfig", str(kubeconfig(folder / "kubeconfig", api.api_url, {"token": "t"}))


def test_every_replica_is_asked_and_named(placet: Placet, tmp_path: Path) -> None:
    """The newest decision about a pod comes first."""
    old, _ = journal_at("12:00:00", "shop/web-1")
    new, _ = journal_at("12:00:09", "shop/web-1")
    api = ForwardingApi({})
    with running(Parts(old), Parts(new, "placet-1"), api=api) as found:
        flags = through(found, tmp_path)
        assert placet("decisions", *flags).out == LISTING_OF_TWO
        shown = placet("decisions", "shop/web-1", *flags).out
        assert "asked about at 2026-11-21T12:00:09Z, by replica placet-1\n" in shown
        assert shown.endswith("replica placet-0 was asked at 2026-11-21T12:00:00Z\n")
        one = placet("decisions", "--replica", "placet-0", "-o", "json", *flags)
        assert [each["replica"] for each in json.loads(one.out)["replicas"]] == ["placet-0"]
    assert api.asked[0] == "labelSelector=app.kubernetes.io/name%3Dplacet&limit=500"
    assert "ports=12346" in api.asked


LISTING_OF_TWO = """\
pod         asked at              pass  of  governed by  replica
shop/web-1  2026-11-21T12:00:09Z     1   2  web          placet-1
shop/web-1  2026-11-21T12:00:00Z     1   2  web          placet-0
"""


def test_a_replica_that_does_not_answer_is_named(placet: Placet, tmp_path: Path) -> None:
    journal, _ = journal_at("12:00:00", "shop/web-1")
    with running(Parts(journal), api=ForwardingApi({"placet-9": None})) as found:
        done = placet("decisions", *through(found, tmp_path))
    assert (done.code, len(done.out.splitlines())) == (1, 2)
    message = "error: cannot reach `placet-9`: the kubelet cannot forward the port: "
    assert done.err.startswith(message)


@pytest.mark.parametrize(
    ("api", "flags", "message"),
    [
        (
            ForwardingApi({"placet-0": None}, forbids=True),
            (),
            "you may not forward a port of pod `placet-0`",
        ),
        (ForwardingApi({}), ("--replica", "placet-7"), "there is no pod `placet-7`"),
        (
            ForwardingApi({}),
            (),
            "namespace `kube-system` has no running pod with `app.kubernetes.io/name=placet`",
        ),
        (
            ForwardingApi({"placet-0": None}, phase="Pending"),
            ("--placet-namespace", "a", "--selector", "b=c"),
            "namespace `a` has no running pod with `b=c`",
        ),
        (
            ForwardingApi(dict.fromkeys(map(str, range(17)))),
            (),
            "17 pods have the labels `app.kubernetes.io/name=placet`, more than replicas do",
        ),
    ],
    ids=["forbidden", "no-such-pod", "none", "pending", "many"],
)
def test_what_is_in_the_way_is_a_clear_error(
    placet: Placet, tmp_path: Path, api: ForwardingApi, flags: tuple[str, ...], message: str
) -> None:
    with running(api=api) as found:
        done = placet("decisions", *flags, *through(found, tmp_path))
    assert (done.code, done.out) == (2, "")
    assert done.err.splitlines()[0] == f"error: {message}"
    assert "  = help: " in done.err


def test_large_answers_come_whole(placet: Placet, tmp_path: Path) -> None:
    """Through many messages of the WebSocket."""
    journal, engine = journal_at("12:00:00")
    for number in range(999):
        decide(engine, f"far/web-{number:03}-{'x' * 200}")
    with running(Parts(journal)) as found:
        done = placet("decisions", "-o", "json", *through(found, tmp_path))
    assert len(json.loads(done.out)["replicas"][0]["decisions"]) == 999


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("--url nowhere", "`nowhere` is not a URL of a view"),
        ("--url https://127.0.0.1:1", "`https://127.0.0.1:1` is not a URL of a view"),
        ("--url http://host:99999", "`http://host:99999` is not a URL of a view"),
        ("--url http://127.0.0.1:1/api", "`http://127.0.0.1:1/api` names more than a server"),
        ("--url http://127.0.0.1:1/?a=b", "`http://127.0.0.1:1/?a=b` names more than a server"),
        ("--url http://[::1", "`http://[::1` is not a URL of a view"),
        ("--url http://127.0.0.1:1", "cannot reach `http://127.0.0.1:1`: connection refused"),
        ("--kubeconfig none", "there is no kubeconfig `none`"),
    ],
)
def test_wrong_flags_are_clear_errors(placet: Placet, arguments: str, message: str) -> None:
    done = placet("decisions", *arguments.split())
    assert (done.code, done.out) == (2, "")
    assert done.err.splitlines()[0].startswith(f"error: {message}")
