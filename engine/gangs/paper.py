"""Paper: whether a whole gang would fit now, and where, before any member is offered a node.

Members are placed one after another by the rules that kube-scheduler and Placet place them by: the
plugins of kube-scheduler, the filters and the strict counts of policies, and free resources. Each
pod that is placed counts for the next one. A Paper lives for one attempt; an attempt changes
nothing but the pods in flight: those that it has placed count where they would go.

NodeRoom has what nodes have left of each resource, and reads a node again only after it has
changed. Like Attempts it lives as long as Gangs do.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial

import numpy as np
import numpy.typing as npt

from engine.cache.node_table import NodeRows, NodeTable, NodeWithPods
from engine.clauses.gang import GangProgram
from engine.counting.domains import Domains, shared
from engine.decision.part import PartSite, Suits
from engine.decision.placement import Placement
from engine.decision.plugin_filters import PluginFilters
from engine.decision.verb_call import VerbCall
from engine.errors import BadObjectError, EngineError
from engine.gangs.gang import GangName, KnownGang, Refusals
from engine.objects.eligibility import clash
from engine.objects.peer import HostPort, Peer
from engine.objects.pod_group import PodGroup
from engine.objects.remembered import Remembered
from engine.objects.request_pod import RequestPod
from engine.objects.resources import MOST_AMOUNT, amount, needs
from engine.program.columns import Freshness, grown
from engine.program.frame import Frame
from grammar.values.errors import MissingError

# Whether a pod on a node must not be evicted for the pod of a call.
Stays = Callable[[NodeWithPods, Peer], bool]
Ints = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]


class FreeColumns:
    """Free amounts of the nodes of one table; `take` changes them for a placement.

    A node of which nothing is known has room for everything.
    """

    def __init__(self, free: Mapping[str, Ints]) -> None:
        self._free = free

    def capacity(self, needs: Mapping[str, int], rows: NodeRows) -> Ints:
        """How many pods with these needs each of the rows has room for."""
        found = np.full(len(rows), MOST_AMOUNT, np.int64)
        for name, need in needs.items():
            if name not in self._free:
                # No node has it, so an extender manages it, or no node will be offered.
                continue
            np.minimum(found, self._free[name][rows] // need, out=found)
        capacity: Ints = np.maximum(found, 0)
        return capacity

    def total(self, name: str) -> int:
        """What all nodes together have left of a resource; one where nothing is known or left."""
        return max(1, int(self._free[name].clip(0).sum())) if name in self._free else 1

    def take(self, row: int, needs: Mapping[str, int], times: int = 1) -> None:
        for name, need in needs.items():
            if name in self._free:
                self._free[name][row] -= times * need


class NodeRoom:
    """Columns of what the nodes of the last table have left, in whole numbers by row."""

    def __init__(self) -> None:
        self._fresh = Freshness()
        self._free: dict[str, Ints] = {}

    def columns(
        self, table: NodeTable, resources: Iterable[str], check: Callable[[], None]
    ) -> FreeColumns:
        """Columns of these resources that the caller may change.

        `check` raises an EngineError when the time is over; the next call continues.
        """
        size = len(table.nodes)
        for portion in self._fresh.stale(table, lambda: 0):
            self._free = {name: grown(each, size, 0) for name, each in self._free.items()}
            for row in portion.tolist():
                self._read(row, table.nodes[row], size)
            self._fresh.worked_out(table, portion)
            check()
        wanted = {name: self._free[name].copy() for name in resources if name in self._free}
        return FreeColumns(wanted)

    def _read(self, row: int, node: NodeWithPods | None, size: int) -> None:
        for column in self._free.values():
            column[row] = 0
        if node is None:
            return
        has, requested = node.allocatable, node.requested
        if not has or requested is None:
            for column in self._free.values():
                column[row] = MOST_AMOUNT
            return
        for name in has:
            if name not in self._free:
                self._free[name] = np.zeros(size, np.int64)
            left = amount(name, has[name]) - amount(name, requested[name])
            self._free[name][row] = max(left, -MOST_AMOUNT)


@dataclass(frozen=True, slots=True)
class Member:
    """Member to place: a pod. `only` are the rows that kube-scheduler asks about, None for all.

    `role` is the number of its role, None for a pod without one.
    """

    call: VerbCall
    needs: Mapping[str, int]
    only: NodeRows | None = None
    role: int | None = None

    @classmethod
    def of(cls, gang: KnownGang, call: VerbCall, only: NodeRows | None = None) -> Member:
        return cls(call, needs(call.pod.peer.requests), only, gang.role_of.get(call.pod.uid))

    @property
    def uid(self) -> str:
        return self.call.pod.uid


@dataclass(slots=True)
class Slots:
    """Slots of an attempt: how many members more have a place when all that are needed have one.

    So many of `roles` must be among them, by the number of the role.
    """

    left: int
    roles: dict[int | None, int] = field(default_factory=dict)

    def take(self, role: int | None) -> bool:
        """Has one less for a member of this role; whether there was one."""
        has = self.has(role)
        self.left -= has
        if has and self.roles.get(role):
            self.roles[role] -= 1
        return has

    def has(self, role: int | None) -> bool:
        return self.left > (0 if self.roles.get(role) else sum(self.roles.values()))

    def copied(self) -> Slots:
        return Slots(self.left, self.roles.copy())


@dataclass(slots=True)
class Paper:
    """Paper of one attempt: the places, and what they take.

    `ports` has the ports that placed members take of their nodes, by row: no two share one. `last`
    are the rows where pods would have to go first. It is `freed` where pods are taken off it.
    """

    table: NodeTable
    free: FreeColumns
    placement: Placement
    plugins: PluginFilters
    suits: Suits
    check: Callable[[], None]
    refusals: Refusals
    ports: defaultdict[int, list[HostPort]] = field(default_factory=lambda: defaultdict(list))
    last: set[int] = field(default_factory=set)
    freed: bool = False
    places: dict[str, int] = field(default_factory=dict)
    _masks: dict[tuple[int, object], Mask] = field(default_factory=dict)
    _totals: dict[str, int] = field(default_factory=dict)

    def stand(self, pod: Peer | None, row: int, times: int = 1) -> None:
        """Takes what a pod of another gang takes there; -1 times where it would be given up."""
        if pod is not None:
            self.free.take(row, needs(pod.requests), times)
            self.freed |= times < 0
            if pod.hostPorts and times > 0:
                self.ports[row] += pod.hostPorts

    def capacity(self, members: Sequence[Member], rows: NodeRows) -> Ints:
        """How many of these members each row has room for at most."""
        names = set[str]().union(*(member.needs for member in members))
        least = {n: min(m.needs.get(n, 0) for m in members) for n in names}
        allowed = np.zeros(len(rows), np.bool_)
        for member in members:
            allowed |= self._allowed(member)[rows]
        found: Ints = np.where(
            allowed, self.free.capacity({n: need for n, need in least.items() if need}, rows), 0
        )
        return found

    def fitting(self, members: Sequence[Member], needed: int, rows: NodeRows) -> int | None:
        """How many members of those needed fit on these rows; None if that has to be tried.

        It is known of members that are alike, and for which filters and resources alone decide.
        """
        first, *others = members
        kind, needs = self._kind(first), first.needs
        if any(self._kind(each) != kind or each.needs != needs for each in others):
            return None
        plan = first.call.plan
        if plan.counts.strict or any(plan.rooms) or first.call.pod.pod.hostPorts:
            return None
        allowed = self._allowed(first)
        if any(each.only is not None and not allowed[each.only].all() for each in members):
            # kube-scheduler offers a node that it would not for all that is known here.
            return None
        room = np.minimum(self.capacity([first], rows), needed).sum()
        return min(int(room), needed)

    def choose(self, members: Sequence[Member], needed: Slots, rows: NodeRows) -> Slots:
        """Places as many as are needed on these rows, if it can. Returns for whom it could not.

        Those that come first are preferred, and then the smallest ones. Nobody is placed where it
        is fewer than needed.
        """
        best = needed
        for sort in (list, partial(sorted, key=self._size)):
            order: Sequence[Member] = sort(members)
            slots, left = needed.copied(), needed.copied()
            chosen = [member for member in order if slots.take(member.role)]
            uids, known = {member.uid for member in chosen}, dict[object, int]()
            rest = [member for member in order if member.uid not in uids]
            self._fill(sorted(chosen, key=partial(self._freedom, rows, known)), left, rows)
            self._fill(rest, left, rows)
            if not left.left:
                return left
            best = min(best, left, key=lambda each: each.left)
            self.undo(members)
            if not rest:
                break
        return best

    def _fill(self, members: Sequence[Member], slots: Slots, rows: NodeRows) -> None:
        """Places members on these rows one after another, as far as they can be."""
        full = set[tuple[object, ...]]()
        for member in members:
            self.check()
            # Where one pod had no place on any row, a pod that is alike has none either.
            kind = self._alike(member)
            if (member.only is None and kind in full) or not slots.has(member.role):
                continue
            row = self._choice(member, rows)
            if row is not None:
                slots.take(member.role)
                self._take(member, row)
            elif member.only is None:
                full.add(kind)

    def undo(self, members: Sequence[Member]) -> None:
        """Takes back the places of members."""
        for member in members:
            row = self.places.pop(member.uid, None)
            if row is not None:
                self.free.take(row, member.needs, -1)
                self.placement.withdraw(member.call)
                for port in member.call.pod.pod.hostPorts:
                    self.ports[row].remove(port)

    def _choice(self, member: Member, rows: NodeRows) -> int | None:
        call = member.call
        there = rows if member.only is None else np.intersect1d(rows, member.only)
        room = self.free.capacity(member.needs, there)
        fits = room > 0
        if member.only is None:
            fits &= self._allowed(member)[there]
        if call.pod.pod.hostPorts and self.ports:
            ports = call.pod.pod.hostPorts
            fits &= ~np.isin(
                there, [row for row, their in self.ports.items() if clash(ports, their)]
            )
        there, room = there[fits], room[fits]
        if len(there):
            is_open = self.placement.open(call, there)
            there, room = there[is_open], room[is_open]
        if not len(there):
            return None
        fresh = ~self._refused(member)[there]
        if fresh.any():
            there, room = there[fresh], room[fresh]
        if self.last and not (dear := np.isin(there, list(self.last))).all():
            there, room = there[~dear], room[~dear]
        if call.plan.scored and len(there) > 1:
            suits = self.suits(call, self.table, there)
            best = suits == suits.max()
            there, room = there[best], room[best]
        # Of equal nodes the fullest: what is left is of more use to the next gang.
        return int(there[int(np.argmin(room))])

    def _take(self, member: Member, row: int) -> None:
        self.places[member.uid] = row
        self.free.take(row, member.needs)
        self.placement.reserve(member.call, row)
        if member.call.pod.pod.hostPorts:
            self.ports[row] += member.call.pod.pod.hostPorts

    def _allowed(self, member: Member) -> Mask:
        """The rows that the filters of its policies and kube-scheduler's plugins allow."""
        call, table = member.call, self.table
        key = self._kind(member)
        if (known := self._masks.get(key)) is None:
            rows = np.fromiter(table.rows.values(), np.intp, len(table.rows))
            known = np.zeros(len(table.nodes), np.bool_)
            decided = call.plan.filters.decide(table, rows, call.evaluation)
            rows = rows[decided.codes == 0]
            known[rows] = self.plugins.allowed(
                call.pod, table, rows, self.check, room=not self.freed
            )
            self._masks[key] = known
        return known

    def _freedom(
        self, rows: NodeRows, known: dict[object, int], member: Member
    ) -> tuple[int, float]:
        """How many rows a member can go to, and how small it is: the last has most choice.

        What is `known` holds for members that are alike.
        """
        if (number := known.get(key := self._alike(member))) is None:
            fits = self.free.capacity(member.needs, rows) > 0
            number = known[key] = int(np.count_nonzero(fits & self._allowed(member)[rows]))
        return number, -self._size(member)

    def _size(self, member: Member) -> float:
        """The parts that a member needs of the free amounts, added up."""
        for name in member.needs.keys() - self._totals.keys():
            self._totals[name] = self.free.total(name)
        return sum(need / self._totals[name] for name, need in member.needs.items())

    def _alike(self, member: Member) -> tuple[object, ...]:
        return (*self._kind(member), tuple(sorted(member.needs.items())))

    def _refused(self, member: Member) -> Mask:
        """The rows that pods like a member were offered and did not take."""
        key = -1, self.plugins.kind(member.call.pod)
        if (known := self._masks.get(key)) is None:
            known = self._masks[key] = np.zeros(len(self.table.nodes), np.bool_)
            known[self.table.find(list(self.refusals.nodes(member.call.pod)))] = True
        return known

    def refused(self, members: Sequence[Member], rows: NodeRows) -> Mask:
        """Which of the rows some of these members have refused."""
        found = np.zeros(len(rows), np.bool_)
        for member in members:
            found |= self._refused(member)[rows]
        return found

    def _kind(self, member: Member) -> tuple[int, object]:
        """What pods have in common to which filters and plugins say the same."""
        return id(member.call.plan), self.plugins.kind(member.call.pod)


# So many members beyond those that are needed may be placed in the stead of others.
_MOST_MORE = 1000
# The columns of values that members share; the one that was made first goes first.
_MOST_DOMAINS = 64
# More than this does not matter of the room of a node.
_ENOUGH = 1 << 20


class Attempts:
    """Attempts to place gangs on paper."""

    def __init__(self, site: PartSite) -> None:
        self._calls, self._placement, self._plugins, self._pods = site.placing
        self._suits = site.suits
        self.refusals = Refusals(site.clock, self._plugins)
        self._room = NodeRoom()
        # By clause, and by the topology of a PodGroup where the clause has no `within`.
        self._domains: dict[tuple[GangProgram, str], Domains] = {}
        # By uid: the members of a gang that is tried again and again are decoded once.
        self._others: Remembered[str, RequestPod] = Remembered(
            size=lambda _, pod: pod.decoded_bytes, owner=lambda pod: pod.namespace
        )

    def retain(self, programs: frozenset[GangProgram]) -> None:
        """Forgets all other clauses, and pods that were decoded for other policies."""
        self._others.clear()
        self._domains = {k: each for k, each in self._domains.items() if k[0] in programs}

    def about(self, uid: str, call: VerbCall | None = None) -> VerbCall | None:
        """A call about a pod in the time of another call, or for which nobody waits.

        None if its JSON is not known. Raises EngineError where there is no decision about it.
        """
        if (pod := self.pod(uid)) is None:
            return None
        return self._calls.aside(pod) if call is None else self._calls.beside(pod, call)

    def pod(self, uid: str) -> RequestPod | None:
        """A waiting pod as requests have it; None if its JSON is not known."""
        body, known = self._placement.pods.body(uid), self._others.get(uid)
        if body is None or (known is not None and known.body is body):
            return None if body is None else known
        try:
            return self._others.put(uid, self._pods.other(body))
        except BadObjectError:
            return None

    def within(self, name: GangName, call: VerbCall, rows: NodeRows, placed: Iterable[str]) -> Mask:
        """Which of the rows have a value that one of these nodes has, too."""
        table = call.snapshot.table
        numbers, _ = self._values(name, table, call.evaluation.time.check)
        return shared(numbers, rows, table.find(list(placed)))

    def share(self, gang: KnownGang, table: NodeTable, nodes: Iterable[str]) -> bool:
        """Whether these nodes share a value of `within`, if there is one. Raises EngineError."""
        numbers, _ = self._values(gang.name, table, lambda: None)
        values = set(numbers[table.find(list(nodes))].tolist())
        return len(values) == 1 and min(values) >= 0

    def otherwise(self, name: GangName, group: PodGroup, call: VerbCall) -> bool:
        """Whether a `within` has another value on some node than the topology of a PodGroup."""
        table = call.snapshot.table
        numbers, texts = self._values(name, table, call.evaluation.time.check)
        return name.program.domain is not None and any(
            (texts[number] if number >= 0 else None) != node.labels.get(group.topology)
            for node, number in zip(table.nodes, numbers.tolist(), strict=False)
            if node is not None and group.topology
        )

    def fits_elsewhere(self, gang: KnownGang, call: VerbCall) -> bool:
        """Whether other values of `within` seem to have room for so many pods as that of the call.

        Nodes that such a pod has refused do not count.
        """
        table, check = call.snapshot.table, call.evaluation.time.check
        (numbers, _), needed = self._values(gang.name, table, check), needs(call.pod.peer.requests)
        rows = np.fromiter(table.rows.values(), np.intp, len(table.rows))
        held = table.find([gang.places[uid] for uid in gang.holds])
        refused = table.find(list(self.refusals.nodes(call.pod)))
        left = (numbers[rows] >= 0) & ~np.isin(numbers[rows], numbers[held])
        rows = rows[left & ~np.isin(rows, refused)]
        room = np.minimum(self._room.columns(table, needed, check).capacity(needed, rows), _ENOUGH)
        fits = (np.bincount(numbers[rows], room) >= gang.quorum).any()
        return bool(gang.holds) and bool(fits)

    def apart(self, name: GangName, pods: Sequence[Peer], call: VerbCall) -> Sequence[Peer]:
        """The pods on nodes with another value than that of most of them."""
        table, check = call.snapshot.table, call.evaluation.time.check
        rows = table.find([pod.nodeName for pod in pods])
        values = self._values(name, table, check)[0][rows].tolist()
        ((most, _),) = Counter(values).most_common(1)
        return [pod for pod, value in zip(pods, values, strict=True) if value != most]

    def place(
        self,
        gang: KnownGang,
        call: VerbCall,
        waiting: Mapping[str, Peer],
        only: NodeRows | None,
        others: Iterable[KnownGang],
        freed: Iterable[KnownGang] = (),
        stays: Stays | None = None,
    ) -> Mapping[str, str] | str:
        """The nodes of the members that are still needed, by uid, the asked pod among them.

        They stay in flight there. If they do not fit beside the places of the others, the text says
        how many do. What is held of `freed` gangs counts as free. `waiting` are the members without
        a node, and `only` the rows that kube-scheduler asks about for the pod of the call, None for
        all. With `stays`, the nodes are those on which pods have to go first, all that need not
        stay, and nobody is in flight. Raises EngineError, and then nothing has changed.
        """
        gang.stay, where = self.refusals.stay(gang, call.pod.uid), ""
        held = len(gang.stay)
        best = Slots(gang.quorum - held)
        with call.evaluation.time.charged(gang.clause.policy):
            for uid in gang.places.keys() - gang.stay:
                # They are placed anew.
                self._placement.in_flight.forget(uid)
            for members in self._to_place(gang, call, waiting, only):
                if len(members) + held < gang.quorum:
                    return f"{len(members) + held} of {gang.quorum} members are known"
                paper = self._paper(members, gang, call, others, freed)
                if stays is not None:
                    self._evict(paper, members, call, stays)
                for value, left in self._tried(gang, members, paper, len(waiting)):
                    if not left.left:
                        places = paper.places.copy()
                        if stays is not None:
                            paper.undo(members)
                            places = {u: row for u, row in places.items() if row in paper.last}
                        names = {row: name for name, row in paper.table.rows.items()}
                        return {uid: names[row] for uid, row in places.items()}
                    if left.left < best.left:
                        best, where = left, value
        in_one = f", in {where}" if where else ""
        for role, number in best.roles.items():
            if role is not None and number and (of := gang.roles[role]) < gang.quorum:
                in_one += f": {of - number} of {of} with `{gang.clause.roles[role].text}`"
                break
        return f"{gang.quorum - best.left} of {gang.quorum} members fit{in_one}"

    def _evict(self, paper: Paper, members: Sequence[Member], call: VerbCall, stays: Stays) -> None:
        """Takes the pods that may go from the nodes without room for a member.

        kube-scheduler proposes victims for no other node, whoever else is to come there.
        """
        rows = np.fromiter(paper.table.rows.values(), np.intp, len(paper.table.rows))
        has_room = np.zeros(len(rows), np.bool_)
        for needed in {frozenset(each.needs.items()): each.needs for each in members}.values():
            has_room |= paper.free.capacity(needed, rows) > 0
        for row in rows[~has_room].tolist():
            if (node := paper.table.nodes[row]) is None:
                continue
            paper.check()
            lower = [p for p in node.pods or () if p.priority < call.pod.peer.priority]
            # kube-scheduler chooses among them: it may propose the one that has to stay.
            if lower and not any(stays(node, pod) or self._is_of_whole(pod) for pod in lower):
                paper.last.add(row)
                for pod in lower:
                    paper.stand(pod, row, -1)

    def _is_of_whole(self, pod: Peer) -> bool:
        """Whether a pod is of a group that is disrupted whole: it does not go alone."""
        pods = self._placement.pods
        group = pods.group(pod.namespace, pod.group) if pod.group is not None else None
        return group is not None and group.whole

    def _tried(
        self, gang: KnownGang, members: Sequence[Member], paper: Paper, wished: int
    ) -> Iterator[tuple[str, Slots]]:
        """The values that nodes share, each with how many of the needed members do not fit there.

        All that are needed have a place after the last one, or nobody has.
        """
        # Those that have places have their roles.
        roles = {} if gang.gathers else dict(gang.roles)
        needed = Slots(gang.quorum - len(gang.stay), roles)
        try:
            for value, rows in self._sets_of_rows(gang, members, paper, wished):
                fitting = paper.fitting(members, needed.left, rows)
                if fitting is None or fitting == needed.left:
                    yield value, paper.choose(members, needed, rows)
                else:
                    yield value, Slots(needed.left - fitting)
        except EngineError:
            paper.undo(members)
            raise

    def _to_place(
        self, gang: KnownGang, call: VerbCall, waiting: Mapping[str, Peer], only: NodeRows | None
    ) -> Iterator[Sequence[Member]]:
        """As many members as are still needed, the preferred ones; then others as well."""
        needed, found = gang.quorum - len(gang.stay), [Member.of(gang, call, only)]
        others = [pod for uid, pod in waiting.items() if uid != call.pod.uid]
        if gang.gathers:
            others = [pod for pod in others if pod.uid in gang.places.keys() - gang.stay]
        others.sort(key=lambda each: (-each.priority, each.name))
        for pod in others[: needed + _MOST_MORE]:
            if len(found) == needed:
                yield [*found]
            other = self.about(pod.uid, call)
            if other is not None and gang.clause in other.plan.of_parts:
                found.append(Member.of(gang, other))
        yield found

    def _paper(
        self,
        members: Sequence[Member],
        gang: KnownGang,
        call: VerbCall,
        others: Iterable[KnownGang],
        freed: Iterable[KnownGang],
    ) -> Paper:
        """What is left beside the places of all others, and of members that stay."""
        table, check, pods = call.snapshot.table, call.evaluation.time.check, call.cluster.pods
        resources = set[str]().union(*(member.needs for member in members))
        free = self._room.columns(table, resources, check)
        paper = Paper(
            table, free, self._placement, self._plugins, self._suits, check, self.refusals
        )
        # What is held counts on its node already.
        taken: list[tuple[KnownGang, Iterable[str], int]] = [
            (other, other.places.keys() - other.holds, 1) for other in others
        ]
        taken += [(gang, gang.stay - gang.holds.keys(), 1)]
        taken += [(other, other.holds.keys(), -1) for other in freed]
        for other, uids, times in taken:
            for uid in uids:
                if (row := table.rows.get(other.places[uid])) is not None:
                    paper.stand(pods.pod(other.keys[uid]), row, times)
        return paper

    def _sets_of_rows(
        self, gang: KnownGang, members: Sequence[Member], paper: Paper, wished: int
    ) -> Iterable[tuple[str, NodeRows]]:
        """The sets of rows to try, each with the value that its nodes share.

        Those with room for all of the `wished` members come first, the smallest room before larger
        ones; then those with room for enough, the largest room first.
        Those with too little on nodes that nobody has refused come last.
        """
        table, needed = paper.table, gang.quorum - len(gang.stay)
        wished = max(wished, needed)
        rows = np.fromiter(table.rows.values(), np.intp, len(table.rows))
        numbers, texts = self._values(gang.name, table, paper.check)
        rows = rows[numbers[rows] >= 0]
        if gang.stay:
            held = table.find([gang.places[uid] for uid in gang.stay])
            # A node of theirs may have got another value since.
            is_one = len(np.unique(numbers[held])) == 1
            rows = rows[shared(numbers, rows, held) & is_one]
        room = np.minimum(paper.capacity(members, rows), _ENOUGH)
        sums = np.bincount(numbers[rows], room, len(texts))
        fresh = np.where(paper.refused(members, rows), 0, room)
        left = np.bincount(numbers[rows], fresh, len(texts))
        there = np.unique(numbers[rows]).tolist()
        tried = [number for number in there if sums[number] >= needed]
        tried.sort(
            key=lambda number: (
                left[number] < needed,
                sums[number] < wished,
                sums[number] if sums[number] >= wished else -sums[number],
                texts[number],
            )
        )
        # The text says of the largest how many fit.
        tried = tried or sorted(there, key=lambda number: (sums[number], texts[number]))[-1:]
        return ((texts[number], rows[numbers[rows] == number]) for number in tried)

    def _values(
        self, name: GangName, table: NodeTable, check: Callable[[], None]
    ) -> tuple[Ints, Sequence[str]]:
        """Numbers by row of what members share, below 0 where nothing is, and its texts by number.

        That is `within`, else the topology of their PodGroup; for neither all rows have one value.
        """
        domain = name.program.domain
        group = name.group(self._placement.pods) if domain is None else None
        key = group.topology if group is not None else ""
        if domain is None and not key:
            return np.zeros(len(table.nodes), np.int64), ("",)
        found = self._domains.get((name.program, key))
        if found is None:
            if len(self._domains) >= _MOST_DOMAINS:
                del self._domains[next(iter(self._domains))]
            frame = Frame(None, self._calls.now(), slots=self._calls.registry.slots)
            found = Domains(domain or partial(_label, key), frame)
            self._domains[name.program, key] = found
        return found.of(table, check), found.texts


def _label(key: str, frame: Frame) -> object:
    """The label of the frame's node. Raises MissingError."""
    node = frame.node
    if not isinstance(node, NodeWithPods) or (value := node.labels.get(key)) is None:
        raise MissingError(f"no label {key}")
    return value
