"""Generator: values as YAML, whatever they are."""

import pytest
import yaml

from cli.doctor.generator import yaml_of

ODD_TEXTS = [
    "",
    "a b",
    "yes",
    "1.5",
    "5s",
    "1m",
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
    document = {"x": text, "y": [{"a": text, "b": {"c": text}}]}
    assert yaml.safe_load(yaml_of(document)) == document
