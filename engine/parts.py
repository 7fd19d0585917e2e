"""Table of the parts of decisions that an engine has beside its core: the only list of them."""

from __future__ import annotations

from collections.abc import Sequence

from engine.decision.part import PartMaker
from engine.gangs.gangs import Gangs
from engine.given_cards import GivenCards

PARTS: Sequence[PartMaker] = (GivenCards, Gangs)
