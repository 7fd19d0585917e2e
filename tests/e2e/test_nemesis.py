"""Two schedules of faults, of two minutes each; `make chaos` plays others."""

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.chaos.nemesis import play
from tests.chaos.rig import stored_as_json
from tests.chaos.schedule import schedule, text
from tests.e2e.cluster import Cluster
from tests.e2e.control_plane import ControlPlane

pytestmark = pytest.mark.e2e

MINUTES = 2


@pytest.fixture(scope="module")
def stored(programs: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlane]:
    """Return a control plane that both schedules have for themselves."""
    with stored_as_json(programs, tmp_path_factory.mktemp("control-plane")) as plane:
        yield plane


@pytest.mark.parametrize(("seed", "binds"), [(1, True), (2, False)], ids=["bindVerb", "without"])
def test_nothing_sticks_and_nothing_overruns(
    stored: ControlPlane, tmp_path: Path, seed: int, binds: bool
) -> None:
    plan = schedule(seed, MINUTES, binds=binds)
    report = play(stored, Cluster(stored, f"chaos-{seed}"), tmp_path, plan, binds=binds)
    sys.stdout.write(f"{report}\n")
    assert report.findings == [], text(plan[: report.phases])
