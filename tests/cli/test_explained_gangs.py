"""Gangs in explanations: one account in the terminal, as data, in the REPL, and of a replica."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest

from cli.console import put
from cli.explanation import parts_of
from cli.repl.conversation import ReplSession, answer
from engine.errors import own_text
from engine.explanation.cause import cause_of
from engine.explanation.document import PodExplanation
from engine.gangs.gang import GangExplanation, GangMember, part_of
from tests.cli.conftest import Placet
from tests.cli.shop import snapshot
from tests.support.builders import controller, kubectl_list, node, pod, raw

MEMBERS = "example.com/members"
POLICY = f"""
policy gangs {{
  for pods where "job" in pod.labels
  gang "together" {{
    of pods by peer.labels["job"]
    at least int(pod.annotations["{MEMBERS}"])
    within node.labels["rack"]
  }}
}}
"""
WORLD = ("--cluster", "cluster.json", "--policies", "gangs.policy")


def gang(job: str, size: int, exist: int) -> list[dict[str, Any]]:
    made = [pod(f"{job}-{n}", "shop", cpu="1", labels={"job": job}) for n in range(exist)]
    for each in made:
        each["metadata"]["annotations"] = {MEMBERS: str(size)}
    return made


@pytest.fixture(autouse=True)
def files(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "100")
    nodes = [node(f"n{i}", cpu="2", labels={"rack": f"r{i // 2}"}) for i in range(4)]
    pods = [*gang("a", 4, 4), *gang("b", 3, 2), *gang("c", 5, 5)]
    (folder / "cluster.json").write_bytes(raw(kubectl_list([*nodes, *pods])))
    (folder / "gangs.policy").write_text(POLICY)


def test_a_gang_that_fits_is_shown_with_its_places(placet: Placet) -> None:
    done = placet("explain", "shop/a-1", *WORLD)
    assert "cause:" not in done.out
    assert (
        """
gang shop/a (gangs: together): 4 needed, 4 exist, 4 have a place
  it fits now
member    is      node
shop/a-0  placed  n0
shop/a-1  placed  n0
shop/a-2  placed  n1
shop/a-3  placed  n1
"""
        in done.out
    )
    assert "\n1 of 4 nodes passes\n" in done.out


@pytest.mark.parametrize(
    ("name", "cause", "state"),
    [
        (
            "b-0",
            (
                "cause: its gang waits: 2 of 3 members exist (gangs: together)\n"
                "  = help: create the other members, or ask for fewer with `at least`\n"
            ),
            (
                "gang shop/b (gangs: together): 3 needed, 2 exist, 0 have a place\n"
                "  it waits: 2 of 3 members exist\n"
            ),
        ),
        (
            "c-4",
            (
                "cause: its gang waits: 4 of 5 members fit, in r1 (gangs: together)\n"
                "  = help: make room for all members at the same time, or ask for fewer with"
                " `at least`\n"
            ),
            (
                "gang shop/c (gangs: together): 5 needed, 5 exist, 0 have a place\n"
                "  it waits: 4 of 5 members fit, in r1\n"
            ),
        ),
    ],
)
def test_a_gang_that_waits_says_what_for(placet: Placet, name: str, cause: str, state: str) -> None:
    done = placet("explain", f"shop/{name}", *WORLD)
    assert done.out.startswith(cause)
    assert state in done.out
    assert "without gangs: together: 4 more nodes would pass" in done.out


def test_data_and_the_repl_have_the_same_account(
    placet: Placet, capsys: pytest.CaptureFixture[str]
) -> None:
    done = placet("explain", "shop/b-1", *WORLD, "-o", "json")
    found = msgspec.json.decode(done.out, type=PodExplanation).gang
    assert found is not None
    assert (found.policy, found.clause, found.name) == ("gangs", "together", "shop/b")
    assert (found.quorum, found.exist, found.placed, found.state) == (3, 2, 0, "waiting")
    origin = snapshot("cluster.json")
    session = ReplSession([Path("gangs.policy")], origin)
    session.reload()
    answer(session, ":pod shop/b-1")
    capsys.readouterr()
    answer(session, ":explain")
    shown = capsys.readouterr().out
    assert "gang shop/b (gangs: together): 3 needed, 2 exist" in shown
    assert "shop/b-0  waiting" in shown


def test_one_node_says_that_the_gang_has_another(placet: Placet) -> None:
    done = placet("explain", "shop/a-0", "n3", *WORLD)
    assert "gangs: together fails: another node was chosen" in done.out


# ---- what a replica tells


def told(state: Any, text: str, name: str = "shop/a-0", **more: Any) -> PodExplanation:
    members = [
        GangMember("shop/a-0", "held", "node-3", 12.0),
        GangMember("shop/a-1", "placed", "node-4"),
        GangMember("shop/a-2", "waiting"),
    ]
    fields = {"seconds": None, "againIn": None, "exist": 3, "placed": 2, "held": 1, "bound": 0}
    found = GangExplanation(
        policy="gangs",
        clause="together",
        name="shop/a",
        message="together",
        quorum=2,
        state=state,
        text=text,
        members=members,
        **{**fields, **more},
    )
    part = part_of(found, name, alone=False)
    return PodExplanation(replica="placet-0", pod=name, at="", on=None, gang=found, parts=[part])


def waiting(name: str) -> dict[str, Any]:
    return pod(name, "shop")


@pytest.mark.parametrize(
    ("name", "where"),
    [
        ("a-0", "held on `node-3` since 12 s"),
        ("a-1", "its gang gathers since 14 s, and it has a place on `node-4`"),
        ("a-2", "its gang gathers since 14 s, and it has no place yet"),
    ],
)
def test_a_member_of_a_gang_that_gathers_says_how_far_it_is(name: str, where: str) -> None:
    text = f"{where}: 1 of 2 members are here (gangs: together)"
    found = told("gathering", "1 of 2 members are here", f"shop/{name}", seconds=14.0)
    cause = cause_of(waiting(name), (), found, ())
    assert cause is not None
    assert (cause.kind, cause.text) == ("gang", text)


def test_without_bind_the_cause_is_that_of_placet_and_not_of_the_gang() -> None:
    """Neither the other members nor room for them would help."""
    words = "policy shop/gangs holds gangs at bind: serve with `--bind`"
    asked = waiting("a-0")
    condition = {"type": "PodScheduled", "status": "False", "message": own_text(words)}
    asked["status"] = {"phase": "Pending", "conditions": [condition]}
    for state in ("waiting", "fits"):
        cause = cause_of(asked, [], told(state, "1 of 2 members exist"), ())
        assert cause is not None
        assert (cause.kind, cause.text) == ("placet", f"Placet itself keeps it waiting: {words}")


@pytest.mark.parametrize("words", ["its gang was given up", "policy p is not enforced: no valid"])
def test_a_member_is_held_whatever_was_said_before(words: str) -> None:
    asked = waiting("a-0")
    condition = {"type": "PodScheduled", "status": "False", "message": own_text(words)}
    asked["status"] = {"phase": "Pending", "conditions": [condition]}
    cause = cause_of(asked, [], told("gathering", "1 of 2 members are here", seconds=14.0), ())
    assert cause is not None
    assert cause.text.startswith("held on `node-3` since 12 s: 1 of 2 members are here")


def test_the_members_of_a_gang_that_gathers_have_rows(capsys: pytest.CaptureFixture[str]) -> None:
    put(parts_of(told("gathering", "1 of 2 members are here", seconds=14.0)))
    assert (
        capsys.readouterr().out
        == """
gang shop/a (gangs: together): 2 needed, 3 exist, 2 have a place, 1 held
  it gathers since 14 s: 1 of 2 members are here
member    is               node
shop/a-0  held since 12 s  node-3
shop/a-1  placed           node-4
shop/a-2  waiting
"""
    )


@pytest.mark.parametrize("command", [("simulate",), ("check", "gangs.policy")])
def test_commands_warn_of_a_set_that_makes_one_pod_after_another(
    placet: Placet, folder: Path, command: tuple[str, ...]
) -> None:
    owner = controller("StatefulSet", "db", "shop", replicas=2)
    pods = [pod(f"db-{n}", "shop", owner=owner, labels={"job": "db"}) for n in range(2)]
    (folder / "cluster.json").write_bytes(raw(kubectl_list([node("n0"), owner, *pods])))
    (folder / "gangs.policy").write_text('policy all in namespace "shop" { gang "all" { } }')
    files = WORLD if command == ("simulate",) else WORLD[:2]
    done = placet(*command, *files)
    said = "shop: StatefulSet/db makes one pod after another, so its gang waits (shop/all: all)"
    assert said in done.out + done.err


@pytest.mark.parametrize("command", [("simulate",), ("check", "gangs.policy")])
def test_commands_warn_of_what_a_pod_group_says_otherwise(
    placet: Placet, folder: Path, command: tuple[str, ...]
) -> None:
    group = {
        "apiVersion": "scheduling.k8s.io/v1alpha2",
        "kind": "PodGroup",
        "metadata": {"name": "g", "namespace": "shop"},
        "spec": {"schedulingPolicy": {"gang": {"minCount": 2}}},
    }
    member = pod("m", "shop", spec={"schedulingGroup": {"podGroupName": "g"}})
    (folder / "cluster.json").write_bytes(raw(kubectl_list([node("n0"), group, member])))
    text = 'policy all in namespace "shop" { gang "all" { at least 3 } }'
    (folder / "gangs.policy").write_text(text)
    files = WORLD if command == ("simulate",) else WORLD[:2]
    done = placet(*command, *files)
    said = "shop: PodGroup g says minCount 2 and not 3 (shop/all: all)"
    assert said in done.out + done.err
