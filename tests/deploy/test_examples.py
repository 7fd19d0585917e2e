"""The examples: those of the library as it is, without findings, and in force when applied."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
import yaml

from cli.main import main
from policies.loader import library_sources
from tests.support.builders import kubectl_list, node, pod
from tests.support.library_examples import FOLDER, examples

README = (FOLDER / "README.md").read_text(encoding="utf-8")


def test_examples_are_those_of_the_library() -> None:
    """`make examples` writes them."""
    shipped = {file.name: file.read_text(encoding="utf-8") for file in FOLDER.glob("*.yaml")}
    assert shipped == examples()
    assert len(shipped) == len(library_sources())


@pytest.mark.parametrize("file", sorted(FOLDER.glob("*.yaml")), ids=lambda file: file.stem)
def test_an_example_has_no_findings(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Alone, as it is applied."""
    assert main(["check", "--strict", str(file)]) == 0, capsys.readouterr().out


def test_sources_of_data_can_be_changed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """An example whose URL is a parameter is of a kind that may choose one."""
    changed = 0
    for name, text in examples().items():
        if "\n    url: " in text:
            file = tmp_path / name
            file.write_text(text.replace("prometheus.monitoring", "another.example"), "utf-8")
            assert main(["check", "--strict", str(file)]) == 0, capsys.readouterr().out
            changed += 1
    assert changed >= 2


def test_the_example_of_the_page_governs_pods(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A pod with its label and in its namespace is kept off spot nodes; others are not."""
    (name,) = set(re.findall(r"deploy/examples/(\S+\.yaml)", README))
    (tmp_path / name).write_text(examples()[name], encoding="utf-8")
    labels = {"app": "web"}
    objects = [
        node("lasting"),
        node("spot", labels={"karpenter.sh/capacity-type": "spot"}),
        pod("web", labels=labels),
        pod("other"),
        pod("web", "elsewhere", labels=labels),
    ]
    cluster = tmp_path / "cluster.json"
    cluster.write_text(json.dumps(kubectl_list(objects)), encoding="utf-8")
    passing = {}
    for asked in ("default/web", "default/other", "elsewhere/web"):
        flags = ["--cluster", str(cluster), "--policies", str(tmp_path / name), "-o", "json"]
        main(["explain", asked, *flags])
        found = json.loads(capsys.readouterr().out)
        groups = (each["names"] for each in found["groups"] if not each["rejectedBy"])
        passing[asked] = {name for names in groups for name in names}
    both = {"lasting", "spot"}
    assert passing == {"default/web": {"lasting"}, "default/other": both, "elsewhere/web": both}


def test_the_page_says_which_are_cluster_policies() -> None:
    kinds = [yaml.safe_load(text)["kind"] for text in examples().values()]
    assert {"PlacementPolicy", "ClusterPlacementPolicy"} == set(kinds)
    said = re.findall(r"`kind: (\w+)`", README)
    assert set(said) == set(kinds)
