"""Portable form: the parts of a pod's spec that its portable policies become."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from itertools import product

import msgspec

from engine.decision.registry import Registry
from engine.errors import ExpensivePolicyError
from engine.objects.decoding import ObjectDecoder
from engine.objects.request_pod import FORM, Exemptions, RequestPod, form_text
from engine.portable.label_conditions import Frozen
from engine.portable.portable_clauses import Json, Left, Part, PortablePolicy
from engine.portable.selectors import ALWAYS, MOST_TERMS, Algebra, UnportableError, expressions
from engine.program.program import Program

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

    affinity: Json | None = None
    topologySpreadConstraints: list[Json] | None = None
    annotation: str = ""
    left: tuple[tuple[Program, Left], ...] = ()

    @property
    def spec(self) -> Json:
        """The fields of the pod's spec that change, with their new values."""
        fields = {
            "affinity": self.affinity,
            "topologySpreadConstraints": self.topologySpreadConstraints,
        }
        return {name: value for name, value in fields.items() if value is not None}


def form_of(
    pod: RequestPod,
    registry: Registry,
    exemptions: Exemptions,
    frozen: Frozen,
    *,
    every: bool = False,
    using: Using = lambda _: nullcontext(),
) -> PortableForm:
    """What the portable policies that concern a pod say about it, and go on to say.

    With `every`, all policies count as portable ones. `using` charges a policy for its time. Raises
    BadObjectError.
    """
    if not registry.complete or exemptions.reason(pod):
        return PortableForm()

    def is_told(program: Program) -> bool:
        return every or program.source.policy.portable

    parts: list[tuple[Program, Part]] = []
    programs, left = _concerning(pod, registry, frozen, using)
    left = [(program, each) for program, each in left if is_told(program)]
    for program in filter(is_told, programs):
        policy = PortablePolicy(program.source)
        try:
            with using(program.address):
                said = [*policy.parts(pod.pod, frozen, exemptions.namespaces)]
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
                return PortablePolicy(program.source).selects(decoded, frozen)
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


class _Adding:
    """Adding of a form to what a pod has."""

    def __init__(self, form: PortableForm, spec: _PortableSpec) -> None:
        self._parts = form.parts
        self._affinity = spec.affinity or {}
        self._constraints = spec.topologySpreadConstraints or ()
        self._left = [*form.left]
        self._said: list[Program] = []

    def found(self) -> PortableAddition:
        new = {
            "nodeAffinity": self._nodes(),
            "podAffinity": self._near(),
            "podAntiAffinity": self._away(),
        }
        changed = {name: value for name, value in new.items() if value is not None}
        return PortableAddition(
            affinity={**self._affinity, **changed} if changed else None,
            topologySpreadConstraints=self._spread(),
            annotation=form_text((each.address, each.digest) for each in self._said),
            left=tuple(self._left),
        )

    def _nodes(self) -> Json | None:
        """Node affinity: each term of the pod together with each of the form."""
        given = self._affinity.get("nodeAffinity") or {}
        own = (given.get(_REQUIRED) or {}).get("nodeSelectorTerms")
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
        return {**given, _REQUIRED: {"nodeSelectorTerms": joined}}

    def _near(self) -> Json | None:
        """Pod affinity: of several terms a pod must match all, so there is one."""
        given = self._affinity.get("podAffinity") or {}
        terms = [*(given.get(_REQUIRED) or ())]
        changed = False
        for program, part in self._parts:
            for term in part.near:
                if terms and term not in terms:
                    self._leave(program, part, "a pod must match all terms of pod affinity at once")
                elif not terms:
                    terms, changed = [term], True
                    self._say(program)
        return {**given, _REQUIRED: terms} if changed else None

    def _away(self) -> Json | None:
        """Pod anti-affinity."""
        given = self._affinity.get("podAntiAffinity") or {}
        own = [*(given.get(_REQUIRED) or ())]
        more: list[Json] = []
        for program, part in self._parts:
            for term in part.away:
                if term not in (*own, *more):
                    more.append(term)
                    self._say(program)
        return {**given, _REQUIRED: [*own, *more]} if more else None

    def _spread(self) -> list[Json] | None:
        """Spread constraints: of several a node without one of the labels counts for none."""
        found, changed = [*self._constraints], False
        for program, part in self._parts:
            for constraint in part.spread:
                if any(each.get("whenUnsatisfiable") == "DoNotSchedule" for each in found):
                    self._leave(program, part, "the pod has another spread constraint")
                else:
                    found, changed = [*found, constraint], True
                    self._say(program)
        return found if changed else None

    def _say(self, program: Program) -> None:
        if program not in self._said:
            self._said.append(program)

    def _leave(self, program: Program, part: Part, reason: str) -> None:
        self._left.append((program, Left(part.clause, reason)))


def _add(path: str, value: object) -> Json:
    return {"op": "add", "path": path, "value": value}
