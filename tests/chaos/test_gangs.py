"""Gangs under faults of every process and object: whole or not at all, but where it is documented.

`make chaos GANGS=20 SEED=1`: so many rounds, each with a fault of a process. With `FAULTS=kill` it
has those faults alone whose names have this text. See CONTRIBUTING.md.
"""

import os
import sys
from pathlib import Path

import pytest

from tests.chaos.gang_nemesis import PROCESS_FAULTS, gang_nemesis
from tests.e2e.cluster import Cluster
from tests.e2e.control_plane import ControlPlane

pytestmark = pytest.mark.chaos

ROUNDS, SEED = int(os.environ.get("GANGS") or 5), int(os.environ.get("SEED") or 1)
FAULTS = os.environ.get("FAULTS", "")


def test_gangs_are_whole_or_not_bound(stored: ControlPlane, tmp_path: Path) -> None:
    faults = [fault for fault in PROCESS_FAULTS if FAULTS in fault]
    assert faults, f"no fault has `{FAULTS}` in its name: {', '.join(PROCESS_FAULTS)}"
    cluster = Cluster(stored, "chaos-gangs")
    with gang_nemesis(stored, cluster, tmp_path, SEED, faults) as nemesis:
        try:
            for _ in range(ROUNDS):
                sys.stdout.write(f"{nemesis.play()}\n")
        finally:
            sys.stdout.write(f"seed {SEED}: {nemesis.report}\n")
    assert nemesis.report.findings == []
