"""Versions of Kubernetes: the suffixes of providers are left out, its own pre-releases are not."""

from __future__ import annotations

import pytest

from grammar.values.errors import EvaluationError
from tests.grammar.expressions import value

SHOWN = {
    "v1.36.2": "1.36.2",
    "1.36.2": "1.36.2",
    "v1.31.4-gke.1372000": "1.31.4",
    "v1.30.2-eks-1552ad0": "1.30.2",
    "v1.29.3+k3s1": "1.29.3",
    "v1.28.6+rke2r1": "1.28.6",
    "v1.30.1-aliyun.1": "1.30.1",
    "v1.27.12-tke.5_2": "1.27.12",
    "v1.32.0-rc.1": "1.32.0-rc.1",
    "v1.32.0-rc.1+k3s1": "1.32.0-rc.1",
    "v1.32.0-rc.1.gke.5": "1.32.0-rc.1",
    "v1.33.0-alpha.0.17+4d1e4d1a": "1.33.0-alpha.0.17",
    "v1.32.0-beta": "1.32.0-beta",
    "v1.32.0-rcx.1": "1.32.0",
    "v1.36": "1.36.0",
    "v1.27+": "1.27.0",
}
FAILS = ["", "v1", "soon", "v1.x.2", "v01.2.3", "v1.2.3.4 ", "v1.31.4/gke", "v" + "1" * 300]


@pytest.mark.parametrize(("text", "shown"), SHOWN.items())
def test_version_is_that_of_kubernetes(text: str, shown: str) -> None:
    assert value(f'string(kubernetesVersion("{text}"))') == shown


@pytest.mark.parametrize("text", FAILS)
def test_other_texts_are_no_versions(text: str) -> None:
    with pytest.raises(EvaluationError, match="is not a version of Kubernetes"):
        value(f'kubernetesVersion("{text}")')
