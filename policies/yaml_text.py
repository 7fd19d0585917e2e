"""YAML as JSON has it: without times, without depths that end the process, errors in one line."""

from __future__ import annotations

import re

import yaml

MAX_DEPTH = 1_000
_BRACKET = re.compile(rb"[\[\]{}]")
_LEAD = re.compile(rb"^[-?: \t]+", re.MULTILINE)


class JsonLoader(yaml.CSafeLoader):
    """Reads times as the text that they are: JSON has no others."""


JsonLoader.yaml_implicit_resolvers = {
    first: [(tag, pattern) for tag, pattern in resolvers if tag != "tag:yaml.org,2002:timestamp"]
    for first, resolvers in yaml.CSafeLoader.yaml_implicit_resolvers.items()
}


def depth(data: bytes) -> int:
    """How deep the YAML may be nested: an estimate that is never too low.

    libyaml builds its tree by recursion and overflows the stack, which ends the process: what is
    deeper than MAX_DEPTH must not get there.
    """
    deepest = max((len(lead) for lead in _LEAD.findall(data)), default=0)
    brackets = 0
    for bracket in _BRACKET.findall(data):
        brackets = brackets + 1 if bracket in b"[{" else max(0, brackets - 1)
        deepest = max(deepest, brackets)
    return deepest


def problem(error: yaml.YAMLError) -> str:
    """What is wrong and in which line, in one line."""
    what = getattr(error, "problem", None) or getattr(error, "reason", "it cannot be read")
    mark = getattr(error, "problem_mark", None)
    where = f" in line {mark.line + 1}" if mark is not None else ""
    return " ".join(f"{what}{where}".split())
