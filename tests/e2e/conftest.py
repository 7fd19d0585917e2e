"""Fixtures: one control plane a session, one namespace and one kube-scheduler a test."""

import secrets
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e.api import Api
from tests.e2e.cluster import Cluster
from tests.e2e.control_plane import ControlPlane, control_plane
from tests.e2e.permissions import create_role
from tests.e2e.process import termination_as_interrupt
from tests.e2e.stage import Stage, stage

BUILD = Path(__file__).parent / "kube" / "build"
BUILD_SECONDS = 3600.0
NO_GO = 3  # the exit status of kube/build


@pytest.fixture(scope="session")
def programs(request: pytest.FixtureRequest) -> Path:
    """Return the folder of etcd, kube-apiserver, kube-scheduler and kubectl, built if need be."""
    capture = request.config.pluginmanager.getplugin("capturemanager")
    assert capture is not None
    # Uncaptured: a build takes minutes, and its progress, or that there is no Go, is worth a line.
    with capture.global_and_fixture_disabled():
        done = subprocess.run(
            [str(BUILD)], stdout=subprocess.PIPE, text=True, check=False, timeout=BUILD_SECONDS
        )
    if done.returncode == NO_GO:
        pytest.skip("neither the programs of a control plane nor Go to build them")
    assert done.returncode == 0, "the control plane's programs could not be built; see above"
    return Path(done.stdout.strip())


@pytest.fixture(scope="session")
def plane(programs: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlane]:
    """Return a control plane that every test of the session shares."""
    folder = tmp_path_factory.mktemp("control-plane")
    with termination_as_interrupt(), control_plane(programs, folder) as running_plane:
        create_role(Api(running_plane))
        yield running_plane


@pytest.fixture
def cluster(plane: ControlPlane) -> Iterator[Cluster]:
    """Return a cluster without nodes and with a namespace no other test uses."""
    test_cluster = Cluster(plane, f"e2e-{secrets.token_hex(4)}")
    try:
        yield test_cluster
    finally:
        test_cluster.clear()


@pytest.fixture
def served(plane: ControlPlane, cluster: Cluster, tmp_path: Path) -> Iterator[Stage]:
    """Return the stage a test starts Placet and kube-scheduler on; it ends before the cluster."""
    with stage(plane, cluster, tmp_path) as test_stage:
        yield test_stage
