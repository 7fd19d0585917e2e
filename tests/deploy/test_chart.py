"""The chart without helm: its values, their schema, and the definitions that are in it."""

from __future__ import annotations

import argparse
import base64
import json
import os
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from cli.command import add_flags
from cli.commands import serve
from cli.main import main
from cli.placet_configuration import FIELDS
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
    add_flags(parser, serve.ARGUMENTS, rare=True)
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


def test_whoever_keeps_placet_is_said_alike_everywhere() -> None:
    chart = yaml.safe_load((CHART / "Chart.yaml").read_text(encoding="utf-8"))
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    home, spec = project["urls"]["Homepage"], MANIFEST["spec"]
    assert (chart["home"], chart["sources"], spec["homepage"]) == (home, [home], home)
    assert spec["platforms"][0]["uri"].startswith(f"{home}/releases/download/v{RELEASE}/")
    assert chart["maintainers"] == project["maintainers"]


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


def test_the_archive_is_for_every_python_that_is_supported() -> None:
    """Compiled packages are of one Python each."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    known = [each.rpartition(" ")[2] for each in project["classifiers"] if ":: 3." in each]
    built = re.search(r"(?m)^KREW_PYTHONS = (.*)$", MAKEFILE)
    assert built is not None
    assert built[1].split() == known
    asked = f"needs one of python{known[0]} to python{known[-1]} on the PATH"
    assert asked in MANIFEST["spec"]["caveats"]


def launched(store: Path, *args: str, path: str = os.defpath) -> subprocess.CompletedProcess[str]:
    """What the launcher of an archive does, through the link that krew makes."""
    linked = store.with_name("bin")
    linked.mkdir()
    launcher = store / "kubectl-placet"
    launcher.write_bytes((FOLDER / "kubectl-placet").read_bytes())
    (linked / "kubectl-placet").symlink_to(launcher)
    return subprocess.run(
        [sys.executable, linked / "kubectl-placet", *args],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
        env={"PATH": path},
    )


MINE = "{}.{}".format(*sys.version_info)


@pytest.mark.process
def test_the_launcher_finds_its_packages_through_a_link(tmp_path: Path) -> None:
    """As krew does: it unpacks an archive into a folder of its own, and links the program."""
    package = tmp_path / "store" / "lib" / MINE / "placet"
    package.mkdir(parents=True)
    (package / "__init__.py").touch()
    said = "import sys\ndef main():\n    print(__file__, *sys.argv[1:])\n    return 3\n"
    (package / "__main__.py").write_text(said, encoding="utf-8")
    done = launched(tmp_path / "store", "explain")
    assert done.returncode == 3, done.stderr
    assert done.stdout == f"{package / '__main__.py'} explain\n"


@pytest.mark.process
def test_the_launcher_takes_a_python_that_the_archive_has(tmp_path: Path) -> None:
    (tmp_path / "store" / "lib" / "3.99").mkdir(parents=True)
    none = launched(tmp_path / "store")
    assert (none.returncode, none.stderr) == (1, "error: none of python3.99 is on the PATH\n")
    (tmp_path / "bin").rename(tmp_path / "old")
    other = tmp_path / "other" / "python3.99"
    other.parent.mkdir()
    other.write_text('#!/bin/sh\necho "$@"\n', encoding="utf-8")
    other.chmod(0o755)
    done = launched(tmp_path / "store", "explain", path=f"{other.parent}:{os.defpath}")
    assert done.stdout == f"{tmp_path / 'store' / 'kubectl-placet'} explain\n"
