"""Trees: `placet fmt` prints them in one layout, and walkers see every part of them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields, is_dataclass

import pytest

from grammar.syntax.formatter import format_file
from grammar.syntax.parser import parse_file
from grammar.tree import ast
from grammar.tree.policy import ForPods, Policy
from grammar.tree.source import Source, Span
from grammar.tree.types import Type
from grammar.tree.walk import children
from policies.loader import parsed_library

MESSY = """# the shop's rules
policy   shop in namespace 'shop' {   # main policy
    weight 200
  for pods where pod.labels["tier"] in ["web","api"] // which


  # spot nodes
  let spot=node.labels["karpenter.sh/capacity-type"]=='spot'
  filter "long" { require (a && b) || (c && d)
     # why
     require node.free["memory"] - pod.requests["memory"] >= "1Gi" &&
     node.labels["kubernetes.io/arch"] == "arm64" && true message "stays {pod.name}  as  it is"
  }
  score "s" weight 40 { missing 0 range 0 .. 1 value -a * (b + c) }
  limit "one" { per node strict at most 1 }
  limit "some" { strict at most  int( node.labels['slots'] )  per node }
  limit "apart" { mutual strict pods where peer.name!='a' at most 0 per node }
  limit "few" { strict at most 3 used  node where node.ready }
  limit "spare" { strict at least 2 empty  node }
  share "part" { at most n%  of replicas on nodes where spot strict }
  spread "new" { strict skew at most 1 over node.zone of  revision }
  spread "all" { of replicas over node.zone skew at most 1 strict }
  gang "g" when  a { message "m" for at most 1m30s within node.labels['rack'] at least n%
    of replicas }
  gang "by" { at least 8 of pods by peer.labels['job'] }
  gang "whole" { }
  gang "roles" { of pods by peer.labels['job'] at least 1
    of pods where peer.labels['r'] == 'a' at least n of pods where peer.labels['r'] == 'b' }
  bind "ready" { message "m" wait until a||b  for at most 3600s require c }
  # the end
}
test "t" { node "n" { 'labels' : {"a":"b"}} expect score "n" >= 7 expect reject "n" by "long"
  expect wait "n" by 'g'  expect wait "n" by "g" message '1 of 2'
  expect reject "n" by "g"   message "m" expect  bind 'n'
  expect evict "a","b" on "n"
  expect evict none on "n" }
# last
"""

CLEAN = """# the shop's rules
policy shop in namespace "shop" {  # main policy
  weight 200
  for pods where pod.labels["tier"] in ["web", "api"]  # which

  # spot nodes
  let spot = node.labels["karpenter.sh/capacity-type"] == "spot"
  filter "long" {
    require a && b || c && d
    # why
    require node.free["memory"] - pod.requests["memory"] >= "1Gi"
        && node.labels["kubernetes.io/arch"] == "arm64"
        && true
    message "stays {pod.name}  as  it is"
  }
  score "s" weight 40 { value -a * (b + c) range 0 .. 1 missing 0 }
  limit "one" { per node at most 1 strict }
  limit "some" { per node at most int(node.labels["slots"]) strict }
  limit "apart" { pods where peer.name != "a" per node at most 0 strict mutual }
  limit "few" { used node where node.ready at most 3 strict }
  limit "spare" { empty node at least 2 strict }
  share "part" { of replicas on nodes where spot at most n% strict }
  spread "new" { of revision over node.zone skew at most 1 strict }
  spread "all" { of replicas over node.zone skew at most 1 strict }
  gang "g" when a { of replicas at least n% within node.labels["rack"] for at most 90s message "m" }
  gang "by" { of pods by peer.labels["job"] at least 8 }
  gang "whole" { of replicas }
  gang "roles" {
    of pods by peer.labels["job"]
    at least 1 of pods where peer.labels["r"] == "a"
    at least n of pods where peer.labels["r"] == "b"
  }
  bind "ready" {
    require c
    wait until a || b for at most 1h
    message "m"
  }
  # the end
}

test "t" {
  node "n" {"labels": {"a": "b"}}
  expect score "n" >= 7
  expect reject "n" by "long"
  expect wait "n" by "g"
  expect wait "n" by "g" message "1 of 2"
  expect reject "n" by "g" message "m"
  expect bind "n"
  expect evict "a", "b" on "n"
  expect evict none on "n"
}
# last
"""


def formatted(text: str) -> str:
    source = Source("t", text)
    file, found = parse_file(source)
    assert not found, found
    return format_file(file, source)


def test_layout() -> None:
    """Quotes, spaces, order and line breaks are canonical; comments stay where they were."""
    assert formatted(MESSY) == CLEAN


def test_formatting_twice_changes_nothing() -> None:
    """Idempotent."""
    assert formatted(CLEAN) == CLEAN


def test_an_empty_file_stays_empty() -> None:
    """Nothing in, nothing out; a comment alone stays."""
    assert formatted("\n\n") == ""
    assert formatted("# only this") == "# only this\n"


def test_numbers_have_no_exponent_and_a_comment_stays_behind_the_last_parameter() -> None:
    """The language takes an exponent only in expressions."""
    text = """cluster policy p (
  a: int = 1,
  b: int = 2  # last
) {  # head
  # before
  score "tiny" weight 0.00001 { value a }
  score "large" weight 100000000000000000000.0 { value b }
}
"""
    source = Source("t", text)
    assert format_file(parse_file(source)[0], source) == text


# ---- walking through trees: no expression is left out, whatever class of node it is in


def plainly(node: object) -> Iterator[ast.Expr]:
    """The expressions directly inside a node, by looking at every field."""
    if isinstance(node, ast.Literal | Span | Type):
        return
    if isinstance(node, tuple):
        parts = [*node]
    else:
        parts = [getattr(node, each.name) for each in fields(node)] if is_dataclass(node) else []
    for part in parts:
        if isinstance(part, ast.Expr):
            yield part
        else:
            yield from plainly(part)


def nodes(node: object) -> Iterator[object]:
    """A node and all nodes in it."""
    yield node
    for expr in plainly(node):
        yield from nodes(expr)


@pytest.mark.parametrize(
    "file", [pytest.param(file, id=source.name) for source, file, _ in parsed_library()]
)
def test_children_are_those_of_every_field(file: object) -> None:
    for node in nodes(file):
        found, expected = children(node), list(plainly(node))
        assert len(found) == len(expected)
        assert all(one is other for one, other in zip(found, expected, strict=True))


def test_parts_of_some_classes_are_left_out() -> None:
    (_, file, _), *_ = parsed_library()
    (policy,) = file.policies
    without = [*map(id, children(policy, skip=(ForPods,)))]
    assert without == [id(e) for e in children(policy) if e is not policy.selector]
    assert len(without) < len(children(policy))
    assert children(policy, skip=(Policy,)) == []
