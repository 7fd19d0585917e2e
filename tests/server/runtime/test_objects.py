"""Policy objects of a watched cluster: hostile ones stop no server and delay no other namespace."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping
from itertools import pairwise
from typing import Any

import pytest

from engine.decision.registry import Registry
from engine.enforced import EnforcedPolicies
from grammar.checker.policy_checker import Checked
from grammar.meaning.schema import load_schema
from policies.admission import lines
from server.admission.checking_process import (
    CheckFailedError,
    CheckingProcess,
    CheckLimitError,
    CheckTimeoutError,
)
from server.runtime.policies import Files, Objects, PolicyReader
from tests.support.builders import Object, placement_policy, raw
from tests.support.fake_clock import HandClock
from tests.support.served import PROCESSES

LOG = logging.getLogger("placet.test")
READY = 'filter "ready" { require node.ready }'
# Decoded, nested objects take forty times as much memory as their text.
NESTED = '{"":' * 400 + "0" + "}" * 400
BOMB = f"[{','.join([NESTED] * 4_000)}]"
WEB = "placementpolicies/shop/web"


def stored(
    rules: str, name: str = "web", namespace: str = "shop", generation: int = 1, **more: object
) -> Mapping[str, bytes]:
    value = placement_policy({"podSelector": {}, "rules": rules}, name)
    about = {"namespace": namespace, "uid": f"{namespace}/{name}", "generation": generation}
    metadata: Object = {**value["metadata"], **about}
    return {f"placementpolicies/{namespace}/{name}": raw({**value, "metadata": metadata, **more})}


def bomb(generation: int = 2) -> Mapping[str, bytes]:
    return {
        k: v.replace(b'"BOMB"', BOMB.encode())
        for k, v in stored("BOMB", generation=generation).items()
    }


def slow(parts: int, generation: int, name: str = "web") -> Mapping[str, bytes]:
    """A valid object of another namespace whose check takes a moment, of a new version."""
    alternatives = " || ".join(f'node.name == "a{generation}-{i}"' for i in range(parts))
    return stored(f'filter "f" {{ require {alternatives} }}', name, "hostile", generation)


class Read:
    """The policies of a server, and what was enforced after the last look at the cluster."""

    def __init__(self) -> None:
        self._policies = PolicyReader([], load_schema(), LOG, PROCESSES[0])
        self.objects = self._policies.objects
        self.last: EnforcedPolicies | None = None

    def read(self, objects: Mapping[str, bytes]) -> Registry:
        self.last = self._policies.read(objects)
        return self.last.registry


def policies() -> Read:
    return Read()


def enforced(found: Read) -> list[tuple[str, bool]]:
    assert found.last is not None
    return [(active.file, active.stale) for active in found.last.in_force.active]


def refusing(found: Objects) -> list[Checked]:
    return [policy for each in found.stored.values() for policy in each.checked.file.refusing]


STOPPED = (
    "spec.rules error[P0504]: the check needed more memory than 128 MiB"
    " (shorten the object, or divide it into several policies)"
)


def test_a_stopped_check_is_an_error_of_the_object() -> None:
    """Its last valid version stays enforced, and so do the policies of others."""
    found = policies()
    others = stored(READY, "other", "mall")
    found.read({**stored(READY), **others})
    found.read({**bomb(), **others})
    assert enforced(found) == [("placementpolicies/mall/other", False), (WEB, True)]
    assert lines(found.objects.stored[WEB].checked.file, "error") == (STOPPED,)
    assert not found.objects.changed({**bomb(), **others})


def test_the_last_valid_version_is_enforced_after_a_restart() -> None:
    """Also if what was added to the object is the reason that it cannot be checked."""
    found = policies()
    status = {"inForce": {"generation": 1, "rules": READY}}
    broken = stored("filter {", generation=2, status=status)
    found.read(broken)
    assert enforced(found) == [(WEB, True)]


def test_a_strict_object_without_a_valid_version_refuses_pods() -> None:
    found = Objects(PROCESSES[0], LOG)
    strict = stored(
        "filter {", spec={"podSelector": {}, "enforcementMode": "Strict", "rules": "filter {"}
    )
    found.read(strict)
    assert [policy.policy.address for policy in refusing(found)] == ["shop/web"]


def test_edits_of_one_namespace_do_not_delay_those_of_others() -> None:
    """Ten hostile edits a second: another namespace's edit is taken up at the second look."""
    found = Objects(PROCESSES[0], LOG)
    good = "placementpolicies/mall/good"
    first = stored(READY, "good", "mall")
    found.read({**stored(READY, "web", "hostile"), **first})
    waits: list[float] = []
    checks = 0
    began = time.monotonic()
    for edit in range(1, 4):
        wanted = stored(READY, "good", "mall", 10 + edit)
        asked, looks = time.monotonic(), 0
        while found.stored[good].checked.manifest is None or not is_version(found, good, 10 + edit):
            hostile = {
                k: v for n in range(10) for k, v in slow(300, edit * 100 + looks, f"w{n}").items()
            }
            before = found.stored
            found.read({**hostile, **wanted})
            checks += sum(before.get(name) is not each for name, each in found.stored.items())
            looks += 1
        assert looks <= 2
        waits.append(time.monotonic() - asked)
    assert max(waits) < 10  # 0.4 on a quiet machine
    # The hostile namespace had its part of the time, and no more.
    assert checks < 3 + 10 + (time.monotonic() - began) * 5


def until(condition: Callable[[], bool]) -> None:
    """Looks again and again; the clock of the objects goes on with each look."""
    assert any(condition() for _ in range(10_000))


def is_version(found: Objects, name: str, generation: int) -> bool:
    manifest = found.stored[name].checked.manifest
    return manifest is not None and manifest.metadata.generation == generation


class Clock:
    """A clock that goes on by so many seconds whenever it is read."""

    def __init__(self, step: float) -> None:
        self._step = step
        self._seconds = 0.0

    def __call__(self) -> float:
        self._seconds += self._step
        return self._seconds


def test_what_waits_for_its_turn_is_checked_later() -> None:
    found = Objects(PROCESSES[0], LOG, Clock(0.1))
    found.read(stored(READY, "other", "mall"))
    objects = {k: v for n in range(4) for k, v in slow(3, n, f"w{n}").items()}
    found.read(objects)
    assert 0 < len(found.stored) < 4
    while len(found.stored) < 4:
        until(lambda: found.changed(objects))
        found.read(objects)
    assert not found.changed(objects)


WAITING = (
    "its turn to be checked has not come yet"
    " (wait: this namespace or the cluster has many changed policies)"
)


def test_a_server_starts_although_checks_take_long() -> None:
    """What is not checked by then refuses the pods it selects, if it is strict."""
    found = Objects(PROCESSES[0], LOG, Clock(1.0))
    spec = {"podSelector": {}, "enforcementMode": "Strict", "rules": READY}
    objects = {k: v for n in range(40) for k, v in stored(READY, f"w{n}", spec=spec).items()}
    checked = [each.checked for each in found.read(objects).values()]
    waiting = [each for each in checked if not each.holds]
    assert 0 < len(waiting) < len(checked) == 40
    assert len(refusing(found)) == len(waiting)
    assert lines(waiting[0].file, "error") == (f"spec.rules error[P0504]: {WAITING}",)
    until(lambda: found.changed(objects))


class Unlucky(CheckingProcess):
    """A process of a machine that does not let it answer for the first so many calls."""

    def __init__(self, calls: int, error: Exception) -> None:
        super().__init__(load_schema())
        self.calls = calls
        self.error = error
        self.asked = 0

    def run(self, seconds: float, function: Callable[..., Any], *args: object) -> Any:
        self.asked += 1
        if self.asked <= self.calls:
            raise self.error
        return PROCESSES[0].run(seconds, function, *args)


STRICT = {"podSelector": {}, "enforcementMode": "Strict", "rules": READY}
LATE = CheckTimeoutError("the check took longer than 20 s", "try again")
FAILED = CheckFailedError("the process for checks ended with 1")


@pytest.mark.parametrize("error", [LATE, FAILED], ids=["late", "failed"])
@pytest.mark.parametrize("calls", [1, 2, 9])
def test_a_check_without_a_result_is_made_again(error: Exception, calls: int) -> None:
    """After growing pauses; the object is what it is without them. Meanwhile its pods wait."""
    process, clock = Unlucky(calls, error), HandClock()
    found, objects = Objects(process, LOG, clock), stored(READY, spec=STRICT)
    looks = list[float]()
    while not (found.stored and found.stored[WEB].checked.holds):
        if found.changed(objects):
            found.read(objects)
            looks.append(clock.seconds)
            assert found.stored[WEB].checked.holds or len(refusing(found)) == 1
        clock.seconds += 1
        assert clock.seconds < 100
    pauses = [second - first for first, second in pairwise(looks)]
    assert pauses == [2.0, 4.0, 8.0, 16.0, 32.0][: len(pauses)]
    assert not found.changed(objects)


@pytest.mark.parametrize("error", [LATE, FAILED], ids=["late", "failed"])
def test_an_edit_whose_check_has_no_result_is_taken_up_later(error: Exception) -> None:
    """The last version stays enforced until then, and an edit of the same object comes at once."""
    process, clock = Unlucky(0, error), HandClock()
    found = Objects(process, LOG, clock)
    found.read(stored(READY))
    process.calls = process.asked + (2 if isinstance(error, CheckFailedError) else 1)
    second, third = stored(READY, generation=2), stored(READY, generation=3)
    found.read(second)
    assert not found.stored[WEB].checked.holds
    assert not found.changed(second)
    clock.seconds += 2
    assert found.changed(second)
    assert found.changed(third)
    found.read(second)
    assert found.stored[WEB].checked.holds
    assert is_version(found, WEB, 2)


def test_what_is_about_the_object_stays() -> None:
    clock = HandClock()
    limit = CheckLimitError("the check took longer than 5 s of processor time", "shorten")
    found, objects = Objects(Unlucky(2, limit), LOG, clock), stored(READY, spec=STRICT)
    found.read(objects)
    clock.seconds += 10_000
    assert not found.changed(objects)


def test_a_file_whose_check_is_late_is_checked_again() -> None:
    """Nobody knows its pods until then."""
    process, clock = Unlucky(2, LATE), HandClock()
    files = Files(process, LOG, clock)
    first = {"a.policy": f"cluster policy a {{ {READY} }}"}
    (late,) = files.read(first).values()
    assert (late.refusing, late.knows_pods) == ((), False)
    clock.seconds += 2
    assert files.changed(first)
    (checked,) = files.read(first).values()
    assert ([each.policy.name for each in checked.policies], checked.refusing) == (["a"], ())
    assert checked.knows_pods
    process.calls = process.asked + 2
    more = {**first, "b.policy": f"cluster policy b {{ {READY} }}"}
    assert [each.refusing for each in files.read(more).values()] == [(), ()]
    clock.seconds += 2
    assert files.changed(more)
