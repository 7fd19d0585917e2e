"""Random pairs of policies: no witness that does not hold, no proof that worlds refute.

`PLACET_PAIRS=2000` compares more of them.
"""

from __future__ import annotations

import os
from collections import Counter
from random import Random

import pytest

from cli.comparison.answers import PolicyAnswer, compared
from cli.comparison.worlds import Court, WorldMaker
from grammar.checker.policy_checker import Checked
from grammar.meaning.schema import load_schema
from grammar.tree.source import Source
from policies.validation import Validator

PAIRS = int(os.environ.get("PLACET_PAIRS", "30"))
PARTS = 5
WORLDS = 400 if PAIRS > 30 else 60
SCHEMA = load_schema()
LABELS = ('pod.labels["tier"]', 'node.labels["pool"]', "node.zone", 'pod.annotations["team"]')
TEXTS = ('"a"', '"web"', '"spot"', '"w"', '""')


def texts(pick: Random) -> str:
    other = f'pod.labels[?"tier"].orValue({pick.choice(TEXTS)})'
    return pick.choice((*LABELS, other, "pod.namespace", "name", "node.spec.providerID"))


def amounts(pick: Random) -> str:
    one, other = pick.sample(("cpu", "memory"), 2)
    return pick.choice(
        (
            f'node.free["{one}"]',
            f'node.allocatable["{one}"]',
            f'pod.requests["{one}"]',
            f'node.requested["{other}"]',
            f'pod.limits["{other}"]',
            f'(node.free["{one}"] - pod.requests["{one}"])',
        )
    )


def atom(pick: Random) -> str:
    order = pick.choice(("<", "<=", ">", ">=", "==", "!="))
    match pick.randrange(12):
        case 0:
            return f"{texts(pick)} {pick.choice(('==', '!='))} {pick.choice(TEXTS)}"
        case 1:
            return f"{texts(pick)} in [{', '.join(pick.sample(TEXTS, 2))}]"
        case 2:
            call = pick.choice(("startsWith", "endsWith", "contains", "matches"))
            return f"{texts(pick)}.{call}({pick.choice(TEXTS)})"
        case 3 | 4:
            return f'{amounts(pick)} {order} "{pick.choice(("0", "1", "500m", "1Gi", "2Gi"))}"'
        case 5:
            return f"pod.priority {order} {pick.choice((0, 10, 1000))}"
        case 6:
            return pick.choice(('"tier" in pod.labels', 'has(node.labels["pool"])', "flag"))
        case 7:
            return pick.choice(("node.ready", "node.spec.unschedulable", "pod.spec.hostNetwork"))
        case 8:
            return f'{pick.choice(("pod", "node"))}.age {order} "{pick.choice(("10m", "1d"))}"'
        case 9:
            return f'node.usage["cpu"] {order} {pick.choice((0.5, 0.8, 1.0))}'
        case 10:
            test = 't.key == "spot" && t.effect == "NoSchedule"'
            return f"node.spec.taints.exists(t, {test})"
        case _:
            return f"near({texts(pick)}, {texts(pick)})"


def condition(pick: Random, depth: int = 2) -> str:
    if depth == 0 or pick.random() < 0.4:
        return atom(pick)
    one, other = condition(pick, depth - 1), condition(pick, depth - 1)
    match pick.randrange(4):
        case 0 | 1:
            return f"({one}) && ({other})"
        case 2:
            return f"({one}) || ({other})"
        case _:
            return pick.choice((f"!({one})", f"(({one}) ? ({other}) : {atom(pick)})"))


def of_pod(pick: Random) -> str:
    while "node" in (found := condition(pick, 1)):
        pass
    return found


def clause(pick: Random, name: str) -> list[str]:
    when = f"when {of_pod(pick)} " if pick.random() < 0.4 else ""
    missing = pick.choice(("", "", "missing pass", "missing fail"))
    strength = pick.choice(("strict", "strict", "strict", "weight 5"))
    match pick.randrange(5):
        case 0 | 1 | 2:
            requires = [f"require {condition(pick)}" for _ in range(pick.randint(1, 2))]
            return [f'filter "{name}" {when}{{', *requires, missing, "}"]
        case 3:
            pods = pick.choice(("", 'pods where peer.labels["tier"] == "web"'))
            kind, place = pick.choice(("at most", "at least")), pick.choice(("node", "node.zone"))
            bound = f"per {place} {kind} {pick.randint(1, 3)} {strength}"
            return [f'limit "{name}" {when}{{', pods, bound, "}"]
        case _:
            share = f"of replicas on nodes where {pick.choice(('node.zone', 'node.name'))} "
            bound = f"at most {pick.choice((20, 40, 60))}% {strength}"
            return [f'share "{name}" {{', share + f'== "a" {bound}', "}"]


def policy(pick: Random) -> list[str]:
    lines = ['policy p in namespace "shop" {', pick.choice(("", "", "missing pass"))]
    lines.append(f'let flag = pod.labels["tier"] == {pick.choice(TEXTS)}')
    lines.append(f"let name = {pick.choice(LABELS)}")
    lines.append("def near(a: string, b: string): bool = a == b || b.startsWith(a)")
    if pick.random() < 0.6:
        lines.append(f"for pods where {of_pod(pick)}")
    for name in ("one", "two")[: pick.randint(1, 2)]:
        lines += clause(pick, name)
    return [*lines, "}"]


SWAPS = (
    *(("<", "<="), (">", ">="), ("==", "!="), ("&&", "||"), ('"a"', '"web"'), ('"10m"', '"1d"')),
    *(("missing pass", "missing fail"), ("strict", "weight 5"), ("20%", "40%")),
    *(("at most 1", "at most 2"), ("at least 1", "at least 2"), ('"1"', '"2Gi"'), ("!(", "(")),
)


def edited(pick: Random, lines: list[str]) -> list[str]:
    """The policy with one or two small edits, with none now and then, or another policy."""
    if pick.random() < 0.1:
        return policy(pick)
    made = list(lines)
    for _ in range(pick.choice((0, 1, 1, 1, 2))):
        both = [*SWAPS, *((new, old) for old, new in SWAPS)]
        fits = [(at, *swap) for at, line in enumerate(made) for swap in both if swap[0] in line]
        at, old, new = pick.choice(fits)
        made[at] = made[at].replace(old, new, 1)
        requires = [at for at, line in enumerate(made) if line.startswith("require")]
        if requires and pick.random() < 0.4:
            at = pick.choice(requires)
            made[at] = pick.choice((f"{made[at]} && {atom(pick)}", f"require {condition(pick)}"))
    return made


def checked(lines: list[str]) -> Checked | None:
    source = Source("p.policy", "\n".join(lines))
    validation = Validator(SCHEMA).validate([source])
    broken = any(d.severity == "error" for d, _ in validation.findings())
    return None if broken else validation.policies[0]


def pair(seed: int) -> tuple[Checked, Checked]:
    pick = Random(seed)
    while True:
        lines = policy(pick)
        old, new = checked(lines), checked(edited(pick, lines))
        if old is not None and new is not None:
            return old, new


def refuted(found: PolicyAnswer, seed: int) -> str:
    """The difference that a world shows although a proof excludes it."""
    given = [each for each in found.versions if each is not None]
    court, maker = Court(found.versions, SCHEMA), WorldMaker(given, SCHEMA, seed + 1)
    for _ in range(WORLDS if found.excluded else 0):
        for each in court.differences(maker.world()) or ():
            if each.direction in found.excluded:
                return court.least(each).world.text("refuted", "")
    return ""


@pytest.mark.parametrize("part", range(PARTS))
def test_no_proof_is_refuted(part: int) -> None:
    answers = Counter[str]()
    for seed in range(part, PAIRS, PARTS):
        found = compared(pair(seed), SCHEMA, 60)
        answers[found.answer] += 1
        assert not (found.excluded & found.tests.keys()), seed
        assert refuted(found, seed) == "", seed
    assert answers
