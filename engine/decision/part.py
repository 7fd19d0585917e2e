"""Part: what decides about pods beside the core of the engine, which does not know it by name.

The engine asks all of its parts alike at each step of the verbs, and tells them what changes. A
part belongs to one engine and lives as long as it does; everything happens on one event loop.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from engine.cache.node_table import NodeRows, NodeTable, NodeWithPods
from engine.decision.moves import BrokenRule
from engine.decision.placement import PlacingParts
from engine.decision.plan import OfShape, Room
from engine.decision.preemption import Victims
from engine.decision.verb_call import Observer, VerbCall
from engine.decision.verdict import Decision, Rejected
from engine.fairness import FairShares
from engine.objects.peer import Peer
from engine.objects.request_pod import RequestPod
from engine.program.frame import Floats

# What a node has of something, and what its pods take of it.
Sums = tuple[int, int]
# Told the outcome of a held bind call: empty, or the reason why it was held in vain.
EndOfHold = Callable[[str], None]
# The scores of a pod on some rows of a table.
Suits = Callable[[VerbCall, NodeTable, NodeRows], Floats]


class WokenPods:
    """Woken pods: rejected ones that kube-scheduler should ask about at once.

    `wake` is called whenever there are some after an addition.
    """

    def __init__(self) -> None:
        self._woken: dict[str, None] = {}
        self.wake: Callable[[], None] = lambda: None

    def add(self, uids: Iterable[str]) -> None:
        self._woken.update(dict.fromkeys(uids))
        if self._woken:
            self.wake()

    def take(self) -> Sequence[str]:
        """The uids of the pods, each once."""
        woken, self._woken = list(self._woken), {}
        return woken


@dataclass(frozen=True, slots=True)
class PartSite:
    """The site of parts: the engine in which they are made.

    `suits` gives our scores of nodes. `held` counts the bind calls that wait, and `woken` takes the
    pods to ask about.
    """

    placing: PlacingParts
    clock: Callable[[], float]
    suits: Suits
    observer: Observer
    held: FairShares
    woken: WokenPods


@dataclass(frozen=True, slots=True)
class Breach:
    """Breach of a rule about pods that belong together: those on nodes that break it, if any.

    `stays` says why they can go to no other node. They have been `whole` if ever there were enough.
    """

    pods: Sequence[Peer]
    rule: BrokenRule
    stays: str
    whole: bool


class DecisionPart:
    """A part of decisions. This one has nothing to say; others say what they have a method for."""

    # ---- the verbs; each method raises the EngineErrors of its verb

    def answer(self, call: VerbCall, rows: NodeRows, decided: Decision) -> Decision:  # noqa: ARG002
        """The decision of filter as far as the part allows it; `rows` are those of the cache."""
        return decided

    def make_way(
        self,
        call: VerbCall,  # noqa: ARG002
        victims: Mapping[str, Victims],
    ) -> Mapping[str, Victims]:
        """Those of the victims, by node, that may be evicted for a pod."""
        return victims

    def admit(self, call: VerbCall, node: str) -> bool:  # noqa: ARG002
        """Whether the binding of a pod to a node has to wait until the part lets it go."""
        return False

    def rooms(self, *_: *OfShape) -> Sequence[Room]:
        """What pods take of nodes beside counts, of which some policies decide."""
        return ()

    # ---- bind calls that wait for the part

    def held_pods(self) -> Mapping[str, str]:
        """The nodes of the pods that wait, by `namespace/name`."""
        return {}

    def hold(self, uid: str, end: EndOfHold) -> float:  # noqa: ARG002
        """Holds the bind call of an admitted pod, for so many seconds at most.

        `end` is told how that ends; it may be told at once, and is told once.
        """
        return 0.0

    def joined(self, uid: str) -> None:
        """Another kube-scheduler asks to bind a pod whose call waits."""

    def give_up(self, uid: str, *, is_late: bool = True) -> None:
        """Ends the wait of a pod whose time is over, or whose bind call has ended."""

    def says(self, call: VerbCall) -> Rejected | None:  # noqa: ARG002
        """What the pod of a call waits for, and by which clause; None for a pod of no clause."""
        return None

    # ---- looks at rejected pods

    def waits_unchanged(self, pod: RequestPod) -> bool:  # noqa: ARG002
        """Whether a rejected pod certainly waits for the same as before; told without a call."""
        return False

    def would_pass(self, call: VerbCall) -> bool:  # noqa: ARG002
        """Whether the part lets a pod pass now."""
        return True

    # ---- pods on nodes

    def group_of(self, call: VerbCall, pod: Peer) -> Hashable | None:  # noqa: ARG002
        """The pods that a pod belongs to, for a call about one like it; None if it is alone."""
        return None

    def breach(
        self, group: Hashable, pods: Sequence[Peer], call: VerbCall, *, was_whole: bool
    ) -> Breach:
        """What pods of a group break on their nodes; the call is about the first of them."""
        raise NotImplementedError

    def note(self, call: VerbCall) -> None:
        """Has `notes` say what there is to say of the pod of a call."""

    def notes(self) -> Iterable[str]:
        """What to say to people of pods that it was asked about, whatever the answers were."""
        return ()

    def misplaced(self, node: NodeWithPods) -> Mapping[str, BrokenRule]:  # noqa: ARG002
        """The pods on a node that have what is not there, by uid, and the rule that says so."""
        return {}

    # ---- pods and nodes on paper

    def learn(self, pods: Sequence[bytes]) -> None:
        """Takes pods that are usual. Raises BadObjectError."""

    def demand(self, pod: bytes) -> Mapping[str, int]:  # noqa: ARG002
        """What a pod takes beside resources, by name. Raises BadObjectError."""
        return {}

    def sums(self, node: NodeWithPods) -> Mapping[str, Sums]:  # noqa: ARG002
        """Sums of a node beside resources, by name: what is there, and what the pods take."""
        return {}

    # ---- what changes

    def pod_changed(self, old: Peer | None, new: Peer | None, revision: int) -> None:
        """Takes a new state of a pod from the cache; it is a PodEventHandler."""

    def adopted(self) -> None:
        """Other policies are in force from now on."""

    def end(self, text: str) -> None:
        """Ends all waits, because this replica decides no longer."""

    def review(self) -> None:
        """Ends what cannot be any more. To be called about once a second."""


# A part of an engine, made for its site.
PartMaker = Callable[[PartSite], DecisionPart]


def demanded(parts: Iterable[DecisionPart], pod: bytes) -> Mapping[str, int]:
    """What a pod takes beside resources. Raises BadObjectError."""
    return {name: its for part in parts for name, its in part.demand(pod).items()}


def summed(parts: Iterable[DecisionPart], node: NodeWithPods) -> Mapping[str, Sums]:
    """What a node has beside resources."""
    return {name: its for part in parts for name, its in part.sums(node).items()}
