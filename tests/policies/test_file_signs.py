"""Signs of files: a look soon after a change, few looks without one, and no thread too many."""

import asyncio
import threading
import time

from policies.file_signs import LOOK_SECONDS, FileSigns


async def test_a_sign_ends_the_wait() -> None:
    seen = threading.Event()
    signs = FileSigns(seen.is_set)
    waiting = asyncio.create_task(signs.next(60.0))
    await asyncio.sleep(0)
    assert not waiting.done()
    seen.set()
    await asyncio.wait_for(waiting, 10.0)


async def test_without_a_sign_the_wait_ends_too() -> None:
    began = time.monotonic()
    await FileSigns(lambda: False).next(0.1)
    assert 0.1 <= time.monotonic() - began < LOOK_SECONDS


async def test_a_silent_mount_takes_one_thread() -> None:
    """The waits end all the same, so that a look finds what is silent."""
    answers, asked = threading.Event(), threading.Semaphore(0)

    def stirs() -> bool:
        asked.release()
        return answers.wait()

    signs = FileSigns(stirs)
    await signs.next(0.01)
    assert await asyncio.to_thread(asked.acquire, timeout=10.0)
    for _ in range(5):
        await signs.next(0.1)
    assert not asked.acquire(blocking=False), "another thread waits for it"
    await asyncio.to_thread(time.sleep, 1.1)
    began = time.monotonic()
    await signs.next(60.0)
    assert time.monotonic() - began < 30.0, "meanwhile whoever waits looks as often as the thread"
    answers.set()
