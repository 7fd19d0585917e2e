"""Kinds of clauses: the meaning of each for the engine, a file for each, and programs of policies.

Belongs here: how a kind is compiled, its needs, its evidence for an explanation, and the part of a
pod for kube-scheduler. Must not: arithmetic of counts and cards, decisions, syntax (`grammar`).
"""

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
