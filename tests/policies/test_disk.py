"""The disk of a server: what never answers is left out, and is asked again once it does."""

import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from policies.disk import Disk, Visit

GOOD, HUNG, BESIDE = Path("folder/good"), Path("folder/hung"), Path("folder/hung/beside")


@pytest.fixture
def answers() -> Iterator[threading.Event]:
    """Whether the silent path answers; it does at the end, so that no thread is left."""
    event = threading.Event()
    yield event
    event.set()


def look(visit: Visit, answers: threading.Event) -> dict[Path, str]:
    """What each path answers, or why it does not."""
    found = {}
    for path in (HUNG, GOOD, BESIDE):
        try:
            visit(path)
        except OSError as error:
            found[path] = error.strerror or ""
            continue
        if path == HUNG:
            answers.wait()
        found[path] = "here"
    return found


def test_a_path_that_never_answers_is_left_out_with_all_beneath(answers: threading.Event) -> None:
    """The second time nobody waits for it, and no further thread does."""
    disk = Disk(seconds=1.0)
    silent = "the file system does not answer"
    wanted = {HUNG: silent, GOOD: "here", BESIDE: silent}
    before = threading.active_count()
    for _ in range(3):
        assert disk.run(lambda visit: look(visit, answers)) == wanted
    assert threading.active_count() <= before + 2
    answers.set()
    until_ended(disk, answers)


def until_ended(disk: Disk, answers: threading.Event) -> None:
    deadline = time.monotonic() + 10
    while set(disk.run(lambda visit: look(visit, answers)).values()) != {"here"}:
        assert time.monotonic() < deadline


def test_many_silent_paths_take_few_threads(answers: threading.Event) -> None:
    """Their folder counts as silent then."""
    disk = Disk(seconds=0.05, more_seconds=0.01)
    paths = [Path(f"folder/{number}") for number in range(100)]

    def work(visit: Visit) -> int:
        silent = 0
        for path in paths:
            try:
                visit(path)
            except OSError:
                silent += 1
            else:
                answers.wait()
        return silent

    before = threading.active_count()
    assert disk.run(work) == 100
    assert threading.active_count() <= before + 10


def test_errors_of_the_work_are_those_of_the_call() -> None:
    def work(_visit: Visit) -> None:
        raise ValueError("wrong")

    with pytest.raises(ValueError, match="wrong"):
        Disk().run(work)
