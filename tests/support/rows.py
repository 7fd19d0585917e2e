"""Rows: the cases of a test as a table, in which each has its name."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pytest


def rows(names: str | Sequence[str], table: Mapping[str, object]) -> pytest.MarkDecorator:
    """A test of each row, which has a value for each of the names, or that of the only one."""
    return pytest.mark.parametrize(names, table.values(), ids=table.keys())
