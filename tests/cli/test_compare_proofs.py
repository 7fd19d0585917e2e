"""`placet compare` with the extra `proofs`: each kind of edit is told, and told for all worlds."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.cli.conftest import Placet

SHOP = """policy shop in namespace "shop" {
  missing fail
  for pods where pod.labels["tier"] in ["web", "api"] && pod.labels["app"] == "shop"
  let small = pod.requests["memory"] <= "1Gi"

  filter "room" when pod.priority < 1000 { require node.free["cpu"] >= "2" }
  filter "place" {
    require node.labels["pool"] in ["a", "b"] && !node.spec.unschedulable
    require small || node.labels["size"].startsWith("x")
  }
  limit "few" { per node at most 3 strict }
  share "spot" { of replicas on nodes where node.labels["pool"] == "b" at most 40% strict }
}
"""
# Kinds of edits: the old text, the new one, and what the answer is.
EDITS = {
    "an order": ('node.free["cpu"] >= "2"', 'node.free["cpu"] > "2"', "stricter"),
    "a looser order": ('<= "1Gi"', '< "2Gi"', "laxer"),
    "a label dropped": (' && pod.labels["app"] == "shop"', "", "stricter"),
    "a when added": ('filter "place" {', 'filter "place" when pod.priority > 0 {', "laxer"),
    "a when moved": ("pod.priority < 1000", "pod.priority > 1000", "neither"),
    "a percentage": ("at most 40%", "at most 20%", "stricter"),
    "a number": ("at most 3 strict", "at most 4 strict", "laxer"),
    "strict to best effort": ("at most 3 strict", "at most 3 weight 5", "laxer"),
    "a namespace widened": ('policy shop in namespace "shop"', "policy shop", "stricter"),
    "a namespace moved": ('in namespace "shop"', 'in namespace "other"', "neither"),
    "a require removed": (" && !node.spec.unschedulable", "", "laxer"),
    "a require added": (
        "{ require node.free",
        "{ require node.ready require node.free",
        "stricter",
    ),
    "a member added": ('in ["a", "b"]', 'in ["a", "b", "c"]', "laxer"),
    "a pod selected": ('["web", "api"]', '["web", "api", "db"]', "stricter"),
    "a negation": ("!node.spec", "node.spec", "neither"),
    "missing pass": ("missing fail", "missing pass", "laxer"),
    "an amount": ('>= "2"', '>= "2001m"', "stricter"),
    "a prefix": ('startsWith("x")', 'startsWith("xl")', "stricter"),
    "audit": ("missing fail", "missing fail\n  mode audit", "laxer"),
    "a clause removed": ('limit "few" { per node at most 3 strict }', "", "laxer"),
    "other words": ('in ["a", "b"]', 'in ["b", "a"]', "equal"),
    "an order of conditions": (
        "!node.spec.unschedulable\n",
        "!(node.spec.unschedulable || node.spec.unschedulable)\n",
        "equal",
    ),
}


def files(folder: Path, old: str, new: str) -> tuple[str, str]:
    for name, text in (("old", old), ("new", new)):
        (folder / f"{name}.policy").write_text(text, encoding="utf-8")
    return "old.policy", "new.policy"


@pytest.mark.parametrize(("old", "new", "wanted"), EDITS.values(), ids=list(EDITS))
def test_an_edit_is_told(placet: Placet, folder: Path, old: str, new: str, wanted: str) -> None:
    """Each test that is shown holds in a file with the new policy, and not with the old one."""
    assert old in SHOP
    edited = SHOP.replace(old, new, 1)
    done = placet("compare", *files(folder, SHOP, edited), "-o", "json")
    assert (done.code, done.err) == (0, "")
    (found,) = json.loads(done.out)["policies"]
    assert found["answer"] == wanted
    # What a count does where a value is missing is searched.
    if new != "missing pass":
        assert set(found["excluded"]) == {"stricter", "laxer"} - set(found["tests"]), "proven"
    for test in found["tests"].values():
        (folder / "tested.policy").write_text(f"{edited}\n{test}", encoding="utf-8")
        assert placet("test", "tested.policy").code == 0, test
        (folder / "tested.policy").write_text(f"{SHOP}\n{test}", encoding="utf-8")
        assert placet("test", "tested.policy").code == 1, test
