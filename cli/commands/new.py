"""Command `new`: a policy, its tests, and a small cluster to try it on, from a recipe."""

from __future__ import annotations

import argparse
import json
import os
from pathlib import Path

import yaml

from cli.command import CommandError, Exit, flags_of, write_text
from cli.written_objects import Object, objects_of
from grammar.meaning.schema import load_schema
from grammar.syntax.parser import parse_file
from grammar.tree.source import Source
from policies.loader import SUFFIX, TEST_SUFFIX
from policies.recipe_collection import Recipe, best

EXAMPLES = """\
examples:
  placet new web.policy at most three per zone
  placet new policies/shop.policy one-per-node
"""


ARGUMENTS = flags_of("""
  FILE
    the policy file to write, which ends in `.policy`
  WORDS...
    what is wished, in plain words, or the name of a recipe (`placet how` lists them)
""")


def run(args: argparse.Namespace) -> int:
    file: Path = args.file
    if file.suffix != SUFFIX or file.name.endswith(TEST_SUFFIX):
        hint = "give the file a name such as `web.policy`"
        raise CommandError(f"`{file}` is not the name of a policy file", hint)
    recipe, _ = best(" ".join(args.words))
    written = {
        file: f"{recipe.policy}\n",
        file.with_name(f"{file.stem}{TEST_SUFFIX}"): recipe.tests,
        file.with_name(f"{file.stem}-cluster.yaml"): _cluster(recipe),
    }
    for path in written:
        if os.path.lexists(path):
            hint = "remove it, or give another name"
            raise CommandError(f"`{path}` already exists", hint)
    for path, text in written.items():
        write_text(path, text)
    policy, tests, cluster = written
    print(f"{policy}: {recipe.name}: {recipe.wish}")
    print(f"{tests}: its tests; run `placet test {tests}`")
    print(f"{cluster}: a small cluster; run `placet check --cluster {cluster} {policy}`")
    return Exit.OK


def _cluster(recipe: Recipe) -> str:
    """The nodes and pods of the first test, as kubectl prints them."""
    file, _ = parse_file(Source("recipe", recipe.tests))
    items: list[Object] = objects_of(file.tests[0], load_schema()) if file.tests else []
    # Parts that objects share would become aliases.
    shown = json.loads(json.dumps({"apiVersion": "v1", "kind": "List", "items": items}))
    return str(yaml.safe_dump(shown, sort_keys=False))
