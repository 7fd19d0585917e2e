"""What passes for a list of names is one, and has the names that JSON has."""

from __future__ import annotations

import json
from itertools import product

import pytest

from engine.cache.names import ListedNames


@pytest.mark.parametrize("length", range(9))
def test_every_text_of_few_letters(length: int) -> None:
    """Of all that can stand between the first quote and the last."""
    for letters in product('",a', repeat=length):
        text = f'["{"".join(letters)}"]'
        found = ListedNames.of(text.encode())
        if found is not None:
            assert len(found) == len(json.loads(text)), text
            assert list(found) == json.loads(text)


@pytest.mark.parametrize(
    "text", ["", "[", '["', '["]', "[]", '"]', '["a]', '[""]x', 'x["a"]', "[1]"]
)
def test_no_list_of_names(text: str) -> None:
    assert ListedNames.of(text.encode()) is None


@pytest.mark.parametrize("names", [["a"], [""], ["a", "b"], ["", ""], ["x" * 300, "b c"]])
def test_a_list_of_names(names: list[str]) -> None:
    found = ListedNames.of(json.dumps(names, separators=(",", ":")).encode())
    assert found is not None
    assert list(found) == names


@pytest.mark.parametrize("text", ['["é"]', '["\\u0061"]', '["a\\"b"]', '["a\tb"]', '["a", "b"]'])
def test_names_that_are_for_a_decoder(text: str) -> None:
    assert ListedNames.of(text.encode()) is None
