"""Cards: the filter for nodes whose cards have room, and which cards a pod takes."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence

from engine.cache.informers import Needs
from engine.cards.fragmentation import CardFacts
from engine.cards.node_cards import TAKEN, holders
from engine.clauses.filter import filter_program
from engine.clauses.meaning import ClauseMeaning, PodEvidence
from engine.clauses.score import score_program
from engine.counting.groups import PodInGroup
from engine.objects.peer import Peer, key_of
from engine.program.frame import Frame
from engine.program.policy_compiler import PolicyCompiler
from engine.program.program import CardsProgram, ClauseProgram
from grammar.clauses.cards import Cards
from grammar.clauses.filter import Filter
from grammar.clauses.score import Score
from grammar.meaning import card_forms
from grammar.tree.ast import Expr, Ident, Literal
from grammar.tree.clause_parts import Template

_NODE = Ident("node")
_MOST_SHOWN = 16


def _programs(clause: Cards, compiler: PolicyCompiler) -> Iterator[ClauseProgram]:
    """The filter for nodes where as many cards have room as the pod takes, and the cards."""
    span, compiled, checked = clause.name_span, compiler.compiled, compiler.checked
    message = clause.message or Template((f"policy {compiler.policy.name}: no card has room",))
    room = Filter(
        name=clause.name,
        requires=(checked(card_forms.room(clause, _NODE, span)),),
        when=clause.when,
        missing="fail",  # a pod cannot be bound where its cards have no value
        message=message,
    )
    yield filter_program(room, compiler)
    entries = clause.writes.entries if clause.writes is not None else ()
    written = [(e.key.value, e.value) for e in entries if isinstance(e.key, Literal)]
    # What others may take of the cards of a node; it is kept by node.
    spare = checked(card_forms.spare(clause, _NODE, span))
    reads = compiler.reads(clause.when, clause.take, clause.number)
    yield CardsProgram(
        policy=compiler.policy.address,
        name=clause.name,
        when=compiler.condition(clause.when),
        message=compiler.message(message, clause.name),
        number=compiled(checked(card_forms.number(clause, span))),
        take=compiled(clause.take),
        cards=compiled(checked(card_forms.cards(clause, _NODE, span))),
        chosen=compiled(checked(card_forms.chosen(clause, _NODE, span))),
        spare=score_program(Score(clause.name, 1.0, spare), compiler),
        index=clause.index,
        writes=tuple((str(key), compiled(value)) for key, value in written),
        reads=None if reads is None or reads.namespace else reads,
    )


def _evidence(clause: Cards, value: Callable[[Expr], object], frame: Frame) -> PodEvidence:
    """What the pod takes, what is left of the cards of a node, and the pods on them."""
    span = clause.name_span
    found = value(card_forms.cards(clause, _NODE, span))
    take, number = value(clause.take), value(card_forms.number(clause, span))
    assert isinstance(found, list | tuple), "the checker has seen its type"
    assert isinstance(take, Mapping), "the checker has seen its type"
    amounts = " and ".join(f"{amount} {name}" for name, amount in take.items())
    many = "1 card" if number == 1 else f"each of {number} cards"
    parts = []
    for card in found[:_MOST_SHOWN]:
        left = (f"{card.free.get(n, 0)} of {card.capacity.get(n, 0)} {n}" for n in take)
        parts.append(f"card {card.index} has {', '.join(left)}")
    if len(found) > _MOST_SHOWN:
        parts.append(f"and {len(found) - _MOST_SHOWN} more cards")
    there = "; ".join(parts) or "the node has no cards"
    pods: Sequence[Peer] = getattr(frame.node, "pods", None) or ()
    facts = frame.cardFacts
    assert isinstance(facts, CardFacts), "a frame has them"
    capacities = [card.capacity for card in found]
    on_them = [
        PodInGroup(key_of(each.pod), "guessed" if each.is_guessed else "bound")
        for each in holders(clause.name, capacities, pods, facts.claim)
        if isinstance(each.pod, Peer)
    ]
    return f"the pod takes {amounts} of {many}; {there}", sorted(on_them)


CARDS = ClauseMeaning(
    kind=Cards,
    programs=_programs,
    needs=lambda clause: Needs(annotations=frozenset({TAKEN, clause.index or TAKEN})),
    portable="what is left of cards has no equivalent",
    evidence=_evidence,
)
