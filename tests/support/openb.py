"""The openb trace, which is beside the project or nowhere; and a little one that is like it."""

from __future__ import annotations

from pathlib import Path

import pytest

TRACE = Path(__file__).parents[3] / "shared" / "data" / "openb"
NODES = "openb_node_list_all_node.csv"
PODS = "openb_pod_list_default.csv"

with_trace = pytest.mark.skipif(
    not (TRACE / NODES).exists(), reason="the openb trace is not beside the project"
)

SMALL_NODES = """\
sn,cpu_milli,memory_mib,gpu,model
n-0,8000,16384,0,
n-1,8000,16384,2,T4
n-2,8000,16384,2,V100M16
"""
SMALL_PODS = """\
name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec,qos,pod_phase,creation_time,deletion_time,scheduled_time
p-0,6000,2048,0,0,,LS,Running,0,90,0
p-1,4000,4096,1,1000,,LS,Running,10,90,10
p-2,1000,1024,1,460,V100M16|V100M32,BE,Failed,20,90,21
p-3,1000,1024,2,1000,,LS,Pending,30,90,
p-4,1000,1024,2,1000,T4,LS,Pending,40,90,
"""


def link(folder: Path) -> None:
    """The trace's two files, in a folder."""
    for name in (NODES, PODS):
        (folder / name).symlink_to(TRACE / name)


def write_small(folder: Path) -> None:
    """`nodes.csv` and `pods.csv`."""
    (folder / "nodes.csv").write_text(SMALL_NODES, encoding="utf-8")
    (folder / "pods.csv").write_text(SMALL_PODS, encoding="utf-8")
