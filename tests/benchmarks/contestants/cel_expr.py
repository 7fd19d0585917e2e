"""Google's C++ CEL, through cel-expr-python: an expression over activations made beforehand.

Arguments: the rule, and a JSON file with the variables of each node. It has no quantities, so that
an amount is an int. Declared types, variables without a record around them and an activation made
once a node measured faster than dyn, than `eval(data=...)` and than protobuf messages.
"""

import importlib
import json
import sys
from pathlib import Path

from tests.benchmarks.contestants.loop import Rule, compete


def main() -> None:
    rule, path = sys.argv[1:]
    cel = importlib.import_module("cel_expr_python.cel")
    texts = cel.Type.Map(cel.Type.STRING, cel.Type.STRING)
    variables = {"labels": texts, "memory": cel.Type.INT, "conditions": cel.Type.List(texts)}
    env = cel.NewEnv(variables=variables)
    evaluate = env.compile(rule).eval
    nodes = [env.Activation(node) for node in json.loads(Path(path).read_bytes())]

    def once() -> list[bool]:
        return [evaluate(node).value() for node in nodes]

    def prepare() -> Rule:
        return once

    compete(prepare)


if __name__ == "__main__":
    main()
