"""In-flight pods: the pods that kube-scheduler may be placing now, and the nodes that they may get.

kube-scheduler never says which node it chose, and asks about the next pod before the last binding
is visible. So a pod counts wherever it may end until more is known.

State machine of a pod:

    Initial -------------------------------taken over---> Unknown
    Initial, Unknown, Offered, Refused ----offered------> Offered
    Initial, Unknown, Offered, Refused ----refused------> Refused
    Initial, Unknown, Offered, Refused ----bound--------> Bound
    Unknown, Offered, Refused -------------ended--------> Initial

- Initial: nothing is known. The pod does not count.
- Offered: filter offered it nodes last. It counts on each of them, by name. If one of them is not
  known here, it counts on every node.
- Unknown: a replica, which may be this one before its start, may have offered any node to the pod.
  It counts on every node, also on nodes that are added later.
- Refused: filter offered it no node last, or bind refused it. It does not count.
- Bound: the cache counts it on its node. It is not kept here.

Transitions:

- offered, refused: each answer of filter is one of the two, and replaces the last one. A pod that
  is asked about again was not placed, so an error refuses it as well as a rejection. A member of a
  PodGroup of Kubernetes is asked about once for each placement of its group: as long as that may
  be the same cycle (see `GroupCycles`), an offer adds to the last ones, and a rejection to none.
- taken over: at a start, at the beginning of a term (a time as the leader, see `LeaderGate`), and
  when the first policy that counts is enforced. At the beginning of a term, what is known from
  before it is dropped. Only pending pods that kube-scheduler can be placing become Unknown: not
  gated pods, pods of other schedulers, or pods that are Refused since then. With a bindVerb none
  does.
- bound: a watch shows the pod on a node, or Placet's own verb bind puts it there.
- ended: the pod is deleted, after which it is Initial for ever, or its time is over. That is the
  time of `Schedulers`, or the moment when another process acquires kube-scheduler's own Lease. A
  watch that has not shown the pod does not show its deletion either: see `PodEnds`. The pod may
  have been bound in its time, and a watch be late: so without a bindVerb the API server is asked
  first, see `PodEnds`.
  News of the condition PodScheduled says that the pod was given up, but not when: kube-scheduler
  may have asked again since then. So it shortens the time to the window of the pod, and ends it at
  once only with a bindVerb.

What holds:

- A pod that kube-scheduler may bind to a node is Offered this node, Unknown, or Bound there.
  Without a bindVerb this takes three assumptions: kube-scheduler binds a pod before its time is
  over; it gives a pod up, and asks about the pod again, only when no Binding can arrive any more;
  and it has ended when another process holds its Lease. docs/operations/replicas.md names what
  breaks them.
- With a bindVerb it takes none: bind looks at the Bound pods alone, and a pod is Bound before its
  Binding is sent. Offers then only save pods from being refused there.
- No pod counts for ever before it is Bound: news or time ends it.
- What was known before a term still counts only if no replica has decided in between. Then it is
  the same term.

InFlightPods belongs to the engine and lives as long as it does. Everything happens on one event
loop.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from itertools import compress, islice
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from engine.cache.node_table import UNKNOWN_ROW, NodeRows, NodeTable, RowUse
from engine.cache.tallies import Adds
from engine.errors import BadObjectError
from engine.objects.gate import is_marked
from engine.objects.peer import DEFAULT_SCHEDULER, Peer
from engine.objects.remembered import Remembered, bytes_of
from engine.objects.request_pod import RequestPod

GroupIds = npt.NDArray[np.int32]
# What a pod adds, told by its labels and namespace.
AddsByLabels = Callable[[RequestPod], int]
# What a pod remembers by tally keeps the tally alive, so it remembers few.
_MOST_TALLIES = 64
# The number of pods whose request may be kept because nobody has asked for their rows yet.
_MOST_UNSETTLED = 64
# The numbers of refused and of deleted pods that are remembered.
_MOST_REFUSED = 50_000
_MOST_DELETED = 50_000
# The longest time from an answer of filter to the Binding of a pod that waits for nothing.
PLACING_SECONDS = 30.0
# After pods that hold something were in flight together, the next ones probably are, for so long.
_OVERLAP_SECONDS = 10.0
# The default of kube-scheduler's `bindTimeoutSeconds`.
BIND_TIMEOUT_SECONDS = 600.0
# The namespace and name of the Lease of a cluster's own kube-scheduler.
KUBE_SCHEDULER_LEASE = ("kube-system", "kube-scheduler")


@dataclass(frozen=True, slots=True)
class Schedulers:
    """The kube-schedulers that call Placet, and for how many seconds they may be placing a pod.

    `names` are the `schedulerName`s of their pods. `bind_timeout` is the time that they wait for
    volumes and claims, `permit_timeout` the longest time that their Permit plugins have a pod wait.
    `call_bind` says that they have a bindVerb. `is_watched` says that watches show what they do;
    without a bindVerb, a pod whose time is over then counts until `end` is called. `lease` is the
    namespace and name of their Lease. With a `gate` they ask only about marked pods.
    """

    names: frozenset[str] = frozenset({DEFAULT_SCHEDULER})
    bind_timeout: float = BIND_TIMEOUT_SECONDS
    permit_timeout: float = 0.0
    call_bind: bool = False
    is_watched: bool = False
    lease: tuple[str, str] = KUBE_SCHEDULER_LEASE
    gate: bool = False

    @property
    def ends_are_confirmed(self) -> bool:
        """Whether a pod may have been bound in its time although no watch shows it yet."""
        return self.is_watched and not self.call_bind

    def have(self, pod: Peer) -> bool:
        """Whether a pod is one of theirs."""
        return self.know(pod.schedulerName)

    def know(self, name: str) -> bool:
        """Whether pods with this `schedulerName` are theirs; empty stands for the default."""
        return (name or DEFAULT_SCHEDULER) in self.names

    def share_lease(self, pod: Peer) -> bool:
        """Whether `lease` is that of the pod's scheduler.

        The Lease of the cluster's own kube-scheduler says nothing about the pods of more
        schedulers.
        """
        if self.lease == KUBE_SCHEDULER_LEASE:
            return pod.schedulerName in ("", DEFAULT_SCHEDULER)
        return self.have(pod)

    def pass_by(self, pod: Peer) -> bool:
        """Whether they place a pod of theirs without asking, because it has no marker."""
        return self.gate and not is_marked(pod) and self.have(pod)

    def may_place(self, pod: Peer) -> bool:
        """Whether they may be placing a pod that has no node, and have asked about it."""
        return not pod.is_gated and self.have(pod) and not self.pass_by(pod)

    def window(self, pod: Peer) -> float:
        """The time that a pod needs at most if its scheduler is not slowed down."""
        waits = self.bind_timeout if pod.has_claims else PLACING_SECONDS
        return waits + self.permit_timeout

    @property
    def longest(self) -> float:
        """The time after which an offer ends without news.

        Without a bindVerb it is longer than the window of most pods: in a burst, the limit of
        kube-scheduler's requests alone can delay a Binding for more than a minute.
        """
        return PLACING_SECONDS + self.bind_timeout + self.permit_timeout


DEFAULT_SCHEDULERS = Schedulers()


class GroupCycles:
    """Cycles in which kube-schedulers place PodGroups, numbered by what they ask about.

    From 1.36 on, kube-scheduler places a group in one cycle: members are asked about once for each
    placement, such as a rack, and one placement is chosen at the end. The cycles of a scheduler are
    serial, so whatever is not of the group and its parent is of another cycle: a pod without a
    group, or of another namespace. A cycle asks about one version of each member.
    """

    def __init__(self) -> None:
        # By scheduler: the namespace of the groups that it asks about, and the number of the cycle.
        self._last: Remembered[str, tuple[str, int]] = Remembered()
        self._number = 0

    def of(self, pod: RequestPod) -> int:
        """The number of the cycle that may ask about this pod, 0 for a pod without a group."""
        where = pod.namespace if pod.own_group else ""
        last, number = self._last.peek(pod.scheduler) or ("", 0)
        if last != where:
            self._number = number = self._number + 1
            self._last.put(pod.scheduler, (where, number))
        return number if where else 0


class AskedPod(NamedTuple):
    """A pod that may be placed: `peer` decodes it, and is called when that is first needed.

    `revision` is its resource version in the request. `request` is the pod of the request, which
    has the labels without being decoded.
    """

    uid: str
    peer: Callable[[], Peer]
    revision: int = 0
    request: RequestPod | None = None


class InFlightPod:
    """One pod in flight: Offered, or Unknown.

    `owner` identifies the tables that its rows belong to. A row stands for a name, under which a
    node may go and come back, because a Binding has no more of a node than its name; `use` sees to
    that. `predicted` is the row that our own scores rank first. `tried` has the rows of its narrow
    offers so far: if the pod is asked about again, it was not bound there. `excused` says that it
    was rejected once for that reason.
    `revision` is the resource version of the pod in the request, and `cycle` as in it. `holds` has
    what is taken besides a place in counts, by clause, wherever it ends. Then `group` is the pod
    group. It counts `since` a time, `until` another one at most.
    """

    __slots__ = (
        "_asked",
        "_bits",
        "_find",
        "_found",
        "_groups",
        "_is_unknown",
        "_pod",
        "_predicted",
        "_read",
        "alike",
        "cycle",
        "excused",
        "group",
        "holds",
        "is_narrow",
        "members",
        "offered",
        "owner",
        "revision",
        "since",
        "tried",
        "uid",
        "until",
        "use",
    )

    def __init__(
        self,
        asked: AskedPod,
        table: NodeTable,
        find: Callable[[], NodeRows] | None,
        since: float,
        until: float,
        *,
        offered: int | None = None,
        alike: dict[object, int] | None = None,
    ) -> None:
        """`find` finds its rows, those of the `table`, when they are first needed.

        Without `find` the pod is Unknown: it may be in any row. `offered` is the number of rows,
        None of an Unknown pod. `alike` is shared by pods with the same labels.
        """
        self.uid, self.revision, self._asked = asked.uid, asked.revision, asked.request
        self.cycle = asked.request.cycle if asked.request is not None else 0
        self.offered = offered
        self._read: Callable[[], Peer] | None = asked.peer
        self._pod: Peer | None = None
        self.owner = table.owner
        self.use: RowUse | None = table.use
        self.since = since
        self.until = until
        self.is_narrow = False
        self.holds: Mapping[str, object] = {}
        self.group = ""
        self.tried: NodeRows = np.empty(0, np.intp)
        self.excused = False
        self._is_unknown = find is None
        self._find: Callable[[], NodeRows] | None = find
        self._predicted = UNKNOWN_ROW if find is None else None
        # The rows, and later as a bitmap: without bindVerb, many pods can be in flight at once.
        self._found: NodeRows | None = None
        self._bits: npt.NDArray[np.uint8] = np.empty(0, np.uint8)
        self._groups: dict[int, tuple[GroupIds, GroupIds]] = {}
        # What the pod adds, by tally. `alike` has the same for tallies to which labels tell all.
        self.members: dict[object, int] = {}
        self.alike = {} if alike is None else alike

    def settle(self) -> None:
        """Lets go of the request: decodes the pod, and keeps its rows in less memory, once."""
        self._read_pod()
        if self._find is not None or self._found is not None:
            rows, self._found = self.rows, None
            mask = np.zeros(int(rows.max(initial=0)) + 1, np.bool_)
            mask[rows] = True
            self._bits = np.packbits(mask)

    @property
    def pod(self) -> Peer | None:
        """The pod; None if it cannot be decoded."""
        self._read_pod()
        return self._pod

    @property
    def name(self) -> str:
        """`namespace/name`, or the uid if it cannot be decoded."""
        pod = self._asked or self.pod
        return f"{pod.namespace}/{pod.name}" if pod is not None else self.uid

    @property
    def scheduler(self) -> str:
        """Its `schedulerName`; empty if it cannot be decoded."""
        if self._asked is not None:
            return self._asked.scheduler
        return self.pod.schedulerName if self.pod is not None else ""

    def goes_on(self, asked: RequestPod) -> bool:
        """Whether the cycle that has asked about the pod may ask again, about another placement."""
        return 0 < asked.cycle == self.cycle and asked.revision == self.revision

    @property
    def rows(self) -> NodeRows:
        """The offered rows, in any order; none of an Unknown pod."""
        if self._find is not None:
            self._found, self._find = self._find(), None
        return np.unpackbits(self._bits).nonzero()[0] if self._found is None else self._found

    @property
    def predicted(self) -> int:
        if self._predicted is None:
            self._predicted = int(self.rows[0])
        return self._predicted

    @predicted.setter
    def predicted(self, row: int) -> None:
        self._predicted = row

    def adds(self, counts: Adds, by_labels: AddsByLabels | None = None) -> int:
        """What the pod adds by a function. A pod that cannot be decoded counts nowhere.

        `by_labels` gives the same where labels are enough to tell.
        """
        if by_labels is not None and self._asked is not None:
            return by_labels(self._asked)
        if self._read is not None:
            self._read_pod()
        return 0 if self._pod is None else counts(self._pod)

    def remember(self, tally: object, counts: Adds, by_labels: AddsByLabels | None) -> int:
        """Keeps what the pod adds by a tally's function, 0 if it does not count."""
        kept = self.members if by_labels is None else self.alike
        if len(kept) > _MOST_TALLIES:
            kept.clear()
        found = kept[tally] = self.adds(counts, by_labels)
        return found

    def _read_pod(self) -> None:
        if self._read is not None:
            with suppress(BadObjectError):
                self._pod = self._read()
            self._read = self._asked = None

    def groups(self, ids: GroupIds) -> GroupIds:
        """The groups where the pod may end, each once; `ids` has the group of every row."""
        known = self._groups.get(id(ids))
        if known is None or known[0] is not ids:
            if len(self._groups) > _MOST_TALLIES:
                self._groups.clear()
            rows = self.rows
            # A node that was offered may have come to be known since then: UNKNOWN_ROW is 0.
            is_any = self._is_unknown or np.count_nonzero(rows) < len(rows)
            # The first count is of OUTSIDE, -1.
            there = np.bincount((ids if is_any else ids.take(rows)) + 1)[1:]
            known = self._groups[id(ids)] = (ids, there.nonzero()[0].astype(np.int32))
        return known[1]


def by_amount(
    pods: Sequence[InFlightPod],
    counts: Adds,
    tally: object | None,
    by_labels: AddsByLabels | None = None,
) -> Mapping[int, Sequence[InFlightPod]]:
    """The pods that count, by what each adds; see `InFlightPod.adds`.

    The pods remember it by tally; None: they do not.

    With many pods in flight, this is the slowest part of a count.
    """
    adds: list[int | None]
    if tally is None:
        adds = [pod.adds(counts, by_labels) for pod in pods]
    elif by_labels is None:
        adds = [pod.members.get(tally) for pod in pods]
    else:
        adds = [pod.alike.get(tally) for pod in pods]
    if None in adds:
        pairs = zip(pods, adds, strict=True)
        adds = [p.remember(tally, counts, by_labels) if n is None else n for p, n in pairs]
    found: defaultdict[int, list[InFlightPod]] = defaultdict(list)
    # Most pods count nowhere here.
    for pod, number in zip(compress(pods, adds), filter(None, adds), strict=True):
        found[number].append(pod)
    return found


def _itself(pod: Peer) -> Peer:
    """The pod, for a caller that wants a function."""
    return pod


class InFlightPods:
    """The pods in flight by uid: the Offered and the Unknown ones; and the Refused ones."""

    def __init__(
        self, clock: Callable[[], float], schedulers: Schedulers = DEFAULT_SCHEDULERS
    ) -> None:
        self._clock = clock
        self._schedulers = schedulers
        self._pods: dict[str, InFlightPod] = {}
        # The time of each refusal, and the offer before it if that was narrow; the oldest first.
        self._refused: dict[str, tuple[float, InFlightPod | None]] = {}
        # The last deleted pods: kube-scheduler, whose watch is later, may still ask about them.
        self._deleted: dict[str, None] = {}
        # The time of the last answer while another pod in flight held something.
        self._overlapped = -math.inf
        # Their uids, by the last offer: a pod that is not in flight any more must not be kept.
        self._unsettled: dict[str, None] = {}
        self.cycles = GroupCycles()
        # By the id of labels, and a namespace: the labels, and what pods with them add.
        self._alike: Remembered[tuple[int, str], tuple[Mapping[str, str], dict[object, int]]]
        self._alike = Remembered(size=lambda _, known: bytes_of(known[0]) + 16_384)

    def __len__(self) -> int:
        return len(self._pods)

    def first(self, most: int) -> list[tuple[InFlightPod, float]]:
        """So many pods, with the seconds that each has been in flight."""
        now = self._clock()
        return [(known, now - known.since) for known in islice(self._pods.values(), most)]

    # ---- answers

    def offer(
        self,
        asked: AskedPod,
        table: NodeTable,
        rows: NodeRows,
        predicted: int,
        *,
        is_narrow: bool,
        holds: Mapping[str, object] | None = None,
    ) -> None:
        """Replaces what is known of a pod by an offer; an offer of no rows ends its flight.

        `is_narrow` says that more rows had headroom than are offered.
        """
        before, offered = self.narrow_offer(asked.uid), self._with_earlier(asked, table, rows)
        self.forget(asked.uid)
        if not len(offered):
            return
        now = self._offered(asked, table, lambda: offered, len(offered))
        now.predicted, now.is_narrow = predicted, is_narrow
        if holds:
            now.holds, now.group = holds, asked.request.own_group if asked.request else ""
        if is_narrow:
            # Once every row has been tried, all are tried again.
            tried = before.tried if before is not None else rows[:0]
            fresh = bool(np.isin(rows, tried).any())
            now.tried = rows if fresh else np.concatenate([tried, rows])
        self._put(now)

    def offer_all(
        self, asked: AskedPod, table: NodeTable, find: Callable[[], NodeRows], offered: int
    ) -> None:
        """Takes a pod that no policy concerns, and that was offered every node of its request.

        Its rows, of which so many are `offered`, are found only if a count needs them.
        """
        if asked.request is not None and asked.request.cycle:
            rows = self._with_earlier(asked, table, find())
            find, offered = lambda: rows, len(rows)
        self.forget(asked.uid)
        self._put(self._offered(asked, table, find, offered))

    def _with_earlier(self, asked: AskedPod, table: NodeTable, rows: NodeRows) -> NodeRows:
        """Rows with those that the pod was offered before in the same cycle of its group."""
        known = self._pods.get(asked.uid)
        if known is None or asked.request is None or not known.goes_on(asked.request):
            return rows
        return np.union1d(known.rows, rows) if known.owner is table.owner else rows

    def _offered(
        self, asked: AskedPod, table: NodeTable, find: Callable[[], NodeRows], offered: int
    ) -> InFlightPod:
        if asked.request is not None:
            self.cycles.of(asked.request)
        since, alike = self._clock(), self._alike_of(asked.request)
        until = since + self._schedulers.longest
        return InFlightPod(asked, table, find, since, until, offered=offered, alike=alike)

    def reject(self, asked: RequestPod) -> None:
        """Takes an answer without a node, which ends nothing that the same cycle was offered."""
        known = self._pods.get(asked.uid)
        if known is None or not known.goes_on(asked):
            self.refuse(asked.uid)

    def refuse(self, uid: str) -> None:
        """Takes an answer without a node, or an error. A narrow offer before it is remembered."""
        before = self.narrow_offer(uid)
        self.forget(uid)
        if before is not None:
            # What it has tried only says where to look last, and it may be refused for days.
            before.use = None
        self._refused[uid] = self._clock(), before
        if len(self._refused) > _MOST_REFUSED:
            del self._refused[next(iter(self._refused))]

    def settle(self, uid: str, *, is_read: bool = True) -> str:
        """Does the work now that the next pod would wait for, after an answer about this pod.

        `is_read` says that counts read more of it than labels. Else most pods are bound before
        anything of their request is needed, so the last ones keep it.
        Returns the name of its scheduler if that is none of the known ones, else an empty text.
        """
        self._settle_first(_MOST_UNSETTLED - 1)
        if (known := self._pods.get(uid)) is None:
            return ""
        if is_read:
            known.settle()
        if self._schedulers.call_bind and (pod := known.pod) is not None:
            # Bind decides, so nothing is lost if the scheduler is slower than this.
            known.until = min(known.until, known.since + self._schedulers.window(pod))
        return "" if self.knows(known.scheduler) else known.scheduler

    def knows(self, scheduler: str) -> bool:
        return self._schedulers.know(scheduler)

    def _alike_of(self, asked: RequestPod | None) -> dict[object, int] | None:
        """What pods like this one add by tallies to which labels tell all; None: it is alone."""
        if asked is None or asked.deletionTimestamp is not None:
            return None
        key = (id(asked.labels), asked.namespace)
        known = self._alike.peek(key)
        if known is None:
            known = self._alike.put(key, (asked.labels, {}))
        return known[1]

    def forget_tallies(self) -> None:
        """Lets go of the tallies of policies that may be gone."""
        for _, kept in self._alike.values():
            kept.clear()
        self._alike.clear()

    def _put(self, known: InFlightPod) -> None:
        if known.uid in self._deleted:
            return
        self._pods[known.uid] = known
        self._unsettled.pop(known.uid, None)
        self._unsettled[known.uid] = None
        self._settle_first(_MOST_UNSETTLED)

    def _settle_first(self, most: int) -> None:
        """Settles the pods that have waited longest, so that at most so many are unsettled."""
        while len(self._unsettled) > most:
            uid = next(iter(self._unsettled))
            del self._unsettled[uid]
            if (first := self._pods.get(uid)) is not None:
                first.settle()

    def narrow_offer(self, uid: str) -> InFlightPod | None:
        """The last offer to a pod, if it was narrow, also if the pod was refused since then."""
        known = self._pods.get(uid)
        if known is None:
            return self._refused.get(uid, (0.0, None))[1]
        return known if known.is_narrow else None

    def forget(self, uid: str) -> None:
        """Ends whatever is known of a pod."""
        self._pods.pop(uid, None)
        if self._refused:
            self._refused.pop(uid, None)

    def predict(self, uid: str, row: int) -> None:
        """Sets the row that our scores rank first, if the pod is in flight."""
        if (known := self._pods.get(uid)) is not None:
            known.predicted = row

    # ---- events

    def pod_changed(self, old: Peer | None, new: Peer | None, revision: int) -> None:
        """Takes a new state of a pod from the cache: it may be bound, or was given up once.

        `revision` is the resource version of that state, 0 if not known. It is a PodEventHandler.
        """
        if old is not None and (new is None or new.uid != old.uid):
            self.forget(old.uid)
            self._deleted[old.uid] = None
            if len(self._deleted) > _MOST_DELETED:
                del self._deleted[next(iter(self._deleted))]
        if new is None:
            return
        if new.nodeName:
            self.forget(new.uid)
        elif new.unscheduled is not None and (old is None or old.unscheduled != new.unscheduled):
            known = self._pods.get(new.uid)
            # A condition that the request already had says nothing of this offer.
            if known is None or 0 < revision <= known.revision:
                return
            # That was this attempt, or one before it.
            if self._schedulers.call_bind:
                self.forget(known.uid)
                return
            known.until = min(known.until, self._clock() + self._schedulers.window(new))

    def scheduler_replaced(self, before: float) -> None:
        """Takes the news that another process holds kube-scheduler's Lease.

        The last process held it after `before`, and has ended: the time of its pods is over.
        Schedulers with another Lease may still be placing their pods.
        """
        now = self._clock()
        for known in self._pods.values():
            if known.since >= before:
                continue
            if known.pod is None or self._schedulers.share_lease(known.pod):
                known.until = min(known.until, now)

    def overdue(self) -> Sequence[InFlightPod]:
        """The in-flight pods whose time is over."""
        now = self._clock()
        return [known for known in self._pods.values() if known.until <= now]

    def offered_before(self, moment: float) -> Sequence[InFlightPod]:
        """The in-flight pods that nobody has asked about since a time."""
        return [known for known in self._pods.values() if known.since <= moment]

    def end(self, known: InFlightPod) -> None:
        """Ends a pod that is gone, or has no node at the end of its time; not a later offer."""
        if self._pods.get(known.uid) is known:
            del self._pods[known.uid]

    # ---- terms

    def begin_term(self, since: float) -> None:
        """Drops what is known from before a term: another replica may have answered since then."""
        self._pods = {u: p for u, p in self._pods.items() if p.since >= since}
        self._refused = {u: r for u, r in self._refused.items() if r[0] >= since}

    def drop_offers(self) -> None:
        """Drops the offers, where answers were not recorded for a while; refusals always are."""
        self._pods.clear()

    def take_over(self, pods: Iterable[Peer], table: NodeTable) -> int:
        """Takes pending pods that may have been offered anything. Returns how many count now."""
        if self._schedulers.call_bind:
            return 0
        since, taken = self._clock(), 0
        for pod in pods:
            if pod.uid in self._pods or pod.uid in self._refused:
                continue
            if self._schedulers.may_place(pod):
                until = since + self._schedulers.window(pod)
                asked = AskedPod(pod.uid, partial(_itself, pod))
                self._put(InFlightPod(asked, table, None, since, until))
                taken += 1
        return taken

    # ---- counts

    def holding(self, asked: RequestPod, table: NodeTable) -> Sequence[InFlightPod] | None:
        """The other pods that hold something, as `others`; None if there were none lately.

        Else the next pod is probably asked about before this one is bound. Those of the same pod
        group are left out: kube-scheduler asks about all of them before one is bound.
        """
        found, now = [pod for pod in self.others(asked.uid, table) if pod.holds], self._clock()
        if found:
            self._overlapped = now
        elif now - self._overlapped >= _OVERLAP_SECONDS:
            return None
        group = asked.own_group
        return [pod for pod in found if not group or pod.group != group]

    def others(self, uid: str, table: NodeTable) -> Sequence[InFlightPod]:
        """The in-flight pods of this table and earlier ones, without the pod with this uid."""
        if not self._schedulers.ends_are_confirmed:
            for late in self.overdue():
                self.end(late)
        owner, own = table.owner, self._pods.get(uid)
        return [p for p in self._pods.values() if p is not own and p.owner is owner]
