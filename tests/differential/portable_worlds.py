"""Worlds with portable policies: a policy by dice, and pods that got what it says of them.

One seed makes one world. The policies are about the labels of nodes, or about those of pods.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from random import Random

from engine.decision.registry import Registry
from engine.objects.request_pod import NO_EXEMPTIONS, RequestPodReader
from engine.portable.portable_form import PortableAddition, PortableForm, added, form_of
from engine.selectors.terms import Frozen
from tests.differential.worlds import HOST, RACK, ZONE, World
from tests.support.builders import Object, node, raw
from tests.support.engines import CODEC, registry_of

FROZEN = Frozen(labels=frozenset({"app", "tier"}))
# As values of labels of nodes.
VALUES = {
    "arch": ("arm64", "amd64", ""),
    ZONE: tuple("abcd"),
    "size": ("0", "1", "5", "007", "10", "1.5", "x", "", "9223372036854775808"),
    "pool": ("shop", "bank", "web", "x"),
}
_TEXTS = ('"arm64"', '"a"', '"5"', '"web"', '""', '"no value"')
_OF_POD = ("pod.namespace", 'pod.labels["app"]', 'pod.labels["tier"]')


@dataclass(frozen=True, slots=True)
class Told:
    """A pod before and after it got its form; `exact`: all clauses that concern it are in it."""

    before: Object
    after: Object
    exact: bool


def told(pod: Object, registry: Registry) -> Told:
    """The pod with its form."""
    request = RequestPodReader(CODEC).read(raw(pod))
    form = form_of(request, registry, NO_EXEMPTIONS, FROZEN)
    addition = added(request, form)
    return Told(pod, {**pod, "spec": {**pod["spec"], **addition.spec}}, _is_exact(form, addition))


def _is_exact(form: PortableForm, addition: PortableAddition) -> bool:
    return not addition.left and all(part.exact for _, part in form.parts)


def nodes_with_labels(dice: Random, count: int) -> list[Object]:
    """Nodes that differ in their labels."""
    return [
        node(
            f"n{i}",
            labels={k: dice.choice(v) for k, v in VALUES.items() if dice.random() < 0.8},
        )
        for i in range(count)
    ]


class Policies:
    """Makes policies with its dice."""

    def __init__(self, dice: Random) -> None:
        self._dice = dice

    def about_nodes(self, pod: Object) -> Registry:
        """One or two policies with filters that concern the pod, or may."""
        texts = [self._policy(str(i), pod, self._filter) for i in range(self._dice.randint(1, 2))]
        return registry_of("\n".join(texts))

    def about_pods(self, made: World) -> Registry:
        """A policy with a limit or a spread."""
        return registry_of(self._policy("p", made.pod, self._count))

    def _policy(self, name: str, pod: Object, clause: Callable[[], str]) -> str:
        dice = self._dice
        space = pod["metadata"]["namespace"]
        head = dice.choice((f'cluster policy "{name}"', f'policy "{name}" in namespace "{space}"'))
        selector = dice.choice(
            (
                "",
                "",
                'for pods where pod.labels["app"] == "web"',
                f'for pods where pod.namespace != "{space}"',
            )
        )
        missing = dice.choice(("", "", "missing pass"))
        return f"{head} {{ portable {missing} {selector} {clause()} }}"

    def _filter(self) -> str:
        dice = self._dice
        when = f"when {self._condition(1)}" if dice.random() < 0.3 else ""
        requires = " ".join(f"require {self._condition(3)}" for _ in range(dice.randint(1, 2)))
        missing = dice.choice(("", "", "missing pass"))
        return f'filter "f" {when} {{ {requires} {missing} }}'

    def _condition(self, depth: int) -> str:
        dice = self._dice
        if depth and dice.random() < 0.5:
            one, other = self._condition(depth - 1), self._condition(depth - 1)
            return dice.choice(
                (
                    f"({one} && {other})",
                    f"({one} || {other})",
                    f"!({one})",
                    f"({one} ? {other} : {one})",
                )
            )
        key = dice.choice((*VALUES,))
        label, optional = f'node.labels["{key}"]', f'node.labels[?"{key}"]'
        value = dice.choice([f'"{v}"' for v in VALUES[key]])
        text = dice.choice((value, value, value, dice.choice(_TEXTS), dice.choice(_OF_POD)))
        number = dice.choice((-3, 0, 1, 5, 10, 2**63 - 1))
        relation = dice.choice((">", ">=", "<", "<=", "==", "!="))
        return dice.choice(
            (
                f"{label} == {text}",
                f"{text} != {label}",
                f"{label} in [{text}, {value}]",
                f"has({label})",
                f'"{key}" in node.labels',
                f"{optional} == optional.of({text})",
                f"{optional}.orValue({value}) != {text}",
                f'int(node.labels["size"]) {relation} {number}',
                f"[{value}, {text}].exists(v, {label} == v)",
                dice.choice(
                    ("true", "false", 'pod.labels["app"] == "web"', 'pod.namespace == "shop"')
                ),
            )
        )

    def _count(self) -> str:
        dice = self._dice
        when = dice.choice(("", "", 'when pod.labels["app"] == "web"', 'when "tier" in pod.labels'))
        where = self._of_peer()
        if dice.random() < 0.4:
            nodes = dice.choice(("eligible", "selected", "all"))
            least = dice.choice(("", "", f"at least {dice.randint(1, 4)}"))
            return (
                f'spread "c" {when} {{ pods where {where} nodes {nodes} over {self._domain()}'
                f" skew at most {dice.choice((1, 1, 2))} {least} strict }}"
            )
        scope = dice.choice(("", "all "))
        if dice.random() < 0.3:
            return (
                f'limit "c" {when} {{ {scope}pods where {where} per {self._domain()}'
                " at least 1 strict }"
            )
        place = dice.choice(("per node", f"per {self._domain()}"))
        missing = dice.choice(("", "missing pass"))
        return (
            f'limit "c" {when} {{ {scope}pods where {where} {place} at most {dice.choice((0, 1))}'
            f" strict mutual {missing} }}"
        )

    def _of_peer(self) -> str:
        dice = self._dice
        parts = [
            dice.choice(
                (
                    'peer.labels["app"] == pod.labels["app"]',
                    'peer.labels["app"] == "web"',
                    'peer.labels["tier"] in ["x", "y"]',
                    '"tier" in peer.labels',
                    '!("tier" in peer.labels)',
                    '"tier" in peer.labels && peer.labels["tier"] != pod.labels["tier"]',
                    'peer.labels[?"tier"] == optional.of("x")',
                    '(peer.labels["app"] == "web" || peer.labels["tier"] == "y")',
                )
            )
            for _ in range(dice.choice((1, 1, 2)))
        ]
        return " && ".join(parts)

    def _domain(self) -> str:
        return f'node.labels["{self._dice.choice((ZONE, RACK, HOST))}"]'
