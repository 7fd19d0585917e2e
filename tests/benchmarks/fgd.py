"""Runs the six policies of `policies/library/gpu` on the openb trace, and prints their allocation.

    make fgd [TIES=random] [SEEDS=42-51] [PLUGINS=yes] [OPENB=FOLDER]

With PLUGINS the score of kube-scheduler's own plugins counts beside that of the policy.

The figures beside ours are those of Weng et al., Beware of Fragmentation (USENIX ATC 2023): the
mean of ten seeds when the arrived pods request what all cards have. The seeds draw other orders.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from statistics import fmean

ROOT = Path(__file__).parents[2]
# By the names of the paper; the means of its published runs, in percent of the cards.
POLICIES = {
    "Random": ("card-random", 86.3),
    "DotProd": ("card-dot-product", 90.6),
    "GpuClustering": ("card-clustering", 91.7),
    "GpuPacking": ("card-packing", 91.8),
    "BestFit": ("card-best-fit", 92.9),
    "FGD": ("fgd", 95.2),
}
MEASURED = "gpu/milli"


def main() -> int:
    trace = Path(os.environ.get("OPENB") or ROOT.parent / "shared" / "data" / "openb")
    nodes, pods = trace / "openb_node_list_gpu_node.csv", trace / "openb_pod_list_default.csv"
    if not (nodes.exists() and pods.exists()):
        print(f"skipped: no `{nodes.name}` in `{trace}`; say where they are with OPENB=FOLDER")
        return 0
    ties, seeds = os.environ.get("TIES") or "name", os.environ.get("SEEDS") or "42-51"
    began = time.monotonic()
    beside = "with" if os.environ.get("PLUGINS") else "without"
    print(
        f"ties by {ties}, seeds {seeds}, {beside} the plugins' scores; percent at 100 % of arrivals"
    )
    print(f"{'policy':<14} published   gpu   cpu memory  by seed")
    for name, (policy, published) in POLICIES.items():
        runs = simulated(policy, nodes, pods, ties, seeds)
        at = [run["byArrivals"][100] for run in runs]
        gpu, cpu, memory = (
            100 * fmean(each[r] for each in at) for r in (MEASURED, "cpu", "memory")
        )
        by_seed = " ".join(f"{100 * each[MEASURED]:.1f}" for each in at)
        line = f"{name:<14} {published:>9.1f} {gpu:>5.1f} {cpu:>5.1f} {memory:>6.1f}  {by_seed}"
        print(line, flush=True)
    print(f"{time.monotonic() - began:.0f} s", file=sys.stderr)
    return 0


def simulated(
    policy: str, nodes: Path, pods: Path, ties: str, seeds: str
) -> list[dict[str, list[dict[str, float]]]]:
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "policy.policy"
        use = f'use "library/{policy}" (part: "openb/gpu-milli")'
        file.write_text(f"policy run {{ for pods where true {use} }}")
        plugins = () if os.environ.get("PLUGINS") else ("--no-plugin-scores",)
        command = [
            *(sys.executable, "-m", "placet", "simulate", "--json", *plugins),
            *("--cluster", str(nodes), "--pods", str(pods), "--policies", str(file)),
            *("--ignore-resource", "nvidia.com/gpu", "--shuffle", "--ties", ties),
            *("--arrivals", f"{MEASURED}=130%", "--seeds", seeds),
        ]
        done = subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, check=True)
    found: list[dict[str, list[dict[str, float]]]] = json.loads(done.stdout)["sets"][0]["runs"]
    return found


if __name__ == "__main__":
    sys.exit(main())
