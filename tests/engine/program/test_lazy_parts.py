"""Parts that are not needed are not evaluated, and what is missing stays so: compiled as plain."""

from __future__ import annotations

import pytest

from tests.differential.test_kubernetes_cel import NO_VALUE, Here


@pytest.fixture(scope="module")
def here() -> Here:
    """Its `evaluate` compares both evaluations."""
    return Here({"labels": '{"a": "1"}', "ports": "[80]", "some": "optional.of(1)"})


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("some.orValue(1 / 0)", ("int", 1)),
        ("some.or(optional.of(1 / 0)).value()", ("int", 1)),
        ("ports[?5].orValue(7)", ("int", 7)),
        ("ports[?5].orValue(1 / 0)", NO_VALUE),
        ("has(labels.a)", ("bool", True)),
        ("has(labels.b)", ("bool", False)),
        ('has({"a": labels}[labels["b"]].c)', NO_VALUE),
        ('has({"a": labels}["b"].c)', NO_VALUE),
        ('has({"a": optional.none()}.a)', ("bool", True)),
        ('has(labels[labels["b"]])', NO_VALUE),
        ("has(ports[5])", ("bool", False)),
        ('[duration("1h")].filter(x, false).sum()', ("duration", 0)),
        ('(true ? [duration("1h")] : []).max().getHours()', ("int", 1)),
    ],
)
def test_both_evaluations_agree(here: Here, text: str, value: object) -> None:
    assert here.evaluate(text) == value
