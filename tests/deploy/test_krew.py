"""The plugin for krew: a manifest that krew would take, and a launcher that finds its packages."""

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from cli.version import RELEASE
from tests.deploy.chart import ROOT

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
