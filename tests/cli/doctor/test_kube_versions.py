"""Versions of Kubernetes: which version of its configuration each kube-scheduler reads."""

from __future__ import annotations

from argparse import ArgumentTypeError
from pathlib import Path

import pytest

from cli.doctor.generator import api_versions, minor_version
from tests.cli.conftest import Placet

GROUP = "kubescheduler.config.k8s.io"


@pytest.mark.parametrize(
    ("minor", "versions"),
    [
        (18, []),
        (19, ["v1beta1"]),
        (21, ["v1beta1"]),
        (22, ["v1beta2", "v1beta1"]),
        (23, ["v1beta3", "v1beta2"]),
        (25, ["v1", "v1beta3", "v1beta2"]),
        (28, ["v1", "v1beta3"]),
        (29, ["v1"]),
        (37, ["v1"]),
    ],
)
def test_versions_that_are_read(minor: int, versions: list[str]) -> None:
    assert api_versions(minor) == tuple(f"{GROUP}/{each}" for each in versions)


def test_a_version_may_be_that_of_a_provider() -> None:
    for text in ("1.28", "v1.28", "v1.28.3", "v1.28.3-gke.1200", "1.28.3+k3s1", "v1.28.0-rc.1"):
        assert minor_version(text) == 28
    for text in ("28", "2.28", "1.x", "1.28x", ""):
        with pytest.raises(ArgumentTypeError):
            minor_version(text)


@pytest.mark.parametrize("version", ["1.19", "1.22", "1.24", "1.36", "1.37"])
def test_what_is_written_for_a_version_is_what_it_reads(
    placet: Placet, folder: Path, version: str
) -> None:
    flag = ("--kube-version", version)
    file = folder / "kube-scheduler.yaml"
    file.write_text(placet("scheduler-config", *flag).out, encoding="utf-8")
    done = placet("doctor", *flag, str(file))
    assert (done.code, "no problems found" in done.out) == (0, True), done.out


def test_another_version_says_what_it_reads(placet: Placet, folder: Path) -> None:
    file = folder / "kube-scheduler.yaml"
    file.write_text(placet("scheduler-config", "--kube-version", "1.24").out, encoding="utf-8")
    done = placet("doctor", "--kube-version", "1.28", str(file))
    assert done.code == 0, "1.28 still reads v1beta3"
    done = placet("doctor", "--kube-version", "1.29", str(file))
    assert done.code == 1
    says = f"kube-scheduler 1.29 does not read `{GROUP}/v1beta3`, only `{GROUP}/v1`"
    assert says in done.out


def test_before_1_19_there_is_only_a_policy(placet: Placet, folder: Path) -> None:
    done = placet("scheduler-config", "--kube-version", "1.18")
    assert (done.code, done.out) == (2, "")
    assert "kube-scheduler 1.18 reads only a Policy" in done.err
    file = folder / "policy.json"
    file.write_text(placet("scheduler-config", "--legacy").out, encoding="utf-8")
    assert placet("doctor", "--strict", "--kube-version", "1.18", str(file)).code == 0
    assert placet("doctor", "--strict", "--kube-version", "1.23", str(file)).code == 1
