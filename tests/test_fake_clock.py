"""The fake clock of the tests: what moves its time, and what it waits for."""

from __future__ import annotations

import ast
import asyncio
import re
import threading
import time
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from tests.support.fake_clock import FakeClockLoop, settled

ROOT = Path(__file__).parents[1]
# Whoever waits for programs of others waits in real time.
OTHERS = {"e2e", "chaos", "benchmarks", "image", "browser", "deploy", "differential"}
# Where else something waits in real time, or has a deadline of less than a second, and why.
REAL = {
    "tests/cli/conformance/test_conformance.py: held": "no answer can come that it waits for",
    "tests/cli/test_waiting.py: test_the_line_goes_with_what_it_is_about": "waits for a thread",
    "tests/policies/test_loader.py: test_many_silent_paths_take_few_threads": "all are silent",
    "tests/recorder/edits.py: Edits": "waits for another process",
    "tests/recorder/served.py: _is_ready": "waits for another process",
    "tests/server/verbs/test_decision_queue.py: BlockingDecider": "blocks the event loop",
    "tests/server/runtime/test_stalled_tasks.py: _pause": "is used with a fake clock alone",
    "tests/server/runtime/test_stalled_tasks.py: lived": "is used with a fake clock alone",
    "tests/support/api_proxy.py: ApiProxy": "is between real programs",
    "tests/support/fake_api_server.py: listening": "ends what is left of a server",
    "tests/support/hostile_clients.py: _attack": "is a program of its own",
    "tests/support/hostile_clients.py: _dripping": "is a program of its own",
    "tests/support/hostile_clients.py: _reading_slowly": "is a program of its own",
    "tests/support/mirror.py: Waits": "is used with a fake clock alone",
    "tests/support/repaired.py: RepairedCluster": "is used with a fake clock alone",
    "tests/support/certificates.py: Secured": "is used with a fake clock alone",
    "tests/support/tcp_switch.py: TcpSwitch": "is between real programs",
    "tests/properties/test_reflector.py: _step": "runs on a fake clock",
}
# A process is real, whether it is a server or a test of one.
EXEMPT = re.compile(r"fake|pytest\.mark\.(fake_clock|process)")
HOUR = 3600.0
fake = pytest.mark.fake_clock


def now() -> float:
    return asyncio.get_running_loop().time()


@fake
async def test_an_hour_takes_a_moment_and_is_exact() -> None:
    began, real = now(), time.monotonic()
    await asyncio.gather(asyncio.sleep(HOUR), asyncio.sleep(HOUR / 2))
    assert now() - began == pytest.approx(HOUR)
    assert time.monotonic() - real < HOUR / 60


@fake
async def test_time_stands_still_while_there_is_work() -> None:
    began, late = now(), asyncio.create_task(asyncio.sleep(0.000_001))
    for _ in range(1000):
        await asyncio.sleep(0)
    assert now() == began
    assert not late.done()
    await late


@fake
async def test_what_a_socket_sends_comes_before_a_timeout() -> None:
    async def echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while data := await reader.read(100):
            writer.write(data)
        writer.close()

    server = await asyncio.start_server(echo, "127.0.0.1", 0)
    began = now()
    reader, writer = await asyncio.open_connection(*server.sockets[0].getsockname())
    for _ in range(100):
        async with asyncio.timeout(0.001):
            writer.write(b"hello")
            assert await reader.readexactly(5) == b"hello"
    assert now() == began
    writer.close()
    await writer.wait_closed()
    server.close()


@fake
async def test_a_job_takes_the_time_of_the_machine() -> None:
    pause = threading.Event()
    began = now()
    async with asyncio.timeout(60):
        await asyncio.to_thread(pause.wait, 0.05)
    assert 0 <= now() - began < 30
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.05):
            await asyncio.to_thread(pause.wait, 30)
    pause.set()


@fake
async def test_settled_waits_for_all_work_and_for_jobs_and_moves_no_time() -> None:
    done: list[str] = []

    async def work() -> None:
        for _ in range(50):
            await asyncio.sleep(0)
        done.append("work")
        await asyncio.to_thread(done.append, "job")
        done.append("all")
        await asyncio.sleep(HOUR)
        done.append("later")

    working = asyncio.create_task(work())
    began = now()
    await settled()
    assert done == ["work", "job", "all"]
    await settled()
    assert now() - began < HOUR
    await working
    assert done[-1] == "later"


async def test_other_tests_have_the_usual_event_loop() -> None:
    assert not isinstance(asyncio.get_running_loop(), FakeClockLoop)
    with pytest.raises(AssertionError, match="not marked"):
        await settled()


def real_waits(tree: ast.Module) -> Iterator[str]:
    """The functions and classes that wait, or soon give up, and are not marked as exempt."""
    constants = dict[str, ast.expr]()
    for part in tree.body:
        match part:
            case ast.Assign([ast.Name("pytestmark")], mark) if EXEMPT.fullmatch(ast.unparse(mark)):
                return
            case ast.Assign([ast.Name(name)], value):
                constants[name] = value
            case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef():
                marks = [ast.unparse(mark) for mark in part.decorator_list]
                if not any(map(EXEMPT.fullmatch, marks)) and any(waits(part, constants)):
                    yield part.name
            case _:
                pass


def waits(part: ast.AST, constants: Mapping[str, ast.expr]) -> Iterator[bool]:
    """Whether each call in it sleeps, or has a deadline of less than a second.

    A sleep of 0 lets others work, and a deadline of 0 asks what is there; both take no time.
    """
    for call in ast.walk(part):
        match call:
            case ast.Call(func=ast.Attribute(attr=name) | ast.Name(id=name), args=args):
                pass
            case _:
                continue
        if name == "timedelta":
            continue
        if name in {"sleep", "to_thread"} and (name == "sleep" or "sleep" in ast.unparse(args[0])):
            yield ast.unparse(args[-1]) != "0"
        named = [word.value for word in call.keywords if is_deadline(word.arg or "")]
        for each in (*(args[-1:] if name in WAITING else ()), *named):
            match constants.get(each.id) if isinstance(each, ast.Name) else each:
                case ast.Constant(int() | float() as seconds):
                    yield 0 < seconds < 1
                case _:
                    pass


# Their last argument is a deadline.
WAITING = {
    "timeout",
    "wait_for",
    "wait",
    "join",
    "acquire",
    "result",
    "next",
    "until",
    "settimeout",
}


def is_deadline(keyword: str) -> bool:
    return keyword.endswith(("seconds", "timeout"))


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("asyncio.sleep(0)", False),
        ("asyncio.sleep(0.2)", True),
        ("asyncio.sleep(LONG)", True),
        ("time.sleep(3)", True),
        ("asyncio.to_thread(time.sleep, 0.3)", True),
        ("asyncio.timeout(60)", False),
        ("asyncio.timeout(0.5)", True),
        ("asyncio.wait_for(work(), SHORT)", True),
        ("asyncio.wait_for(work(), LONG)", False),
        ("thread.join(timeout=0.5)", True),
        ("Disk(seconds=SHORT)", True),
        ("Settings(http_timeout=1.0)", False),
        ("', '.join(words)", False),
    ],
)
def test_a_wait_is_found(text: str, found: bool) -> None:
    constants = "SHORT = 0.5\nLONG = 5.0\n"
    there = ast.parse(f"{constants}async def test() -> None:\n    {text}")
    assert list(real_waits(there)) == ["test"] * found
    for mark in ("fake", "pytest.mark.process"):
        marked = ast.parse(f"{constants}@{mark}\nasync def test() -> None:\n    {text}")
        assert not list(real_waits(marked))
    of_file = ast.parse(f"pytestmark = pytest.mark.fake_clock\ndef test() -> None:\n    {text}")
    assert not list(real_waits(of_file))


def test_only_these_wait_in_real_time() -> None:
    """A pause that is long enough on one machine is too short on another one, or too long."""
    names = {
        f"{file.relative_to(ROOT).as_posix()}: {name}"
        for file in (ROOT / "tests").rglob("*.py")
        if file.relative_to(ROOT).parts[1] not in OTHERS
        for name in real_waits(ast.parse(file.read_bytes()))
    }
    assert names == REAL.keys()
