"""The edits and the states of policies, and objects as YAML."""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import FrameType
from typing import Any

import msgspec
import pytest
from aiohttp import ClientSession

from engine.decision.journal import Journal
from engine.enforced import EnforcedPolicies
from engine.explanation.fills import selects
from engine.objects.request_pod import decode_namespace
from server.view.history import History
from server.view.policy_yaml import as_written
from server.view.routes import ViewQuestion
from tests.support.builders import namespace, node, pod, raw
from tests.support.engines import Known, cache_of
from tests.support.view_server import Cluster, Parts, history_of, states_of, view_of

NAME = "placementpolicies/shop/share"
AT = "2026-11-21T12:00:00Z"


def policy(rules: str, *, status: int = 0, manager: str = "kubectl", at: str = AT) -> bytes:
    annotations = {
        "team": "web",
        "kubectl.kubernetes.io/last-applied-configuration": "{}",
    }
    metadata = {"name": "share", "namespace": "shop", "uid": "u", "annotations": annotations}
    written = [{"manager": manager, "time": at}]
    return msgspec.json.encode(
        {
            "apiVersion": "placement-policy.scheduling.x-k8s.io/v1",
            "kind": "PlacementPolicy",
            "metadata": metadata | {"managedFields": written, "resourceVersion": str(status)},
            "spec": {"podSelector": {"matchLabels": {"app": "web"}}, "rules": rules},
            "status": {"matchedPods": status},
        }
    )


def read(text: str = "", bodies: Mapping[str, bytes] | None = None) -> EnforcedPolicies:
    return Cluster(text, bodies=bodies or {}).enforced


def look(seen: History, at: str, text: str = "", *, stored: bytes | None = None) -> None:
    named = {} if stored is None else {NAME: stored}
    seen.look(read(text, named), named, at)


RULES = 'filter "a" {\n  require true\n}\n'


def test_an_edit_of_an_object_has_its_manager_and_a_status_is_none() -> None:
    seen = history_of()
    look(seen, AT, stored=policy(RULES))
    look(seen, "2026-11-21T12:01:00Z", stored=policy(RULES, status=5))
    (edit,) = seen.edits
    assert (edit.at, edit.by, edit.action) == (AT, "kubectl", "edited")
    later = "2026-11-21T12:02:00Z"
    look(seen, later, stored=policy(RULES * 2, manager="argocd", at=later))
    (edit,) = seen.edits
    assert (edit.at, edit.by, edit.action) == (later, "argocd", "edited")
    look(seen, "2026-11-21T12:03:00Z")
    (edit,) = seen.edits
    assert (edit.at, edit.action) == ("2026-11-21T12:03:00Z", "deleted")


def test_a_file_has_edits_since_the_start_alone() -> None:
    seen = history_of()
    look(seen, AT, 'policy web { filter "a" { require true } }')
    assert seen.edits == []
    look(seen, "2026-11-21T12:01:00Z", 'policy web { filter "b" { require true } }')
    look(seen, "2026-11-21T12:02:00Z", 'policy web { filter "b" { require true } } policy x {}')
    first = [(each.address, each.action) for each in seen.edits]
    assert first == [("x", "edited"), ("web", "edited")]


def test_an_object_is_written_as_its_author_did() -> None:
    assert as_written(policy(RULES)) == (
        "apiVersion: placement-policy.scheduling.x-k8s.io/v1\n"
        "kind: PlacementPolicy\n"
        "metadata:\n"
        "  name: share\n"
        "  namespace: shop\n"
        "  annotations:\n"
        "    team: web\n"
        "spec:\n"
        "  podSelector:\n"
        "    matchLabels:\n"
        "      app: web\n"
        "  rules: |\n"
        '    filter "a" {\n'
        "      require true\n"
        "    }\n"
    )


def test_the_edits_are_bounded_and_the_last_stay() -> None:
    seen = history_of()
    look(seen, AT)
    look(seen, "2026-11-21T12:01:00Z", " ".join(f"policy p{n} {{}}" for n in range(150)))
    look(seen, "2026-11-21T12:02:00Z", "policy p0 {} ")
    look(seen, "2026-11-21T12:03:00Z", "policy p1 {}")
    assert len({each.address for each in seen.edits}) == len(seen.edits) == 100
    newest = [(each.address, each.action) for each in seen.edits[:2]]
    assert newest == [("p1", "edited"), ("p0", "deleted")]


def test_an_edit_ahead_of_the_clock_hides_no_later_one() -> None:
    """Who writes an object sets its time, and the clock may have been ahead."""
    seen = history_of()
    look(seen, "2027-01-01T00:00:00Z")
    look(seen, "2027-01-01T00:00:00Z", " ".join(f"policy p{n} {{}}" for n in range(100)))
    ahead = policy(RULES, at="2099-01-01T00:00:00Z")
    look(seen, AT, stored=ahead)
    assert (seen.edits[0].address, seen.edits[0].at) == ("shop/share", AT)
    later = "2026-11-21T12:01:00Z"
    look(seen, later, "policy web {}", stored=ahead)
    assert (seen.edits[0].address, seen.edits[0].at) == ("web", later)


async def test_a_restart_knows_what_was_there_before(tmp_path: Path) -> None:
    """And an edit while nobody looked is one."""
    first = history_of(tmp_path / "history")
    await first.read()
    look(first, AT, "policy web {} policy api {} policy old {}")
    await first.take({})
    again = history_of(tmp_path / "history")
    await again.read()
    look(again, "2026-11-21T13:00:00Z", "policy web {} policy api {} policy new {}")
    actions = {each.address: each.action for each in again.edits}
    assert actions == {"web": "edited", "api": "edited", "old": "deleted"}
    look(again, "2026-11-21T14:00:00Z", "policy web {} policy api {} policy new {}")
    assert len(again.edits) == 3


BROKEN = 'filter "a" {\n  require node.nme == "x"\n}\n'


async def test_problems_stand_at_the_lines_of_the_yaml() -> None:
    cluster = Cluster("", bodies={NAME: policy(BROKEN)})
    states = states_of(Parts(Journal(), cluster=cluster))
    found = (await states.policy(ViewQuestion({"namespace": "shop", "name": "share"})))()
    (problem,) = [each for each in found.diagnostics if each.severity == "error"]
    line = found.text.splitlines()[problem.line - 1]
    assert line == '      require node.nme == "x"'
    assert line[problem.column - 1 : problem.endColumn - 1] == "nme"


async def test_a_problem_of_a_field_stands_at_the_field() -> None:
    raw = policy(RULES).replace(b'"podSelector"', b'"weight":-1,"podSelector"')
    states = states_of(Parts(Journal(), cluster=Cluster("", bodies={NAME: raw})))
    found = (await states.policy(ViewQuestion({"namespace": "shop", "name": "share"})))()
    (problem,) = [each for each in found.diagnostics if each.severity == "error"]
    assert found.text.splitlines()[problem.line - 1] == "  weight: -1"


# ---- the policies of a replica over HTTP: state, text, problems, and the numbers of pods over time


TEXT = """
policy web { for pods where pod.labels["app"] == "web" filter "a" { require true } }
policy low { weight 0 missing pass for pods where true filter "b" { require node.nme == "x" } }
policy all { for pods where pod.labels["app"] != "" filter "c" { require node.name == "n" } }
"""
SPEC = {"podSelector": {"matchLabels": {"app": "web"}}}


def object_of(placed: int) -> bytes:
    return msgspec.json.encode(
        {
            "apiVersion": "placement-policy.scheduling.x-k8s.io/v1",
            "kind": "PlacementPolicy",
            "metadata": {"name": "share", "namespace": "shop", "uid": "u", "generation": 1},
            "spec": SPEC | {"rules": 'filter "d" { require true }'},
            "status": {"matchedPods": 5, "placedPods": placed, "targetPods": 2, "violations": 1},
        }
    )


async def asked(parts: Parts, *paths: str) -> Sequence[tuple[int, Any]]:
    found = []
    async with view_of(parts) as url, ClientSession(url) as session:
        for path in paths:
            async with session.get(path) as response:
                text = await response.text()
                found.append((response.status, json.loads(text) if response.ok else text))
    return found


def parts_of(placed: int = 1) -> Parts:
    journal = Journal()
    return Parts(journal, cluster=Cluster(TEXT, None, bodies={NAME: object_of(placed)}))


async def test_each_policy_has_its_state() -> None:
    ((_, found),) = await asked(parts_of(), "/api/v1/policies")
    states = {
        p["address"]: (p["state"], p["errors"], p["inForce"] and p["inForce"]["mode"])
        for p in found["policies"]
    }
    assert states == {
        "all": ("in force", 0, "enforce"),
        "low": ("not in force", 1, None),
        "shop/share": ("in force", 0, "enforce"),
        "web": ("in force", 0, "enforce"),
    }
    share = found["policies"][2]
    assert (share["namespace"], share["origin"]) == ("shop", NAME)
    assert share["pods"] == {
        "matchedPods": 5,
        "placedPods": 1,
        "targetPods": 2,
        "violations": 1,
    }


async def test_a_policy_has_its_pods_its_description_and_its_last_edit() -> None:
    labels = {"app": "web"}
    pods = [
        pod("a", "shop", labels=labels, on="n"),
        pod("b", "shop", labels=labels),
        pod("c", "bank", labels=labels, on="n"),
        pod("d", "shop", on="n"),
    ]
    text = """
cluster policy web {
  description "Web pods"
  for pods where pod.labels[?"app"] == optional.of("web") filter "a" { require true } }
policy own in namespace "bank" { for pods where pod.spec.nodeSelector.size() == 0
  filter "b" { require true } }
"""
    state = Known(cache_of([node("n")], pods))
    parts = Parts(Journal(), cluster=Cluster(text, bodies={NAME: policy(RULES)}, state=state))
    paths = ("policies", "policies/web", "policies/bank/own")
    listed, web, own = [f for _, f in await asked(parts, *(f"/api/v1/{path}" for path in paths))]
    keys = ("address", "description", "selected", "waiting")
    assert [tuple(each[key] for key in keys) for each in listed["policies"]] == [
        ("bank/own", "", 1, 0),
        ("shop/share", "", 2, 1),
        ("web", "Web pods", 3, 1),
    ]
    edits = [each["edit"] and each["edit"]["by"] for each in listed["policies"]]
    assert edits == [None, "kubectl", None]
    # Those that wait come first.
    assert web["listed"][0] == {"pod": "shop/b", "node": None}
    assert {"pod": "bank/c", "node": "n"} in web["listed"]
    # A policy of a namespace, whose readers may not see others, has pods of that namespace alone.
    assert own["listed"] == [{"pod": "bank/c", "node": "n"}]
    assert (web["exactly"], own["exactly"]) == (True, False)


async def test_the_pods_of_a_policy_are_at_most_twenty() -> None:
    pods = [pod(f"p{number}", "shop", labels={"app": "web"}, on="n") for number in range(30)]
    state = Known(cache_of([node("n")], pods))
    ((_, found),) = await asked(
        Parts(Journal(), cluster=Cluster(TEXT, state=state)), "/api/v1/policies/web"
    )
    assert (found["selected"], found["waiting"], len(found["listed"])) == (30, 0, 20)


async def test_labels_of_namespaces_select_pods() -> None:
    pods = [
        pod("a", "shop", on="n"),
        pod("b", "shop"),
        pod("c", "bank"),
        pod("d", "shop", on="new"),
    ]
    cache = cache_of([node("n")], pods)
    for name, team in (("shop", "x"), ("bank", "y")):
        cache.put_namespace(decode_namespace(raw(namespace(name, {"team": team}))))
    text = """policy team { for pods where namespaceObject.labels["team"] == "x"
      filter "a" { require true } }"""
    parts = Parts(Journal(), cluster=Cluster(text, state=Known(cache)))
    ((_, found),) = await asked(parts, "/api/v1/policies/team")
    assert (found["selected"], found["waiting"], found["exactly"]) == (3, 1, True)
    assert {"pod": "shop/d", "node": "new"} in found["listed"], "its node is not known yet"


async def test_a_policy_is_evaluated_once_for_pods_that_are_alike() -> None:
    """Also those of other kinds that wait come first."""
    labels = [{"app": f"a{number % 3}"} for number in range(90)]
    pods = [pod(f"p{n:02}", "shop", labels=has, on="n") for n, has in enumerate(labels)]
    state = Known(cache_of([node("n")], [*pods, pod("w", "shop", labels={"app": "a2"})]))
    text = "\n".join(
        f"""policy p{number} {{ for pods where pod.labels["app"] != "a{number}"
          filter "a" {{ require true }} }}"""
        for number in range(20)
    )
    states, calls = states_of(Parts(Journal(), cluster=Cluster(text, state=state))), 0

    def profile(frame: FrameType, event: str, _: object) -> None:
        nonlocal calls
        calls += event == "call" and frame.f_code is selects.__code__

    before = sys.getprofile()
    sys.setprofile(profile)
    try:
        make = await states.policies(ViewQuestion())
    finally:
        sys.setprofile(before)
    assert {p.address: (p.selected, p.waiting) for p in make().policies} == {
        f"p{number}": (91 - 30 * (number < 3) - (number == 2), int(number != 2))
        for number in range(20)
    }
    assert calls == 3 * 20
    detail = await states.policy(ViewQuestion({"name": "p0"}))
    assert detail().listed[0].pod == "shop/w"


async def test_a_policy_has_its_text_and_what_is_wrong_with_it() -> None:
    ((_, found),) = await asked(parts_of(), "/api/v1/policies/low")
    (problem,) = [each for each in found["diagnostics"] if each["severity"] == "error"]
    lines = found["text"].splitlines()
    part = lines[problem["line"] - 1][problem["column"] - 1 : problem["endColumn"] - 1]
    assert (part, problem["line"], problem["endLine"]) == ("nme", 3, 3)
    assert "name" in problem["hint"]


async def test_a_policy_is_overruled_by_those_that_governed_its_pods() -> None:
    parts = parts_of()
    parts.engine.filter(raw(pod("w", labels={"app": "web"})), ["n"], None, math.inf)
    ((_, found),) = await asked(parts, "/api/v1/policies")
    assert {p["address"]: p["overruledBy"] for p in found["policies"]}["web"] == ["all"]


@pytest.mark.parametrize("path", ["none", "shop/none", "web/shop", "%00", "a%2Fb"])
async def test_an_unknown_policy_is_not_found(path: str) -> None:
    ((status, text),) = await asked(parts_of(), f"/api/v1/policies/{path}")
    assert status == 404
    assert text.startswith("there is no policy `")
