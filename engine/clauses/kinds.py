"""Kinds of clauses with their meanings: the one table of them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from engine.clauses.cards import CARDS
from engine.clauses.filter import FILTER
from engine.clauses.gang import GANG
from engine.clauses.limit import LIMIT
from engine.clauses.meaning import ClauseMeaning
from engine.clauses.preempt import PREEMPT
from engine.clauses.score import SCORE
from engine.clauses.share import SHARE
from engine.clauses.spread import SPREAD
from grammar.tree.clause_parts import AnyClause

MEANINGS: Mapping[type[AnyClause], ClauseMeaning[Any]] = {
    each.kind: each for each in (FILTER, SCORE, SHARE, SPREAD, LIMIT, CARDS, GANG, PREEMPT)
}
