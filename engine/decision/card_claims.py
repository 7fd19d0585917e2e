"""CardClaims: what pods take of cards that others have bound, without Placet's annotation.

Where Placet is new, pods run on cards that another extender gave them. They take what the clause of
the first policy that selects them says. CardClaims belong to a registry.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from cachetools import LRUCache

from engine.objects.peer import Peer, placed_pod
from engine.program.card_choice import demand
from engine.program.frame import Frame
from engine.program.program import CardsProgram, Program
from grammar.values.cards import CardPod, Claim
from grammar.values.errors import EvaluationError
from grammar.values.time import Timestamp

# The pods whose claims are kept.
_MOST_KEPT = 65_536


class CardClaims:
    """The claims of pods on nodes, by the name of a clause. On one event loop.

    `programs` are the policies with cards, in the order in which they decide.

    A policy or clause that reads what is not known of such a pod gives none (`Program.selects_by`,
    `CardsProgram.is_known_of_peers`).
    """

    def __init__(self, programs: Iterable[Program], exempts: Callable[[Peer], bool]) -> None:
        self._exempts = exempts
        self._programs: dict[str, list[tuple[Program, CardsProgram]]] = {}
        for program in programs:
            selects = program.selects_by
            if selects is None or selects.namespace:
                continue
            for clause in program.cards:
                if clause.is_known_of_peers:
                    self._programs.setdefault(clause.name, []).append((program, clause))
        self._slots = max((p.slots for each in self._programs.values() for p, _ in each), default=0)
        # With the peer, because a uid stays when the pod changes.
        self._known: LRUCache[tuple[str, str], tuple[Peer, Claim | None]] = LRUCache(_MOST_KEPT)

    def of(self, clause: str, pod: CardPod) -> Claim | None:
        """What a pod on a node takes of the cards of a clause; None if nothing is known of it."""
        programs = self._programs.get(clause)
        if not programs or not isinstance(pod, Peer):
            return None
        key = (clause, pod.uid)
        kept = self._known.get(key)
        if kept is not None and kept[0] is pod:
            return kept[1]
        found = None if self._exempts(pod) else self._claim(programs, pod)
        self._known[key] = pod, found
        return found

    def _claim(self, programs: Iterable[tuple[Program, CardsProgram]], pod: Peer) -> Claim | None:
        for program, clause in programs:
            frame = Frame(placed_pod(pod), Timestamp.ZERO, slots=self._slots)
            try:
                if program.select is not None and program.select(frame) is not True:
                    continue
                if clause.when is not None and clause.when.evaluate(frame) is not True:
                    continue
                found = demand(clause, frame)
            except EvaluationError:
                continue
            return Claim(found, _numbers(pod, clause.index, found.cards))
        return None


def _numbers(pod: Peer, index: str | None, wanted: int) -> tuple[int, ...]:
    """The numbers of cards in the index annotation; none if it has not as many as it should."""
    texts = pod.annotations.get(index, "").split(",") if index is not None else []
    found = {int(text) for text in texts if text.isascii() and text.isdecimal() and len(text) < 4}
    return tuple(sorted(found)) if len(found) == wanted == len(texts) else ()
