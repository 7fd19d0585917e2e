"""Parts of an explanation that capabilities give: one table, PARTS.

A capability may object to nodes first. Once every clause was asked, it says something of the pod,
for people and as data.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import msgspec
import numpy as np

from engine.decision.audit_log import AuditedClause, PolicyAudit
from engine.explanation.inspection import ClauseResults, Inspection, Objection
from engine.facts import ExplainedPart
from engine.gangs.gang import part_of
from engine.gangs.gangs import Gangs
from engine.objects.peer import key_of
from engine.objects.request_pod import form_versions
from engine.portable.portable_form import told_to_others
from engine.work import Work

# For people, and the same as data by its key in PodAnswer or PodExplanation.
Said = tuple[Sequence[ExplainedPart], Mapping[str, object]]
# Objections to nodes, and what is said once every clause was asked.
Explained = tuple[Sequence[Objection], Callable[[ClauseResults], Work[Said]]]


def _portable(inspection: Inspection) -> Explained | None:
    """What portable policies have told others of the pod."""
    pod = msgspec.json.decode(inspection.call.pod.body)
    told = form_versions(pod.get("metadata", {}).get("annotations") or {})
    if not told:
        return None
    texts = list(told_to_others(told, inspection.engine.registry))

    def said(_results: ClauseResults) -> Work[Said]:
        yield from ()
        return [ExplainedPart(texts=texts)], {"toldToOthers": texts}

    return (), said


def _gang(inspection: Inspection) -> Explained | None:
    """The gang of the pod, which objects to the nodes that it does not leave to the pod."""
    gangs = inspection.engine.part(Gangs)
    gang = None if gangs is None else gangs.of_pod(inspection.call, places=inspection.places)
    if gang is None:
        return None
    allowed = inspection.names if gang.allowed is None else gang.allowed
    refused = np.array([name not in allowed for name in inspection.names], np.bool_)
    objection = inspection.objection(gang.program, gang.program, refused, rest=gang.refusal)

    def said(results: ClauseResults) -> Work[Said]:
        yield from ()
        pod, alone = key_of(inspection.peer), results.rejects_alone(objection)
        return [part_of(gang.told, pod, alone=alone)], {"gang": gang.told}

    return [objection], said


def _audits(inspection: Inspection) -> Explained:
    """What each policy in audit mode would reject, and since when it leaves the pod no node."""

    def said(results: ClauseResults) -> Work[Said]:
        passing = ~results.refused.any(axis=0)
        audited = inspection.selection.audited
        known = inspection.engine.audits.log.of(inspection.peer.uid) if audited else ()
        since = {address: pod.since for address, pod in known if pod.wouldWait}
        audits = []
        for program in audited:
            against = yield from inspection.objections_of(program)
            would = ClauseResults(inspection, against).refused.any(axis=0)
            clauses = [AuditedClause(o.name, n) for o in against if (n := int(o.refused.sum()))]
            address, left = program.address, int((passing & ~would).sum())
            audits.append(PolicyAudit(address, int(would.sum()), clauses, left, since.get(address)))
        return [each.part for each in audits], {"audits": audits}

    return (), said


# In their order in explanations.
PARTS: Sequence[Callable[[Inspection], Explained | None]] = (_portable, _gang, _audits)
