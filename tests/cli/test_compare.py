"""`placet compare` of a base install: what an edit changes, with a test that shows it."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.conftest import Placet

FOR = 'for pods where pod.labels["tier"] == "web"'
FREE, POOL = 'node.free["cpu"] >= "2"', 'node.labels["pool"] in ["a"]'
ROOM = f'filter "f" {{ require {FREE} }}'
FEW, SPOT = "per node at most 2 strict", f"of replicas on nodes where {POOL} at most 60% strict"
# Kinds of edits: the part of the policy, the old text in it, the new one, and what the answer is.
EDITS = {
    "an order": (ROOM, ">=", ">", "stricter"),
    "a label dropped": (f'{FOR} filter "f" {{ require {FREE} }}', FOR, "", "stricter"),
    "a when added": (ROOM, "{", "when pod.priority > 0 {", "laxer"),
    "a percentage": (f'share "s" {{ {SPOT} }}', "60%", "20%", "stricter"),
    "a number": (f'limit "l" {{ {FEW} }}', "2 strict", "3 strict", "laxer"),
    "best effort": (f'limit "l" {{ {FEW} }}', "strict", "weight 5", "laxer"),
    "a require added": (
        f'filter "f" {{ require {FREE} }}',
        "{",
        "{ require node.ready",
        "stricter",
    ),
    "a member added": (f'filter "f" {{ require {POOL} }}', '["a"]', '["a", "b"]', "laxer"),
    "a negation": (f'filter "f" {{ require {POOL} }}', POOL, f"!({POOL})", "neither"),
    "missing pass": (f'filter "f" {{ require {POOL} }}', "}", "missing pass }", "laxer"),
    "an amount": (ROOM, '"2"', '"1"', "laxer"),
    "a clause removed": (f'limit "l" {{ {FEW} }}', f'limit "l" {{ {FEW} }}', "", "laxer"),
    "other words": (f'filter "f" {{ require {POOL} }}', '["a"]', '["a", "a"]', "unknown"),
}
SHOP = f'policy shop in namespace "shop" {{ limit "l" {{ {FEW} }} }}'


NOTE = "note: nothing is proven without a solver: `pip install z3-solver` adds one\n"


@pytest.fixture(autouse=True)
def _no_solver(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "z3", None)


def files(folder: Path, old: str, new: str) -> tuple[str, str]:
    for name, text in (("old", old), ("new", new)):
        (folder / f"{name}.policy").write_text(text, encoding="utf-8")
    return "old.policy", "new.policy"


@pytest.mark.parametrize("kind", EDITS)
def test_an_edit_is_told(placet: Placet, folder: Path, kind: str) -> None:
    """Each test that is shown holds in a file with the new policy, and not with the old one."""
    part, old, new, wanted = EDITS[kind]
    before = f'policy shop in namespace "shop" {{ {part} }}'
    after = f'policy shop in namespace "shop" {{ {part.replace(old, new, 1)} }}'
    done = placet("compare", *files(folder, before, after), "-o", "json", "--worlds", "60")
    assert (done.code, done.err) == (0, "")
    (found,) = json.loads(done.out)["policies"]
    assert (found["answer"], found["excluded"]) == (wanted, [])
    for test in found["tests"].values():
        (folder / "tested.policy").write_text(f"{after}\n{test}", encoding="utf-8")
        assert placet("test", "tested.policy").code == 0, test
        (folder / "tested.policy").write_text(f"{before}\n{test}", encoding="utf-8")
        assert placet("test", "tested.policy").code == 1, test


def test_the_exit_code_and_the_forms(placet: Placet, folder: Path) -> None:
    names = files(folder, SHOP, SHOP.replace("most 2", "most 3"))
    few = ("--worlds", "40")
    assert placet("compare", *names, "--fail-on", "stricter", *few).code == 0
    for kind in ("laxer", "different"):
        assert placet("compare", *names, "--fail-on", kind, *few).code == 1
    done = placet("compare", *names, "-o", "github", *few)
    assert done.out.startswith("::warning file=new.policy,line=1")
    assert done.err == f"{NOTE}1 difference in 1 policy\n"


def test_the_same_rules_are_equal(placet: Placet, folder: Path) -> None:
    done = placet("compare", *files(folder, SHOP, SHOP.replace(" limit", "\n  limit")))
    assert (done.code, done.out) == (0, "policy shop/shop: equal\n0 differences in 1 policy\n")


def test_a_policy_that_comes_and_one_that_goes(placet: Placet, folder: Path) -> None:
    old = 'policy a in namespace "x" { filter "f" { require node.ready } }'
    done = placet(
        "compare",
        *files(folder, old, old.replace("policy a", "policy b")),
        "-o",
        "json",
        "--worlds",
        "30",
    )
    found = [(p["policy"], p["answer"]) for p in json.loads(done.out)["policies"]]
    assert found == [("x/a", "laxer"), ("x/b", "stricter")]


def test_a_revision_of_git(placet: Placet, folder: Path) -> None:
    files(folder, SHOP, SHOP)
    git = ("git", "-c", "user.name=n", "-c", "user.email=e@example.com")
    for words in (("init", "-q"), ("add", "."), ("commit", "-q", "-m", "first")):
        subprocess.run([*git, *words], check=True)
    (folder / "new.policy").write_text(SHOP.replace("most 2", "most 1"), encoding="utf-8")
    assert "shop/shop: stricter" in (
        placet("compare", "HEAD:new.policy", "new.policy", "--worlds", "40").out
    )
    done = placet("compare", "nothing:new.policy", "new.policy")
    assert done.code == 2
    assert "cannot read `nothing:new.policy`: fatal: not a valid object name" in done.err


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("new.policy",), "1 path given: name the old policies and the new ones"),
        (("a", "b", "c"), "3 paths given"),
        (("--in-force", "a", "b"), "2 paths given: name the new policies alone"),
        (("--in-force", "--url", "http://127.0.0.1:1", "new.policy"), "cannot reach"),
        (("new.policy", "none.policy"), "`none.policy` does not exist"),
        (("new.policy", "broken.policy"), "the policies have 1 error"),
        (("--", "--output=a:new.policy", "new.policy"), "is no revision and path"),
        (("HEAD:/new.policy", "new.policy"), "`HEAD:/new.policy` is no revision and path"),
        (("x" * 300, "new.policy"), "cannot read `xxx"),
    ],
)
def test_a_mistake_is_an_error(
    placet: Placet, folder: Path, arguments: tuple[str, ...], said: str
) -> None:
    files(folder, SHOP, SHOP)
    (folder / "broken.policy").write_text("policy p { require }", encoding="utf-8")
    done = placet("compare", *arguments)
    assert (done.code, done.out) == (2, "")
    assert said in done.err
