"""Examples: each policy of the library as an object that can be applied, in deploy/examples.

`make examples` writes them. A cluster policy becomes a ClusterPlacementPolicy of all pods. A policy
that is made for `use` becomes a PlacementPolicy of the pods with a label. Where a policy of a
namespace cannot have its clauses, or cannot change its parameters, it becomes a
ClusterPlacementPolicy of them.
"""

from __future__ import annotations

import json
import re
from pathlib import Path

from grammar.clauses.cards import Cards
from grammar.meaning.schema import Schema, load_schema
from grammar.syntax.parser import parse_file
from grammar.tree.policy import Data, FromConfigMap, Parameter, Policy
from grammar.tree.printer import print_expression
from grammar.tree.source import Source
from policies.loader import library_sources
from policies.manifest_text import GROUP
from policies.resource import STORED
from policies.validation import check_source

FOLDER = Path(__file__).parents[2] / "deploy" / "examples"
_HEAD = "# Written by `make examples` from {}.\n#\n# {}.\n#\n{}"
_OBJECT = """\
apiVersion: {}/{}
kind: {}
metadata:
  name: {}
{}spec:
  podSelector:{}
"""
_SELECTED = "\n    matchLabels:\n      app: web"


def examples() -> dict[str, str]:
    """The text of each example, by the name of its file."""
    schema = load_schema()
    return dict(_example(source, schema) for source in library_sources())


def _example(source: Source, schema: Schema) -> tuple[str, str]:
    (checked,) = check_source(source, schema).policies
    (written,) = parse_file(source)[0].policies
    name, policy = checked.policy.name, checked.policy
    comment = "".join(re.findall(r"(?m)^#.*\n", source.text[: policy.span.start]))
    description = str(policy.setting("description", ""))
    text = _HEAD.format(f"policies/{source.name}", description, comment)
    of_cluster = policy.cluster or _is_of_operators(written)
    text += _OBJECT.format(
        GROUP,
        STORED,
        "ClusterPlacementPolicy" if of_cluster else "PlacementPolicy",
        name,
        "" if of_cluster else "  namespace: default\n",
        " {}" if policy.cluster else _SELECTED,
    )
    if written.parameters:
        text += "  parameters:\n" + "".join(map(_line, written.parameters))
    return f"{name}.yaml", text + f'  rules: |\n    use "library/{name}"\n'


def _is_of_operators(policy: Policy) -> bool:
    """Whether it gives cards, or has parameters for sources of data that only operators choose."""
    chosen = [item.source for item in policy.items if isinstance(item, Data) and item.names]
    return any(isinstance(item, Cards) for item in policy.items) or any(
        not isinstance(source, FromConfigMap) for source in chosen
    )


def _line(parameter: Parameter) -> str:
    """The parameter with its default, which is a literal, as a line of YAML."""
    assert parameter.default is not None, "every parameter of the library has a default"
    value = json.loads(print_expression(parameter.default))
    return f"    {parameter.name}: {json.dumps(value, ensure_ascii=False)}\n"


def main() -> None:
    FOLDER.mkdir(exist_ok=True)
    made = examples()
    for old in FOLDER.glob("*.yaml"):
        if old.name not in made:
            old.unlink()
    for name, text in made.items():
        (FOLDER / name).write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
