"""Failures: what becomes of a pod in each case, and what the tests of it have found."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Literal

# The failurePolicy of the policy that selects the pod; `missing fail` and `missing pass`.
OnError = Literal["Fail", "Ignore"]
ON_ERROR: tuple[OnError, ...] = ("Fail", "Ignore")


class Failure(StrEnum):
    """What fails. The values are names for labels and resources."""

    DOWN = "down"
    HUNG = "hung"
    STATUS_500 = "status-500"
    UNSYNCED = "unsynced"
    SLOW = "slow"
    ERROR = "error"
    BROKEN = "broken"
    NEVER_HELD = "never-held"
    UNKNOWN_NODES = "unknown-nodes"


class Fate(StrEnum):
    """What becomes of a pod whose policy keeps it off one of two nodes, the more inviting one."""

    WAITS = "waits"
    REFUSED = "refused"
    GOVERNED = "governed"
    UNGOVERNED = "**ungoverned**"


@dataclass(frozen=True, slots=True)
class Case:
    """One cell of the matrix; `ignorable` is that of the extender."""

    failure: Failure
    ignorable: bool
    on_error: OnError

    @property
    def name(self) -> str:
        return f"{self.failure}-{'soft' if self.ignorable else 'firm'}-{self.on_error.lower()}"


SAID: Mapping[Failure, str] = {
    Failure.DOWN: "no process listens",
    Failure.HUNG: "no answer within `httpTimeout`",
    Failure.STATUS_500: "an answer other than 200, as from a proxy",
    Failure.UNSYNCED: "Placet does not know the whole cluster yet",
    Failure.SLOW: "the decision takes longer than it may",
    Failure.ERROR: "a rule cannot be evaluated",
    Failure.BROKEN: "the policy was edited and now has errors",
    Failure.NEVER_HELD: "the policy is strict, and no valid version of it has loaded yet",
    Failure.UNKNOWN_NODES: "Placet does not know the nodes offered yet",
}

# By failurePolicy where kube-scheduler takes Placet seriously, and where Placet is ignorable.
_FATES: Mapping[Failure, tuple[tuple[Fate, Fate], tuple[Fate, Fate]]] = {
    Failure.DOWN: ((Fate.WAITS, Fate.WAITS), (Fate.UNGOVERNED, Fate.UNGOVERNED)),
    Failure.HUNG: ((Fate.WAITS, Fate.WAITS), (Fate.UNGOVERNED, Fate.UNGOVERNED)),
    Failure.STATUS_500: ((Fate.WAITS, Fate.WAITS), (Fate.UNGOVERNED, Fate.UNGOVERNED)),
    Failure.UNSYNCED: ((Fate.WAITS, Fate.WAITS), (Fate.UNGOVERNED, Fate.UNGOVERNED)),
    Failure.SLOW: ((Fate.WAITS, Fate.WAITS), (Fate.UNGOVERNED, Fate.UNGOVERNED)),
    Failure.ERROR: ((Fate.REFUSED, Fate.GOVERNED), (Fate.REFUSED, Fate.GOVERNED)),
    Failure.BROKEN: ((Fate.GOVERNED, Fate.GOVERNED), (Fate.GOVERNED, Fate.GOVERNED)),
    Failure.NEVER_HELD: ((Fate.WAITS, Fate.UNGOVERNED), (Fate.UNGOVERNED, Fate.UNGOVERNED)),
    Failure.UNKNOWN_NODES: ((Fate.WAITS, Fate.WAITS), (Fate.UNGOVERNED, Fate.UNGOVERNED)),
}

MATRIX: Mapping[Case, Fate] = {
    Case(failure, ignorable, on_error): fate
    for failure, rows in _FATES.items()
    for ignorable, fates in zip((False, True), rows, strict=True)
    for on_error, fate in zip(ON_ERROR, fates, strict=True)
}

POOL = 'filter "pool" { require node.labels["pool"] == "web" message "not of the pool" }'
_TEN = "[0, 1, 2, 3, 4, 5, 6, 7, 8, 9]"


def _long(number: int) -> str:
    """Half of what an expression may take, about a node, and different for each number."""
    found = f"[0, 1, 2, 3].all(a, a + b + c + d + e < size(node.name) + {45 + number})"
    for variable in "bcde":
        found = f"{_TEN}.all({variable}, {found})"
    return found


def rules(failure: Failure) -> str:
    """The rules of a policy that fails so; of one that was good before, those of now."""
    match failure:
        case Failure.ERROR:
            return f'filter "odd" {{ require 1 / int(node.labels["zero"]) > 0 }}\n{POOL}'
        case Failure.BROKEN | Failure.NEVER_HELD:
            return POOL.replace("labels", "lables")
        case Failure.SLOW:
            long = (
                f'filter "long {number}" {{ require {_long(number)} }}\n' for number in range(40)
            )
            return f"{''.join(long)}{POOL}"
        case _:
            return POOL


def policy(failure: Failure, on_error: OnError, namespace: str, own: str = "") -> dict[str, object]:
    """The PlacementPolicy of such a case, with its own rules or others."""
    name = f"{failure}-{on_error.lower()}"
    return {
        "apiVersion": "placement-policy.scheduling.x-k8s.io/v1",
        "kind": "PlacementPolicy",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {
            "podSelector": {"matchLabels": {"case": name}},
            "enforcementMode": "Strict",
            "failurePolicy": on_error,
            "rules": own or rules(failure),
        },
    }


def labels(failure: Failure, on_error: OnError) -> dict[str, str]:
    """The labels of the pods that it selects."""
    return {"case": f"{failure}-{on_error.lower()}"}


def table(matrix: Mapping[Case, Fate]) -> str:
    """The matrix as it is shown to operators."""
    lines = [
        "| what fails | `Fail` | `Ignore` | `Fail`, ignorable | `Ignore`, ignorable |",
        "| --- | --- | --- | --- | --- |",
    ]
    for failure in Failure:
        fates = (
            matrix[Case(failure, ignorable, on_error)]
            for ignorable in (False, True)
            for on_error in ON_ERROR
        )
        lines.append(f"| {SAID[failure]} | {' | '.join(fates)} |")
    return "\n".join(lines)
