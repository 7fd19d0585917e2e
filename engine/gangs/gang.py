"""Gang: pods that are placed together, with their names, numbers and places.

A gang is named by the clause, the namespace and the value of the pods: of `of pods by`, the name
of their PodGroup, or the uid of their workload. Members belong to Gangs and live as long as they
do; a policy that is not in force any more is forgotten. Gangs own a KnownGang, too, and forget it
at the release, or when nobody asks about members any more.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Collection, Hashable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from typing import Literal, assert_never
from weakref import ReferenceType

import msgspec

from engine.cache.cache import Cache
from engine.cache.node_table import NodeTable, Snapshot
from engine.cache.tallies import Scope
from engine.clauses.gang import GangProgram
from engine.counting.domains import shared_value
from engine.decision.part import EndOfHold
from engine.decision.plugin_filters import PluginFilters
from engine.decision.verb_call import VerbCall
from engine.facts import Cause, ExplainedPart, NamedClause
from engine.objects.peer import ORDERED, Peer, key_of
from engine.objects.pod_group import GroupName, PodGroup
from engine.objects.remembered import Remembered
from engine.objects.request_pod import RequestPod
from engine.program.frame import Frame
from grammar.values.errors import EvaluationError
from grammar.values.time import Timestamp


@dataclass(frozen=True, slots=True)
class GangName:
    """What pods of one gang have in common."""

    program: GangProgram
    namespace: str
    value: Hashable

    def group(self, pods: Cache) -> PodGroup | None:
        """The PodGroup that names the gang, if there is one."""
        value = self.value
        return pods.group(self.namespace, value) if isinstance(value, GroupName) else None

    def shown(self, pod: Peer) -> str:
        """The gang for people, with what its pods have in common; `pod` is one of them."""
        if isinstance(self.value, tuple):
            return f"{self.namespace}/{self.value[1]}"
        return f"{self.namespace}/{pod.workload.name if pod.workload is not None else pod.name}"


class Members:
    """Members of each gang: the waiting pods, kept event by event, and the numbers on nodes."""

    def __init__(self, slots: Callable[[], int]) -> None:
        self._slots = slots
        self._frames: dict[GangProgram, Frame] = {}
        # By clause and namespace: the pods without a node by value and uid.
        self._waiting: dict[tuple[GangProgram, str], dict[Hashable, dict[str, Peer]]] = {}

    def name_of(self, program: GangProgram, pod: Peer) -> GangName | None:
        """The gang of a pod; None if it is in none of this clause."""
        value = self.value(program, pod)
        return None if value is None else GangName(program, pod.namespace, value)

    def of(self, call: VerbCall, pod: Peer | None = None) -> GangName | None:
        """The gang of the pod of a call, or of another pod with its plan; None if it is in none."""
        for clause in call.plan.of_parts:
            if isinstance(clause, GangProgram):
                return self.name_of(clause, pod or call.context(call.snapshot).peer())
        return None

    def waiting(self, name: GangName, snapshot: Snapshot) -> Mapping[str, Peer]:
        """The members without a node that kube-scheduler may place, by uid."""
        return {uid: p for uid, p in self.unbound(name, snapshot).items() if not p.is_gated}

    def unbound(self, name: GangName, snapshot: Snapshot) -> Mapping[str, Peer]:
        """The same with those that have scheduling gates."""
        place = name.program, name.namespace
        found = self._waiting.get(place)
        if found is None:
            found = self._waiting[place] = {}
            for pod in snapshot.pending.values():
                if pod.namespace == name.namespace:
                    value = self.value(name.program, pod)
                    if value is not None:
                        self._add(place, pod, value)
        return found.get(name.value, {})

    def bound(
        self, name: GangName, gang: KnownGang | None, pods: Cache, check: Callable[[], None]
    ) -> Mapping[str, int]:
        """The numbers of members on nodes that are not held there, by the names of these.

        A held one that somebody else has bound is among them. Raises what `check` does.
        """
        value, scope = partial(self.value, name.program), Scope(name.namespace)
        census = pods.tallies.census(("gang", name.program), scope, value, check)
        group = census.groups.get(name.value)
        left = dict(group.nodes) if group is not None else {}
        for uid in gang.holds if gang is not None else ():
            if gang is not None and pods.assumption(gang.keys[uid], uid) is not None:
                left[gang.places[uid]] = left.get(gang.places[uid], 0) - 1
        return {node: number for node, number in left.items() if number > 0}

    def on_nodes(
        self, name: GangName, nodes: Iterable[str], snapshot: Snapshot
    ) -> Iterator[tuple[str, Peer]]:
        """The members on these nodes, also the held ones, each with its node."""
        for node in sorted(nodes):
            view = snapshot.node(node)
            for pod in (view.pods if view is not None else None) or ():
                if self.name_of(name.program, pod) == name:
                    yield node, pod

    def pod_changed(self, old: Peer | None, new: Peer | None) -> Collection[GangName]:
        """Takes a new state of a pod from the cache. Returns the gangs that it is or was in."""
        found = set[GangName]()
        for place in self._waiting:
            for pod, change in ((old, self._remove), (new, self._add)):
                if pod is None or pod.namespace != place[1]:
                    continue
                if (value := self.value(place[0], pod)) is not None:
                    change(place, pod, value)
                    found.add(GangName(*place, value))
        return found

    def retain(self, programs: frozenset[GangProgram]) -> None:
        """Forgets all other clauses."""
        self._frames = {p: each for p, each in self._frames.items() if p in programs}
        self._waiting = {k: v for k, v in self._waiting.items() if k[0] in programs}

    def value(self, program: GangProgram, pod: Peer) -> Hashable:
        """The value that a pod shares with the others of its gang; None if it is in none."""
        if pod.deletionTimestamp is not None:
            return None
        if program.by is None:
            if pod.group is not None and not program.percent:
                return pod.group
            return pod.workload.uid if pod.workload is not None else None
        frame = self._frame(program, pod)
        try:
            found = shared_value(program.by(frame))
            hash(found)
        except (EvaluationError, TypeError):
            # Lists and maps name no gang.
            return None
        return found

    def role_of(self, program: GangProgram, pod: Peer) -> int | None:
        """The number of the role of a member; None if it has none."""
        frame = self._frame(program, pod) if program.roles else None
        for number, role in enumerate(program.roles):
            with suppress(EvaluationError):
                if frame is not None and role.where(frame) is True:
                    return number
        return None

    def _frame(self, program: GangProgram, pod: Peer) -> Frame:
        if program not in self._frames:
            self._frames[program] = Frame(None, Timestamp(0), slots=self._slots())
        frame = self._frames[program]
        frame.peer = pod
        frame.refill()
        return frame

    def _add(self, place: tuple[GangProgram, str], pod: Peer, value: Hashable) -> None:
        if not pod.nodeName:
            self._waiting[place].setdefault(value, {})[pod.uid] = pod

    def _remove(self, place: tuple[GangProgram, str], pod: Peer, value: Hashable) -> None:
        members = self._waiting[place].get(value)
        if members is not None:
            members.pop(pod.uid, None)
            if not members:
                del self._waiting[place][value]


# How many members are needed of all, and of each role. The largest count first by all.
Numbers = tuple[int, ...]
# What a member says of its numbers, with the objects that say it; or why these are not told, an
# empty text for a pod that the policy has in no gang.
Said = tuple[tuple[object, ...], Numbers | str]


# What pods of one template have in common: their namespace, and what kube-scheduler's plugins read.
Template = tuple[str, bytes]


@dataclass(frozen=True, slots=True)
class Offer:
    """Offer of a place to a pod of a template at a time, to which no bind call has come yet."""

    template: Template
    node: str
    at: float


@dataclass(frozen=True, slots=True)
class Hold:
    """Hold of a bind call that waits, since a time."""

    since: float
    end: EndOfHold


# For how long an attempt need not be made again while nothing has changed.
_COVERS_SECONDS = 10.0
# What a text has that says how many members fit, and for how long rejections keep one.
_FIT, _TOLD_SECONDS = " members fit", 60.0


@dataclass(frozen=True, slots=True)
class Try:
    """Try to place a gang that did not fit: what was known.

    The time, how many were needed, the `table` of nodes, how often places had become free since the
    start, the uids of the waiting members, and the rows that kube-scheduler had asked about, as
    bytes; None for all.
    """

    at: float
    quorum: int
    table: ReferenceType[NodeTable]
    freed: int
    members: Collection[str]
    only: bytes | None

    def covers(self, other: Try) -> bool:
        """Whether an attempt with what is known now would have the same result.

        Policies may read the time, so that holds for some seconds.
        """
        lately = other.at - self.at < _COVERS_SECONDS
        same = self.table() is other.table() and self.freed == other.freed
        only = self.only in (None, other.only)
        needed = self.members == other.members and self.quorum == other.quorum
        return lately and same and only and needed


@dataclass(slots=True)
class KnownGang:
    """A gang that waits or gathers; it gathers while it has places.

    `quorum` is the number of members that are bound together, as far as the largest of the
    `numbers` that they say is still wanted. `places` are the nodes of its members by uid, `keys`
    their names, and `holds` the bind calls that wait, with what was `seen` at the last look at each
    of these; `offers` are those that were not taken yet. The members in `stay` keep their places
    while others are placed anew. The `absent` members were not held when it was given up.
    `reserved` is for how many there is room. It is known `since` a time, and `began` to gather at
    another one; its members are woken again at `remind_at`. It was `created` with its first known
    member, and `gave_up_at` a time. The first in `order` goes first. `text` says the reason to
    wait, and `told` is the reason that kube-scheduler knows. It is not tried before the time
    `not_before`; `tried` is the last attempt that failed.

    So many of each of the `roles` are among the members that are bound together, and `role_of` has
    the roles of waiting members by uid. `makes_room` has the nodes where pods are evicted for
    members, by uid, until a time, and `evicted` for which member each victim goes.
    Members were last read at `read_at`, and what the gang `lacks` is of then; `unread`
    more may come before they are read again. `is_settled`: the reason is known until a pod changes.
    `is_long`: an attempt of a look took too long. `sent_at`: when kube-scheduler was last told to
    ask about a member instead. `looked_at`: when a look, which holds for all, has last said no.
    """

    name: GangName
    quorum: int
    created: int
    asked_at: float
    shown: str
    since: float = 0.0
    priority: int = 0
    places: dict[str, str] = field(default_factory=dict)
    keys: dict[str, str] = field(default_factory=dict)
    numbers: dict[str, Said] = field(default_factory=dict)
    roles: Mapping[int | None, int] = field(default_factory=dict)
    role_of: Mapping[str, int | None] = field(default_factory=dict)
    holds: dict[str, Hold] = field(default_factory=dict)
    seen: dict[str, tuple[object, ...]] = field(default_factory=dict)
    offers: dict[str, Offer] = field(default_factory=dict)
    stay: frozenset[str] = frozenset()
    absent: frozenset[str] = frozenset()
    reserved: int = 0
    began: float = 0.0
    remind_at: float = math.inf
    text: str = ""
    told: str = ""
    told_at: float = 0.0
    not_before: float = 0.0
    makes_room: dict[str, str] = field(default_factory=dict)
    makes_room_until: float = 0.0
    evicted: dict[str, str] = field(default_factory=dict)
    read_at: float = -math.inf
    lacks: str = ""
    unread: int = 0
    is_settled: bool = False
    is_long: bool = False
    sent_at: float = -math.inf
    looked_at: float = -math.inf
    pause: float = 0.0
    gave_up_at: float = 0.0
    why_given_up: str = ""
    tried: Try | None = None

    def say(self, text: str, now: float) -> None:
        """Takes what it waits for. How many members fit is told to kube-scheduler once a minute.

        It asks about a pod again whenever the text of its rejection changes.
        """
        self.text = text
        counts = _FIT in text and _FIT in self.told
        if text.partition(_FIT)[0] == self.told.partition(_FIT)[0] and counts:
            # Where most of them fit is another place.
            return
        if not counts or now - self.told_at >= _TOLD_SECONDS:
            self.told, self.told_at = text, now

    @property
    def order(self) -> tuple[int, float, int]:
        return -self.priority, self.gave_up_at, self.created

    @property
    def gathers(self) -> bool:
        return bool(self.places)

    @property
    def until(self) -> float:
        """When it is given up, if it gathers."""
        return self.began + self.clause.seconds

    @property
    def held(self) -> Mapping[str, str]:
        """The nodes of the held members by `namespace/name`."""
        return {self.keys[uid]: self.places[uid] for uid in self.holds}

    @property
    def came(self) -> str:
        return f"{len(self.holds)} of {self.quorum} members came in time"

    @property
    def has_enough(self) -> bool:
        """Whether as many members are held as are bound together, and of each role."""
        of_roles = Counter(map(self.role_of.get, self.holds))
        is_enough = len(self.holds) >= self.quorum
        return is_enough and all(of_roles[role] >= number for role, number in self.roles.items())

    @property
    def state(self) -> Literal["waiting", "gathering", "given up"]:
        """How far it is; it stays given up until it is tried again."""
        is_given_up = self.why_given_up and self.text == given_up(self.why_given_up)
        return "gathering" if self.gathers else "given up" if is_given_up else "waiting"

    @property
    def clause(self) -> GangProgram:
        return self.name.program


# A pod that is asked about again after so long has not taken what it was offered before.
_CYCLE_SECONDS = 0.005
# For how long a pod is probably on its way to the place that it was offered.
_ON_ITS_WAY_SECONDS = 1.0
# For how long a refusal counts.
_KEPT_SECONDS = 1800.0
# The bytes of a refusal of a node.
_NODE_BYTES = 100


class Refusals:
    """Refusals by template: places that members were offered and did not take, each with the time.

    They are tried last from then on. Somebody behind Placet refuses them: a second extender,
    volumes, devices, affinity. None of them says so, and their reasons may go.
    """

    def __init__(self, clock: Callable[[], float], plugins: PluginFilters) -> None:
        self._clock = clock
        self._plugins = plugins
        self._known: Remembered[Template, Mapping[str, float]] = Remembered(
            size=lambda template, nodes: len(template[1]) + _NODE_BYTES * len(nodes)
        )

    def offered(self, gang: KnownGang, pod: RequestPod) -> None:
        """Takes the news that a member is offered its place."""
        template = pod.namespace, self._plugins.kind(pod)
        gang.offers[pod.uid] = Offer(template, gang.places[pod.uid], self._clock())

    def has_refused(self, gang: KnownGang, pod: RequestPod) -> bool:
        """Whether a member that is asked about again did not take its place.

        kube-scheduler may ask several times in one cycle about a pod of a group of its own.
        """
        offer = gang.offers.get(pod.uid)
        if offer is None or offer.node != gang.places[pod.uid] or pod.own_group:
            return False
        if self._clock() < offer.at + _CYCLE_SECONDS:
            return False
        self._add(offer)
        return True

    def stay(self, gang: KnownGang, uid: str) -> frozenset[str]:
        """The members that are held or on their way to their places, without one that is asked."""
        since = self._clock() - _ON_ITS_WAY_SECONDS
        new = (other for other, offer in gang.offers.items() if offer.at > since)
        return frozenset(gang.holds).union(new) - {uid}

    def came(self, gang: KnownGang, uid: str) -> None:
        """Takes the news that a member has come to its place."""
        if (offer := gang.offers.pop(uid, None)) is not None:
            nodes = self._lately(offer.template)
            if offer.node in nodes:
                left = {name: at for name, at in nodes.items() if name != offer.node}
                self._known.put(offer.template, left)

    def end(self, gang: KnownGang) -> None:
        """Takes the news that the others did not come in time."""
        for uid in gang.offers.keys() - gang.holds.keys():
            self._add(gang.offers[uid])

    def nodes(self, pod: RequestPod) -> Collection[str]:
        """The nodes that are tried last for a pod."""
        return self._lately((pod.namespace, self._plugins.kind(pod))) if len(self._known) else ()

    def _add(self, offer: Offer) -> None:
        nodes = {**self._lately(offer.template), offer.node: self._clock()}
        self._known.put(offer.template, nodes)

    def _lately(self, template: Template) -> Mapping[str, float]:
        since = self._clock() - _KEPT_SECONDS
        nodes = self._known.get(template) or {}
        return {name: at for name, at in nodes.items() if at > since}


def given_up(why: str) -> str:
    """What a gang says that was given up."""
    return f"given up: {why}"


# ---- the gang of one pod

_MOST_MEMBERS = 1000
# How far a gang is, and how a member is there.
GangProgress = Literal["waiting", "fits", "gathering", "given up", "begun", "not tried"]
Presence = Literal["bound", "held", "placed", "waiting"]

# What is said of nodes to a pod whose gang has its places.
ELSEWHERE, ENOUGH = "another node was chosen", "enough members have a place"


class GangMember(msgspec.Struct, frozen=True):
    """A member as `namespace/name`, and how it is there.

    It is `bound` to its node, `held` there for some seconds, `placed` there on paper, or `waiting`
    without a node.
    """

    pod: str
    presence: Presence
    node: str = ""
    seconds: float = 0.0


class GangRole(msgspec.Struct, frozen=True):
    """A role of members: those for which `of` is true, how many are `needed`, and how many exist.

    `of` is a condition about a `peer`.
    """

    of: str
    needed: int
    exist: int

    @property
    def lacks(self) -> str:
        """What it waits for; empty if enough exist."""
        text = f"{self.exist} of {self.needed} members with `{self.of}` exist"
        return text if self.exist < self.needed else ""


class GangExplanation(NamedClause, frozen=True):
    """The gang of the pod, as its clause sees it.

    `name` is what its members have in common, after the namespace. `message` is what its texts in
    the pod's events begin with. `quorum` members are placed together; it is null where it cannot be
    told. `state` is `waiting`, `gathering` for so many `seconds`, `given up`, `begun` once a member
    is on a node, or `not tried`; a command, which knows of nobody who gathers, says `fits`. `text`
    says what the gang waits for, or how far it is. After `againIn` seconds it is tried again.
    `exist`, `held`, `placed` and `bound` are numbers of members; the held ones have a place, too.
    `members` are the first thousand, and `roles` those that the clause names. `notOnPaper` is what
    members have that Placet does not look at: kube-scheduler may refuse a place for it. `podGroup`
    is what a PodGroup of the pod says otherwise.
    """

    name: str
    message: str
    quorum: int | None
    state: GangProgress
    text: str
    seconds: float | None
    againIn: float | None
    exist: int
    placed: int
    held: int
    bound: int
    members: Sequence[GangMember]
    roles: Sequence[GangRole] = ()
    notOnPaper: Sequence[str] = ()
    podGroup: str = ""


@dataclass(frozen=True, slots=True)
class GangOfPod:
    """The gang of one pod, and its account for people.

    `allowed` are the nodes that it leaves to the pod, None for all; `refusal` is the text for all
    other nodes.
    """

    program: GangProgram
    told: GangExplanation
    refusal: str
    allowed: Collection[str] | None


def explained(
    name: GangName,
    gang: KnownGang | None,
    pod: Peer,
    members: Sequence[GangMember],
    lacks: str,
    now: float,
    *,
    places: bool,
) -> GangExplanation:
    """How far the gang of a pod is that has these members and `lacks` something, or nothing.

    `gang` is None if it is not known yet. With `places` it was placed only for the question.
    """
    number = Counter(member.presence for member in members)
    state: GangProgress = "not tried"
    text, seconds, again = "whether it fits was not tried yet", None, None
    if bound := number["bound"]:
        state, text = "begun", f"{bound} of its members {'is' if bound == 1 else 'are'} on nodes"
    elif gang is not None and gang.gathers and places:
        state, text = "fits", "it fits now"
    elif gang is not None and gang.gathers:
        state, seconds = "gathering", round(now - gang.began, 1)
        text = f"{len(gang.holds)} of {gang.quorum} members are here"
    elif lacks:
        state, text = "waiting", lacks
    elif gang is not None and gang.text:
        state, text = gang.state, gang.text
        again = round(max(0.0, gang.not_before - now), 1) if state == "given up" else None
    return GangExplanation(
        policy=name.program.policy,
        clause=name.program.name,
        name=name.shown(pod),
        message="",
        quorum=None,
        state=state,
        text=text,
        seconds=seconds,
        againIn=again,
        exist=len(members),
        placed=number["placed"] + number["held"],
        held=number["held"],
        bound=bound,
        members=members[:_MOST_MEMBERS],
    )


def members_of(
    gang: KnownGang | None,
    pod: Peer,
    bound: Iterable[tuple[str, Peer]],
    waiting: Iterable[Peer],
    now: float,
) -> Iterator[GangMember]:
    """The members on nodes, those with a place, and then the others by name.

    Also the held ones are `bound` as given, each with its node.
    """
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


# ---- the gang in an explanation

# The members with a row.
_MOST_ROWS = 50


def part_of(gang: GangExplanation, pod: str, *, alone: bool) -> ExplainedPart:
    """The gang of this pod for people; `alone` says that nothing else rejects some node."""
    needed = "some" if gang.quorum is None else str(gang.quorum)
    numbers = [f"{needed} needed", f"{gang.exist} exist", f"{gang.placed} have a place"]
    others = (gang.held, "held"), (gang.bound, "on nodes")
    numbers += [f"{number} {what}" for number, what in others if number]
    unknown = f"not on paper, so a place may be refused: {', '.join(gang.notOnPaper)}"
    texts = [", ".join(numbers), *([unknown] if gang.notOnPaper else ())]
    roles = [f"{r.needed} needed and {r.exist} exist of pods where {r.of}" for r in gang.roles]
    shown, clause = gang.members[:_MOST_ROWS], f"{gang.policy}: {gang.clause}"
    progress, cause, hint = _words(gang, next((m for m in gang.members if m.pod == pod), None))
    is_cause = cause and (alone or gang.state in ("fits", "gathering"))
    return ExplainedPart(
        title=f"gang {gang.name} ({clause})",
        texts=[*texts, *roles, progress, *filter(None, [gang.podGroup])],
        rows=[{"member": m.pod, "is": _presence(m), "node": m.node} for m in shown],
        more=gang.exist - len(shown),
        names={"member": "pod", "node": "node"},
        cause=Cause("gang", f"{cause} ({clause})", hint) if is_cause else None,
        decided=gang.state not in ("not tried", "fits"),
    )


def _presence(member: GangMember) -> str:
    held = member.presence == "held"
    return f"held since {member.seconds:.0f} s" if held else member.presence


def _words(gang: GangExplanation, own: GangMember | None) -> tuple[str, str, str]:
    """How far the gang is, the cause if nothing else keeps its member waiting, and what to do."""
    text, place = gang.text, f"`{own.node}`" if own is not None and own.node else ""
    again = f" in {gang.againIn:.0f} s" if gang.againIn else ""
    match gang.state:
        case "gathering":
            since = f"gathers since {gang.seconds:.0f} s"
            has = f"a place on {place}" if place else "no place yet"
            why = f"its gang {since}, and it has {has}"
            if own is not None and own.presence == "held":
                why = f"held on {place} since {own.seconds:.0f} s"
            return f"it {since}: {text}", f"{why}: {text}", _GATHERS
        case "given up":
            tried = f"it is tried again{again}"
            why = f"its gang was {text}"
            return f"it was {text}{f'; {tried}' if again else ''}", why, f"nothing: {tried}"
        case "waiting":
            return f"it waits: {text}", f"its gang waits: {text}", _hint(gang)
        case "fits":
            why = f"its gang fits now{f', with this pod on {place}' if place else ''}"
            return text, why, _FITS
        case "begun" | "not tried":
            return text, "", ""
        case _:
            assert_never(gang.state)


_FITS = "`placet explain --decision` asks the running Placet whether it gathers"
_GATHERS = "nothing: all members are bound together, or the gang is given up and tried again"


# What to do about members that do not come, by what is said of them.
_HELPS = (
    (" by ", "whoever set the gates must take them out of `spec.schedulingGates`"),
    (" the scheduler ", "give all members a `schedulerName` whose scheduler asks Placet"),
    (ORDERED, "set `podManagementPolicy: Parallel`, because no pod runs before the others"),
    ("is suspended", "resume it: `spec.suspend: false`"),
    ("is paused", "resume it: `spec.paused: false`"),
    ("ResourceQuota", "raise the quota for all members"),
    (" has made ", "see the events of the controller: a quota may refuse its pods"),
    (
        " may start ",
        "leave out `startupPolicy` of the JobSet, or write a gang for each of its Jobs",
    ),
    ("may have to run", "leave it out of the gang, unless the others are made at once"),
)


def _hint(gang: GangExplanation) -> str:
    if gang.text.startswith("PodGroup "):
        return "create the PodGroup with its number, or write one with `at least`"
    if _FIT in gang.text:
        return "make room for all members at the same time, or ask for fewer with `at least`"
    _, exist, why = gang.text.partition(" exist")
    helps = (help_ for words, help_ in _HELPS if words in why)
    others = "create the other members, or ask for fewer with `at least`" if exist else ""
    return next(helps, others)
