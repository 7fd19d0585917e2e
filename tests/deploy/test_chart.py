"""The chart without helm: its values, their schema, and the definitions that are in it."""

from __future__ import annotations

import argparse
import base64
import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from cli.command import add_flags
from cli.commands import serve
from cli.main import main
from cli.serving.placet_configuration import FIELDS
from cli.version import RELEASE
from policies.resource import STORED
from tests.deploy.chart import CHART, README, ROOT, SCHEMA, readme, values
from tests.deploy.kustomize import MANIFESTS
from tests.support.definitions import definitions
from tests.support.library_examples import examples

DEFAULTS: dict[str, Any] = yaml.safe_load((CHART / "values.yaml").read_text(encoding="utf-8"))
RULES: dict[str, Any] = json.loads(SCHEMA.read_text(encoding="utf-8"))
# Fields of PlacetConfiguration that the chart sets from other values, and those of other uses.
SET_BY_CHART = set(
    "bind frozenAnnotation frozenLabel gate healthListen lease listen policies repair "
    "schedulerLease schedulerName standby viewListen viewPort".split()
)
NOT_IN_A_POD = {"cluster", "context", "demo", "kubeconfig", "noCluster"}


def schemas(schema: dict[str, Any], path: str = "") -> Iterator[tuple[str, dict[str, Any]]]:
    """A schema and those of its fields, by path."""
    yield path, schema
    for name, inner in schema.get("properties", {}).items():
        yield from schemas(inner, f"{path}.{name}")


def test_readme_is_made_from_the_values() -> None:
    """`python -m tests.deploy.chart` writes it."""
    assert README.read_text(encoding="utf-8") == readme()


def test_every_value_has_a_comment() -> None:
    assert [".".join(value.path) for value in values() if not value.meaning] == []


def test_schema_has_every_value_and_no_other() -> None:
    """A misspelt value is refused."""

    def fields(schema: dict[str, Any], value: Any) -> None:
        if "properties" not in schema:
            return
        assert schema["additionalProperties"] is False
        assert isinstance(value, dict)
        assert value.keys() <= schema["properties"].keys()
        for name, inner in value.items():
            fields(schema["properties"][name], inner)

    assert RULES["properties"].keys() == {*DEFAULTS, "global"}
    fields(RULES, DEFAULTS)


def test_schema_says_of_each_field_what_it_may_be() -> None:
    loose = [p for p, s in schemas(RULES) if not s.keys() & {"type", "enum"}]
    assert loose == []


def test_config_has_the_fields_of_a_placet_configuration() -> None:
    known = {flag.field for flag in FIELDS}
    offered = set(RULES["properties"]["config"]["properties"])
    assert offered - known == set()
    assert known - offered - NOT_IN_A_POD - _tls(known) == SET_BY_CHART


def _tls(known: set[str]) -> set[str]:
    """Those about certificates, which `certificates` and `clients` set."""
    return {name for name in known if name.startswith(("tls", "client", "webhook"))}


def test_defaults_of_config_are_those_of_serve() -> None:
    """But for the format of the log, which programs read in a cluster."""
    parser = argparse.ArgumentParser()
    add_flags(parser, serve.ARGUMENTS)
    assert DEFAULTS["config"] == {"httpTimeout": "5s", "logFormat": "json"}
    assert parser.get_default("http_timeout") == DEFAULTS["config"]["httpTimeout"]


def test_the_chart_is_for_helm_3_and_later() -> None:
    chart = yaml.safe_load((CHART / "Chart.yaml").read_text(encoding="utf-8"))
    assert chart["apiVersion"] == "v2"


def test_artifact_hub_is_told_of_what_ships() -> None:
    """The kinds, an example of each, and the icon of the page."""
    chart = yaml.safe_load((CHART / "Chart.yaml").read_text(encoding="utf-8"))
    told = {key.partition("/")[2]: value for key, value in chart["annotations"].items()}
    kinds = [
        (made["spec"]["names"]["kind"], STORED, made["metadata"]["name"])
        for made in definitions().values()
    ]
    crds = yaml.safe_load(told["crds"])
    assert [(each["kind"], each["version"], each["name"]) for each in crds] == kinds
    made = {text["metadata"]["name"]: text for text in map(yaml.safe_load, examples().values())}
    shown = yaml.safe_load(told["crdsExamples"])
    assert [each["kind"] for each in shown] == [kind for kind, _, _ in kinds]
    assert shown == [made[each["metadata"]["name"]] for each in shown]
    icon = (ROOT / "server" / "view" / "ui" / "icon.svg").read_bytes()
    assert chart["icon"] == f"data:image/svg+xml;base64,{base64.b64encode(icon).decode()}"


def test_command_prints_the_manifests(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["manifests"]) == 0
    assert capsys.readouterr().out == MANIFESTS.read_text(encoding="utf-8")
    assert main(["manifests", "--image", "registry.example/placet:1"]) == 0
    printed = yaml.safe_load_all(capsys.readouterr().out)
    (deployment,) = (each for each in printed if each["kind"] == "Deployment")
    images = [each["image"] for each in deployment["spec"]["template"]["spec"]["containers"]]
    assert images == ["registry.example/placet:1", "registry.k8s.io/kube-scheduler:v1.36.0"]


# ---- the plugin for krew: a manifest that krew would take, and a launcher that finds its packages


FOLDER = ROOT / "deploy" / "krew"
TEXT = (FOLDER / "placet.yaml").read_text(encoding="utf-8")
MANIFEST: dict[str, Any] = yaml.safe_load(TEXT)
MAKEFILE = (ROOT / "Makefile").read_text(encoding="utf-8")


def test_the_manifest_has_what_krew_asks_for() -> None:
    """https://krew.sigs.k8s.io/docs/developer-guide/plugin-manifest/."""
    assert MANIFEST["apiVersion"] == "krew.googlecontainertools.github.com/v1alpha2"
    assert MANIFEST["kind"] == "Plugin"
    assert MANIFEST["metadata"]["name"] == "placet"
    spec = MANIFEST["spec"]
    assert len(spec["shortDescription"]) <= 50
    assert not spec["shortDescription"].endswith(".")
    (platform,) = spec["platforms"]
    assert platform["selector"] == {"matchLabels": {"os": "linux", "arch": "amd64"}}
    assert re.fullmatch("[0-9a-f]{64}", platform["sha256"])
    assert os.access(FOLDER / platform["bin"], os.X_OK)


def test_the_manifest_is_of_the_release_and_names_what_is_built() -> None:
    version, archive = MANIFEST["spec"]["platforms"][0]["uri"].split("/")[-2:]
    assert version == MANIFEST["spec"]["version"] == f"v{RELEASE}"
    assert f"> build/krew/{archive}\n" in MAKEFILE


def test_the_python_of_the_launcher_is_the_one_that_the_manifest_asks_for() -> None:
    """Compiled packages of the archive are of the Python that the Makefile builds with."""
    first, _, _ = (FOLDER / "kubectl-placet").read_text(encoding="utf-8").partition("\n")
    assert first == "#!/usr/bin/env python3.11"
    assert "PYTHON ?= python3.11\n" in MAKEFILE
    assert "needs python3.11 on the PATH" in MANIFEST["spec"]["caveats"]


@pytest.mark.process
def test_the_launcher_finds_its_packages_through_a_link(tmp_path: Path) -> None:
    """As krew does: it unpacks an archive into a folder of its own, and links the program."""
    store, linked = tmp_path / "store", tmp_path / "bin"
    (store / "lib" / "placet").mkdir(parents=True)
    linked.mkdir()
    (store / "lib" / "placet" / "__init__.py").touch()
    said = "import sys\ndef main():\n    print(__file__, *sys.argv[1:])\n    return 3\n"
    (store / "lib" / "placet" / "__main__.py").write_text(said, encoding="utf-8")
    launcher = store / "kubectl-placet"
    launcher.write_bytes((FOLDER / "kubectl-placet").read_bytes())
    (linked / "kubectl-placet").symlink_to(launcher)
    done = subprocess.run(
        [sys.executable, linked / "kubectl-placet", "explain"],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert done.returncode == 3, done.stderr
    assert done.stdout == f"{store / 'lib' / 'placet' / '__main__.py'} explain\n"
