"""Rules about tables, while tables, nodes, pods and the time change: as the plain evaluator says.

The engine remembers what it has evaluated. Whatever changes, it says what a plain evaluation of
the rule says at that moment, with the rows that are not stale.
"""

from __future__ import annotations

import math
import random
from collections.abc import Mapping
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from engine.decision.verdict import Feasible
from engine.program.tables import Table
from grammar.meaning.evaluator import evaluate
from grammar.tree.ast import Expr
from grammar.tree.clauses import Filter, of_kind
from grammar.values.errors import EvaluationError, MissingError
from grammar.values.quantity import Quantity
from grammar.values.time import NEVER, SECOND, Timestamp
from tests.engine.program.test_tables import World
from tests.support import builders
from tests.support.engines import CODEC, node_of
from tests.support.examples import examples

RULES = (
    'data.load[node.name].cpu < quantity("4")',
    "node.name in data.load",
    "size(data.load) <= 2",
    "data.load.exists(name, name != node.name)",
    'data.load[node.name].age < duration("20s")',
    "data.load[?node.name].hasValue()",
    'data.load[node.name].cpu + node.since(data.load[node.name].time)["cpu"] < quantity("4")',
    'data.load[node.name].cpu < quantity("4") || node.labels["pool"] == "a"',
    "data.load[node.name].time < now",
    'data.load[pod.labels["like"]].cpu < quantity("4")',
)
NAMES = ("n1", "n2")
STALE = 60


class Changing(World):
    """A world in which everything changes that a rule about a table reads."""

    def __init__(self, draw: random.Random) -> None:
        self.draw = draw
        self.rule = draw.choice(RULES)
        missing = draw.choice(("", "missing pass"))
        self.passes_missing = bool(missing)
        when = draw.choice(("", "when size(data.load) > 0 "))
        super().__init__(f'filter "f" {when}{{ require {self.rule} {missing} }}')
        self.pod = builders.raw(builders.pod("a", "shop", labels={"like": "n1"}))
        self.at, self.until = 0, NEVER
        self.rows: Mapping[str, Any] = {}
        self.pods = 0

    def step(self) -> None:
        draw = self.draw
        match draw.randrange(5):
            case 0:
                names = draw.sample(("n1", "n2", "n3"), draw.randint(0, 3))
                self.at = self.nanos - draw.randint(0, 50) * SECOND
                self.until = draw.choice((NEVER, self.nanos + draw.randint(1, 50) * SECOND))
                self.rows = {
                    name: self.spec.row(
                        time=Timestamp(self.at - draw.randint(0, 20) * SECOND),
                        cpu=draw.choice((None, Quantity.parse(str(draw.randint(0, 7))))),
                    )
                    for name in names
                }
                table = Table(self.spec, self.rows, self.until)
                self.engine.take_tables({self.spec.digest: table})
            case 1:
                self.nanos += draw.choice((1, 7, 30)) * SECOND
            case 2:
                made = builders.node(draw.choice(NAMES), labels={"pool": draw.choice("ab")})
                self.cache.put_node(node_of(made))
            case 3:
                self.pods += 1
                made = builders.pod(f"p{self.pods}", cpu="1", on=draw.choice(NAMES))
                began = draw.choice((None, str(Timestamp(self.nanos - 30 * SECOND))))
                made["status"]["startTime"] = began
                self.cache.put_pod(CODEC.peer(builders.raw(made)))
            case _:
                pass

    def plainly(self, name: str) -> bool:
        (clause,) = of_kind(self.engine.registry.programs[0].source.policy.items, Filter)
        environment = self.engine.registry.programs[0].source.environment
        variables = {
            "pod": CODEC.pod(self.pod),
            "node": self.cache.snapshot().node(name),
            "now": Timestamp(self.nanos),
            "data.load": self._live(),
        }

        def value(expr: Expr) -> object:
            return evaluate(expr, variables, environment)

        try:
            if clause.when is not None and value(clause.when) is not True:
                return True
        except MissingError:
            return True
        try:
            return value(clause.requires[0]) is True
        except MissingError:
            return self.passes_missing
        except EvaluationError:
            return False

    def _live(self) -> Mapping[str, Any]:
        now = self.nanos
        return {
            name: row
            for name, row in self.rows.items()
            if now < min(self.until, row.time.nanos + STALE * SECOND)
        }


@given(st.integers(0, 2**32))
@settings(max_examples=examples(300))
def test_what_is_remembered_is_what_a_plain_evaluation_says(seed: int) -> None:
    world = Changing(random.Random(seed))
    world.take({})
    for _ in range(25):
        world.step()
        names = world.draw.sample(NAMES, world.draw.randint(1, 2))
        decided = world.engine.filter(world.pod, names, None, math.inf)
        found = {n: isinstance(v, Feasible) for n, v in zip(names, decided, strict=True)}
        # Nobody received the offer.
        world.engine.in_flight.forget("a")
        assert found == {name: world.plainly(name) for name in names}, world.rule
