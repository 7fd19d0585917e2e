"""Policies of random worlds: texts with clauses of every kind.

A policy concerns its world only, by the namespace of its pods. Each message is in `<<` and `>>`,
which the record keeps.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from tests.recorder.api_server import Object
from tests.recorder.dice import Dice
from tests.recorder.expressions import Expressions

_LIBRARY = (
    "cheap-first",
    "gpu-nodes",
    "gpu-packing",
    "headroom",
    "leaving-nodes",
    "one-per-zone",
    "protect-databases",
    "spot-ceiling",
    "teams-apart",
)


# What a policy of a namespace may not read of pods of other namespaces.
_ANNOTATIONS = re.compile(r"\b(peer|victim)\.annotations\b")
_IMAGES = re.compile(r'\b(peer|victim)\.containers\.exists\(c, c\.image\.contains\("web"\)\)')


@dataclass(frozen=True)
class Theme:
    """What the worlds of one server have in common.

    There are `count` of them. `kinds` are the kinds of their clauses; one that is there twice is
    twice as frequent.
    `strict` is the part of counting clauses that reject, `audit` that of policies which only tell.
    `full_nodes` is the part of pods that come with whole nodes, `preempts` that of those about
    whose victims is asked though a node is left. `as_objects` makes policies objects.
    """

    name: str
    kinds: Sequence[str]
    count: int = 50
    strict: float = 0.5
    audit: float = 0.0
    is_timely: bool = False
    uses_library: bool = False
    as_objects: bool = False
    full_nodes: float = 0.1
    preempts: float = 0.15
    resolvable: bool = False


def policies(dice: Dice, theme: Theme, world: str) -> str:
    """The policies of a world, as one text."""
    made = [_policy(dice, theme, world, place) for place in range(dice.randint(1, 3))]
    return "\n".join(made)


def objects(dice: Dice, world: str, theme: Theme) -> list[Object]:
    """The policies of a world as objects of its cluster."""
    return [_object(dice, theme, world, place) for place in range(dice.randint(1, 3))]


def rules(dice: Dice, theme: Theme, place: int) -> str:
    """The clauses of a policy, with what they are made of."""
    expressions = Expressions(dice, theme.is_timely)
    lines: list[str] = []
    if dice.chance(0.3):
        lines.append(f"let fits = {expressions.of_node()}")
        lines.append(f'filter "let {place}" {{ require fits || node.zone == "z1" }}')
    if dice.chance(0.2):
        lines.append(
            "def used(r: string): double = "
            "(node.requested[r] + pod.requests[r]) / node.allocatable[r]"
        )
        lines.append(f'score "def {place}" weight 20 {{ value used("cpu") range 1 .. 0 }}')
    kinds = [dice.choice(theme.kinds) for _ in range(dice.randint(0, 3))]
    if place == 0:
        kinds.append(theme.kinds[0])
    clauses = Clauses(dice, expressions, theme.strict)
    lines += [clauses.clause(kind, f"{kind} {place}{i}") for i, kind in enumerate(kinds)]
    if theme.uses_library and dice.chance(0.7):
        lines.append(f'use "library/{dice.choice(_LIBRARY)}"')
    return "\n".join(f"  {line}" for line in lines)


def _open(rules: str) -> str:
    """The rules of a policy of a namespace: of pods of others it reads labels alone."""
    lines = rules.splitlines()
    for place, line in enumerate(lines):
        if "all pods" in line or "victim" in line:
            lines[place] = _ANNOTATIONS.sub(r"\1.labels", line)
            lines[place] = _IMAGES.sub(r'\1.labels["app"] == "web"', lines[place])
    return "\n".join(lines)


def _policy(dice: Dice, theme: Theme, world: str, place: int) -> str:
    name, mine = f'"{world} {place}"', f'pod.namespace.startsWith("{world}-")'
    expressions = Expressions(dice, theme.is_timely)
    condition = f" && {expressions.of_pod()}" if dice.chance(0.35) else ""
    head, who = dice.choice(
        (
            (f"cluster policy {name}", f"for pods where {mine}{condition}"),
            (f"policy {name}", f"for pods where {mine}{condition}"),
            (
                f'policy {name} in namespace "{world}-{dice.choice("aab")}"',
                f"for pods where {expressions.of_pod()}" if condition else "",
            ),
        )
    )
    parts = [
        f"weight {dice.randint(101, 103)}" if dice.chance(0.5) else "",
        "mode audit" if dice.chance(theme.audit) else "",
        dice.choice(("", "", "missing fail", "missing pass")),
        who,
    ]
    clauses = rules(dice, theme, place)
    if " in namespace " in head:
        clauses = _open(clauses)
    return "\n".join([f"{head} {{", *(f"  {part}" for part in parts if part), clauses, "}"])


def _object(dice: Dice, theme: Theme, world: str, place: int) -> Object:
    metadata: Object = {"name": f"{world}.{place}", "uid": f"uid-{world}-{place}", "generation": 1}
    spec: Object = {"podSelector": _selector(dice, "app", ("web", "db", "cache"))}
    kind = "PlacementPolicy"
    if dice.chance(0.3):
        kind = "ClusterPlacementPolicy"
        spec["namespaceSelector"] = {"matchLabels": {"world": world}}
    else:
        metadata["namespace"] = f"{world}-{dice.choice('aab')}"
    if dice.chance(0.5):
        spec["weight"] = dice.randint(101, 103)
    if dice.chance(0.8):
        spec["enforcementMode"] = dice.choice(("Strict", "Strict", "BestEffort", "Audit"))
    if dice.chance(0.3):
        spec["failurePolicy"] = dice.choice(("Fail", "Ignore"))
    has_target = dice.chance(0.7)
    if has_target:
        spec["nodeSelector"] = _selector(dice, "cap", ("spot", "od"))
        if dice.chance(0.2):
            spec["annotationSelector"] = {"matchLabels": {"rack": "r1"}}
        target: Object = {"targetSize": dice.choice(("40%", "50%", "100%", "0%", 1, 2, "3"))}
        if dice.chance(0.7):
            target["action"] = dice.choice(("Must", "Must", "MustNot"))
        if dice.chance(0.7):
            target["bound"] = dice.choice(("Exactly", "AtMost", "AtLeast"))
        spec["placementPolicy"] = target
    if not has_target or dice.chance(0.5):
        clauses = rules(dice, theme, place)
        spec["rules"] = _open(clauses) if kind == "PlacementPolicy" else clauses
    version = "placement-policy.scheduling.x-k8s.io/v1"
    return {"apiVersion": version, "kind": kind, "metadata": metadata, "spec": spec}


def _selector(dice: Dice, key: str, values: Sequence[str]) -> Object:
    match dice.choice(("labels", "labels", "In", "NotIn", "Exists")):
        case "labels":
            return {"matchLabels": {key: dice.choice(values)}}
        case "Exists":
            return {"matchExpressions": [{"key": key, "operator": "Exists"}]}
        case operator:
            chosen = dice.some(values, 1, 2)
            return {"matchExpressions": [{"key": key, "operator": operator, "values": chosen}]}


@dataclass(frozen=True)
class Clauses:
    """Clauses by the dice of one policy."""

    dice: Dice
    expressions: Expressions
    strict: float

    def clause(self, kind: str, name: str) -> str:
        match kind:
            case "filter" | "bind":
                return self._filter(kind, name)
            case "score":
                return self._score(name)
            case "share":
                return self._share(name)
            case "spread":
                return self._spread(name)
            case "limit":
                return self._limit(name)
            case _:
                return self._preempt(name)

    def _filter(self, kind: str, name: str) -> str:
        requires = [f"require {self.expressions.of_node()}"]
        if self.dice.chance(0.15):
            requires.append(f"require {self.expressions.of_node()}")
        when = self._when(self.expressions.of_node(), 0.4)
        missing = self.dice.choice(("", "missing pass", "missing pass", "missing fail"))
        return f'{kind} "{name}"{when} {{ {" ".join(requires)} {missing} {self._message(name)} }}'

    def _score(self, name: str) -> str:
        weight = self.dice.choice(("1", "10", "40", "2.5", "-20"))
        missing = self.dice.choice(("", "", "missing 30", "missing 100"))
        when = self._when(self.expressions.of_pod())
        value = self.expressions.value()
        return f'score "{name}" weight {weight}{when} {{ value {value} {missing} }}'

    def _share(self, name: str) -> str:
        of = self.dice.choice(("replicas", "pods", "all pods", "placed pods"))
        where = "" if of == "replicas" else f" where {self.expressions.of_peer()}"
        return (
            f'share "{name}"{self._when(self.expressions.of_pod())} {{ of {of}{where} '
            f"on nodes where {self.expressions.of_labels()} "
            f"{self.expressions.bound(parts=True)} {self._strength(name)} }}"
        )

    def _spread(self, name: str) -> str:
        domains = f"at least {self.dice.randint(1, 4)} " if self.dice.chance(0.3) else ""
        return (
            f'spread "{name}"{self._when(self.expressions.of_pod())} {{ {self._counted()}'
            f"over {self.expressions.domain()} skew at most {self.dice.randint(1, 2)} {domains}"
            f"{self._strength(name)} }}"
        )

    def _limit(self, name: str) -> str:
        per = self.dice.choice(("node", "cluster", f"{self.expressions.domain()}"))
        return (
            f'limit "{name}"{self._when(self.expressions.of_pod())} {{ {self._counted()}'
            f"per {per} {self.expressions.bound(parts=False)} {self._strength(name)} }}"
        )

    def _preempt(self, name: str) -> str:
        parts = [
            f"protect pods where {self.expressions.of_victim()}"
            for _ in range(self.dice.randint(0, 2))
        ]
        if self.dice.chance(0.5):
            parts.append(f"require {self.expressions.of_victims()}")
        if self.dice.chance(0.5) or not parts:
            number = self.dice.randint(1, 2)
            parts.append(f"pick {number} least {self.expressions.order_of_victims()}")
        return f'preempt "{name}"{self._when(self.expressions.of_pod())} {{ {" ".join(parts)} }}'

    def _counted(self) -> str:
        pods = self.dice.choice(("", "pods", "pods", "all pods"))
        return f"{pods} where {self.expressions.of_peer()} " if pods else ""

    def _strength(self, name: str) -> str:
        if not self.dice.chance(self.strict):
            return f"weight {self.dice.choice((10, 30, 100))}"
        return f"strict {self._message(name)}"

    def _when(self, condition: str, part: float = 0.25) -> str:
        return f" when {condition}" if self.dice.chance(part) else ""

    def _message(self, name: str) -> str:
        if self.dice.chance(0.15):
            return ""
        reads = self.dice.choice(("", " {pod.labels['app']}", " {pod.labels['size']}"))
        detail = ' detail "{size(node.pods)} pods"' if self.dice.chance(0.2) else ""
        return f'message "<<{name}{reads}>>"{detail}'
