"""Worlds: small clusters made of what two versions of a policy read, and their verdicts there."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from random import Random
from typing import Any, Literal

from cli.policy_tests.runner import Answer, FixtureBuilder, FixtureEngine
from cli.written_objects import BadTestError
from engine.clauses.programs import compile_policy
from engine.decision.registry import Registry
from engine.decision.verdict import Feasible
from engine.enforced import needs_of
from engine.errors import EngineError
from engine.objects.request_pod import ObjectCodec
from grammar.checker.policy_checker import Checked
from grammar.meaning.schema import Schema
from grammar.messages.diagnostics import UserError
from grammar.syntax.parser import parse_file
from grammar.tree import ast
from grammar.tree.clause_parts import Bound
from grammar.tree.printer import print_string
from grammar.tree.source import Source
from grammar.tree.types import BOOL, Type
from grammar.tree.walk import children, reads, walk
from grammar.values.quantity import NANO, Quantity
from grammar.values.time import SECOND, Duration

Json = Any
# How one version differs from the other for a node: only the new one rejects, or the old one.
Direction = Literal["stricter", "laxer"]
# Two versions of a policy; None is no policy at all.
Pair = tuple[Checked | None, Checked | None]
_MOST_PODS = 12


@dataclass(frozen=True, slots=True)
class Thing:
    """A thing in a world: a node or a pod, as a test writes it."""

    kind: Literal["node", "pod"]
    name: str
    fields: Mapping[str, Json]
    on: str = ""

    def __str__(self) -> str:
        fields = f" {json.dumps(self.fields, ensure_ascii=False)}" if self.fields else ""
        on = f" on {print_string(self.on)}" if self.on else ""
        return f"{self.kind} {print_string(self.name)}{fields}{on}"


@dataclass(frozen=True, slots=True)
class SmallWorld:
    """A small world: things, of which the last one is the pod in question."""

    things: tuple[Thing, ...]

    def text(self, name: str, expected: str) -> str:
        """The text of a test of this world."""
        lines = [f"test {print_string(name)} {{", *map(str, self.things), expected]
        return "\n  ".join(lines) + "\n}\n"

    def smaller(self) -> Iterator[SmallWorld]:
        """The worlds with one part less."""
        for at, each in enumerate(self.things):
            before, after = self.things[:at], self.things[at + 1 :]
            if after:
                yield SmallWorld((*before, *after))
            for fields in _smaller(each.fields):
                yield SmallWorld((*before, replace(each, fields=fields), *after))


def _smaller(value: Json) -> Iterator[Json]:
    """The values with one entry less, at any depth."""
    if isinstance(value, Mapping):
        for key, inner in value.items():
            yield {k: v for k, v in value.items() if k != key}
            yield from ({**value, key: less} for less in _smaller(inner))
    if isinstance(value, list):
        yield from ([*value[:at], *value[at + 1 :]] for at in range(len(value)))


def amount(nanos: int) -> str:
    """The text of an amount, which no object has below 0."""
    nanos = max(0, nanos)
    return str(Quantity(nanos, "binary" if nanos % (1024 * NANO) == 0 else "decimal"))


def put(fields: dict[str, Json], path: Sequence[str], value: Json) -> None:
    """Sets a field by its path."""
    for name in path[:-1]:
        fields = fields.setdefault(name, {})
    fields[path[-1]] = value


class WorldMaker:
    """A maker of worlds from what policies read; the same seed makes the same worlds."""

    def __init__(
        self,
        policies: Sequence[Checked],
        schema: Schema,
        seed: int = 0,
        bases: Sequence[SmallWorld] = (),
    ) -> None:
        self._random = Random(seed)  # noqa: S311 - nobody has to guess them
        self._bases = bases
        self._schema = schema
        parts = [part for each in policies for part in (each, *each.uses)]
        # What policies name, by the type; numbers, amounts and lengths with those beside them.
        self._literals: dict[str, list[Json]] = {"string": [""], "double": [0.5]}
        self._literals |= {"int": [0, 1, 3], "quantity": [0], "duration": [0]}
        # The keys of labels and annotations, each with the texts beside it; names of resources, and
        # those of fields.
        self._keys: dict[str, list[str]] = {}
        self._resources: set[str] = set()
        self._names: set[str] = set()
        self._paths = set[tuple[str, ...]]()
        for part in parts:
            for expr in children(part.policy.items):
                self._paths |= {read.path for read in reads(expr, part.environment.definitions)}
            for expr in walk(part.policy.items):
                self._take(expr)
            for expr in walk(part.policy.items):
                self._take_beside(expr)
            for clause in part.policy.clauses:
                numbers = [getattr(clause, name, None) for name in ("bound", "skew")]
                bounds = [
                    n.amount if isinstance(n, Bound) and not n.percent else n for n in numbers
                ]
                self._literals["int"] += [int(n) for n in bounds if isinstance(n, int | float)]
        own = [part.policy.namespace for part in parts if part.policy.namespace]
        named = [text for text in self._literals["string"] if text.isalnum()]
        is_open = len(own) < len(parts) or len(set(own)) > 1
        self._namespaces = [*own, *([*named, "default", "elsewhere"] if is_open else ())]
        self._most = 1
        clauses = [clause for part in parts for clause in part.policy.clauses]
        if not all(c.keyword in ("filter", "score") for c in clauses) or "pods" in self._names:
            self._most = min(_MOST_PODS, max(self._literals["int"]))

    def _take(self, expr: ast.Expr) -> None:
        match expr:
            case ast.Literal(bool()):
                pass
            case ast.Literal(Quantity(nanos)):
                self._literals["quantity"] += [nanos - NANO // 1000, nanos, nanos + 1]
            case ast.Literal(Duration(nanos)):
                self._literals["duration"] += [nanos - SECOND, nanos, nanos + SECOND]
            case ast.Literal(int(number)):
                self._literals["int"] += [number - 1, number, number + 1]
            case ast.Literal(float() | str() as value, kind) if kind.name in self._literals:
                self._literals[kind.name].append(value)
            case (
                ast.Index(operand, ast.Literal(str(key)))
                | ast.Select(operand, key)
                | (ast.Binary("in", ast.Literal(str(key)), operand))
            ) if operand.type.name == "map":
                is_amount = operand.type.args[1].name == "quantity"
                self._resources |= {key} if is_amount else set()
                self._keys |= {} if is_amount or key in self._keys else {key: []}
            case ast.Select(_, name):
                self._names.add(name)
            case _:
                pass

    def _take_beside(self, expr: ast.Expr) -> None:
        """Takes the texts that stand beside keys in a condition."""
        if expr.type == BOOL and not isinstance(expr, ast.Chain):
            texts = [e.value for e in walk(expr) if isinstance(e, ast.Literal)]
            for key in self._keys.keys() & {text for text in texts if isinstance(text, str)}:
                self._keys[key] += [t for t in texts if isinstance(t, str) and t != key]

    def world(self) -> SmallWorld:
        """A random world; a base of half of them gives fields to nodes and the pod in question."""
        pick = self._random
        base = pick.choice(self._bases) if self._bases and pick.random() < 0.5 else None
        nodes = [
            Thing("node", f"node-{at}", self._fields("node")) for at in range(pick.choice((1, 2)))
        ]
        pod = Thing("pod", f"{pick.choice(self._namespaces)}/web-1", self._fields("pod"))
        if base is not None:
            nodes = [_under(each, base) if pick.random() < 0.8 else each for each in nodes]
            pod = _under(pod, base)
        placed = []
        for at in range(pick.randint(0, pick.choice((1, self._most)))):
            alike = {k: v for k, v in pod.fields.items() if k not in ("requests", "spec")}
            fields = self._fields("pod") | (alike if pick.random() < 0.8 else {})
            near = pod.name if pick.random() < 0.9 else pick.choice(self._namespaces)
            name = f"{near.partition('/')[0]}/other-{at}"
            placed.append(Thing("pod", name, fields, pick.choice(nodes).name))
        return SmallWorld((*nodes, *placed, pod))

    def _fields(self, root: str) -> dict[str, Json]:
        """Labels, annotations, amounts, and the other fields that are read."""
        pick, fields = self._random, dict[str, Json]()
        for name in ("labels", "annotations"):
            given = [key for key in sorted(self._keys) if pick.random() < 0.8]
            fields[name] = {key: self._text(self._keys[key]) for key in given}
        for name in ("requests", "limits") if root == "pod" else ("allocatable",):
            given = [r for r in sorted(self._resources - {"pods"}) if pick.random() < 0.75]
            fields[name] = {resource: self._value(Type("quantity")) for resource in given}
        if root == "pod" and self._most > 1:
            fields["workload"] = {"name": "web", "replicas": pick.randint(1, 2 * self._most)}
        if (root, "metadata", "creationTimestamp") in self._paths:
            fields["age"] = self._value(Type("duration"))
        for path in sorted(p for p in self._paths if p[0] == root and p[1:2] != ("metadata",)):
            kind: Type | None = Type(root.capitalize())
            for name in path[1:]:
                known = self._schema.field(kind.name, name) if kind is not None else None
                kind = known.type if known is not None and not known.native else None
            if path == ("node", "status", "conditions"):
                fields["ready"] = pick.random() < 0.6
            elif kind is not None and path[1:] != ("spec", "nodeName") and pick.random() < 0.7:
                put(fields, path[1:], self._value(kind))
        return fields

    def _value(self, kind: Type, depth: int = 0) -> Json:
        """A value of a type, with only those fields of records that are read."""
        pick, literals = self._random, self._literals
        match kind:
            case Type("bool"):
                return pick.random() < 0.5
            case Type("int" | "double"):
                return max(0, pick.choice(literals[kind.name]))
            case Type("quantity") if len(literals["double"]) > 1 and pick.random() < 0.5:
                return amount(
                    int(10 * NANO * min(pick.choice(literals["double"]), 1e6)) + pick.randint(-1, 1)
                )
            case Type("quantity"):
                return amount(sum(pick.choices(literals["quantity"], k=pick.randint(1, 2))))
            case Type("duration"):
                return str(Duration(max(0, pick.choice(literals["duration"]))))
            case Type("list", (inner,)):
                return [self._value(inner, depth + 1) for _ in range(pick.randint(0, 2))]
            case Type(name) if name in self._schema.records:
                known = self._schema.records[name].fields.values() if depth < 4 else ()
                own = [f for f in known if f.name in self._names and f.derived is None]
                own = [f for f in own if f.type.name not in ("timestamp", "dyn", "map")]
                return {each.name: self._value(each.type, depth + 1) for each in own}
            case _:
                return self._text()

    def _text(self, near: Sequence[str] = ()) -> str:
        """A text that is named, in most cases `near` the key, or a near miss."""
        pick = self._random
        text: str = pick.choice(near if near and pick.random() < 0.9 else self._literals["string"])
        return text if pick.random() < 0.85 else pick.choice((f"{text}x", f"x{text}", text[:-1]))


def _under(thing: Thing, base: SmallWorld) -> Thing:
    """The thing with the fields and the namespace of the last one of this kind in a base."""
    given = next(each for each in reversed(base.things) if each.kind == thing.kind)
    name = given.name if thing.kind == "pod" else thing.name
    return replace(thing, name=name, fields={**thing.fields, **given.fields})


# ---- verdicts


@dataclass(frozen=True, slots=True)
class Disagreement:
    """A disagreement: a world and a node that only one version lets pass, with both verdicts."""

    direction: Direction
    world: SmallWorld
    node: str
    answers: tuple[Answer, Answer]


class Court:
    """A court, where two versions of a policy decide, each alone."""

    def __init__(self, versions: Pair, schema: Schema) -> None:
        given = [each for each in versions if each is not None]
        self._codec = ObjectCodec(schema, needs_of(given).annotations)
        self._fixtures = FixtureBuilder(schema, self._codec)
        self._registries = [Registry([compile_policy(v)] if v else []) for v in versions]

    def differences(self, world: SmallWorld) -> list[Disagreement] | None:
        """The nodes of a world on which the versions differ; None of a world that cannot be."""
        found = list[Disagreement]()
        try:
            (test,) = parse_file(Source("world", world.text("world", "")))[0].tests
            fixture = self._fixtures.build(test, Path())
            engines = [FixtureEngine(each, fixture, self._codec) for each in self._registries]
            for node in fixture.nodes:
                old, new = (engine.verdict(node) for engine in engines)
                if isinstance(old, Feasible) != isinstance(new, Feasible):
                    way: Direction = "laxer" if isinstance(new, Feasible) else "stricter"
                    found.append(Disagreement(way, world, node, (old, new)))
        except (BadTestError, EngineError, UserError, ValueError):
            return None
        return found

    def least(self, found: Disagreement) -> Disagreement:
        """The same difference in a world from which no part can be taken away."""
        begin, tried = found, 0
        while (world := next(islice(found.world.smaller(), tried, None), None)) is not None:
            all_ = self.differences(world) or ()
            same = (d for d in all_ if d.direction == found.direction)
            smaller = next((d for d in same if d.node == found.node), None)
            # At this place is then a part that was not tried yet.
            found, tried = (found, tried + 1) if smaller is None else (smaller, tried)
        return found if found is begin else self.least(found)
