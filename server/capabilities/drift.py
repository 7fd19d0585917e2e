"""Drift: the surveys of a leader, one after another, and what the server tells of them.

A survey is done in steps of a few milliseconds, and rests longer after each, so no decision waits
for it. A repair evicts what it has found, see `server.capabilities.repair`.
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import msgspec

from engine.drift.drift_document import DriftDocument, PolicyRepair
from engine.drift.repairs import Repairs
from engine.drift.survey import Survey
from engine.errors import ApiError, ApiUnreachableError, EngineError, why
from engine.facts import Facts
from engine.objects.kept_pods import KEY
from engine.program.program import Program
from server.capabilities.capability import Capability, LedCluster, Opened, Site
from server.capabilities.policy_statuses import ReportedPolicy, StatusPart, condition, reported
from server.capabilities.repair import Repairer
from server.metrics.families import Sample
from server.view.routes import Route

# The rest after each step.
_REST_SECONDS = 0.012
# The least pause between two surveys, and that in times of what the last one took: for repairs, and
# where nobody waits for the next one.
_PAUSE_SECONDS, _PAUSES = 5.0, 1.0
_QUIET_SECONDS, _QUIET_PAUSES = 30.0, 9.0
_WORK = "read pods for the survey of drift"
# What becomes of evictions.
_RESULTS = ("evicted", "refused", "failed", "returned")


def _open(site: Site) -> Opened:
    led, engine = site.led, site.engine
    if led is None:
        none = DriftDocument(replica=site.replica, problem="this server watches no cluster")
        return Opened(answers={"drift": lambda _: none})
    repairs = Repairs(led.cache, site.options.repair, time.monotonic)
    survey = Survey(
        site.replica,
        engine,
        site.view,
        time.monotonic,
        drifting=lambda: drifting_since(site.enforced().programs, led.objects()),
    )
    watch = DriftWatch(survey, led, repairs)
    repairer = Repairer(led, engine, repairs, lambda: watch.document, site.enforced)

    return Opened(
        pod_changed=repairs.pod_changed,
        status=lambda: drift_part(watch.by_policy(), watch.repairs),
        facts=watch.facts,
        samples=watch.samples,
        answers={"drift": lambda _: watch.document},
        work={"drift": watch.follow, "repair": repairer.follow},
    )


DRIFT = Capability(
    name="drift",
    open=_open,
    keys={KEY: "an annotation of policies, namespaces and pods, `off`"},
    rights={
        "rbac.budgets": "list,watch poddisruptionbudgets.policy",
        "repair.mode": "create pods/eviction",
    },
    routes=[Route("/drift", DriftDocument)],
    metrics={
        "placet_drifted_pods{policy,kind}": (
            "[ALPHA] Pods on nodes that break clauses of a policy, by the kind of clause."
        ),
        "placet_repair_evictions_total{policy,result}": (
            "[ALPHA] Evictions of pods that break clauses, by result."
        ),
        "placet_repair_moving_pods{policy}": (
            "[ALPHA] Evicted pods whose replacement has no node yet."
        ),
        "placet_repair_stopped_clauses{policy}": (
            "[ALPHA] Clauses that are not repaired any more, because pods returned or found no "
            "node."
        ),
    },
)


@dataclass(slots=True)
class DriftWatch:
    """The watch for drift while this replica leads. `document` is the last survey."""

    survey: Survey
    cluster: LedCluster
    _repairs: Repairs
    _document: DriftDocument | None = None

    @property
    def document(self) -> DriftDocument:
        """What has drifted, or why this replica does not know."""
        if not self.cluster.leads():
            return self.survey.failed("another replica leads, and looks")
        if self._document is None:
            return self.survey.failed("no survey has ended yet")
        return msgspec.structs.replace(self._document, repairs=self.repairs)

    @property
    def repairs(self) -> Sequence[PolicyRepair]:
        """The repairs of policies; none while another replica leads."""
        return list(self._repairs.states()) if self.cluster.leads() else ()

    def by_policy(self) -> Mapping[str, Mapping[str, int]] | None:
        """The pods that break a policy's clauses, by the kind of clause; None while not known."""
        if self._document is None or not self.cluster.leads():
            return None
        found: dict[str, Counter[str]] = {}
        for pod in self._document.pods:
            # A pod that breaks two shares is one pod.
            for policy, kind in {(each.policy, each.kind) for each in pod.clauses}:
                found.setdefault(policy, Counter())[kind] += 1
        return found

    def facts(self) -> Facts:
        """The pods that break clauses by policy and kind, and the repairs of each policy."""
        drift = [
            {"policy": policy, "kind": kind, "pods": number}
            for policy, kinds in sorted((self.by_policy() or {}).items())
            for kind, number in sorted(kinds.items())
        ]
        repairs = [
            {
                "policy": each.policy,
                "state": each.state,
                **{result: getattr(each, result) for result in _RESULTS},
                "moving": each.moving,
                "stopped": each.stopped,
                "why": each.text,
            }
            for each in self.repairs
        ]
        return {"drift": drift, "repairs": repairs}

    def samples(self) -> Iterator[Sample]:
        for policy, kinds in sorted((self.by_policy() or {}).items()):
            for kind, number in sorted(kinds.items()):
                yield "placet_drifted_pods", [policy, kind], number
        for each in self.repairs:
            for result in _RESULTS:
                number = getattr(each, result)
                yield "placet_repair_evictions_total", [each.policy, result], number
            yield "placet_repair_moving_pods", [each.policy], len(each.moving)
            yield "placet_repair_stopped_clauses", [each.policy], len(each.stopped)

    async def follow(self) -> None:
        """Surveys until it is cancelled."""
        while True:
            pause = _PAUSE_SECONDS
            if not self.cluster.leads():
                self._document = None
                self.survey.forget()
            elif (seconds := await self.look()) is not None:
                is_quiet = not any(self._repairs.states())
                least, times = (_QUIET_SECONDS, _QUIET_PAUSES) if is_quiet else (pause, _PAUSES)
                pause = max(least, times * seconds)
            await asyncio.sleep(pause)

    async def look(self) -> float | None:
        """Makes one survey. Returns how many seconds it took; None where there is none."""
        try:
            found = await self._surveyed()
        except (ApiError, ApiUnreachableError) as error:
            self.cluster.report(_WORK, why(_WORK, error))
            return None
        except EngineError:
            return None
        self.cluster.report(_WORK, "")
        if found is None:
            return None
        self._document = found
        return found.seconds

    async def _surveyed(self) -> DriftDocument | None:
        """The survey; None where another replica leads meanwhile."""
        steps, answer = self.survey.look(), None
        try:
            while self.cluster.leads():
                try:
                    wanted = steps.send(answer)
                except StopIteration as end:
                    found: DriftDocument = end.value
                    return found
                answer = None
                if wanted is None:
                    await asyncio.sleep(_REST_SECONDS)
                else:
                    answer = await self.cluster.pod(wanted)
            return None
        finally:
            steps.close()


# ---- statuses


def drift_part(
    drift: Mapping[str, Mapping[str, int]] | None, repairs: Iterable[PolicyRepair]
) -> StatusPart:
    """What statuses say of pods that break clauses, and of repairs: true while pods are moved.

    `drift` has the pods by the kinds of clauses, by address. The conditions have no numbers.
    """
    by_policy = {each.policy: each for each in repairs}

    def part(policy: ReportedPolicy) -> None:
        if policy.program is None:
            return
        if drift is not None:
            kinds = drift.get(policy.address, {})
            names = ", ".join(sorted(kinds))
            text = f"pods break clauses of these kinds: {names}; see `placet drift`"
            none = "no pod on a node breaks one of its clauses"
            policy.fields["driftedPods"] = sum(kinds.values())
            policy.conditions["Drifted"] = condition("PodsBreakClauses", names and text, none)
        if (repair := by_policy.get(policy.address)) is not None:
            reason = "".join(word.capitalize() for word in repair.state.split())
            text = repair.text or "no pod is to be moved now"
            is_moving: Literal["True", "False"] = "True" if repair.state == "moving" else "False"
            policy.conditions["Repairing"] = (is_moving, reason, text)

    return part


def drifting_since(
    programs: Mapping[str, Program], objects: Mapping[str, bytes]
) -> Mapping[str, str]:
    """The times since when policies have drifted, by address, as their statuses say.

    `programs` and `objects` are by the names of the objects.
    """
    found: dict[str, str] = {}
    for name in programs.keys() & objects.keys():
        _, status = reported(objects[name])
        for each in status.conditions:
            if (each.type, each.status) == ("Drifted", "True"):
                found[programs[name].address] = each.lastTransitionTime
    return found
