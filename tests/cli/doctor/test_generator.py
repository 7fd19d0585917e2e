"""Generator: values as YAML, whatever they are."""

import pytest
import yaml

from cli.doctor.generator import field_lines

ODD_TEXTS = [
    "",
    "a b",
    "yes",
    "1.5",
    "#x",
    "x: y",
    "x #y",
    '"',
    "é\n",
    "-",
    "null",
    "2020-01-01",
    "a:b",
    "a:",
    "~",
    "0x1f",
    "1e3",
    ".inf",
    "*a",
    "[",
    "http://h:1/p",
    "kube.io/x",
]


@pytest.mark.parametrize("text", ODD_TEXTS)
def test_any_text_comes_back_as_it_was(text: str) -> None:
    assert yaml.safe_load("\n".join(field_lines("x", text))) == {"x": text}
