"""Plugins: kube-scheduler's plugins in a process of their own, which judges worlds one by one."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import msgspec

from tests.support.builders import Object


class Judgement(msgspec.Struct, frozen=True):
    """What each plugin says of each node: whether its Filter passes it, and its score 0..100.

    A plugin that has nothing to say of a pod passes every node, and has no scores.
    """

    filters: Mapping[str, Mapping[str, bool]]
    scores: Mapping[str, Mapping[str, int]]


class Plugins:
    """The running process."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        self._process = process
        self._decoder = msgspec.json.Decoder(Judgement)

    def judge(self, objects: Object) -> Judgement:
        """The judgement of a world: its namespaces, nodes, pods, and the pod to place."""
        process = self._process
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(msgspec.json.encode(objects) + b"\n")
        process.stdin.flush()
        line = process.stdout.readline()
        assert line, f"the plugins ended with {process.wait()}; see above"
        return self._decoder.decode(line)


@contextmanager
def running(program: Path) -> Iterator[Plugins]:
    with subprocess.Popen([program], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        try:
            yield Plugins(process)
        finally:
            process.kill()
