"""Kustomize's base: the chart as helm renders it by default.

`python -m tests.deploy.kustomize` writes it.
"""

from __future__ import annotations

import re
import subprocess
from functools import cache
from pathlib import Path

from tests.deploy.chart import CHART, ROOT

BASE = ROOT / "deploy" / "kustomize" / "base"
MANIFESTS = BASE / "placet.yaml"
# The newest version that Placet is tested with; the image of kube-scheduler is of this version.
KUBERNETES = "1.36.0"
_HEAD = """\
# Placet beside a second kube-scheduler, as the chart renders it by default.
# `python -m tests.deploy.kustomize` writes this file. By its marks, helm takes the objects over.
"""
# Marks of helm that say where a text was, and in which version.
_MARKS = re.compile(r"(?m)^(?:# Source: .*| +helm\.sh/chart: .*)\n")
# Those by which `helm install placet --namespace kube-system` knows an object as its own.
_OWNER = """\
  annotations:
    meta.helm.sh/release-name: placet
    meta.helm.sh/release-namespace: kube-system
"""
_MANAGED = """\
  labels:
    app.kubernetes.io/managed-by: Helm
"""
_OWN = re.compile(r"(?m)^metadata:\n((?: .*\n)+)")
_EMPTY = re.compile(r"(?m)^---\n(?=---\n)")


class NoHelmError(Exception):
    """Helm is not there and cannot be built; the text says why."""


@cache
def program() -> str:
    """The path of helm, which is built if need be. Raises NoHelmError."""
    script = ROOT / "tests" / "e2e" / "kube" / "build"
    done = subprocess.run([script, "helm"], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise NoHelmError(done.stderr.strip().rpartition("\n")[2])
    return done.stdout.strip()


def helm(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    """Run helm. Raises NoHelmError."""
    return subprocess.run(
        [program(), *arguments], capture_output=True, text=True, check=False, timeout=60
    )


def manifests() -> str:
    """The objects of the chart, without its test and without helm's marks."""
    done = helm(
        "template",
        "placet",
        CHART,
        "--namespace=kube-system",
        f"--kube-version={KUBERNETES}",
        "--no-hooks",
        "--skip-tests",
        "--set=crds.keep=false",
    )
    assert done.returncode == 0, done.stderr
    return _HEAD + _OWN.sub(_owned, _EMPTY.sub("", _MARKS.sub("", done.stdout)))


def _owned(found: re.Match[str]) -> str:
    """The metadata of an object with the marks of the release."""
    own = found[1]
    assert "  annotations:\n" not in own, own
    return f"metadata:\n{_OWNER}{'' if '  labels:' in own else _MANAGED}{own}"


if __name__ == "__main__":
    MANIFESTS.write_text(manifests(), encoding="utf-8")
