"""The process for checks: results, limits, and that it has and leaves nothing of the server's."""

from __future__ import annotations

import os
import resource
import select
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path

import pytest

from engine.clauses.programs import compile_policy
from engine.program.program import CardsProgram
from grammar.meaning.schema import load_schema
from policies.admission import check_stored
from server.admission.checking_process import (
    CheckFailedError,
    CheckingProcess,
    CheckLimitError,
    CheckTimeoutError,
)
from tests.support.builders import cluster_placement_policy, placement_policy, raw

pytestmark = pytest.mark.process

SCHEMA = load_schema()
ROOT = Path(__file__).parents[3]
# Seconds for what takes a tenth of one on a quiet machine.
LONG = 60.0


@pytest.fixture
def process() -> Iterator[CheckingProcess]:
    process = CheckingProcess(SCHEMA)
    yield process
    process.close()


def test_a_result_is_that_of_the_function(process: CheckingProcess) -> None:
    spec = {"podSelector": {}, "rules": 'let a = 1\nfilter "f" { require node.ready }'}
    arguments = ("placementpolicies/shop/web", raw(placement_policy(spec)), SCHEMA)
    found = process.run(LONG, check_stored, *arguments)
    assert found == check_stored(*arguments)
    (policy,) = found.checked.file.policies
    assert policy.environment.schema is SCHEMA
    assert process.run(LONG, os.getpid) == process.run(LONG, os.getpid) != os.getpid()


def test_the_records_of_a_schema_of_its_own_are_those_of_the_server(
    process: CheckingProcess,
) -> None:
    """A copy takes ten times what the policy takes, for every policy with groups or data."""
    rules = 'group rack by node.labels["rack"]\nfilter "f" { require rack.nodes > 1 }'
    made = raw(placement_policy({"podSelector": {}, "rules": rules}))
    found = process.run(LONG, check_stored, "placementpolicies/shop/web", made, SCHEMA)
    (policy,) = found.checked.file.policies
    own = policy.environment.schema
    assert own is not None
    assert own is not SCHEMA
    shared = [name for name, record in SCHEMA.records.items() if own.records[name] is record]
    assert own.records.keys() > SCHEMA.records.keys()
    assert shared == [*SCHEMA.records]


def test_a_policy_with_cards_comes_back(process: CheckingProcess) -> None:
    rules = 'cards "gpu" { on node 2 of {"milli": 1000} take {"milli": 500} }'
    made = cluster_placement_policy({"podSelector": {}, "rules": rules})
    arguments = ("clusterplacementpolicies/web", raw(made), SCHEMA)
    found = process.run(LONG, check_stored, *arguments)
    (policy,) = found.checked.file.policies
    assert not policy.broken
    assert [c.name for c in compile_policy(policy).of(CardsProgram)] == ["gpu"]


def test_a_deep_tree_comes_back(process: CheckingProcess) -> None:
    rules = f'filter "f" {{ require {"[" * 90}1{"]" * 90} == [1] || {"!" * 90}true }}'
    found = process.run(
        LONG,
        check_stored,
        "placementpolicies/shop/web",
        raw(placement_policy({"podSelector": {}, "rules": rules})),
        SCHEMA,
    )
    assert found.checked.file.whole


def test_too_long(process: CheckingProcess) -> None:
    process.run(LONG, len, "")
    with pytest.raises(CheckTimeoutError, match=r"took longer than 0\.2 s"):
        process.run(0.2, time.sleep, LONG)
    assert process.run(LONG, len, "abc") == 3


def test_the_end_of_processor_time_is_told(process: CheckingProcess) -> None:
    with pytest.raises(CheckLimitError, match="took longer than 5 s of processor time"):
        process.run(LONG, signal.raise_signal, signal.SIGXCPU)
    assert process.run(LONG, len, "abc") == 3


@pytest.mark.thorough
def test_too_much_processor_time(process: CheckingProcess) -> None:
    with pytest.raises(CheckLimitError, match="took longer than 5 s of processor time"):
        process.run(20 * LONG, sum, range(10**12))
    assert process.run(LONG, len, "abc") == 3


def test_too_much_memory(process: CheckingProcess) -> None:
    with pytest.raises(CheckLimitError, match="needed more memory than 128 MiB"):
        process.run(LONG, bytearray, 300 * 1024 * 1024)
    assert process.run(LONG, len, "abc") == 3


@pytest.mark.parametrize("size", [0, 4_000_000])
def test_a_process_that_stands_still_is_replaced(process: CheckingProcess, size: int) -> None:
    """Also where a large job does not fit in its pipe."""
    before = process.run(LONG, os.getpid)
    os.kill(before, signal.SIGSTOP)
    with pytest.raises(CheckTimeoutError, match="took longer than 2 s"):
        process.run(2.0, len, b"x" * size)
    assert process.run(LONG, os.getpid) != before


@pytest.mark.parametrize("more", [0, 2])
def test_a_process_that_cannot_be_started_is_no_result(more: int) -> None:
    """The machine has no room for one, or for its pipe, and has it again later."""
    first, process = CheckingProcess(SCHEMA), CheckingProcess(SCHEMA)
    first.run(LONG, len, "")
    first.close()
    usual, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    with tempfile.TemporaryFile() as file:
        first_free = file.fileno()
    resource.setrlimit(resource.RLIMIT_NOFILE, (first_free + more, most))
    try:
        with pytest.raises(CheckTimeoutError, match="cannot be started: too many open files"):
            process.run(LONG, len, "")
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (usual, most))
    assert process.run(LONG, len, "abc") == 3
    process.close()


def test_a_fault_is_told(process: CheckingProcess) -> None:
    with pytest.raises(CheckFailedError, match="ValueError: invalid literal"):
        process.run(LONG, int, "x")
    with pytest.raises(CheckFailedError, match="ended with -11"):
        process.run(LONG, signal.raise_signal, signal.SIGSEGV)
    assert process.run(LONG, len, "abc") == 3


def test_a_process_that_ended_between_two_checks_is_replaced(process: CheckingProcess) -> None:
    before = process.run(LONG, os.getpid)
    os.kill(before, signal.SIGKILL)
    wait_for_end(before)
    assert process.run(LONG, os.getpid) != before


def test_a_process_that_is_killed_in_a_check_is_tried_again_once(
    process: CheckingProcess, tmp_path: Path
) -> None:
    once = tmp_path / "once"
    assert process.run(LONG, killed_once, once) == "second"
    with pytest.raises(CheckTimeoutError, match="the process for checks was ended twice"):
        process.run(LONG, signal.raise_signal, signal.SIGKILL)
    assert process.run(LONG, len, "abc") == 3


def killed_once(path: Path) -> str:
    if path.exists():
        return "second"
    path.touch()
    signal.raise_signal(signal.SIGKILL)
    return "never"


def test_it_has_no_sockets_of_the_server(process: CheckingProcess) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        listening.set_inheritable(True)
        ours = Path(f"/proc/self/fd/{listening.fileno()}").readlink()
        pid = process.run(LONG, os.getpid)
        theirs = [target(link) for link in Path(f"/proc/{pid}/fd").iterdir()]
    assert ours not in theirs
    assert any(theirs)


def target(link: Path) -> Path | None:
    """What is open there; None if it was closed meanwhile."""
    try:
        return link.readlink()
    except FileNotFoundError:
        return None


PARENT = """
import os, sys, threading, time
from server.admission.checking_process import CheckingProcess
from grammar.meaning.schema import load_schema

if __name__ == "__main__":
    process = CheckingProcess(load_schema())
    print(process.run(60, os.getpid), flush=True)
    process.run(60, *({during}))
"""


@pytest.mark.parametrize("during", ["len, ''", "time.sleep, 60"], ids=["idle", "in a check"])
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_it_ends_with_the_server(tmp_path: Path, during: str, number: signal.Signals) -> None:
    script = tmp_path / "parent.py"
    end = "\n    threading.Event().wait(60)\n" if "len" in during else "\n"
    script.write_text(PARENT.format(during=during) + end, encoding="utf-8")
    command = [sys.executable, str(script)]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, text=True, env={**os.environ, "PYTHONPATH": str(ROOT)}
    ) as parent:
        assert parent.stdout is not None
        child = int(parent.stdout.readline())
        assert is_running(child)
        parent.send_signal(number)
        parent.wait(LONG)
        wait_for_end(child)


@pytest.mark.parametrize(("kept", "stays"), [(96, False), (1024, True)])
def test_a_large_process_stays_only_where_the_next_check_needs_it(
    kept: int, *, stays: bool
) -> None:
    process = CheckingProcess(SCHEMA, memory_mib=1024, kept_mib=kept)
    try:
        before = process.run(LONG, os.getpid)
        assert process.run(LONG, keep, 128 << 20) == 128 << 20
        assert (process.run(LONG, os.getpid) == before) is stays
    finally:
        process.close()


def keep(size: int) -> int:
    """Keeps so many bytes until the process ends."""
    _kept.append(b"x" * size)
    return size


_kept: list[bytes] = []


def is_running(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()[0]
    except OSError:
        return False
    return state not in "ZX"


def wait_for_end(pid: int) -> None:
    """Returns when a process has ended; one that nobody has waited for is still known then."""
    with suppress(ProcessLookupError):
        file = os.pidfd_open(pid)
        try:
            assert select.select([file], [], [], LONG)[0]
        finally:
            os.close(file)
    assert not is_running(pid)


def test_the_end_of_the_server_waits_for_no_check(process: CheckingProcess) -> None:
    process.run(LONG, os.getpid)
    with ThreadPoolExecutor(1) as threads:
        running = threads.submit(process.run, LONG, time.sleep, LONG)
        time.sleep(1.0)
        began = time.monotonic()
        process.close()
        with pytest.raises(CheckTimeoutError, match="the server ends"):
            running.result()
    assert time.monotonic() - began < LONG / 2
