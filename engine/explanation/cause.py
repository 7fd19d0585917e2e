"""Cause: why a pod is pending, from the pod, its events, and what the policies would decide now.

The reasons of kube-scheduler are one text in the condition PodScheduled and in an event. A cause is
worked out from its parts: our own, those of kube-scheduler's plugins, and others.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from engine.decision.verdict import FURTHER, attributed, full_reason
from engine.enforced import PolicyNotInForce
from engine.errors import own_words
from engine.explanation.document import PodExplanation
from engine.facts import Cause, CauseKind
from engine.objects.api_types import mapping, mappings
from engine.objects.peer import DEFAULT_SCHEDULER
from engine.program.tables import NO_ROW, NO_ROWS, STALE_ROW
from grammar.messages.texts import counted, excerpt, named

Json = dict[str, Any]
# The end of a text of ours that goes on with more.
_GOES_ON = ": "


@dataclass(frozen=True, slots=True)
class _Decided:
    """What the policies would decide now, in numbers.

    `refusals` counts the nodes by the first clause that rejects each, and `fit_refusals` only the
    nodes that kube-scheduler's own plugins accept, as far as is known. `unfit` are the reasons of
    these plugins against nodes that pass the policies. `texts` are all texts that our answers may
    have, `counting` the texts of clauses that count. `is_hopeless` says that no node passes both
    the policies and the plugins.
    """

    explained: PodExplanation
    refusals: Mapping[str, int]
    fit_refusals: Mapping[str, int]
    unfit: Mapping[str, int]
    texts: Collection[str]
    counting: Collection[str]
    is_hopeless: bool

    @property
    def passes(self) -> str:
        """How many nodes would pass, as the beginning of a sentence."""
        found = self.explained
        if not found.nodes:
            return "the cluster has no nodes"
        return f"{found.passing} of {counted(found.nodes, 'node')} would pass the policies now"


def _decided(found: PodExplanation) -> _Decided:
    refusals, fit_refusals, unfit = Counter[str](), Counter[str](), Counter[str]()
    unfit_names = {name for rejected in found.unfit for name in rejected.names}
    for group in found.groups:
        if group.rejectedBy:
            refusals[group.rejectedBy[0].text] += group.nodes
            if fit := len(set(group.names) - unfit_names):
                fit_refusals[group.rejectedBy[0].text] += fit
            continue
        for rejected in found.unfit:
            if number := len(set(group.names) & set(rejected.names)):
                unfit[rejected.text] += number
    texts, counting = set[str](), set[str]()
    for each in found.clauses:
        forms = {
            each.message,
            full_reason(each.policy, each.clause, each.message),
            attributed(each.policy, each.message),
        }
        texts |= forms
        if isinstance(each.opening, str):
            opened = each.opening, attributed(each.policy, each.opening)
            texts |= {f"{text}{_GOES_ON}" for text in opened}
        elif each.counts:
            counting |= forms
    is_hopeless = found.nodes > 0 and found.passing == found.unfit_passing
    return _Decided(found, refusals, fit_refusals, unfit, texts, counting, is_hopeless)


def cause_of(
    pod: Json,
    events: Sequence[Json],
    explained: PodExplanation | None,
    broken: Sequence[PolicyNotInForce],
    *,
    is_live: bool = True,
) -> Cause | None:
    """The cause, from the JSON of a pod with its node, and its events.

    `explained` is None if the caller may not read what a decision needs. Without `is_live`, as in
    a file, a pod about which no scheduler has said anything has a cause only where no node is left,
    and a capability says what it waits for, or kube-scheduler's own plugins reject nodes that pass
    the policies.
    """
    spec, metadata = mapping(pod, "spec"), mapping(pod, "metadata")
    said = last_words(pod, events)
    found = None if explained is None else _decided(explained)
    is_kept_out = found is not None and bool(found.unfit) and found.is_hopeless
    is_told = is_live or bool(said)
    parts = () if explained is None or (explained.passing and not is_told) else explained.parts
    of_part = next((each.cause for each in parts if each.cause is not None), None)
    if not is_told and (spec.get("nodeName") or not (is_kept_out or of_part)):
        return None
    if node := spec.get("nodeName"):
        return Cause("placed", f"it is not pending: it has the node `{node}`")
    if metadata.get("deletionTimestamp"):
        return Cause("deleted", "it is being deleted, so it gets no node")
    if gates := [str(gate.get("name")) for gate in mappings(spec, "schedulingGates")]:
        names = named([f"`{gate}`" for gate in gates], 4)
        hint = "whoever set them must take them out of `spec.schedulingGates`"
        return Cause("gated", f"it is gated by {names}: no scheduler looks at it", hint)
    scheduler = str(spec.get("schedulerName") or DEFAULT_SCHEDULER)
    if of_part is not None and explained and explained.gang and explained.gang.seconds is not None:
        # While its gang gathers, what was said before is over.
        return of_part
    if (waits := _of_policies(said, broken, explained)) is not None:
        return waits
    if not _REASONS.match(said) and (words := own_words(said)):
        return _of_placet(words)
    if of_part is not None:
        return of_part
    if (
        is_live
        and not said
        and (scheduler != DEFAULT_SCHEDULER or explained is None or explained.passing)
    ):
        return _silence(scheduler)
    return _of_extender(said) or _of_reasons(said, found)


def last_words(pod: Json, events: Sequence[Json]) -> str:
    """What a scheduler has said last: its condition, else its newest event."""
    condition = pod_scheduled(pod)
    if condition is not None and condition.get("message"):
        return str(condition["message"])
    failed = [e for e in events if e.get("reason") == "FailedScheduling" and e.get("message")]
    return str(failed[-1]["message"]) if failed else ""


def pod_scheduled(pod: Json) -> Json | None:
    """The condition PodScheduled while it is not true."""
    for condition in mappings(mapping(pod, "status"), "conditions"):
        if condition.get("type") == "PodScheduled" and condition.get("status") != "True":
            return condition
    return None


def event_time(event: Json) -> str:
    """The last time of an event, as text that sorts."""
    series = event.get("series") or {}
    times = (series.get("lastObservedTime"), event.get("lastTimestamp"), event.get("eventTime"))
    created = (event.get("metadata") or {}).get("creationTimestamp") or ""
    return str(next((time for time in times if time), created))


def _silence(scheduler: str) -> Cause:
    if scheduler != DEFAULT_SCHEDULER:
        text = f"it waits for the scheduler `{scheduler}`, which has not answered"
        hint = f"check that it runs, or set `spec.schedulerName: {DEFAULT_SCHEDULER}`"
        return Cause("other scheduler", text, hint)
    text = "kube-scheduler has not tried to place it yet"
    return Cause("not asked yet", text, "check that kube-scheduler runs: `kubectl get lease -A`")


# A failed request, as Go writes it, and another status than 200.
_REQUEST = re.compile(r'(?:Post|Get) \\?"(?P<url>[^"\\]+)\\?": (?P<why>[^;,]*)')
_STATUS = re.compile(r"(?:failed \w+ with )?extender at URL .*?code \d+")
_NOT_IN_FORCE = re.compile(r"policy (?P<policy>\S+) is not enforced: no valid version")
_NOT_SYNCED = re.compile(r"not synced: (?P<why>.*)")
_HELD_BACK = re.compile(r"(?:waiting for in-flight pods|held back): (?P<why>.*)")
_AGAIN = "nothing: kube-scheduler asks again when the other pod is bound"
_SEE_PLACET = "kube-scheduler asks again; if it stays so, see the log of Placet, and its /readyz"


def _of_extender(said: str) -> Cause | None:
    if (request := _REQUEST.search(said)) is not None:
        url, why = request["url"], request["why"].strip()
        text = f"kube-scheduler gets no answer from the extender at {url}: {why}"
    elif (status := _STATUS.search(said)) is not None:
        text = f"an extender answers kube-scheduler with an error: {excerpt(status[0], 200)}"
    else:
        return None
    hint = "check that Placet runs, at the `urlPrefix` that kube-scheduler's extender has"
    return Cause("unreachable extender", text, hint)


def _of_policies(
    said: str, broken: Sequence[PolicyNotInForce], explained: PodExplanation | None
) -> Cause | None:
    problem = (explained and explained.problem) or ""
    known = _NOT_IN_FORCE.search(said) or _NOT_IN_FORCE.search(problem)
    if known is None:
        return None
    policy = known["policy"]
    text = f"the policy `{policy}` has no valid version, so the pods that it selects wait"
    line = next((each.because for each in broken if each.policy == policy), "")
    return Cause("policy not in force", f"{text}: {line}" if line else text, "correct the policy")


def _of_placet(words: str) -> Cause:
    """The cause where Placet has answered by itself."""
    if (known := _NOT_SYNCED.match(words)) is not None:
        why = known["why"].strip()
        if " may not " in why or "forbidden" in why or "credentials" in why:
            hint = "`kubectl apply -f deploy/rbac/placet.yaml` gives it"
            text = f"Placet lacks a right, so it decides nothing: {why}"
            return Cause("missing rights", text, hint)
        return Cause("placet", f"Placet does not know the cluster yet: {why}", _SEE_PLACET)
    if (held := _HELD_BACK.match(words)) is not None:
        why = excerpt(held["why"], 300)
        return Cause(
            "held back", f"Placet holds it back, so that a strict bound holds: {why}", _AGAIN
        )
    return Cause("placet", f"Placet itself keeps it waiting: {excerpt(words, 600)}", _SEE_PLACET)


# ---- the reasons of nodes

# `0/3 nodes are available: 1 Insufficient cpu, 2 shop: zone. preemption: 0/3 nodes are …`, where
# other plugins may add `no new claims to deallocate, ` before `preemption`.
_REASONS = re.compile(
    r"\d+/\d+ nodes are available: (?P<reasons>.*?)"
    r"(?:\. (?:[^.]*, )?preemption: .*|\. no new claims to deallocate.*)?\.?$",
    re.DOTALL,
)
_NEXT = re.compile(r", (?=\d+ )")
_REASON = re.compile(r"(?P<nodes>\d+) (?P<text>.*)", re.DOTALL)
# The texts of kube-scheduler's own plugins.
_PLUGINS = re.compile(
    r"Insufficient |Too many pods|node\(s\) |persistentvolumeclaim |pod has unbound|"
    r"cannot allocate all claims|no nodes available|resourceclaim|"
    r"pod (?:rejected|group)|didn't |nodename",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True)
class Reasons:
    """The reasons in a text of kube-scheduler, each with its number of nodes.

    Those of `placet` are Placet's own, and `ours` are of policies.
    """

    placet: Mapping[str, int]
    ours: Mapping[str, int]
    plugins: Mapping[str, int]
    others: Mapping[str, int]


def reasons_of(said: str, texts: Collection[str]) -> Reasons:
    """The reasons in a text of kube-scheduler; `texts` are those of policies."""
    placet, ours = Counter[str](), Counter[str]()
    plugins, others = Counter[str](), Counter[str]()
    for text, nodes in _reasons(said):
        if not text:
            continue
        if _is_one_of(text, texts):
            ours[text] += nodes
        elif words := own_words(text):
            placet[words] += nodes
        elif _PLUGINS.match(text):
            plugins[text] += nodes
        else:
            others[text] += nodes
    return Reasons(placet, ours, plugins, others)


def _reasons(said: str) -> Iterator[tuple[str, int]]:
    known = _REASONS.match(said)
    for part in _NEXT.split(known["reasons"]) if known is not None else [said]:
        reason = _REASON.fullmatch(part)
        text = reason["text"] if reason is not None else part
        yield text.strip().removesuffix("."), int(reason["nodes"]) if reason is not None else 0


def _of_reasons(said: str, found: _Decided | None) -> Cause:
    reasons = reasons_of(said, found.texts if found is not None else ())
    is_list = _REASONS.match(said) is not None
    if said and not is_list and reasons.others:
        text = f"an extender or a plugin answers kube-scheduler with an error: {excerpt(said, 300)}"
        return Cause("extender error", text, "see the log of Placet, and of kube-scheduler")
    by_others = {**reasons.plugins, **reasons.others}
    if found is None and not reasons.placet:
        return Cause("unknown", f"the last answer was: {_listed({**reasons.ours, **by_others})}")
    if found is not None and found.refusals and not found.explained.passing:
        also = f"; kube-scheduler also says: {_listed(by_others)}" if by_others else ""
        text = f"no node passes the policies: {_listed(found.refusals)}{also}"
        return Cause(_kind(found.refusals, found), text)
    if found is None or reasons.placet:
        return _of_placet(_listed(reasons.placet))
    if reasons.others:
        others = _listed(reasons.others)
        text = f"{found.passes}; another extender or plugin rejects the rest: {others}"
        return Cause("other extender", text, "look at the extenders after Placet, in their order")
    # Where the policies reject no fewer nodes now, those that pass them have another reason.
    has_passed_since = sum(reasons.ours.values()) > found.explained.nodes - found.explained.passing
    if reasons.ours and not found.is_hopeless and (has_passed_since or not reasons.plugins):
        return _passed_since(found, reasons.ours)
    own = _listed(reasons.plugins or found.unfit)
    # What kube-scheduler has asked about was refused by the policies alone.
    if found.fit_refusals and (reasons.ours or not is_list):
        text = f"policies reject nodes: {_listed(found.fit_refusals)}"
        text = f"{text}; kube-scheduler's own plugins reject the others: {own}"
        return Cause(_kind(found.fit_refusals, found), text)
    text = f"{found.passes}; kube-scheduler's own plugins reject the nodes: {own}"
    return Cause("kube-scheduler", text, "the policies do not keep it pending")


def _kind(refusals: Collection[str], found: _Decided) -> CauseKind:
    return "count" if set(refusals) <= set(found.counting) else "policy"


def _passed_since(found: _Decided, ours: Mapping[str, int]) -> Cause:
    """The cause where policies rejected nodes at the last answer, but would not do so now."""
    if any(_is_one_of(text, found.counting) for text in ours):
        text = (
            f"{found.passes}; it was held back while another pod was on its way, so that the"
            f" strict bound holds: {_listed(ours)}"
        )
        return Cause("held back", text, _AGAIN)
    text = f"{found.passes}; at the last answer policies rejected nodes: {_listed(ours)}"
    return Cause("policy", text, "nothing: kube-scheduler asks again after a change of the cluster")


def _is_one_of(text: str, texts: Collection[str]) -> bool:
    """Whether a reason is one of some texts, or several of them, which may follow a name in it."""
    if text in texts or text == FURTHER:
        return True
    if any(each.endswith(_GOES_ON) and text.startswith(each) for each in texts):
        return True
    parts = text.split("; ")
    return any(p in texts or any(e and p.endswith(f": {e}") for e in texts) for p in parts)


def _listed(reasons: Mapping[str, int]) -> str:
    def order(reason: tuple[str, int]) -> tuple[bool, int, str]:
        # What a source of data does not say is more than one reason of others.
        text, number = reason
        return (not any(f"{e} `data." in text for e in (NO_ROW, STALE_ROW, NO_ROWS)), -number, text)

    ordered = sorted(reasons.items(), key=order)
    shown = [f"{text} ({counted(n, 'node')})" if n else text for text, n in ordered]
    return excerpt("; ".join(shown), 600)
