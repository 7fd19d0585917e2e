"""The observer of gangs: it finds what must not be, and nothing else."""

from __future__ import annotations

import json

import pytest

from tests.chaos.gang_observer import OF_GROUP, GangObserver
from tests.e2e.control_plane import Change
from tests.e2e.gangs import MEMBERS

RACKS = {"x1": "x", "x2": "x", "y1": "y"}


class History:
    """What etcd tells an observer, at times that a test sets."""

    def __init__(self) -> None:
        self.now = 0.0
        self.observer = GangObserver(RACKS, 2, lambda: self.now)
        self._version = 0

    def write(
        self,
        name: str,
        node: str = "",
        gang: str = "g",
        kind: str = "job",
        uid: str = "",
        shown: str = "",
        quorum: int = 3,
    ) -> None:
        metadata = {
            "name": name,
            "uid": uid or name,
            "labels": {kind: gang},
            "annotations": {MEMBERS: str(quorum)},
        }
        spec = {"nodeName": node} if node else {}
        found = {"metadata": metadata, "spec": spec, "status": {"nominatedNodeName": shown}}
        self._tell(name, json.dumps(found).encode())

    def delete(self, name: str) -> None:
        self._tell(name, None)

    def _tell(self, name: str, value: bytes | None) -> None:
        self._version += 1
        self.observer.change(Change(f"/registry/pods/shop/{name}", self._version, value))


@pytest.fixture
def history() -> History:
    """Three members that wait."""
    made = History()
    for name in "abc":
        made.write(name)
    return made


def test_a_gang_of_which_some_are_bound_is_in_part(history: History) -> None:
    assert history.observer.parts() == []
    history.write("a", "x1")
    history.write("b", "x1")
    assert history.observer.parts() == ["g"]
    history.now = 1.5
    history.write("c", "x2")
    assert history.observer.parts() == []
    assert history.observer.gangs()["g"].seconds == 1.5


@pytest.mark.parametrize(("kind", "is_part"), [("job", True), (OF_GROUP, False)])
def test_only_its_pod_group_says_how_many_members_a_gang_of_one_needs(
    kind: str, *, is_part: bool
) -> None:
    """Also where a member of a larger gang is relabelled into it."""
    made = History()
    made.write("d", kind=kind, gang="other", quorum=5)
    for name in "abc":
        made.write(name, kind=kind)
    made.write("d", kind=kind, quorum=5)
    for name in "abcd":
        made.write(name, "x1", kind=kind, quorum=5 if name == "d" else 3)
    assert made.observer.parts() == (["g"] if is_part else [])


def test_a_member_that_goes_at_the_same_time_is_not_missed(history: History) -> None:
    history.write("a", "x1")
    history.write("b", "x1")
    history.now = 1.0
    history.delete("c")
    assert history.observer.parts() == []


def test_a_member_that_goes_much_later_is_missed(history: History) -> None:
    history.write("a", "x1")
    history.write("b", "x1")
    history.now = 9.0
    history.write("c", gang="other")
    assert history.observer.parts() == ["g"]


def test_what_was_bound_stays_bound_when_it_is_deleted(history: History) -> None:
    for name in "abc":
        history.write(name, "x1" if name == "a" else "x2")
    history.now = 9.0
    history.delete("a")
    assert history.observer.parts() == []


@pytest.mark.parametrize(
    ("seconds", "then", "found"),
    [(4.0, "let go", 0), (4.0, "bound", 0), (6.0, "let go", 1), (6.0, "nothing", 1)],
)
def test_a_member_that_is_held_after_the_end_of_its_gang(
    history: History, seconds: float, then: str, found: int
) -> None:
    history.write("a", shown="x1")
    history.write("d", gang="h", shown="x2")
    history.observer.end(lambda pod: pod.name == "b")
    history.now = seconds
    if then != "nothing":
        history.write("a", "x1" if then == "bound" else "")
    assert [each.kind for each in history.observer.held()] == ["held"] * found
    history.now = 99.0
    history.observer.pardon()
    assert [*history.observer.held()] == []


def test_racks_and_places(history: History) -> None:
    for name, on in zip("abc", ("x1", "x2", "y1"), strict=True):
        history.write(name, on, kind="in-rack")
    assert [each.kind for each in history.observer.overruns()] == ["racks"]
    history.write("d", "x1", gang="h")
    history.write("e", "x1", gang="h")
    assert [each.kind for each in history.observer.overruns()] == ["racks", "overrun"]


@pytest.mark.parametrize(("kind", "fits"), [("job", True), ("in-rack", False)])
def test_a_gang_that_could_be_bound(kind: str, fits: bool) -> None:
    """Six places, of which x has three and y two left."""
    history = History()
    history.write("other", "x1", gang="o")
    for name in "abcd":
        history.write(name, kind=kind)
    history.write("two", "x2", gang="p")
    assert history.observer.could_be_bound() == (["g"] if fits else [])


def test_a_gang_with_a_member_that_does_not_exist_could_not_be_bound() -> None:
    history = History()
    history.write("a")
    history.write("b")
    assert history.observer.could_be_bound() == []
    history.write("c", "x1")
    assert history.observer.could_be_bound() == ["g"]
