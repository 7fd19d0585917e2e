"""CheckingProcess: a process for checks of texts that anybody may write.

A hostile text can make a check slow or large. A thread would slow down the event loop, because all
threads share one interpreter, and nothing could end the thread. So a server gives the checks of
texts to a separate process: started when the first check comes, kept for the next ones, killed at
a deadline, limited in memory and processor time. It has no sockets, and it ends with the server.
"""

from __future__ import annotations

import io
import math
import multiprocessing
import os
import pickle
import resource
import signal
import sys
import threading
import time
import traceback
from collections.abc import Callable, Mapping
from contextlib import suppress
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any, TypeVar

from grammar.meaning.environment import FUNCTIONS, FUNCTIONS_OF_CARDS
from grammar.meaning.schema import Schema, load_schema
from grammar.messages.diagnostics import UserError
from grammar.tree.source import Source
from policies.validation import check_source

T = TypeVar("T")

MEBIBYTE = 1024 * 1024
# The memory of the process with a check. A file of a thousand manifests takes 60.
MEMORY_MIB = 128
# A process that has grown to this size ends after its check, and gives the memory back.
_KEPT_MIB = 96
# So does a process that has had no check for so long.
_IDLE_SECONDS = 30.0
# The processor time of a check, however busy the machine is.
PROCESSOR_SECONDS = 5
# One that has not started by then has stopped.
_START_SECONDS = 60.0
_AGAIN = "try again"
# Checks leave the processor to decisions.
_NICENESS = 5
# The pickle of a tree nests deeper than the tree, which has at most 100 levels.
_PICKLE_DEPTH = 20_000


class CheckStoppedError(UserError):
    """A check without a result; `hint` is the remedy."""


class CheckLimitError(CheckStoppedError):
    """A check that needs more processor time or memory than any may have, on every machine."""


class CheckTimeoutError(CheckStoppedError):
    """A check that could not begin or end: the next one of the same text may go well."""


class CheckFailedError(Exception):
    """A check that met a fault of Placet; the text says where."""


class _EndedError(CheckTimeoutError):
    """A process that ended by itself or by a kill; the kernel kills the largest without memory."""

    def __init__(self) -> None:
        super().__init__("the process for checks was ended twice", _AGAIN)


class CheckingProcess:
    """Runs functions in a process, one at a time. Its methods block; they work from any thread."""

    def __init__(
        self,
        schema: Schema,
        niceness: int = _NICENESS,
        memory_mib: int = MEMORY_MIB,
        kept_mib: int = _KEPT_MIB,
    ) -> None:
        """`niceness` is that of the process, as for `nice`.

        Memory beyond MEMORY_MIB is limited to half of what the container has left as well. A
        process with more than `kept_mib` after a check ends.
        """
        self.schema = schema
        self._arguments = niceness, memory_mib, kept_mib
        self._lock = threading.Lock()
        self._process: BaseProcess | None = None
        self._pipe: Connection | None = None
        self._is_ready = self._is_closed = False
        self._began = 0.0
        # What the process says of its limit when it is ready.
        self._bytes_of_memory = MEMORY_MIB * MEBIBYTE

    def run(self, seconds: float, function: Callable[..., T], *args: object) -> T:
        """The result of the function, a public one of a module, in at most so many seconds.

        Arguments and result are pickled, except for `schema`, which the process has too. Raises
        CheckLimitError about the arguments, CheckTimeoutError and CheckFailedError.
        """
        deadline = time.monotonic() + seconds
        with self._lock:
            job = _pickled((function, args), self.schema)
            try:
                answer = self._answer(job, deadline, seconds)
            except _EndedError:
                # It had been idle for long, or somebody killed it, perhaps just as the job came.
                answer = self._answer(job, deadline, seconds)
        kind, value = _unpickled(answer, self.schema)
        if kind == "result":
            found: T = value
            return found
        raise _too_large(self._bytes_of_memory) if kind == "memory" else CheckFailedError(value)

    def close(self) -> None:
        """Ends the process and the check that it makes; there is no other one."""
        self._is_closed = True
        if (process := self._process) is not None:
            # It may have been closed just now.
            with suppress(ValueError):
                process.kill()
        with self._lock:
            self._end()

    def _answer(self, job: bytes, deadline: float, seconds: float) -> bytes:
        """The answer to a job. Raises _EndedError if the job may not be the cause of the end."""
        if self._process is not None and not self._process.is_alive():
            self._end()
        if not self._is_closed and (self._process is None or self._pipe is None):
            self._process, self._pipe = self._started()
        process, pipe = self._process, self._pipe
        # It may have been closed while the process was started.
        if self._is_closed or process is None or pipe is None:
            raise CheckTimeoutError("the server ends", _AGAIN)
        # A process that stands still neither reads nor writes: only its end ends a call.
        end = threading.Timer(max(0.0, deadline - time.monotonic()), process.kill)
        try:
            # It reads no job before it is ready, and keeps starting if this one cannot wait.
            if not self._is_ready:
                if not pipe.poll(max(0.0, deadline - time.monotonic())):
                    if time.monotonic() - self._began > _START_SECONDS:
                        self._end()
                    raise CheckTimeoutError("the process for checks did not start in time", _AGAIN)
                self._bytes_of_memory = int(pipe.recv_bytes())
                self._is_ready = True
            end.start()
            pipe.send_bytes(job)
            return pipe.recv_bytes()
        except (EOFError, OSError):
            failure = self._lost()
            if isinstance(failure, _EndedError) and time.monotonic() >= deadline:
                # It may take what is left of a timeout, such as 0.396 s: two digits say enough.
                failure = CheckTimeoutError(
                    f"the check took longer than {seconds:.2g} s", f"{_AGAIN}, or shorten the rules"
                )
            raise failure from None
        finally:
            end.cancel()
            if end.ident is not None:
                end.join()

    def _lost(self) -> Exception:
        """What ended the process."""
        assert self._process is not None, "a pipe has a process"
        self._process.join()
        code = self._process.exitcode or 0
        self._end()
        if code == -signal.SIGXCPU:
            message = f"the check took longer than {PROCESSOR_SECONDS} s of processor time"
            hint = "shorten the rules, or divide them into several policies"
            return CheckLimitError(message, hint)
        # A library without memory aborts.
        if code == -signal.SIGABRT:
            return _too_large(self._bytes_of_memory)
        if code in (0, -signal.SIGKILL):
            return _EndedError()
        return CheckFailedError(f"the process for checks ended with {code}")

    def _started(self) -> tuple[BaseProcess, Connection]:
        """A new process and its pipe. Raises CheckTimeoutError where the machine has no room."""
        # A forked process would have the server's sockets and locks, so it is spawned.
        context = multiprocessing.get_context("spawn")
        try:
            ours, theirs = context.Pipe()
        except OSError as error:
            raise _not_started(error) from None
        process = context.Process(
            target=_serve,
            args=(theirs, *self._arguments),
            name="checks",
            daemon=True,
        )
        # Ctrl-C in a terminal reaches every process of it; the mask is inherited.
        before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
        try:
            process.start()
        except OSError as error:
            ours.close()
            raise _not_started(error) from None
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)
            theirs.close()
        self._is_ready, self._began = False, time.monotonic()
        return process, ours

    def _end(self) -> None:
        if self._process is not None and self._pipe is not None:
            self._process.kill()
            self._process.join()
            self._process.close()
            self._pipe.close()
        self._process = self._pipe = None


def _not_started(error: OSError) -> CheckTimeoutError:
    why = (error.strerror or f"{error}").lower()
    return CheckTimeoutError(f"the process for checks cannot be started: {why}", _AGAIN)


def _too_large(bytes_of_memory: int) -> CheckLimitError:
    message = f"the check needed more memory than {bytes_of_memory // MEBIBYTE} MiB"
    return CheckLimitError(message, "shorten the object, or divide it into several policies")


# ---- values between two processes


def _shared(schema: Schema) -> Mapping[str, object]:
    """The parts that both processes have, by name: a policy with data has a schema of its own.

    They are not copied: records are large, and functions of Python have no pickle.
    """
    return {**schema.records, "schema": schema, "all": FUNCTIONS, "cards": FUNCTIONS_OF_CARDS}


class _Pickler(pickle.Pickler):
    def __init__(self, file: io.BytesIO, schema: Schema) -> None:
        super().__init__(file, pickle.HIGHEST_PROTOCOL)
        self._names = {id(part): name for name, part in _shared(schema).items()}

    def persistent_id(self, obj: object) -> str | None:
        return self._names.get(id(obj))


class _Unpickler(pickle.Unpickler):
    def __init__(self, data: bytes, schema: Schema) -> None:
        super().__init__(io.BytesIO(data))
        self._shared = _shared(schema)

    def persistent_load(self, pid: str) -> object:
        return self._shared[pid]


def _pickled(value: object, schema: Schema) -> bytes:
    file = io.BytesIO()
    _Pickler(file, schema).dump(value)
    return file.getvalue()


def _unpickled(data: bytes, schema: Schema) -> Any:
    return _Unpickler(data, schema).load()


# ---- inside the process


def _serve(pipe: Connection, niceness: int, memory_mib: int, kept_mib: int) -> None:
    """Answers jobs until there are none for a while."""
    threading.Thread(target=_end_with_the_server, daemon=True).start()
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    schema = load_schema()
    # The first check loads the tables of the parser, which the first job would pay for.
    check_source(Source("start", "cluster policy a {}"), schema)
    _, most = resource.getrlimit(resource.RLIMIT_DATA)
    limit = _memory_bytes(memory_mib)
    resource.setrlimit(resource.RLIMIT_DATA, (limit, most))
    # All that is written to it are the last words of a library without memory.
    with Path(os.devnull).open("wb") as nothing:
        os.dup2(nothing.fileno(), sys.stderr.fileno())
    os.nice(niceness)
    pipe.send_bytes(str(limit).encode())
    with suppress(EOFError, OSError):
        while pipe.poll(_IDLE_SECONDS):
            pipe.send_bytes(_result(pipe.recv_bytes(), schema))
            if _resident_bytes() > kept_mib * MEBIBYTE:
                return


def _memory_bytes(memory_mib: int) -> int:
    """The limit of memory: a container that has none left ends as a whole."""
    wanted, least = memory_mib * MEBIBYTE, MEMORY_MIB * MEBIBYTE
    try:
        most, used = (
            Path(f"/sys/fs/cgroup/memory.{name}").read_text(encoding="ascii").strip()
            for name in ("max", "current")
        )
    except OSError:
        return wanted
    if most == "max":
        return wanted
    return min(wanted, max(least, (int(most) - int(used)) // 2))


def _resident_bytes() -> int:
    """The memory of this process; 0 where the system does not say."""
    try:
        pages = Path("/proc/self/statm").read_text(encoding="ascii").split()[1]
    except OSError:
        return 0
    return int(pages) * resource.getpagesize()


def _result(job: bytes, schema: Schema) -> bytes:
    usual = sys.getrecursionlimit()
    try:
        function, args = _unpickled(job, schema)
        _, most = resource.getrlimit(resource.RLIMIT_CPU)
        # It counts from the start of the process, in whole seconds.
        until = math.ceil(time.process_time()) + PROCESSOR_SECONDS
        resource.setrlimit(resource.RLIMIT_CPU, (until, most))
        found = function(*args)
        sys.setrecursionlimit(_PICKLE_DEPTH)
        return _pickled(("result", found), schema)
    except MemoryError:
        return _pickled(("memory", ""), schema)
    except Exception:  # noqa: BLE001 - the server decides what follows
        return _pickled(("error", traceback.format_exc(limit=-3)), schema)
    finally:
        sys.setrecursionlimit(usual)


def _end_with_the_server() -> None:
    """Ends the process when the server has ended, even in the middle of a check."""
    server = multiprocessing.parent_process()
    if server is not None:
        server.join()
    os._exit(1)
