"""Digests: change with the meaning of a policy, and not with its layout."""

from __future__ import annotations

import pytest

from engine.program.policy_compiler import compile_policy
from grammar.tree.source import Source
from policies.validation import Validator
from tests.support.engines import SCHEMA, programs_of

POLICY = 'policy web { for pods where pod.priority > 1 filter "f" { require node.ready } }'


def digest(text: str) -> str:
    return programs_of(text)[0].digest


@pytest.mark.parametrize(
    "other",
    [
        POLICY.replace("{ require", "{\n  # up\n  require"),
        POLICY.replace("pod.priority > 1", "(pod.priority > 1)"),
    ],
)
def test_layout_does_not_matter(other: str) -> None:
    assert digest(other) == digest(POLICY)


@pytest.mark.parametrize(
    "other",
    [
        POLICY.replace("> 1", "> 2"),
        POLICY.replace("> 1", ">= 1"),
        POLICY.replace('"f"', '"g"'),
        POLICY.replace("policy web", "policy shop"),
        POLICY.replace("node.ready", "!node.ready"),
        POLICY.replace('filter "f"', 'mode audit filter "f"'),
    ],
)
def test_meaning_does(other: str) -> None:
    assert digest(other) != digest(POLICY)


def test_what_a_policy_uses_belongs_to_it() -> None:
    digests = set()
    for value in ("true", "false"):
        text = f"""
        policy web {{ for pods where true use "base" }}
        policy base {{ for pods where false filter "f" {{ require node.ready == {value} }} }}
        """
        found = Validator(SCHEMA).validate([Source("p.policy", text)])
        digests |= {
            compile_policy(each).digest for each in found.policies if each.policy.name == "web"
        }
    assert len(digests) == 2
