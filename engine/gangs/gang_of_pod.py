"""GangOfPod: the gang of one pod as people see it: its members, and what it waits for.

It is worked out for one question and changes nothing.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from engine.gangs.gang import KnownGang
from engine.gangs.members import GangName
from engine.objects.peer import Peer, key_of
from engine.program.program import GangProgram

# How far a gang is, and how a member is there.
GangState = Literal["waiting", "gathering", "given up", "begun", "not tried"]
Presence = Literal["bound", "held", "placed", "waiting"]

# What is said of nodes to a pod whose gang has its places.
ELSEWHERE, ENOUGH = "another node was chosen", "enough members have a place"


@dataclass(frozen=True, slots=True)
class GangMember:
    """A member as `namespace/name`, and how it is there.

    It is `bound` to its node, `held` there for some seconds, `placed` there on paper, or `waiting`
    without a node.
    """

    pod: str
    presence: Presence
    node: str = ""
    seconds: float = 0.0


@dataclass(frozen=True, slots=True)
class GangOfPod:
    """The gang of one pod. `quorum` is None where it cannot be told.

    A gang is `begun` once a member is on a node; `not tried` means that nobody has asked whether it
    fits. `text` says what it waits for, or how far it is. It has gathered for so many `seconds`,
    and is tried `again` after some, 0 at once. `allowed` are the nodes that it leaves to the pod,
    None for all; `refusal` is what it says of the others.
    """

    program: GangProgram
    name: str
    quorum: int | None
    members: Sequence[GangMember]
    state: GangState
    text: str
    refusal: str
    allowed: Collection[str] | None = ()
    seconds: float = 0.0
    again: float = 0.0


def gang_of_pod(
    name: GangName,
    gang: KnownGang | None,
    quorum: int | str,
    pod: Peer,
    bound: Iterable[tuple[str, Peer]],
    waiting: Iterable[Peer],
    now: float,
) -> GangOfPod:
    """The gang of a pod, none of whose members is bound; `gang` is None if it is not known yet.

    `quorum` may be the reason why it cannot be told. `bound` are the members on nodes, each with
    its node, also those that are held there.
    """
    members = list(_members(gang, pod, bound, waiting, now))
    number = quorum if isinstance(quorum, int) else None

    def found(
        state: GangState,
        text: str,
        refusal: str = "",
        allowed: Collection[str] | None = (),
        seconds: float = 0.0,
        again: float = 0.0,
    ) -> GangOfPod:
        shown = f"{name.namespace}/{_shared(name, pod)}"
        refusal = refusal or text
        return GangOfPod(
            name.program, shown, number, members, state, text, refusal, allowed, seconds, again
        )

    if on_nodes := sum(member.presence == "bound" for member in members):
        text = f"{on_nodes} of its members {'is' if on_nodes == 1 else 'are'} on nodes"
        return found("begun", text, ELSEWHERE, None)
    if isinstance(quorum, str):
        return found("waiting", quorum)
    if gang is not None and gang.gathers:
        text, seconds = f"{len(gang.holds)} of {gang.quorum} members are here", now - gang.began
        if (node := gang.places.get(pod.uid)) is None:
            return found("gathering", text, ENOUGH, seconds=seconds)
        return found("gathering", text, ELSEWHERE, {node}, seconds)
    if len(members) < quorum:
        return found("waiting", f"{len(members)} of {quorum} members exist")
    if gang is None or not gang.text:
        return found("not tried", "whether it fits was not tried yet", allowed=None)
    again = max(0.0, gang.not_before - now)
    return found("given up" if gang.is_given_up else "waiting", gang.text, again=again)


def _members(
    gang: KnownGang | None,
    pod: Peer,
    bound: Iterable[tuple[str, Peer]],
    waiting: Iterable[Peer],
    now: float,
) -> Iterator[GangMember]:
    """The members on nodes, those with a place, and then the others by name."""
    places: Mapping[str, str] = gang.places if gang is not None else {}
    named = set[str]()
    for node, each in bound:
        if each.uid not in places:
            named.add(key_of(each))
            yield GangMember(key_of(each), "bound", node)
    if gang is not None:
        for uid, node in sorted(places.items(), key=lambda each: gang.keys[each[0]]):
            named.add(gang.keys[uid])
            if (hold := gang.holds.get(uid)) is None:
                yield GangMember(gang.keys[uid], "placed", node)
            else:
                yield GangMember(gang.keys[uid], "held", node, now - hold.since)
    others = {key_of(each) for each in (*waiting, pod)}
    yield from (GangMember(key, "waiting") for key in sorted(others - named))


def _shared(name: GangName, pod: Peer) -> str:
    """What the pods of a gang have in common; `pod` is one of them."""
    if isinstance(name.value, tuple):
        return str(name.value[1])
    return pod.workload.name if pod.workload is not None else pod.name
