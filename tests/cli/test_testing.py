"""`placet test`: output, files and exit codes."""

import json
import re
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest

from tests.cli.conftest import Outcome, Placet

POLICY = """\
policy shop in namespace "shop" {
  filter "arm" { require node.labels["arch"] == "arm64" message "needs arm" }
  filter "zone" { require node.zone == "a" }
  score "pack" weight 3 { value node.usage["cpu"] range 0 .. 1 }
}
"""
GOOD = """\
test "arm only" {
  node "arm" {"labels": {"arch": "arm64"}, "zone": "a"}
  node "intel" {"labels": {"arch": "amd64"}, "zone": "a"}
  pod "shop/web" {"requests": {"cpu": 4}}
  expect pass "arm"
  expect reject "intel" by "arm"
  expect score "arm" == 5
}
"""
WRONG = """\
test "all is wrong" {
  node "arm" {"labels": {"arch": "arm64"}, "zone": "a"}
  node "intel" {"labels": {"arch": "amd64"}, "zone": "b"}
  pod "shop/web"
  expect reject "arm" by "zone"
  expect pass "intel"
  expect reject "intel" by "zone"
  expect score "arm" > 0
  expect score "intel" >= 0
}
"""
GOLDEN = Path(__file__).parents[1] / "golden"


@pytest.fixture
def shop(folder: Path) -> Path:
    """A policy with one good test."""
    (folder / "shop.policy").write_text(POLICY + GOOD, encoding="utf-8")
    return folder


def timeless(done: Outcome) -> str:
    return re.sub(r"in \d+\.\d\ds", "in 0.01s", done.out)


def test_all_passes(placet: Placet, shop: Path) -> None:
    done = placet("test")
    assert (done.code, done.err) == (0, "")
    assert timeless(done) == "shop.policy .\n\n1 passed in 0.01s\n"


def test_what_failed_is_shown_in_its_place(placet: Placet, shop: Path) -> None:
    (shop / "shop_test.policy").write_text(WRONG, encoding="utf-8")
    done = placet("test", "shop.policy", "shop_test.policy")
    assert (done.code, done.err) == (1, "")
    assert timeless(done) == (GOLDEN / "test_failures.txt").read_text(encoding="utf-8")


def test_verbose_names_each_test(placet: Placet, shop: Path) -> None:
    (shop / "shop_test.policy").write_text(WRONG, encoding="utf-8")
    assert placet("test", "-v").out.splitlines()[:2] == [
        "shop.policy: arm only passed",
        "shop_test.policy: all is wrong failed",
    ]


@pytest.mark.parametrize(
    ("text", "code", "names"),
    [
        ("ARM", 0, ["shop.policy: arm only"]),
        ("shop_test", 1, ["shop_test.policy: all is wrong"]),
        ("shop.policy: arm", 0, ["shop.policy: arm only"]),
    ],
)
def test_tests_can_be_chosen(
    placet: Placet, shop: Path, text: str, code: int, names: list[str]
) -> None:
    """By their names and files; other tests have no line."""
    (shop / "shop_test.policy").write_text(WRONG, encoding="utf-8")
    done = placet("test", "-v", "-k", text)
    assert done.code == code
    named = [line.rpartition(" ")[0] for line in done.out.split("\n\n")[0].splitlines()]
    assert named == names


def test_no_tests_to_run_is_an_error(placet: Placet, shop: Path) -> None:
    done = placet("test", "-k", "nobody")
    assert (done.code, done.out) == (2, "")
    assert "no test has `nobody` in its file or name" in done.err
    (shop / "shop.policy").write_text(POLICY, encoding="utf-8")
    done = placet("test")
    assert (done.code, done.out) == (2, "")
    assert "error: there are no tests in `.`\n  = help: write one beside its policy" in done.err


def test_missing_path_is_an_error(placet: Placet, shop: Path) -> None:
    """The tests of the other paths run."""
    done = placet("test", "shop.policy", "gone.policy")
    assert done.code == 2
    assert "1 passed" in done.out
    assert done.err == "error: `gone.policy` does not exist\n  = help: check the path\n"


def test_policy_with_errors_is_shown_and_not_tested(placet: Placet, shop: Path) -> None:
    """Its errors are shown for its file and for the test file beside it; other tests run."""
    (shop / "shop.policy").write_text(POLICY.replace("zone", "zoen", 2) + GOOD, encoding="utf-8")
    (shop / "shop_test.policy").write_text(WRONG, encoding="utf-8")
    (shop / "other.policy").write_text(POLICY.replace("shop", "other", 1) + GOOD, encoding="utf-8")
    done = placet("test")
    assert (done.code, done.err) == (1, "")
    lines = done.out.splitlines()
    assert lines[:3] == ["other.policy .", "shop.policy E", "shop_test.policy E"]
    assert done.out.count("error[P0102]: Node has no field `zoen`") == 2
    assert lines[-1].startswith("1 passed, 2 errors in ")


def test_torn_file_is_an_error(placet: Placet, shop: Path) -> None:
    """The part that was not understood can be a test."""
    (shop / "torn.policy").write_text('test "torn" { node', encoding="utf-8")
    done = placet("test")
    assert done.code == 1
    assert "torn.policy E\n" in done.out
    assert "error[P0001]" in done.out
    assert "1 passed, 1 error in" in done.out


def test_results_for_a_ci_service(placet: Placet, shop: Path) -> None:
    (shop / "shop_test.policy").write_text(WRONG, encoding="utf-8")
    (shop / "torn.policy").write_text('test "torn" { node', encoding="utf-8")
    done = placet("test", "-o", "junit")
    assert (done.code, done.err) == (1, "")
    root = ET.fromstring(done.out)  # noqa: S314 - it is our own
    assert [(s.get("name"), s.get("tests"), s.get("failures")) for s in root] == [
        ("shop.policy", "1", "0"),
        ("shop_test.policy", "1", "1"),
        ("torn.policy", "1", "1"),
    ]
    good, wrong, torn = root.iter("testcase")
    assert (good.get("classname"), good.get("name"), list(good)) == ("shop.policy", "arm only", [])
    first, *_ = wrong
    assert (first.tag, first.get("message")) == ("failure", "`arm` is not rejected")
    assert (first.text or "").startswith("shop_test.policy:5:3: error: `arm` is not rejected")
    assert {element.tag for element in torn} == {"failure"}


def test_results_as_json_have_each_test(placet: Placet, shop: Path) -> None:
    (shop / "shop_test.policy").write_text(WRONG, encoding="utf-8")
    found = json.loads(placet("test", "-o", "json").out)
    assert [(each["name"], each["outcome"]) for each in found["tests"]] == [
        ("arm only", "passed"),
        ("all is wrong", "failed"),
    ]
    assert [each["line"] for each in found["diagnostics"]] == [5, 6, 7, 8, 9]
