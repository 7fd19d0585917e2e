"""Mutants: planted faults of one line, each of which a nemesis has to find.

`make chaos-mutants` applies each to a copy of the tree, and has a simulated cluster play schedules
of three seeds there, for two minutes of a processor each. What finds a fault is written shortened.
`MUTANTS=text` tries those alone whose name has the text, and `SEEDS=4,5,6` takes other seeds.
Then come random mutants, 30 or `NUMBER=10`, drawn from `DRAW=1`: each has to be found by the unit
tests of its folder, or else by the nemesis, but for a few that change nothing. Without a fault,
neither may find anything.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.chaos.random_mutants import drawn

TREE = Path(__file__).parents[2]
FOLDERS = ("cli", "deploy", "engine", "grammar", "policies", "server", "tests")
_SECONDS, _SHORTEN_SECONDS, _MINUTES = 120.0, 60.0, 60
# On a busy machine, a second of a processor may take long.
_MOST_SECONDS = 3600.0
# Of the random mutants so many are to be found: some change nothing that anybody sees.
_RANDOM, _LEAST_FOUND, _MINUTES_AT_RANDOM = 30, 0.8, 2


@dataclass(frozen=True, slots=True)
class Mutant:
    """A fault: one line of a file, and what it becomes.

    It shows with a bindVerb or without one, and where a policy is repaired, if it `repairs`.
    """

    name: str
    file: str
    line: str
    fault: str
    binds: bool = False
    repairs: bool = False

    def apply(self, tree: Path) -> None:
        """Plant the fault in a copy of the tree."""
        file = tree / self.file
        text = file.read_text()
        assert text.count(self.line) == 1, f"{self.name}: {text.count(self.line)} such lines"
        file.write_text(text.replace(self.line, self.fault))


MUTANTS: Sequence[Mutant] = (
    Mutant(
        "pods in flight count nowhere",
        "engine/counting/in_flight_pods.py",
        "return [p for p in self._pods.values() if p is not own and p.owner is owner]",
        "return []",
    ),
    Mutant(
        "a new list leaves known objects as they were",
        "engine/cache/reflector.py",
        "self._store.upsert(key, version, raw)\n",
        "self._due and self._store.known(key) or self._store.upsert(key, version, raw)\n",
    ),
    Mutant(
        "a leader decides before it has listed pods",
        "server/runtime/cluster_runtime.py",
        "        if not self._has_listed:\n",
        "        if False:\n",
        binds=True,
    ),
    Mutant(
        "a new leader takes over no pod in flight",
        "engine/counting/in_flight_pods.py",
        "            if self._schedulers.may_place(pod):\n",
        "            if False:\n",
    ),
    Mutant(
        "a pod may take less than nothing of a card",
        "engine/cards/node_cards.py",
        "        if amount < 0:\n",
        "        if False:\n",
        binds=True,
    ),
    Mutant(
        "a new list after an expired version keeps deleted objects",
        "engine/cache/reflector.py",
        "        self._store.retain(keys)\n        self.relists",
        '        self._due == "expired" or self._store.retain(keys)\n        self.relists',
    ),
    Mutant(
        "a node that is back takes another row",
        "engine/cache/cache.py",
        "        if name in self._left:\n",
        "        if False:\n",
    ),
    Mutant(
        "a share counts pods that end",
        "engine/clauses/share.py",
        "count=compiler.count(clause, clause.bound.amount),\n",
        "count=compiler.count(clause, clause.bound.amount, terminating=True),\n",
    ),
    Mutant(
        "a spread counts pods that end",
        "engine/clauses/spread.py",
        "count = compiler.count(clause, clause.skew)\n",
        "count = compiler.count(clause, clause.skew, terminating=True)\n",
    ),
    Mutant(
        "a limit forgets pods that end",
        "engine/clauses/limit.py",
        "terminating=True",
        "terminating=False",
    ),
    Mutant(
        "what was known before a term is kept",
        "engine/counting/in_flight_pods.py",
        "        self._pods = {u: p for u, p in self._pods.items() if p.since >= since}\n"
        "        self._refused = {u: r for u, r in self._refused.items() if r[0] >= since}\n",
        "        return\n",
    ),
    Mutant(
        "the Lease is held whatever the clock says",
        "engine/cluster/lease.py",
        "        return self._clock() < self._held_until\n",
        "        return self._held_until > 0.0\n",
    ),
    Mutant(
        "a gang is released one member early",
        "engine/gangs/gang.py",
        "        is_enough = len(self.holds) >= self.quorum\n",
        "        is_enough = len(self.holds) >= self.quorum - 1\n",
        binds=True,
    ),
    Mutant(
        "a gang is held whatever its members say of their number",
        "engine/gangs/gathering.py",
        '            ("number", self._number),\n            ("changed", self._broken),\n',
        '            ("changed", self._broken),\n',
        binds=True,
    ),
    Mutant(
        "a gang is held beside a member that somebody else has bound",
        "engine/gangs/gangs.py",
        "            elif gang.has_enough or self._ends.bound(gang):\n",
        "            elif gang.has_enough:\n",
        binds=True,
    ),
    Mutant(
        "members of a gang may share a port of a node",
        "engine/gangs/paper.py",
        "        if call.pod.pod.hostPorts and self.ports:\n",
        "        if False:\n",
        binds=True,
    ),
    Mutant(
        "a gang of mixed sizes is placed in any order",
        "engine/gangs/paper.py",
        "sorted(chosen, key=partial(self._freedom, rows, known))",
        "chosen",
        binds=True,
    ),
    Mutant(
        "a node takes the row of another one that is gone",
        "engine/cache/cache.py",
        "        if name in self._left:\n",
        "        if self._left:\n            return self._left.popitem()[1][0]\n"
        "        if name in self._left:\n",
    ),
    Mutant(
        "a limit allows one more",
        "engine/counting/bounds.py",
        "most = counts.high + counts.own <= amount\n",
        "most = counts.high <= amount\n",
    ),
    Mutant(
        "floors that are judged together close no node",
        "engine/counting/count_clauses.py",
        "                open=headroom.open & np.array(opened)[ids],\n",
        "                open=headroom.open,\n",
    ),
    Mutant(
        "floors see no node that gets another zone",
        "engine/counting/count_clauses.py",
        "known and all(one is other for one, other in zip(sides, self._sides, strict=True))",
        "known",
    ),
    Mutant(
        "a mutual limit allows one more",
        "engine/counting/mutual_limits.py",
        "            closed |= (here[0] > 0) & (number[0] + 1 > self._most)\n",
        "            closed |= (here[0] > 0) & (number[0] > self._most)\n",
    ),
    Mutant(
        "a mutual limit sees no pod that comes beside those like it",
        "engine/counting/mutual_limits.py",
        "            and known.version == group.version\n",
        "",
    ),
    Mutant(
        "a named count has no pods on their way",
        "engine/counting/pod_counter.py",
        '            elif on_the_way != "bound" and not count.peers.state:\n',
        "            elif False:\n",
    ),
    Mutant(
        "deleted pods are counted for ever",
        "engine/cache/cache.py",
        "            self.tallies.leaves(key, old)\n",
        "            pod is None or self.tallies.leaves(key, old)\n",
    ),
    Mutant(
        "a leader that cannot renew the Lease goes on",
        "engine/cluster/lease.py",
        "self._held_until = began + _RENEW_DEADLINE\n",
        "self._held_until = began + 4 * _RENEW_DEADLINE\n",
        binds=True,
    ),
    Mutant(
        "the Lease of a silent leader is taken at once",
        "engine/cluster/lease.py",
        "unchanged - (DURATION if lease.holder or",
        "unchanged - (0.0 if lease.holder or",
    ),
    Mutant(
        "pods that another replica has refused are not woken",
        "engine/cluster/requeue.py",
        "            if pod is not None and refused:\n",
        "            if False:\n",
    ),
    Mutant(
        "a Binding without an answer is forgotten",
        "engine/cluster/binding.py",
        "check = asyncio.create_task(self._check(binding, key))\n",
        "check = asyncio.create_task(self._check(binding, key)); self._cache.forget(key)\n",
        binds=True,
    ),
    Mutant(
        "a pod is evicted before the last one has its place",
        "engine/drift/repairs.py",
        "        if moving >= repair.at_once:\n",
        "        if False:\n",
        repairs=True,
    ),
    Mutant(
        "a new leader evicts at once",
        "engine/drift/repairs.py",
        "        self._begins_at = self._clock() + _MINUTE\n",
        "        self._begins_at = 0.0\n",
        repairs=True,
    ),
)


@dataclass(frozen=True, slots=True)
class Found:
    """What became of a run: whether anything was found, what it wrote, and how long it took."""

    anything: bool
    text: str
    seconds: float

    @property
    def kinds(self) -> str:
        """The first finding."""
        lines = (line for line in self.text.splitlines() if line[:1].isalpha() and ": " in line)
        return next((line for line in lines if " phases, " not in line), "")


def run(
    tree: Path,
    seed: int,
    *,
    binds: bool | None,
    repairs: bool = False,
    minutes: int = _MINUTES,
    shorten: float = _SHORTEN_SECONDS,
) -> Found:
    """Play a schedule in a copy of the tree until something is found, or the time is over.

    Without a wish, it is played without a bindVerb and with one.
    """
    command = [sys.executable, "-m", "tests.chaos.simulated", f"{seed}", f"{minutes}"]
    command += [f"--seconds={_SECONDS:g}", f"--shorten={shorten:g}"]
    command += [] if binds is None else ["--bind" if binds else "--no-bind"]
    command += [*(["--repair"] if repairs else [])]
    began = time.monotonic()
    environment = {**os.environ, "PYTHONHASHSEED": "0", "PYTHONPATH": f"{tree}"}
    try:
        done = subprocess.run(
            command,
            cwd=tree,
            env=environment,
            capture_output=True,
            text=True,
            timeout=_MOST_SECONDS,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return Found(False, "it did not end\n", time.monotonic() - began)
    if done.returncode not in (0, 1):
        return Found(True, f"the run failed:\n{done.stderr[-2000:]}", time.monotonic() - began)
    return Found(bool(done.returncode), done.stdout, time.monotonic() - began)


def copied(folder: Path, folders: Iterable[str] = FOLDERS) -> Path:
    """A copy of what Placet and its simulation need."""
    ignored = shutil.ignore_patterns("__pycache__")
    for name in folders:
        shutil.copytree(TREE / name, folder / name, ignore=ignored)
    return folder


def _say(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


def _unit_tests_find(tree: Path, tests: Sequence[str]) -> bool:
    """Whether unit tests fail there, or do not end."""
    command = [sys.executable, "-m", "pytest", "-qx", "-p", "no:cacheprovider", *tests]
    try:
        done = subprocess.run(
            command,
            cwd=tree,
            env={**os.environ, "PYTHONPATH": f"{tree}"},
            capture_output=True,
            timeout=_MOST_SECONDS,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return True
    return done.returncode != 0


def _missed(seeds: Sequence[int]) -> list[str]:
    """Those of the list that no seed finds."""
    chosen = [each for each in MUTANTS if os.environ.get("MUTANTS", "") in each.name]
    missed = []
    for number, mutant in enumerate(chosen, 1):
        _say(f"{number}/{len(chosen)}: {mutant.name}")
        with tempfile.TemporaryDirectory() as folder:
            tree = copied(Path(folder))
            mutant.apply(tree)
            for seed in seeds:
                found = run(tree, seed, binds=mutant.binds, repairs=mutant.repairs)
                if found.anything:
                    _say(f"  found by seed {seed}, {found.seconds:.0f} s with the shortening:")
                    _say("".join(f"    {line}\n" for line in found.text.splitlines()))
                    break
                _say(f"  not found by seed {seed} in {found.seconds:.0f} s")
            else:
                missed.append(mutant.name)
    _say(f"found {len(chosen) - len(missed)} of {len(chosen)}")
    return missed


def _found_by(plant: Callable[[Path], None], tests: Sequence[str], seeds: Sequence[int]) -> str:
    """What finds a fault in a copy of the tree: unit tests, or else a seed; or nothing."""
    with tempfile.TemporaryDirectory() as folder:
        tree = copied(Path(folder))
        for name in ("pyproject.toml", "docs", "Makefile", "README.md"):
            (tree / name).symlink_to(TREE / name)
        plant(tree)
        if _unit_tests_find(tree, tests):
            return "unit tests"
        for seed in seeds:
            found = run(tree, seed, binds=None, minutes=_MINUTES_AT_RANDOM, shorten=0.0)
            if found.anything:
                return f"seed {seed} in {found.seconds:.0f} s: {found.kinds}"
    return ""


def _missed_at_random(number: int, seeds: Sequence[int]) -> list[str]:
    """Those drawn at random that neither unit tests nor a seed finds."""
    chosen = drawn(TREE, int(os.environ.get("DRAW") or 1), number)
    every = sorted({each for mutant in chosen for each in mutant.tests})
    # What finds something where there is no fault would find any.
    if chosen and (found := _found_by(lambda _: None, every, seeds)):
        raise SystemExit(f"found without a fault by {found}")
    missed = []
    for place, mutant in enumerate(chosen, 1):
        _say(f"{place}/{number}: {mutant.name}")
        found = _found_by(mutant.apply, mutant.tests, seeds)
        _say(f"  found by {found}" if found else "  not found")
        if not found:
            missed.append(mutant.name)
    _say(f"found {len(chosen) - len(missed)} of {len(chosen)} random ones")
    return missed


def main() -> int:
    seeds = [int(each) for each in (os.environ.get("SEEDS") or "1,2,3").split(",")]
    missed = _missed(seeds)
    number = int(os.environ.get("NUMBER") or (0 if "MUTANTS" in os.environ else _RANDOM))
    at_random = _missed_at_random(number, seeds)
    for name in (*missed, *at_random):
        _say(f"missed: {name}")
    return int(bool(missed) or len(at_random) > (1 - _LEAST_FOUND) * number)


if __name__ == "__main__":
    raise SystemExit(main())
