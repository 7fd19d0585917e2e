"""Node groups: autoscalers choose those on which Placet passes the pod, of portable policies.

cluster-autoscaler runs kube-scheduler's own filters on the template node of each group; Karpenter
has its scheduling package.
"""

from __future__ import annotations

import json
import re
import subprocess
from pathlib import Path

import pytest

from engine.clauses.programs import compile_policy
from engine.decision.registry import Registry
from engine.engine import Engine
from engine.explanation.inspection import Inspection
from engine.objects.request_pod import ObjectCodec
from engine.portable.portable_clauses import portability
from engine.selectors.terms import Frozen
from engine.work import finished
from grammar.checker.policy_checker import Checked
from grammar.meaning.schema import load_schema
from grammar.tree.source import Source
from policies.loader import load
from policies.validation import Validator
from tests.differential.documented import running
from tests.differential.portable_worlds import told
from tests.e2e.process import built_plugins, built_tool
from tests.support.builders import Object, node, pod, raw
from tests.support.engines import CODEC, Known, Silent, cache_of

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "portable.md").read_text(encoding="utf-8")
REASONS = ROOT / "tests" / "golden" / "portable_library.txt"
FROZEN = Frozen(labels=frozenset({"team"}))
GROUPS = {
    "general": {},
    "spot": {"karpenter.sh/capacity-type": "spot"},
    "on-demand": {"karpenter.sh/capacity-type": "on-demand"},
    "shop": {"placet.dev/namespace": "shop", "karpenter.sh/capacity-type": "on-demand"},
    "bank": {"placet.dev/namespace": "bank", "karpenter.sh/capacity-type": "spot"},
}
CHOSEN = {
    "no-spot": ["general", "on-demand", "shop"],
    "own-nodes": ["shop"],
}


def library() -> dict[str, Checked]:
    sources = load([ROOT / "policies" / "library"]).sources
    policies = Validator(load_schema()).validate(sources).policies
    return {checked.policy.name: checked for checked in policies}


def test_what_is_told_of_the_library() -> None:
    """Each policy that rejects nodes is portable, which the page says, or has these reasons."""
    codec = ObjectCodec(load_schema())
    wanted = {}
    for name, checked in library().items():
        verdicts = portability(checked, codec, FROZEN)
        if checked.policy.name in _tests(checked) or not verdicts:
            continue
        reasons = [v.reason for v in verdicts if v.reason]
        wanted[name] = "; ".join(reasons) or "told as it is"
    lines = REASONS.read_text(encoding="utf-8").splitlines()
    assert dict(line.split(": ", 1) for line in lines) == wanted
    assert {name for name, row in wanted.items() if row == "told as it is"} == CHOSEN.keys()
    named, _, _ = PAGE.partition("## The library")[2].partition(" are told as they are")
    assert re.findall(r"`([a-z-]+)`", named.partition("team`")[2]) == [*CHOSEN]


def _tests(checked: Checked) -> set[str]:
    """Policies that exist for the tests beside the library."""
    return set() if checked.policy.only_used or checked.policy.cluster else {checked.policy.name}


@pytest.mark.e2e
@pytest.mark.parametrize("name", sorted(CHOSEN))
def test_the_right_groups_are_chosen(name: str, pytestconfig: pytest.Config) -> None:
    asked = pod("web", namespace="shop")
    source = Source("p.policy", f'cluster policy c {{ portable use "library/{name}" }}')
    registry = Registry(map(compile_policy, Validator(load_schema()).validate([source]).policies))
    nodes = [node(group, labels=labels) for group, labels in GROUPS.items()]
    after = told(asked, registry).after
    engine = Engine(registry, Known(cache_of(nodes)), CODEC, Silent())
    (objection,) = finished(Inspection(engine, raw(asked), [*GROUPS]).objections())
    refusals = dict(zip(GROUPS, objection.refused, strict=True))
    assert [group for group, refused in refusals.items() if not refused] == CHOSEN[name]
    with running(built_plugins(pytestconfig)) as plugins:
        judged = plugins.judge({"namespaces": [], "nodes": nodes, "pods": [], "pod": after})
    fits = [g for g in GROUPS if all(verdict[g] for verdict in judged.filters.values())]
    assert fits == CHOSEN[name]
    assert _chosen_by_karpenter(built_tool(pytestconfig, "karpenter"), after) == CHOSEN[name]


def _chosen_by_karpenter(program: Path, asked: Object) -> list[str]:
    # A group's own labels, and those that every node of it gets.
    question = json.dumps({"pod": asked, "groups": GROUPS})
    done = subprocess.run([program], input=question, capture_output=True, text=True, check=True)
    found = set(json.loads(done.stdout))
    return [group for group in GROUPS if group in found]
