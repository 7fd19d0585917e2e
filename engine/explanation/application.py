"""Application: how each policy applies to a pod, and why, and what its spec says of policies."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from engine.cards.node_cards import TAKEN
from engine.decision.registry import Registry, Selection
from engine.explanation.document import Applies
from engine.objects.request_pod import BYPASS, EARLIER_BYPASS, FORM, form_versions
from engine.program.frame import Frame
from engine.program.program import Program
from grammar.messages.diagnostics import nearest
from grammar.values.errors import EvaluationError


def application(program: Program, selection: Selection, frame: Frame) -> tuple[Applies, str]:
    """How a policy that can apply to a pod applies to it, and the reason."""
    if selection.exempt:
        return "no", selection.exempt
    if program in selection.guardrails:
        return "as a guardrail", "every cluster policy that selects the pod applies"
    if program is selection.governing:
        return "governs", _victory(program, selection.gave_way)
    if program in selection.gave_way:
        assert selection.governing is not None, "no policy gives way without one that governs"
        return "gives way", f"`{selection.governing.address}` governs"
    if program in selection.audited:
        return "in audit", "it is evaluated, but rejects nothing"
    for broken in selection.unselectable:
        if broken.program is program:
            return "rejects all", f"its `for` cannot be evaluated: {broken.error}"
    return "no", _unselected(program, frame)


def _victory(winner: Program, others: tuple[Program, ...]) -> str:
    """The first rule of precedence in which the winner and the next policy differ."""
    if not others:
        return "no other policy selects the pod"
    other, name = others[0], f"`{others[0].address}`"
    if winner.weight != other.weight:
        return f"its weight {winner.weight} is higher than the {other.weight} of {name}"
    if winner.strict != other.strict:
        return f"it can reject, and {name} cannot"
    if winner.namespace != other.namespace:
        return f"it belongs to the namespace, and {name} to all namespaces"
    return f"its name comes before {name}"


def _unselected(program: Program, frame: Frame) -> str:
    """The result of its `for`, which did not select the pod."""
    assert program.select is not None, "a policy without a `for` selects every pod"
    try:
        program.select(frame)
    except EvaluationError as error:
        return f"its `for` has no value: {error}"
    return "its `for` is false"


# ---- annotations of pods that nobody reads

_ANNOTATIONS = (BYPASS, FORM, TAKEN)


def misspelt_annotations(body: bytes) -> Iterator[tuple[str, str]]:
    """The annotations that Placet does not know, each with the known annotation that it resembles.

    It may have the name of a known one with the group of another.
    """
    pod = msgspec.json.decode(body)
    by_name = {known.rpartition("/")[2]: known for known in _ANNOTATIONS}
    groups = {known.partition("/")[0] for known in (*_ANNOTATIONS, EARLIER_BYPASS)}
    for key in pod.get("metadata", {}).get("annotations") or {}:
        if key in (*_ANNOTATIONS, EARLIER_BYPASS):
            continue
        group, _, name = key.rpartition("/")
        if nearest(group, groups) and (close := nearest(name, by_name)) is not None:
            yield key, by_name[close]
        elif (whole := nearest(key, _ANNOTATIONS)) is not None:
            yield key, whole


# ---- what a pod was told of portable policies when it was created


def told_to_others(body: bytes, registry: Registry) -> Iterator[str]:
    """What portable policies have put into the spec of a pod, and whether it is still true."""
    pod = msgspec.json.decode(body)
    told = form_versions(pod.get("metadata", {}).get("annotations") or {})
    if not told:
        return
    now = {program.address: program.digest for program in registry.programs}
    for address, digest in told.items():
        if now.get(address) == digest:
            yield f"others know policy {address} from the spec of the pod"
        else:
            what = "another version of policy" if address in now else "policy"
            why = "" if address in now else ", which is not in force,"
            yield f"others know {what} {address}{why} from the spec of the pod; create it again"
