"""Verdict: what evaluation says of one node: feasible, held back or rejected.

A Decision has a verdict for each node of a filter call, Scores a score for each node of a
prioritize call. Both are immutable, and are dropped when the answer has been sent.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import ClassVar

import msgspec
import numpy as np
import numpy.typing as npt

from engine.cache.node_table import KnownRows
from engine.counting.groups import CountHeadroom
from engine.errors import own_text
from grammar.messages.texts import MOST_SHOWN, cut

# The most characters of the different texts of an answer: kube-scheduler joins them in the pod's
# condition and in its log.
MOST_TEXTS = 4096
# The most characters of all texts of an answer, which repeats the text of a verdict for each node.
MOST_REPEATED = 2 << 20
# Fewer verdicts and nodes than these have texts within both.
FEW_VERDICTS, FEW_NODES = MOST_TEXTS // MOST_SHOWN, MOST_REPEATED // MOST_SHOWN
_PUNCTUATION = "`'\"“”.,:;()[]"
FURTHER = own_text("more reasons: see `placet explain`")


@dataclass(frozen=True, slots=True)
class Feasible:
    """A feasible node: every clause that applies allows the pod there."""


@dataclass(frozen=True, slots=True)
class Rejected:
    """A rejected node: a clause does not allow the pod there, or fails.

    `reason` is constant for the pod (C47: kube-scheduler retries without backoff when a text
    changes between calls). `resolvable` says that an eviction could help; the wire shows it only
    on request (C48). `waits` says that the reason is that our own cache is late. `error` is what
    happened where the clause could not be evaluated, for explain and metrics, else empty.
    """

    reason: str
    policy: str
    clause: str
    resolvable: bool = False
    waits: bool = False
    error: str = ""


@dataclass(frozen=True, slots=True)
class HeldBack:
    """A node that is held back: the clauses allow the pod, and another pod waits for it.

    `policy` and `clause` are the strict count for which it is. No eviction could help.
    """

    policy: str
    clause: str
    reason: ClassVar[str] = own_text("held back: another pod may be on its way there")
    resolvable: ClassVar[bool] = False


Verdict = Feasible | HeldBack | Rejected
Codes = npt.NDArray[np.int32]
FEASIBLE = Feasible()


class Decision(msgspec.Struct, eq=False):
    """A decision: a verdict per node, in the order of the request.

    `codes` has the index of each node's verdict in `verdicts`, the first of which is Feasible.
    `known_rows` identifies the nodes by their rows in the cache, if each is known and listed once.
    `headrooms` are what it was made with, for a pod under strict counts.
    """

    codes: Codes
    verdicts: Sequence[Verdict]
    known_rows: KnownRows | None = None
    headrooms: Sequence[CountHeadroom] = ()

    def __len__(self) -> int:
        return len(self.codes)

    def __iter__(self) -> Iterator[Verdict]:
        return (self.verdicts[code] for code in self.codes.tolist())

    def counts(self) -> Sequence[int]:
        """The number of nodes with each of the verdicts."""
        counts: list[int] = np.bincount(self.codes, minlength=len(self.verdicts)).tolist()
        return counts


class Scores(msgspec.Struct, eq=False):
    """A score 0..10 per node, in the order of the request; `known_rows` is as in a Decision."""

    points: npt.NDArray[np.int64]
    known_rows: KnownRows | None = None

    def __len__(self) -> int:
        return len(self.points)

    def __iter__(self) -> Iterator[int]:
        found: list[int] = self.points.tolist()
        return iter(found)


def texts(decided: Decision) -> Sequence[str]:
    """The text of each verdict for an answer, within MOST_TEXTS and MOST_REPEATED.

    The same decision always has the same texts (C47): each text is cut to its part of the room for
    a node, and where there are too many, the last in alphabetical order become FURTHER.
    """
    found = ["" if isinstance(v, Feasible) else v.reason for v in decided.verdicts]
    room, nodes = MOST_TEXTS, len(decided)
    if len(found) <= FEW_VERDICTS and nodes <= FEW_NODES:
        return found
    most = min(MOST_SHOWN, max(1, MOST_REPEATED // max(1, nodes)))
    kept: dict[str, str] = {}
    for text in sorted(set(found)):
        kept[text] = cut(text, most)
        room -= len(kept[text])
        if room < 0:
            kept[text] = cut(FURTHER, most)
    return [kept[text] for text in found]


def attributed(policy: str, reason: str) -> str:
    """The reason with the name of its policy, if that is not a word of it; Placet's as it is.

    The pod's event joins the reasons of all plugins and extenders, so a message alone does not say
    who wrote it. The name is constant, and so is the text (C47).
    """
    if not policy or not reason or reason.startswith((own_text(""), _prefix(policy))):
        return reason
    name = policy.rpartition("/")[2]
    if any(word.strip(_PUNCTUATION) == name for word in reason.split()):
        return reason
    return cut(f"{_prefix(policy)}{reason}")


def message_of(verdict: Rejected) -> str:
    """The reason as its clause has it: without what `attributed` adds."""
    prefix = _prefix(verdict.policy)
    is_default = verdict.reason == f"{prefix}{verdict.clause}"
    return verdict.reason if is_default else verdict.reason.removeprefix(prefix)


def _prefix(policy: str) -> str:
    return f"policy {policy.rpartition('/')[2]}: "


def full_reason(policy: str, clause: str, reason: str) -> str:
    """Policy, clause and reason in one text; the default reason is left out."""
    named = f"{policy}: {clause}"
    reason = reason.removeprefix(_prefix(policy)).removeprefix(own_text(""))
    # Some go on with what the pod waits for.
    return named if reason == clause else f"{named}: {reason.removeprefix(f'{clause}: ')}"


def feasible(count: int) -> Decision:
    """The decision that accepts every one of so many nodes."""
    return Decision(np.zeros(count, np.int32), (FEASIBLE,))


def decision(verdicts: Iterable[Verdict], known_rows: KnownRows | None = None) -> Decision:
    """The decision with these verdicts, one per node."""
    codes: dict[Verdict, int] = {FEASIBLE: 0}
    found = [codes.setdefault(verdict, len(codes)) for verdict in verdicts]
    return Decision(np.array(found, np.int32), tuple(codes), known_rows)
