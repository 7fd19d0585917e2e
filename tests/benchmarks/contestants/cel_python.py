"""CEL in Python, by cel-python: its compiled or its interpreted runner over its own values.

Arguments: the runner's class, the rule, how many nodes, and a JSON file with the variables of each
node. It has no quantities, so that an amount is an int.
"""

import importlib
import json
import sys
from pathlib import Path

from tests.benchmarks.contestants.loop import Rule, compete


def main() -> None:
    runner, rule, count, path = sys.argv[1:]
    celpy = importlib.import_module("celpy")
    types = importlib.import_module("celpy.celtypes")
    variables = {"labels": types.MapType, "memory": types.IntType, "conditions": types.ListType}
    env = celpy.Environment(annotations=variables, runner_class=getattr(celpy, runner))
    evaluate = env.program(env.compile(rule)).evaluate
    nodes = [
        {name: celpy.json_to_cel(value) for name, value in node.items()}
        for node in json.loads(Path(path).read_bytes())[: int(count)]
    ]

    def once() -> list[bool]:
        return [bool(evaluate(node)) for node in nodes]

    def prepare() -> Rule:
        return once

    compete(prepare)


if __name__ == "__main__":
    main()
