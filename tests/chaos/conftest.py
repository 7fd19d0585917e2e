"""Fixtures: those of the end-to-end tests, and a control plane for a nemesis."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.chaos.rig import stored_as_json
from tests.e2e.conftest import cluster, plane, programs, served
from tests.e2e.control_plane import ControlPlane

__all__ = ["cluster", "plane", "programs", "served", "stored"]


@pytest.fixture
def stored(programs: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlane]:
    """Return a control plane whose pods and nodes can be read in etcd."""
    with stored_as_json(programs, tmp_path_factory.mktemp("control-plane")) as running:
        yield running
