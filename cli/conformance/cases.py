"""Cases: what is asked of an extender about each line of the contract, read from `cases.yaml`.

A line that an extender cannot break, because it speaks of kube-scheduler alone, says so in place
of cases.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from importlib.resources import files
from typing import Any, Literal

import msgspec
import yaml

Verb = Literal["filter", "prioritize", "preempt", "bind"]
Severity = Literal["fail", "warn"]
# How calls are made: one, several after each other, one about all nodes and one about each, many at
# once, with one body of text, or as a client does that is slow, goes away or stays idle.
Way = Literal["once", "repeated", "apart", "at-once", "text", "slow", "broken", "idle"]


class Case(msgspec.Struct, frozen=True, rename="kebab", forbid_unknown_fields=True):
    """A case: a question about a verb, and the checks of its answers.

    `expect` names checks of `expectations.py`. `change` is a JSON merge patch (RFC 7396) of the
    request. `node_bytes` is the least size of each node. `why` is what kube-scheduler does with
    another answer.
    """

    name: str
    ask: Verb
    expect: tuple[str, ...]
    why: str
    otherwise: Severity = "fail"
    way: Way = "once"
    times: int = 3
    nodes: int = 3
    node_bytes: int = 0
    names_only: bool = False
    objects_only: bool = False
    lower_case: bool = False
    change: dict[str, Any] | None = None
    text: str = ""


class Contract(msgspec.Struct, frozen=True, rename="kebab", forbid_unknown_fields=True):
    """A line of the contract, as C19: its cases, or why an extender cannot break it."""

    id: str
    says: str
    cases: tuple[Case, ...] = ()
    not_applicable: str = ""


@cache
def contracts() -> Sequence[Contract]:
    """All lines in their order."""
    text = (files("cli.conformance") / "cases.yaml").read_text("utf-8")
    return msgspec.convert(yaml.safe_load(text), tuple[Contract, ...])
