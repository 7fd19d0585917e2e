"""Seeds: one simulation for each of several seeds, in parallel processes, and their summary."""

from __future__ import annotations

import json
import os
import signal
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass
from multiprocessing import get_context
from statistics import fmean

from cli.command import CommandError
from cli.console import show, table
from cli.simulation.result_layout import line_chart, progress
from engine.simulation.result import SimulationResult
from grammar.messages.texts import counted

# The table has a row for each so many percent of arrivals; the JSON has all.
_STEP = 10
# The progress bar is brought up to date after this time.
_LOOK_SECONDS = 0.2
# A process tells how many pods it has placed after so many.
_PODS_TOLD = 64


@dataclass(frozen=True, slots=True)
class Run:
    """The result of one seed in short.

    `by_arrivals` has the allocated parts of all resources at each percent of arrivals.
    """

    seed: int
    nodes: int
    placed: int
    pending: int
    by_arrivals: Sequence[Mapping[str, float]]


# A simulation with a seed, to its end; it tells how many pods it has placed.
Simulate = Callable[[int, Callable[[int], None]], SimulationResult]


class _Worker:
    """What a process of the pool knows; it was forked, so nothing of it was copied by pickle."""

    simulate: Mapping[str, Simulate]
    resource: str
    told: Callable[[int], None]


def runs(
    simulate: Mapping[str, Simulate], seeds: Sequence[int], resource: str, pods: int
) -> Mapping[str, Sequence[Run]]:
    """The runs of each set of policies, in the order of the seeds.

    `pods` is the number of pods of a run, more or less, for the progress bar. Raises CommandError.
    """
    jobs = [(name, seed) for name in simulate for seed in seeds]
    processes = min(len(jobs), os.cpu_count() or 1)
    context = get_context("fork")
    done = context.Value("q", 0)

    def told(count: int) -> None:
        with done.get_lock():
            done.value += count

    with (
        progress(sys.stderr, counted(len(jobs), "run"), pods * len(jobs), each=1) as update,
        ProcessPoolExecutor(processes, context, _begin, (simulate, resource, told)) as pool,
    ):
        futures = [pool.submit(_run, name, seed) for name, seed in jobs]
        left: set[Future[Run]] = set(futures)
        while left:
            left = wait(left, _LOOK_SECONDS).not_done
            update(done.value)
        try:
            found = [future.result() for future in futures]
        except BrokenProcessPool:
            hint = "it may have had too little memory; simulate fewer pods or nodes"
            raise CommandError("a run ended before its result", hint) from None
    by_set: dict[str, list[Run]] = {name: [] for name in simulate}
    for (name, _), run in zip(jobs, found, strict=True):
        by_set[name].append(run)
    return by_set


def _begin(simulate: Mapping[str, Simulate], resource: str, told: Callable[[int], None]) -> None:
    # Ctrl-C ends the processes without a message; the command has its own.
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    _Worker.simulate, _Worker.resource, _Worker.told = simulate, resource, staticmethod(told)


def _run(name: str, seed: int) -> Run:
    def placed(count: int) -> None:
        if count % _PODS_TOLD == 0:
            _Worker.told(_PODS_TOLD)

    result = _Worker.simulate[name](seed, placed)
    parts = result.by_arrivals(_Worker.resource)
    return Run(seed, result.nodes, len(result.placed), len(result.pending), parts)


# ---- the summary


def print_runs(found: Mapping[str, Sequence[Run]], resource: str) -> None:
    """The mean allocation at each tenth of arrivals, with the least and the most of the seeds."""
    first, *others = found
    nodes = counted(found[first][0].nodes, "node")
    print(f"{counted(len(found[first]), 'seed')} on {nodes}\n")
    for name, some in found.items():
        if others:
            print(f"under {name}")
        _print_set(some, resource)
        print()
    if others:
        _print_both(found, resource)
    else:
        pods = [run.placed + run.pending for run in found[first]]
        pending = [run.pending for run in found[first]]
        print(f"a run has {_range(pods)} pods, of which {_range(pending)} are pending")


def _print_set(some: Sequence[Run], resource: str) -> None:
    names = [name for name in some[0].by_arrivals[0] if name not in (resource, "pods")]
    columns = (f"{resource} allocated", "least", "most", *names)
    rows = table("arrived", *columns, right=("arrived", *columns))
    for percent in _percents(some):
        parts = [run.by_arrivals[percent] for run in some]
        of = [part[resource] for part in parts]
        means = (_percent(fmean(part[name] for part in parts)) for name in names)
        rows.add_row(f"{percent}%", *map(_percent, (fmean(of), min(of), max(of))), *means)
    show(rows)


def _print_both(found: Mapping[str, Sequence[Run]], resource: str) -> None:
    """Both sets of policies, seed by seed, when everything that fits has arrived."""
    (old, of_old), (new, of_new) = found.items()
    last = _percents([*of_old, *of_new])[-1]
    percent = min(100, last)
    rows = table("seed", old, new, right=("seed", old, new))
    pairs = [
        (a.seed, a.by_arrivals[percent][resource], b.by_arrivals[percent][resource])
        for a, b in zip(of_old, of_new, strict=True)
    ]
    for seed, before, after in pairs:
        rows.add_row(str(seed), _percent(before), _percent(after))
    print(f"{resource} allocated at {percent}% of arrivals")
    show(rows)
    more, less = sum(b > a for _, a, b in pairs), sum(b < a for _, a, b in pairs)
    print(f"\nunder {new} more with {counted(more, 'seed')}, less with {less}")


def _percents(some: Sequence[Run]) -> Sequence[int]:
    """Each tenth of arrivals that all runs reach, and the last one if there is none."""
    last = min(len(run.by_arrivals) for run in some) - 1
    return range(_STEP, last + 1, _STEP) if last >= _STEP else [last]


def _percent(part: float) -> str:
    return f"{100 * part:.1f}%"


def _range(numbers: Sequence[int]) -> str:
    low, high = min(numbers), max(numbers)
    return str(low) if low == high else f"{low} to {high}"


def runs_json(found: Mapping[str, Sequence[Run]], resource: str) -> str:
    """The document that docs/simulate.md describes."""
    sets = [
        {
            "policies": name,
            "runs": [
                {
                    "seed": run.seed,
                    "placed": run.placed,
                    "pending": run.pending,
                    "byArrivals": [
                        {r: round(part, 6) for r, part in parts.items()}
                        for parts in run.by_arrivals
                    ],
                }
                for run in some
            ],
        }
        for name, some in found.items()
    ]
    return json.dumps({"arrivals": resource, "sets": sets}, ensure_ascii=False)


def runs_chart(found: Mapping[str, Sequence[Run]], resource: str) -> str:
    """The mean over the seeds of what is allocated of each resource, over arrivals."""
    every = [run for some in found.values() for run in some]
    last = min(len(run.by_arrivals) for run in every) - 1
    names = [resource, *(n for n in every[0].by_arrivals[0] if n not in (resource, "pods"))]
    lines = {name: [list(_means(some, name, last)) for some in found.values()] for name in names}
    return line_chart(list(found), lines, f"{last}% of {resource} arrived")


def _means(some: Sequence[Run], name: str, last: int) -> Iterator[float]:
    for percent in range(last + 1):
        yield fmean(run.by_arrivals[percent][name] for run in some)
