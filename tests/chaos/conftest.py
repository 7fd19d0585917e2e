"""Fixtures: those of the end-to-end tests, and a control plane that stores objects as JSON."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e.api import Api
from tests.e2e.conftest import cluster, plane, programs, served
from tests.e2e.control_plane import ControlPlane, control_plane
from tests.e2e.permissions import create_role
from tests.e2e.process import termination_as_interrupt

__all__ = ["cluster", "plane", "programs", "served", "stored"]


@pytest.fixture
def stored(programs: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlane]:
    """Return a control plane whose pods and nodes can be read in etcd."""
    folder = tmp_path_factory.mktemp("control-plane")
    flag = "--storage-media-type=application/json"
    with termination_as_interrupt(), control_plane(programs, folder, flag) as running_plane:
        create_role(Api(running_plane))
        yield running_plane
