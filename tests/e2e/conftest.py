"""Fixtures: one control plane a session, one namespace and one kube-scheduler a test."""

import secrets
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e.api import Api
from tests.e2e.cluster import Cluster
from tests.e2e.control_plane import ControlPlane, control_plane
from tests.e2e.process import built, termination_as_interrupt
from tests.e2e.service_account import create_role
from tests.e2e.stage import Stage, stage


@pytest.fixture(scope="session")
def programs(pytestconfig: pytest.Config) -> Path:
    """Return the folder of etcd, kubectl and the programs of Kubernetes, built if need be."""
    return built(pytestconfig)


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
