"""Trials of hints: an edit that loses what was written is not shown, though it leads on."""

from __future__ import annotations

import pytest

from grammar.messages.diagnostics import Diagnostic, Fix
from grammar.tree.source import Source, Span
from policies.hints import HintTrial

LOSSES = [
    ('victim.labels[?"keep"].orValue("") == "yes"', 'victim.labels[?"app"].orValue("") == "yes"'),
    ('victim.labels[?"keep"].orValue("") == "yes"', 'victim.labels[?"keep"].orValue("") == ""'),
    ('of pods where peer.labels["app"] == "web"', "of replicas"),
    (
        'for pods where pod.namespace == "bank" && pod.priority > 5',
        "for pods where pod.priority > 5",
    ),
    ("require node.ready && node.zone in ['a', 'b']", "require node.ready && node.zone in ['a']"),
    ("pods where peer.priority > 5", "pods where peer.age > 5"),
    ("at most 5 per node strict", "per node at most 5"),
    ("require node.ready missing pass", "require node.ready"),
    ('score "x" weight 5 { prefer spot }', 'score "x" { value node.spot }'),
    ("pairs per node mutual", "per node"),
    ("ready pods per node", "pods per node"),
    ('for namespace "a"', 'for pods where pod.labels["a"] == "a"'),
]
KEPT = [
    ('per topology "topology.kubernetes.io/zone"', "per zone"),
    ('require node.ready == "True"', "require node.ready"),
    ('{"require": "node.ready"}', "require node.ready"),
    ("strict", ""),
    ("/* ready and strict */", ""),
    ('affinity pods where peer.labels["a"] == "b"', 'limit pods where peer.labels["a"] == "b"'),
]


def leads_on(written: str, made: str, code: str = "P0001", *, severity: str = "error") -> bool:
    """Whether a hint is shown that leaves no error of a text."""
    span = Span(0, len(written))
    found = Diagnostic(code, severity, "it is wrong", span, remedy=Fix(span, made))  # type: ignore[arg-type]
    source = Source("x.policy", written)
    return HintTrial(source, lambda s: [found] if s.text == written else [], True).leads_on(found)


@pytest.mark.parametrize(("written", "made"), LOSSES)
def test_a_hint_keeps_what_was_written(written: str, made: str) -> None:
    assert not leads_on(written, made)


@pytest.mark.parametrize(("written", "made"), KEPT)
def test_other_words_for_the_same_are_no_loss(written: str, made: str) -> None:
    assert leads_on(written, made)


def test_where_a_field_is_wrong_it_may_go_and_a_text_may_not() -> None:
    assert leads_on("node.cordoned", "node.spec.unschedulable", "P0102")
    assert not leads_on('node.pool == "a"', 'node.labels["pool"] == "b"', "P0102")


def test_a_certain_edit_keeps_it_too() -> None:
    written, made = 'pods where peer.labels["a"] == "b" strict', "pods strict"
    edit = Fix(Span(0, len(written)), made)
    found = Diagnostic("P0001", "error", "it is wrong", edit.span, fix=edit)
    trial = HintTrial(Source("x", written), lambda s: [found] * (s.text == written), True)
    assert not trial.leads_on(found)


def test_what_is_of_no_use_may_be_left_out() -> None:
    assert leads_on('let old = pod.labels["a"]', "", "P0303", severity="warning")
