"""`import placet`: what docs/python.md promises. In the checkout the module is `cli.public_api`."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path

import pytest

from cli import package, public_api
from cli.main import main

ROOT = Path(__file__).parents[2]
EXPLAIN, SIMULATE = ROOT / "docs/examples/explain", ROOT / "docs/examples/simulate"


@pytest.fixture(scope="module")
def shop() -> public_api.Placet:
    return public_api.Placet(cluster=EXPLAIN / "cluster.yaml", policies=EXPLAIN / "shop.policy")


def test_filter_has_a_reason_or_none_for_each_node(shop: public_api.Placet) -> None:
    found = shop.filter("shop/web-1")
    assert found["n-1"] is None
    assert found["n-2"] == "needs 1Gi to spare"


def test_scores_are_points_from_0_to_10(shop: public_api.Placet) -> None:
    found = shop.score("shop/web-1")
    assert found.keys() == shop.filter("shop/web-1").keys()
    assert all(0 <= points <= 10 for points in found.values())


def test_explain_is_what_the_command_prints(
    shop: public_api.Placet, capsys: pytest.CaptureFixture[str]
) -> None:
    files = ["--cluster", str(EXPLAIN / "cluster.yaml"), "--policies", str(EXPLAIN / "shop.policy")]
    assert main(["explain", "shop/web-1", *files, "-o", "json"]) == 0
    assert shop.explain("shop/web-1") == json.loads(capsys.readouterr().out)


def test_simulate_places_in_turn() -> None:
    files = SIMULATE / "cluster.yaml", SIMULATE / "pack.policy"
    found = public_api.Placet(cluster=files[0], policies=[files[1]]).simulate(
        SIMULATE / "pods.yaml"
    )
    assert found["placed"] + found["pending"] == len(found["pods"]) > 0
    assert (found["pods"][0]["pod"], bool(found["pods"][0]["node"])) == ("shop/web-1", True)


def test_simulate_adds_and_drains_nodes() -> None:
    files = SIMULATE / "running.yaml", SIMULATE / "shop.policy"
    shop = public_api.Placet(cluster=files[0], policies=files[1])
    pods = SIMULATE / "api.yaml"
    assert shop.simulate(pods)["placed"] == 0
    places = [each["node"] for each in shop.simulate(pods, add_nodes={"m5.large": 2})["pods"]]
    assert places == ["m5.large-new-1", "m5.large-new-2", None]
    (moved,) = shop.simulate(drain=["a-1"])["pods"]
    assert (moved["pod"], moved["node"]) == ("shop/web-1", None)
    both = shop.simulate(pods, add_nodes={"m5.large": 9}, drain=["a-1"])
    assert [each["pod"] for each in both["pods"] if each["node"]][:1] == ["shop/web-1"]
    with pytest.raises(public_api.Error, match="no pods are asked about"):
        shop.simulate()
    with pytest.raises(public_api.Error, match="there is no node `a-9`"):
        shop.simulate(drain=["a-9"])


def test_a_manifest_is_asked_about(shop: public_api.Placet, tmp_path: Path) -> None:
    file = tmp_path / "pod.yaml"
    file.write_text("kind: Pod\nmetadata: {name: new, namespace: shop}\nspec: {containers: []}\n")
    assert shop.filter(file).keys() == shop.filter("shop/web-1").keys()


@pytest.mark.parametrize(
    ("policy", "message"),
    [
        (
            'policy p { for pods where pod.priority > 0 filter "x" { require nod.ready } }',
            r"bad\.policy:1:65: unknown name `nod`",
        ),
        (None, r"bad\.policy"),
    ],
)
def test_what_is_wrong_is_one_error(tmp_path: Path, policy: str | None, message: str) -> None:
    file = tmp_path / "bad.policy"
    if policy is not None:
        file.write_text(policy, "utf-8")
    with pytest.raises(public_api.Error, match=message):
        public_api.Placet(cluster=EXPLAIN / "cluster.yaml", policies=file)


def test_an_empty_path_is_an_error() -> None:
    with pytest.raises(public_api.Error, match="the path is empty"):
        public_api.Placet(cluster=EXPLAIN / "cluster.yaml", policies=["a.policy", ""])


def test_an_unknown_pod_is_an_error(shop: public_api.Placet) -> None:
    with pytest.raises(public_api.Error, match="there is no pod `shop/nobody`"):
        shop.filter("shop/nobody")


def test_the_package_has_the_names() -> None:
    assert package.__all__ == public_api.__all__ == dir(package)
    assert {getattr(package, name) for name in package.__all__} == {
        getattr(public_api, name) for name in public_api.__all__
    }
    with pytest.raises(AttributeError, match="placet has no `Policies`: it has Error, Placet"):
        _ = package.Policies


def test_the_page_names_all_that_is_public() -> None:
    page = (ROOT / "docs/python.md").read_text("utf-8")
    assert [name for name in public_api.__all__ if f"`placet.{name}`" not in page] == []
    calls = {n for n in vars(public_api.Placet) if not n.startswith("_")}
    assert calls == set(re.findall(r"(?m)^\| `(\w+)\(", page))


def test_the_example_of_the_page_runs(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    page = (ROOT / "docs/python.md").read_text("utf-8")
    [script] = re.findall(r"```python\n(from pathlib.*?)```", page, re.DOTALL)
    monkeypatch.setitem(sys.modules, "placet", package)
    monkeypatch.chdir(EXPLAIN)
    exec(script, {})  # noqa: S102 - the script of a page of ours
    assert "n-2 needs 1Gi to spare" in capsys.readouterr().out
