"""Portable form: the parts of a pod's spec that its portable policies become."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from itertools import product

import msgspec

from engine.decision.registry import Registry
from engine.errors import ExpensivePolicyError
from engine.objects.decoding import ObjectDecoder
from engine.objects.request_pod import FORM, Exemptions, RequestPod, form_text
from engine.portable.portable_clauses import Left, parts_of
from engine.portable.portable_clauses import selects as certainly_selects
from engine.program.program import Program
from engine.selectors.terms import (
    ALWAYS,
    MOST_TERMS,
    Algebra,
    Frozen,
    Json,
    Part,
    UnportableError,
    expressions,
)

_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
EXPENSIVE = "the policy takes too much time"
# Charges a policy for the time of a block. Raises ExpensivePolicyError.
Using = Callable[[str], AbstractContextManager[None]]
_REQUIREMENTS = frozenset({"matchExpressions", "matchFields"})
# A term that selects no node: a selector may not be without terms.
_NO_NODE = [
    {"key": "kubernetes.io/hostname", "operator": operator}
    for operator in ("Exists", "DoesNotExist")
]


class _AnnotatedMetadata(msgspec.Struct):
    annotations: dict[str, msgspec.Raw] | None = None


class _PortableSpec(msgspec.Struct):
    affinity: Json | None = None
    topologySpreadConstraints: list[Json] | None = None


class _NewPod(msgspec.Struct):
    spec: _PortableSpec
    metadata: _AnnotatedMetadata = msgspec.field(default_factory=_AnnotatedMetadata)


_NEW_POD = ObjectDecoder("Pod", _NewPod)


@dataclass(frozen=True, slots=True)
class PortableForm:
    """Portable form of a pod: the `parts`, and what is `left` for Placet, by policy."""

    parts: tuple[tuple[Program, Part], ...] = ()
    left: tuple[tuple[Program, Left], ...] = ()


@dataclass(frozen=True, slots=True)
class PortableAddition:
    """Addition of a form to a pod's spec: the new values of its fields, and what is left.

    `annotation` is empty if nothing changes.
    """

    spec: Json = field(default_factory=dict)
    annotation: str = ""
    left: tuple[tuple[Program, Left], ...] = ()


def form_of(
    pod: RequestPod,
    registry: Registry,
    exemptions: Exemptions,
    frozen: Frozen,
    *,
    using: Using = lambda _: nullcontext(),
) -> PortableForm:
    """What the portable policies that concern a pod say about it, and go on to say.

    `using` charges a policy for its time. Raises BadObjectError.
    """
    if not registry.complete or exemptions.reason(pod):
        return PortableForm()
    parts: list[tuple[Program, Part]] = []
    programs, left = _concerning(pod, registry, frozen, using)
    left = [(program, each) for program, each in left if program.source.policy.portable]
    for program in (each for each in programs if each.source.policy.portable):
        try:
            with using(program.address):
                said = [*parts_of(program.source, pod.pod, frozen, exemptions.namespaces)]
        except ExpensivePolicyError:
            said = [Left("", EXPENSIVE)]
        for each in said:
            if isinstance(each, Left):
                left.append((program, each))
            elif not each.says_nothing:
                parts.append((program, each))
            elif not each.exact:
                left.append((program, Left(each.clause, "it rejects nodes for which it fails")))
    return PortableForm(tuple(parts), tuple(left))


def _concerning(
    pod: RequestPod, registry: Registry, frozen: Frozen, using: Using
) -> tuple[list[Program], list[tuple[Program, Left]]]:
    """The policies that always concern the pod, and the policies that may begin or end to."""
    found: list[Program] = []
    left: list[tuple[Program, Left]] = []
    decoded = pod.pod

    def selects(program: Program) -> bool:
        try:
            with using(program.address):
                return certainly_selects(program.source, decoded, frozen)
        except ExpensivePolicyError:
            raise UnportableError(EXPENSIVE) from None

    for program in registry.guardrails:
        try:
            if selects(program):
                found.append(program)
        except UnportableError as refusal:
            left.append((program, Left("", f"its `for`: {refusal}")))
    contenders = registry.contenders(pod.namespace)
    for place, program in enumerate(contenders):
        try:
            if selects(program):
                return [*found, program], left
        except UnportableError as refusal:
            # Policies behind it may lose the pod to it.
            reason = f"policy {program.address} may come to govern the pod: {refusal}"
            left.append((program, Left("", f"its `for`: {refusal}")))
            left += [(other, Left("", reason)) for other in contenders[place + 1 :]]
            return found, left
    return found, left


def added(pod: RequestPod, form: PortableForm) -> PortableAddition:
    """The form together with what the pod says itself, which is kept.

    A pod that has the annotation has a form already, and gets no second one. Raises BadObjectError.
    """
    given = _NEW_POD.decode(pod.body)
    if FORM in (given.metadata.annotations or {}):
        return PortableAddition()
    return _Adding(form, given.spec).found()


def patch(pod: RequestPod, addition: PortableAddition) -> list[Json]:
    """The JSON patch of a pod that is created. Raises BadObjectError."""
    if not addition.annotation:
        return []
    annotations = "/metadata/annotations"
    if _NEW_POD.decode(pod.body).metadata.annotations is None:
        named = _add(annotations, {FORM: addition.annotation})
    else:
        named = _add(f"{annotations}/{FORM.replace('/', '~1')}", addition.annotation)
    return [named, *(_add(f"/spec/{name}", value) for name, value in addition.spec.items())]


def told_to_others(told: Mapping[str, str], registry: Registry) -> Iterator[str]:
    """Whether these versions of policies, which the spec of a pod has, are still in force."""
    now = {program.address: program.digest for program in registry.programs}
    for address, digest in told.items():
        if now.get(address) == digest:
            yield f"others know policy {address} from the spec of the pod"
        else:
            what = "another version of policy" if address in now else "policy"
            why = "" if address in now else ", which is not in force,"
            yield f"others know {what} {address}{why} from the spec of the pod; create it again"


class _Adding:
    """Adding of a form to what a pod has."""

    def __init__(self, form: PortableForm, spec: _PortableSpec) -> None:
        self._parts = form.parts
        self._affinity = spec.affinity or {}
        self._constraints = spec.topologySpreadConstraints or ()
        self._left = [*form.left]
        self._said: list[Program] = []

    def found(self) -> PortableAddition:
        nodes = self._nodes()
        # Of several terms of pod affinity a pod must match all, so there is one.
        near = self._with(self._own("podAffinity"), lambda part: part.near, _clashes_near)
        away = self._with(self._own("podAntiAffinity"), lambda part: part.away)
        lists = {"nodeAffinity": nodes, "podAffinity": near, "podAntiAffinity": away}
        changed = {
            name: {**self._given(name), _REQUIRED: terms}
            for name, terms in lists.items()
            if terms is not None
        }
        # Of several constraints a node without one of the labels counts for none.
        spread = self._with(self._constraints, lambda part: part.spread, _clashes_spread)
        spec: Json = {"affinity": {**self._affinity, **changed}} if changed else {}
        if spread is not None:
            spec["topologySpreadConstraints"] = spread
        annotation = form_text((each.address, each.digest) for each in self._said)
        return PortableAddition(spec, annotation, tuple(self._left))

    def _given(self, name: str) -> Json:
        given: Json = self._affinity.get(name) or {}
        return given

    def _own(self, name: str) -> Sequence[Json]:
        return self._given(name).get(_REQUIRED) or ()

    def _with(
        self,
        own: Sequence[Json],
        items_of: Callable[[Part], Sequence[Json]],
        clashes: Callable[[Sequence[Json], Json], str] = lambda _found, _item: "",
    ) -> list[Json] | None:
        """What the pod has with the items of all parts; None without a new one.

        `clashes` says why an item cannot stand beside the others, or nothing.
        """
        found = [*own]
        for program, part in self._parts:
            for item in items_of(part):
                if why := clashes(found, item):
                    self._leave(program, part, why)
                elif item not in found:
                    found.append(item)
                    self._say(program)
        return found if len(found) > len(own) else None

    def _nodes(self) -> Json | None:
        """Node affinity: each term of the pod together with each of the form."""
        own = (self._given("nodeAffinity").get(_REQUIRED) or {}).get("nodeSelectorTerms")
        # A term without requirements selects nothing.
        theirs: list[Json] = [{}] if own is None else [t for t in own if t.keys() & _REQUIREMENTS]
        algebra, terms = Algebra(), ALWAYS
        for program, part in self._parts:
            try:
                both = algebra.both((terms, part.nodes))
            except UnportableError as refusal:
                self._leave(program, part, str(refusal))
                continue
            if len(both) * len(theirs) > MOST_TERMS:
                reason = (
                    f"with the pod's own node affinity it would take more than {MOST_TERMS} terms"
                )
                self._leave(program, part, reason)
            elif both != terms:
                terms = both
                self._say(program)
        if terms == ALWAYS or not theirs:
            return None
        ours = [expressions(term) for term in sorted(terms, key=sorted)] or [_NO_NODE]
        joined = [
            {**term, "matchExpressions": [*(term.get("matchExpressions") or ()), *more]}
            for term, more in product(theirs, ours)
        ]
        return {"nodeSelectorTerms": joined}

    def _say(self, program: Program) -> None:
        if program not in self._said:
            self._said.append(program)

    def _leave(self, program: Program, part: Part, reason: str) -> None:
        self._left.append((program, Left(part.clause, reason)))


def _clashes_near(found: Sequence[Json], term: Json) -> str:
    clashes = found and term not in found
    return "a pod must match all terms of pod affinity at once" if clashes else ""


def _clashes_spread(found: Sequence[Json], _constraint: Json) -> str:
    clashes = any(each.get("whenUnsatisfiable") == "DoNotSchedule" for each in found)
    return "the pod has another spread constraint" if clashes else ""


def _add(path: str, value: object) -> Json:
    return {"op": "add", "path": path, "value": value}
