"""Placet: the program of a policy's first filter over the nodes of a snapshot.

Arguments: `cold` or `warm`, the rule, and a JSON file with the nodes. Cold, the program and every
node are new each time, so that nothing is known of any of them; warm, the nodes are the same
versions as the time before.
"""

import sys
from pathlib import Path

import msgspec

from engine.cache.snapshot import build
from engine.objects import ObjectCodec
from engine.program.frame import Frame
from engine.program.policy_compiler import compile_policy
from engine.program.program import Program
from grammar.errors import MissingError
from grammar.schema import load_schema
from grammar.source import Source
from grammar.values.timestamp import Timestamp
from policies.validation import check_source
from tests.benchmarks.contestants.loop import Rule, compete
from tests.support import builders


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
        nodes = list(build(decoded, ()).nodes.values())

        def once() -> list[bool]:
            frame = Frame(pod, Timestamp.now(), places=compiled.places)
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

    compete(fresh if state == "cold" else same)


if __name__ == "__main__":
    main()
