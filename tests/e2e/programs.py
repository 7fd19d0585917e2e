"""The programs of a control plane: where they are, after they were built if need be."""

import os
import subprocess
from pathlib import Path
from typing import Literal

import pytest

BUILD = Path(__file__).parent / "kube" / "build"
BUILD_SECONDS = 3600.0
NO_GO = 3  # the exit status of kube/build
# The minor version of the control plane, of which kube/build has several.
MINOR = int(os.environ.get("PLACET_KUBE_MINOR", "1.36").removeprefix("1."))
# The version of Kubernetes' PodGroup there; in 1.35 a pod names a Workload, before nothing.
POD_GROUPS = {36: "v1alpha2"}.get(MINOR, "v1beta1" if MINOR > 36 else "")
needs_pod_groups = pytest.mark.skipif(
    not POD_GROUPS, reason=f"Kubernetes 1.{MINOR} has no PodGroups"
)

needs_mutating_policies = pytest.mark.skipif(
    MINOR < 36, reason=f"Kubernetes 1.{MINOR} has no MutatingAdmissionPolicy of v1"
)
needs_known_fields = pytest.mark.skipif(
    MINOR != 36, reason="doctor checks fields as Kubernetes 1.36 has them"
)


def built(config: pytest.Config) -> Path:
    """Return the folder of etcd, kubectl and the programs of Kubernetes; skip without Go."""
    return _built(config)


def built_plugins(config: pytest.Config) -> Path:
    """Return the program of kube-scheduler's plugins; skip without Go."""
    return _built(config, "plugins")


def built_expressions(config: pytest.Config) -> Path:
    """Return the program of Kubernetes' CEL; skip without Go."""
    return _built(config, "expressions")


def built_tool(
    config: pytest.Config,
    name: Literal["helm", "karpenter", "kwok", "metrics-server", "promtool", "prometheus"],
) -> Path:
    """Return a program of another module than Kubernetes'; skip without Go."""
    return _built(config, name)


def _built(config: pytest.Config, *wanted: str) -> Path:
    capture = config.pluginmanager.getplugin("capturemanager")
    assert capture is not None
    # Uncaptured: a build takes minutes, and its progress, or that there is no Go, is worth a line.
    with capture.global_and_fixture_disabled():
        command = [str(BUILD), *wanted]
        done = subprocess.run(
            command, stdout=subprocess.PIPE, text=True, check=False, timeout=BUILD_SECONDS
        )
    if done.returncode == NO_GO:
        pytest.skip("neither the programs of a control plane nor Go to build them")
    assert done.returncode == 0, "the control plane's programs could not be built; see above"
    return Path(done.stdout.strip())
