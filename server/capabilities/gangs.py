"""Gangs: what a server tells of the gangs that wait or gather: statuses, facts and metrics."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence

from engine.clauses.gang import GangProgram
from engine.facts import Facts, PartOf
from engine.gangs.gang import KnownGang
from engine.gangs.gangs import Gangs
from server.capabilities.capability import Capability, Opened, Site
from server.capabilities.policy_statuses import ReportedPolicy, StatusPart, condition
from server.metrics.families import Sample

# Gangs, each with the seconds for which it gathers, or waits.
Known = Sequence[tuple[KnownGang, float]]
# The gangs that are named.
_MOST_NAMED = 20


def _open(site: Site) -> Opened:
    engine, gangs = site.engine, site.engine.part(Gangs)
    if gangs is None:
        return Opened()

    def with_gangs() -> Sequence[str]:
        return sorted(p.address for p in engine.registry.programs if p.of(GangProgram))

    return Opened(
        status=lambda: gang_numbers(gangs.statuses(), gangs.contradictions()),
        facts=lambda: gang_facts(with_gangs(), gangs.statuses(), gangs.contradictions()),
        samples=lambda: gang_samples(with_gangs(), gangs.statuses()),
    )


GANGS = Capability(
    name="gangs",
    open=_open,
    rights={
        "rbac.workloads": "list,watch podgroups.scheduling.k8s.io podgroups.scheduling.x-k8s.io "
        "resourcequotas"
    },
    metrics={
        "placet_known_gangs{policy,state}": (
            "[ALPHA] Gangs that wait, gather, or were given up last."
        ),
        "placet_gang_longest_wait_seconds{policy}": (
            "[ALPHA] Seconds for which the first gang without places has waited, 0 without any."
        ),
        "placet_gangs_total{policy,state,reason}": (
            "[ALPHA] Gangs that began to gather, were released, or were given up for a reason."
        ),
        "placet_gang_held_seconds_total{policy,state}": (
            "[ALPHA] Seconds that the bind calls of members were held, by how that ended."
        ),
    },
)


def gang_numbers(known: Known, otherwise: Mapping[str, str]) -> StatusPart:
    """The numbers of gangs in the status of a policy, and what PodGroups say `otherwise`."""
    number, _ = _numbers(known)

    def part(policy: ReportedPolicy) -> None:
        if policy.program is not None and policy.program.of(GangProgram):
            text = otherwise.get(policy.address, "")
            if text and not policy.program.namespace:
                # Who may read it may not know all namespaces.
                text = "a PodGroup says otherwise: `placet check --cluster` names it"
            policy.conditions["Contradicted"] = condition(
                "PodGroup", text, "no PodGroup has said otherwise lately"
            )
            policy.fields["waitingGangs"] = number[policy.address, "waiting"]
            policy.fields["gatheringGangs"] = number[policy.address, "gathering"]
            policy.fields["givenUpGangs"] = number[policy.address, "given up"]

    return part


def gang_facts(policies: Sequence[str], known: Known, otherwise: Mapping[str, str]) -> Facts:
    """The numbers of each policy that has gangs, and the first gangs.

    Those that gather come first, then those that wait longest. `otherwise` is what a PodGroup has
    said otherwise than a policy.
    """
    number, longest = _numbers(known)
    ranked = sorted(known, key=lambda each: (not each[0].gathers, -each[1], each[0].shown))
    return {
        "gangs": [
            {
                "policy": address,
                **{state: number[address, state] for state in _STATES},
                "longest wait (s)": round(longest[address], 1),
                "PodGroup": otherwise.get(address),
            }
            for address in policies
        ],
        "some gangs": [
            {
                "gang": gang.shown,
                "policy": gang.clause.policy,
                "state": gang.state if gang.gathers else gang.text or gang.state,
                "for (s)": round(seconds, 1),
                "held": PartOf(len(gang.holds), gang.quorum),
                "places": sorted(set(gang.places.values())),
            }
            for gang, seconds in ranked[:_MOST_NAMED]
        ],
        "held pods": [
            {"pod": pod, "gang": gang.shown, "node": node}
            for gang, _ in ranked
            for pod, node in gang.held.items()
        ][:_MOST_NAMED],
    }


def gang_samples(policies: Sequence[str], known: Known) -> Iterator[Sample]:
    number, longest = _numbers(known)
    for address in policies:
        for state in _STATES:
            yield "placet_known_gangs", [address, state.replace(" ", "_")], number[address, state]
        yield "placet_gang_longest_wait_seconds", [address], round(longest[address], 1)


_STATES = ("waiting", "gathering", "given up")


def _numbers(known: Known) -> tuple[Counter[tuple[str, str]], Mapping[str, float]]:
    """The gangs by policy and state, and by policy the longest wait in seconds."""
    number, longest = Counter[tuple[str, str]](), defaultdict[str, float](float)
    for gang, seconds in known:
        policy = gang.clause.policy
        number[policy, gang.state] += 1
        if not gang.gathers:
            longest[policy] = max(longest[policy], seconds)
    return number, longest
