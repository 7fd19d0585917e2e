"""Pods on cards that others have bound: what they take is known from the clause."""

from __future__ import annotations

import dataclasses
import math
from typing import Any

import pytest

from engine.cards.node_cards import TAKEN, Claim, Demand
from engine.clauses.programs import compile_policy
from engine.decision.registry import Registry
from engine.decision.verdict import Feasible
from engine.enforced import needs
from engine.engine import Engine
from engine.given_cards import CardClaims
from engine.objects.request_pod import Exemptions, ObjectCodec
from engine.program.frame import Frame
from engine.program.program import CardsProgram
from grammar.tree.source import Source
from policies.validation import Validator
from tests.support.builders import node, pod, raw
from tests.support.engines import SCHEMA, Known, Silent, cache_of, checked, registry_of
from tests.support.rows import rows

CARDS = """cards "gpu" {
  on node 2 of {"milli": 1000}
  take int(pod.annotations["count"]) of {"milli": int(pod.annotations["milli"])}
  index "index"
}"""
POLICY = f'policy gpu {{ for pods where "milli" in pod.annotations {CARDS} }}'
NEW = pod("new", annotations={"milli": "500", "count": "1"})


def there(name: str, milli: int, count: int = 1, index: str = "") -> dict[str, Any]:
    annotations = {"milli": str(milli), "count": str(count)} | ({"index": index} if index else {})
    return pod(name, on="n1", annotations=annotations)


def engine(text: str, *pods: dict[str, Any], exempt: Exemptions | None = None) -> Engine:
    read = needs(part.policy for c in checked(text) for part in (c, *c.uses))
    codec = ObjectCodec(SCHEMA, read.annotations)
    cache = cache_of([node("n1", labels={"gpu": "2"})])
    for each in pods:
        cache.put_pod(codec.peer(raw(each)))
    exemptions = exempt or Exemptions()
    return Engine(registry_of(text), Known(cache), codec, Silent(), exemptions=exemptions)


def passes(found: Engine, asked: dict[str, Any] = NEW) -> bool:
    (verdict,) = found.filter(raw(asked), ["n1"], None, math.inf)
    return isinstance(verdict, Feasible)


@rows(
    ("pods", "room"),
    {
        "one card": ([there("a", 600)], True),
        "both, though both fit one": ([there("a", 600), there("b", 600)], False),
        "on the fullest that fits": ([there("a", 600), there("b", 400)], True),
        "as told": ([there("a", 600, index="0"), there("b", 600, index="0")], True),
        "two cards": ([there("a", 600, 2, index="0,1")], False),
        "too few numbers": ([there("a", 600, 2, index="0")], False),
        "no number": ([there("a", 600, index="x"), there("b", 600)], False),
        "no amount": ([pod("a", on="n1", annotations={"milli": "x"})] * 2, True),
    },
)
def test_what_others_have_bound_counts(pods: list[dict[str, Any]], *, room: bool) -> None:
    assert passes(engine(POLICY, *pods)) is room


def test_a_pod_with_the_annotation_is_where_it_says() -> None:
    held = there("a", 600)
    held["metadata"]["annotations"][TAKEN] = "{}"
    assert passes(engine(POLICY, held, there("b", 600)))


def test_pods_that_no_policy_decides_about_take_nothing() -> None:
    pods = [there("a", 600), there("b", 600)]
    unselected = POLICY.replace("for pods where", 'for pods where pod.name == "new" &&')
    assert passes(engine(unselected, *pods))
    exempt = Exemptions(namespaces=frozenset({"default"}))
    elsewhere = NEW | {"metadata": NEW["metadata"] | {"namespace": "ml"}}
    assert passes(engine(POLICY, *pods, exempt=exempt), elsewhere)
    audited = POLICY.replace("policy gpu {", "policy gpu { mode audit")
    assert passes(engine(audited, *pods))


@pytest.mark.parametrize(
    "policy",
    [
        POLICY.replace("for pods where", 'for pods where pod.spec.hostname != "a" &&'),
        POLICY.replace("for pods where", 'for pods where namespaceObject.name != "a" &&'),
        POLICY.replace('{"milli": int(', '{"milli": int(pod.spec.hostname) + int('),
    ],
)
def test_what_is_not_known_of_a_running_pod_gives_no_claim(policy: str) -> None:
    claims = CardClaims(registry_of(policy).programs, Exemptions().exempts)
    codec = ObjectCodec(SCHEMA, ("milli", "count"))
    assert claims.of("gpu", codec.peer(raw(there("a", 600)))) is None
    known = CardClaims(registry_of(POLICY).programs, Exemptions().exempts)
    assert known.of("gpu", codec.peer(raw(there("a", 600)))) == Claim(Demand(1, {"milli": 600}))


def test_rules_are_evaluated_once_for_pods_that_are_alike_to_them() -> None:
    """Of the pods of a shape, each with a uid and an index of its own."""
    (program,) = registry_of(POLICY).programs
    asked: list[object] = []

    def take(frame: Frame) -> object:
        asked.append(frame.pod)
        return program.of(CardsProgram)[0].take(frame)

    cards = (dataclasses.replace(program.of(CardsProgram)[0], take=take),)
    claims = CardClaims([dataclasses.replace(program, clauses=cards)], Exemptions().exempts)
    codec = ObjectCodec(SCHEMA, ("milli", "count", "index"))
    for number in range(100):
        found = claims.of("gpu", codec.peer(raw(there(f"p{number}", 100 * (1 + number % 2)))))
        assert found == Claim(Demand(1, {"milli": 100 * (1 + number % 2)}))
    assert len(asked) == 2


def test_pods_of_a_policy_that_uses_another() -> None:
    text = """policy training {
      for pods where pod.namespace == "default"
      use "library/fgd" (part: "example.com/part", gpu: "gpu")
    }"""
    more = {"requests": {"gpu": "1"}, "limits": {"gpu": "1"}}
    held = pod("a", on="n1", annotations={"example.com/part": "600"})
    asked = pod("new", annotations={"example.com/part": "500"})
    for each in (held, asked):
        each["spec"]["containers"][0]["resources"] = more
    policies = Validator(SCHEMA).validate([Source("p.policy", text)]).policies
    read = needs(part.policy for c in policies for part in (c, *c.uses))
    for number, room in ((1, False), (2, True)):
        codec = ObjectCodec(SCHEMA, read.annotations)
        cache = cache_of([node("n1", resources={"gpu": str(number)})])
        cache.put_pod(codec.peer(raw(held)))
        registry = Registry(map(compile_policy, policies))
        found = Engine(registry, Known(cache), codec, Silent())
        assert passes(found, asked) is room


def test_another_registry_knows_them_anew() -> None:
    """What a node has is kept by clause, and another policy may say what its pods take."""
    other = 'policy other { weight 200 for pods where "more" in pod.annotations CARDS }'
    other = other.replace("CARDS", CARDS.replace('["milli"]', '["more"]'))
    pods = [there("a", 100), there("b", 100)]
    for each in pods:
        each["metadata"]["annotations"]["more"] = "900"
    both = engine(POLICY + other, *pods)
    assert not passes(both)
    (first,) = (p for p in both.registry.programs if p.name == "gpu")
    both.adopt(type(both.registry)([first]))
    assert passes(both)
