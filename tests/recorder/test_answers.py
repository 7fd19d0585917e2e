"""Recorded answers: the program gives the same ones, in a few worlds.

`make answers` plays all of them. Where a difference is meant, `python -m tests.recorder --write`
records the new answers; `--show WORLD` prints those of one world, to compare two versions.
"""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from tests.recorder import record
from tests.recorder.record import Lot

_PLACET = Path(sys.executable).with_name("placet")
_RECORDED = record.read(record.GOLDEN)


@pytest.mark.process
@pytest.mark.parametrize("lot", record.sample(), ids=lambda lot: lot.theme or lot.worlds[0])
def test_answers_are_as_recorded(lot: Lot) -> None:
    found = record.digests(lot.play(_PLACET))
    assert record.differences(_RECORDED, found) == []
