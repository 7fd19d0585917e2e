"""Parts of decisions: an engine decides without them as with them, where no policy has a clause."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

from engine.decision.part import PartMaker
from engine.errors import EngineError
from engine.gangs.gangs import Gangs
from engine.parts import PARTS
from tests.support.builders import node, pod, raw
from tests.support.engines import cache_of, engine_over, peer_of
from tests.support.rows import rows

NODES = [node(f"n{i}", f"z{i % 2}", cpu="2", labels={"cap": "ab"[i % 2]}) for i in range(4)]
NAMES = [f"n{i}" for i in range(4)]
POLICIES = {
    "filter and score": """
      filter "a" { require node.labels["cap"] == "a" }
      score "pack" weight 3 { value node.usage["cpu"] range 0 .. 1 }""",
    "limits": """
      limit "few" { per node at most 1 strict }
      limit "zone" { per zone at most 2 strict }""",
    "a share and a spread": """
      share "s" { pods where true on nodes where node.labels["cap"] == "a" at most 50% strict }
      spread "z" { over node.zone skew at most 1 strict }""",
    "bind": 'bind "own" { require node.name != "n1" }',
}


def story(policies: str, parts: Sequence[PartMaker]) -> Iterator[object]:
    """The answers to calls about eight pods; a watch shows at once those that are bound."""
    cache = cache_of(NODES)
    engine = engine_over(policies, cache, parts=parts)
    for handler in engine.pod_handlers:
        cache.add_event_handler(handler)
    for number in range(8):
        made = pod(f"p{number}", "shop", cpu="1")
        body = raw(made)
        try:
            decided = engine.filter(body, NAMES, None, math.inf)
            yield list(decided)
            scores = engine.prioritize(body, NAMES, None, math.inf)
            yield None if scores is None else list(scores)
            feasible = [n for n, code in zip(NAMES, decided.codes, strict=True) if not code]
            for name in feasible[-1:]:
                admission = engine.admit(body, name, math.inf)
                yield admission
                bound = made | {"spec": made["spec"] | {"nodeName": name}}
                cache.put_pod(peer_of(bound))
            asked = engine.looks.read(body)
            yield engine.looks.waits_unchanged(asked), engine.looks.would_pass(asked)
        except EngineError as error:
            yield type(error), str(error)


@rows("clauses", POLICIES)
def test_it_decides_alike_without_parts(clauses: str) -> None:
    text = f'policy p in namespace "shop" {{ {clauses} }}'
    found = list(story(text, PARTS))
    assert found == list(story(text, ()))
    assert len(found) >= 16
    for left_out in PARTS:
        assert found == list(story(text, [part for part in PARTS if part is not left_out]))


def test_a_part_is_found_by_its_kind() -> None:
    assert isinstance(engine_over("", cache_of(NODES)).part(Gangs), Gangs)
    assert engine_over("", cache_of(NODES), parts=()).part(Gangs) is None
