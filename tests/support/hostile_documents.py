"""Hostile documents: short YAML and JSON texts that take long, or much memory, to read."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise

_LETTERS = "abcdefghij"


def _ninefold(first: str, row: str) -> str:
    """Rows, each of which names the one before it nine times; `row` has a place for that."""
    rows = (
        f"{name}: &{name} {row % ','.join([f'*{before}'] * 9)}"
        for before, name in pairwise(_LETTERS)
    )
    return "\n".join([f"a: &a {first}", *rows, ""])


def _extender(weight: str) -> str:
    kind = '"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration"'
    return f'{{{kind}, "extenders": [{{"weight": {weight}}}]}}'


DOCUMENTS: Mapping[str, str] = {
    "aliases.yaml": _ninefold("[x]", "[%s]"),
    "merges.yaml": _ninefold("{k: v}", "{<<: [%s]}"),
    "repeated-text.yaml": f"a: &a {'x' * 50_000}\nb: [{','.join(['*a'] * 5_000)}]\n",
    "itself.yaml": "a: &a [*a]\n",
    "lists.yaml": f"a: {'[' * 900}{']' * 900}\n",
    "blocks.yaml": f"{'- ' * 50_000}x\n",
    "long-keys.yaml": "".join(f"{' ' * n}? {'k' * 3_000}\n{' ' * n}:\n" for n in range(300)),
    "digits.yaml": _extender("9" * 100_000),
    "sixties.yaml": f"a: {'1:' * 100_000}1\n",
    "hexadecimal.yaml": _extender("0x" + "f" * 60),
    "tags.yaml": "a: !!int ''\nb: !!timestamp x\n",
    "lists.json": f'{{"kind": {"[" * 100_000}{"]" * 100_000}}}',
    "maps.json": '{"a":' * 100_000 + "1" + "}" * 100_000,
    "digits.json": _extender("9" * 100_000),
    "bytes.json": '{"a": "\ud800"}',
}
