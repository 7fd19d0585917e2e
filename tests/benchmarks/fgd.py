"""Runs the six policies of `policies/library/gpu` on the openb trace, and prints their allocation.

    make fgd [TIES=random] [SEEDS=42-51] [PLUGINS=yes] [OPENB=FOLDER] [CHART=FILE]

With PLUGINS the score of kube-scheduler's own plugins counts beside that of the policy. CHART is an
SVG of the means over the arrivals.

The figures beside ours are those of Weng et al., Beware of Fragmentation (USENIX ATC 2023): the
mean of ten seeds when the arrived pods request what all cards have. The seeds draw other orders.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from statistics import fmean
from xml.sax.saxutils import escape

from tests.benchmarks.arrivals import Arrivals, by_arrivals

_WIDTH, _HEIGHT = 260, 180
_LEFT, _TOP, _GAP, _FOOT = 44, 44, 48, 54
# A panel has not many more pixels than this.
_POINTS = 200
# Colours of Okabe and Ito for colour-blind readers, and dashes for print.
_LINES = (
    ("#0072b2", ""),
    ("#d55e00", ' stroke-dasharray="6 3"'),
    ("#009e73", ' stroke-dasharray="2 2"'),
    ("#cc79a7", ' stroke-dasharray="9 3"'),
    ("#e69f00", ' stroke-dasharray="6 2 2 2"'),
    ("#56b4e9", ' stroke-dasharray="3 3"'),
)


def line_chart(
    names: Sequence[str], lines: Mapping[str, Sequence[Sequence[float]]], end: str
) -> str:
    """A panel per resource, with a line of parts for each of at most six names.

    `end` labels the right end of the horizontal axis, which begins at 0.
    """
    width = _LEFT + len(lines) * (_WIDTH + _GAP)
    height = _TOP + _HEIGHT + _FOOT + 18 * len(names)
    size = f'viewBox="0 0 {width} {height}" width="{width}" height="{height}"'
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" {size} font-family="sans-serif" font-size="12">',
        "<title>Allocation as pods come</title>",
        f'<rect width="{width}" height="{height}" fill="#ffffff"/>',
    ]
    for number, (resource, some) in enumerate(lines.items()):
        parts += _panel(resource, _LEFT + number * (_WIDTH + _GAP), some, end)
    parts += _legend(names)
    return "\n".join([*parts, "</svg>", ""])


def _panel(resource: str, left: int, lines: Sequence[Sequence[float]], end: str) -> Iterator[str]:
    bottom = _TOP + _HEIGHT
    yield f'<text x="{left}" y="{_TOP - 12}" font-weight="bold">{escape(resource)}</text>'
    for percent in (0, 25, 50, 75, 100):
        y = bottom - _HEIGHT * percent // 100
        yield f'<path d="M{left} {y}h{_WIDTH}" stroke="#dddddd"/>'
        yield _label(left - 6, y + 4, f"{percent}%", "end")
    yield _label(left, bottom + 18, "0", "start")
    yield _label(left + _WIDTH, bottom + 18, end, "end")
    for line, (colour, dashes) in zip(lines, _LINES, strict=False):
        points = " ".join(_points(line, left, bottom))
        style = f'fill="none" stroke="{colour}" stroke-width="2"{dashes}'
        yield f'<polyline points="{points}" {style}/>'


def _points(line: Sequence[float], left: int, bottom: int) -> Iterator[str]:
    """The points of a line, which is cut at the top: nodes can be over-full from the start."""
    last = len(line) - 1
    steps = min(last, _POINTS)
    for step in range(steps + 1):
        at = last * step // max(steps, 1)
        part = min(line[at], 1.0)
        yield f"{left + _WIDTH * at / max(last, 1):.1f},{bottom - _HEIGHT * part:.1f}"


def _legend(names: Sequence[str]) -> Iterator[str]:
    for number, (name, (colour, dashes)) in enumerate(zip(names, _LINES, strict=False)):
        y = _TOP + _HEIGHT + 42 + 18 * number
        yield f'<path d="M{_LEFT} {y - 4}h28" stroke="{colour}" stroke-width="2"{dashes}/>'
        yield f'<text x="{_LEFT + 36}" y="{y}">{escape(name)}</text>'


def _label(x: int, y: int, text: str, anchor: str) -> str:
    return f'<text x="{x}" y="{y}" fill="#555555" text-anchor="{anchor}">{text}</text>'


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
MEASURED, SHOWN = "gpu/milli", ("gpu/milli", "cpu", "memory")
Course = Sequence[Mapping[str, float]]


def main() -> int:
    trace = Path(os.environ.get("OPENB") or ROOT.parent / "shared" / "data" / "openb")
    nodes, pods = trace / "openb_node_list_gpu_node.csv", trace / "openb_pod_list_default.csv"
    if not (nodes.exists() and pods.exists()):
        print(f"skipped: no `{nodes.name}` in `{trace}`; say where they are with OPENB=FOLDER")
        return 0
    ties, text = os.environ.get("TIES") or "name", os.environ.get("SEEDS") or "42-51"
    first, _, last = text.partition("-")
    seeds = range(int(first), int(last or first) + 1)
    began = time.monotonic()
    plugins = bool(os.environ.get("PLUGINS"))
    beside = "with" if plugins else "without"
    print(
        f"ties by {ties}, seeds {text}, {beside} the plugins' scores; percent at 100 % of arrivals"
    )
    print(f"{'policy':<14} published   gpu   cpu memory  by seed")
    found = dict[str, list[Course]]()
    with ProcessPoolExecutor() as pool:
        for name, (policy, published) in POLICIES.items():
            use = f'use "library/{policy}" (part: "openb/gpu-milli")'
            rules = f"policy run {{ for pods where true {use} }}"
            asked = [
                Arrivals(nodes, pods, rules, MEASURED, seed, ties == "random", plugins)
                for seed in seeds
            ]
            found[name] = list(pool.map(by_arrivals, asked))
            at = [run[100] for run in found[name]]
            gpu, cpu, memory = (100 * fmean(each[r] for each in at) for r in SHOWN)
            by_seed = " ".join(f"{100 * each[MEASURED]:.1f}" for each in at)
            line = f"{name:<14} {published:>9.1f} {gpu:>5.1f} {cpu:>5.1f} {memory:>6.1f}  {by_seed}"
            print(line, flush=True)
    if file := os.environ.get("CHART"):
        Path(file).write_text(chart(found), encoding="utf-8")
    print(f"{time.monotonic() - began:.0f} s", file=sys.stderr)
    return 0


def chart(found: Mapping[str, Sequence[Course]]) -> str:
    """The means over the seeds, as far as all runs go."""
    end = min(len(run) for runs in found.values() for run in runs) - 1
    lines = {r: [list(_means(runs, r, end)) for runs in found.values()] for r in SHOWN}
    return line_chart(list(found), lines, f"{end}% of {MEASURED} arrived")


def _means(runs: Sequence[Course], resource: str, end: int) -> Iterator[float]:
    for percent in range(end + 1):
        yield fmean(run[percent][resource] for run in runs)


if __name__ == "__main__":
    sys.exit(main())
