"""Tables that change: what was kept of clauses that read them is evaluated again, and rightly."""

from __future__ import annotations

import dataclasses
import math
from collections import Counter
from collections.abc import Callable, Mapping
from itertools import count
from typing import Any

from engine.cache.cache import Cache
from engine.decision.registry import Registry
from engine.engine import Engine
from engine.program.frame import Evaluate, Frame
from engine.program.policy_time import DecisionTime
from engine.program.program import FilterProgram, ScoreProgram
from engine.program.tables import Table
from grammar.values.quantity import Quantity
from grammar.values.time import SECOND, Timestamp
from tests.support import builders
from tests.support.engines import CODEC, Known, Silent, node_of, programs_of

NODES = [f"n{number}" for number in range(8)]
POLICY = """
cluster policy p {
  for pods where true
  data "load" { from metrics for at most 60s }
  data "rows" { from file "x.csv" by "node" columns { room: double } }
  filter "kind" { require node.labels["kind"] != "a" message "of kind a" }
  filter "load" { require data.load[node.name].cpu < quantity("4") message "hot" missing pass }
  filter "zone" { require node.labels["zone"] != "z" message "in z" }
  filter "room" { require data.rows[node.name].room > 2.0 message "full" missing pass }
  filter "both" { require data.rows[node.name].room < 9.0 || data.load[node.name].cpu < "2" }
  score "load score" weight 2 { value data.load[node.name].cpu range "8" .. "0" missing 50 }
  score "kind score" weight 1 { value node.labels["kind"] == "b" ? 1 : 0 range 0 .. 1 }
  score "room score" weight 1 { value data.rows[node.name].room range 0 .. 10 missing 50 }
}
"""
# One more clause that changes with the time alone.
TIMED = 'filter "young" { require now - node.metadata.creationTimestamp < "20m" message "old" }'


class World:
    """Nodes and tables, an engine about them, and what it has evaluated, by clause."""

    def __init__(self, policy: str) -> None:
        self.nanos = Timestamp.parse(builders.CREATED).nanos
        self.evaluated: Counter[str] = Counter()
        (program,) = programs_of(policy)
        self._program = dataclasses.replace(
            program,
            clauses=(
                *(
                    dataclasses.replace(c, requires=tuple(self._counted(c.name, c.requires)))
                    for c in program.of(FilterProgram)
                ),
                *(
                    dataclasses.replace(c, value=next(self._counted(c.name, [c.value])))
                    for c in program.of(ScoreProgram)
                ),
            ),
        )
        self.specs = {table.name: table for table in program.tables}
        self._cache = Cache()
        self.tables: dict[str, Table] = {}
        self.engine = self._engine()
        for name in NODES:
            self.label(name, kind="b", zone="y")
        self._pod = builders.raw(builders.pod("a", "shop"))

    def _counted(self, name: str, parts: Any) -> Any:
        def counted(part: Evaluate) -> Callable[[Frame], object]:
            def run(frame: Frame) -> object:
                self.evaluated[name] += 1
                return part(frame)

            return run

        return map(counted, parts)

    def _engine(self) -> Engine:
        # An engine that is called often within a short time reports a loop.
        clock = count(step=3600.0)
        time = DecisionTime(lambda: next(clock), lambda: Timestamp(self.nanos))
        registry, known = Registry([self._program]), Known(self._cache)
        made = Engine(registry, known, CODEC, Silent(), time=time)
        made.take_tables(self.tables)
        return made

    def label(self, name: str, **labels: str) -> None:
        self._cache.put_node(node_of(builders.node(name, labels=labels)))

    def take(self, table: str, rows: Mapping[str, float], old: int = 0) -> None:
        spec, at = self.specs[table], Timestamp(self.nanos - old * SECOND)
        made = {
            name: spec.row(time=at, cpu=Quantity.parse(str(value)))
            if table == "load"
            else spec.row(time=at, room=float(value))
            for name, value in rows.items()
        }
        self.tables = {**self.tables, spec.digest: Table(spec, made)}
        self.engine.take_tables(self.tables)

    def answers(self, engine: Engine | None = None) -> list[tuple[str, int]]:
        """What is said of each node, and its score."""
        asked = engine or self.engine
        verdicts = [*asked.filter(self._pod, NODES, None, math.inf)]
        found = asked.prioritize(self._pod, NODES, None, math.inf)
        assert found is not None
        return [(str(v), int(p)) for v, p in zip(verdicts, found.points, strict=True)]

    def expected(self) -> list[tuple[str, int]]:
        """The same from an engine that has never seen anything else."""
        return self.answers(self._engine())

    def again(self) -> Mapping[str, int]:
        """How often each clause is evaluated for the next answers."""
        self.evaluated.clear()
        self.answers()
        return dict(self.evaluated)


def every(rows: float) -> dict[str, float]:
    return dict.fromkeys(NODES, rows)


def test_what_reads_single_values_of_a_node_is_not_evaluated_again() -> None:
    world = World(POLICY)
    world.take("load", every(1))
    world.take("rows", every(5))
    world.answers()
    assert world.again() == {}
    world.take("load", every(2))
    others = ("load", "room", "both", "load score", "room score")
    assert world.again() == dict.fromkeys(others, 8)
    world.take("rows", every(6))
    assert world.again() == dict.fromkeys(others, 8)


def test_a_table_that_stays_costs_nothing() -> None:
    world = World(POLICY)
    world.take("load", every(1))
    world.take("rows", every(5))
    world.answers()
    world.engine.take_tables(dict(world.tables))
    assert world.again() == {}


def test_a_row_that_becomes_stale_after_a_new_table_is_missing() -> None:
    world = World(POLICY)
    world.take("load", every(7))
    world.take("rows", every(5))
    world.answers()
    world.nanos += 30 * SECOND
    world.take("rows", every(6))
    assert all("hot" in verdict for verdict, _ in world.answers())
    world.nanos += 31 * SECOND
    assert world.answers() == world.expected()
    assert not any("hot" in verdict for verdict, _ in world.answers())
