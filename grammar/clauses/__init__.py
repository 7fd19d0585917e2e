"""The kinds of clauses: each is a file, and a line of the table KINDS, which everybody asks.

Belongs here: the node of a kind, how its parts are read, written and checked, and what several
kinds share of that. Must not: the meaning of expressions (`grammar.meaning`), programs of clauses.
"""

from __future__ import annotations

from collections.abc import Mapping

from grammar.clauses.cards import CARDS
from grammar.clauses.filter import BIND, FILTER
from grammar.clauses.gang import GANG
from grammar.clauses.kind import ClauseKind
from grammar.clauses.limit import LIMIT
from grammar.clauses.preempt import PREEMPT
from grammar.clauses.score import SCORE
from grammar.clauses.share import SHARE
from grammar.clauses.spread import SPREAD
from grammar.messages.catalogue import listed

# By the words that they begin with, in the order in which people are told of them.
KINDS: Mapping[str, ClauseKind] = {
    "filter": FILTER,
    "score": SCORE,
    "share": SHARE,
    "spread": SPREAD,
    "limit": LIMIT,
    "cards": CARDS,
    "gang": GANG,
    "preempt": PREEMPT,
    "bind": BIND,
}
CLAUSE_WORDS = tuple(KINDS)
CLAUSES_ARE = f"the clauses are {listed((f'`{word}`' for word in CLAUSE_WORDS), 'and')}"
# By the rules of the grammar; the same rule is read in the same way for all kinds.
PARTS = {part.rule: part for kind in KINDS.values() for part in kind.parts}
# How what has several parts is written; `x` is the name.
SHAPES: Mapping[str, str] = {word: kind.shape for word, kind in KINDS.items()} | {
    "data": 'data "x" { from metrics every 30s for at most 90s }',
    "group": "group x by node.zone",
    "count": "count x per node = pods where true",
    "let": "let x = node.zone",
    "def": "def x(zone: string): bool = node.zone == zone",
    "repair": 'repair at most 1 per minute within "22:00" .. "06:00"',
    "use": 'use "x"',
    "test": 'test "x" { node "n" pod "p" expect pass "n" }',
}
# And data, by the word of its source.
SHAPES_OF_SOURCES: Mapping[str, str] = {
    "prometheus": 'data "x" { from prometheus "http://prometheus" query "node_load1" by "node" }',
    "configmap": 'data "x" { from configmap "a/racks" file "racks.csv" by "rack" columns { … } }',
    "file": 'data "x" { from file "racks.csv" by "rack" columns { … } }',
    "objects": 'data "x" { from objects "v1/Secret" by object.metadata.namespace columns { … } }',
}
