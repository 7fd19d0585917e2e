"""Placet: a policy's one filter over the nodes of a snapshot.

Arguments: `cold`, `warm` or `served`, the rule, and a JSON file with the nodes. Cold, the program
and every node are new each time, so that nothing is known of any of them; warm, the nodes are the
same versions as the time before; served, they are that too, and what is timed is all that the
engine does for a filter call about another pod of the same shape.
"""

import math
import sys
from itertools import count
from pathlib import Path

import msgspec

from engine.decision.registry import Registry
from engine.decision.verdict import Decision
from engine.engine import Engine
from engine.objects.codec import ObjectCodec
from engine.program.frame import Frame
from engine.program.policy_compiler import compile_policy
from engine.program.program import Program
from grammar.meaning.schema import load_schema
from grammar.tree.source import Source
from grammar.values.errors import MissingError
from grammar.values.time import Timestamp
from policies.validation import check_source
from tests.benchmarks.contestants.loop import Rule, compete
from tests.support import builders
from tests.support.engines import Fixed, Silent, snapshot_of


def main() -> None:
    state, rule, path = sys.argv[1:]
    schema = load_schema()
    codec = ObjectCodec(schema)
    pod = codec.pod(builders.raw(builders.pod("web-1", cpu="500m", memory="1Gi")))
    objects = msgspec.json.decode(Path(path).read_bytes(), type=list[msgspec.Raw])
    decoded = [codec.node(bytes(node)) for node in objects]
    source = Source("race.policy", f'cluster policy race {{ filter "rule" {{ require {rule} }} }}')

    def program() -> Program:
        (checked,) = check_source(source, schema).policies
        assert not checked.diagnostics
        return compile_policy(checked)

    def fresh() -> Rule:
        compiled = program()
        (require,) = compiled.filters[0].requires
        nodes = list(snapshot_of(decoded).nodes.values())

        def once() -> list[bool]:
            frame = Frame(pod, Timestamp.now(), slots=compiled.slots)
            passed = []
            for node in nodes:
                frame.node = node
                try:
                    passed.append(require(frame) is True)
                except MissingError:
                    passed.append(False)
            return passed

        return once

    kept = fresh()

    def same() -> Rule:
        return kept

    def served() -> Rule:
        cluster = snapshot_of(decoded)
        engine = Engine(Registry([program()]), Fixed(cluster), codec, Silent())
        names = list(cluster.nodes)
        calls = count()

        def ask() -> Decision:
            asked = builders.pod(f"web-{next(calls)}", cpu="500m", memory="1Gi")
            return engine.filter(builders.raw(asked), names, None, math.inf)

        def once() -> list[bool]:
            decision = ask()
            return [not code for code in decision.codes.tolist()]

        ask()
        return once

    compete({"cold": fresh, "warm": same, "served": served}[state])


if __name__ == "__main__":
    main()
