"""Kubernetes' CEL in a process of its own, which evaluates expressions one by one."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any


@dataclass(frozen=True, slots=True)
class There:
    """What becomes of an expression: a value, as a type's name and its content, or why it has none.

    `refused`: it does not compile.
    """

    value: Any = None
    error: str = ""
    refused: str = ""

    @property
    def has_value(self) -> bool:
        return self.value is not None


class KubernetesCel:
    """The running process. `functions` are the names that it knows."""

    def __init__(self, process: subprocess.Popen[str], variables: Mapping[str, str]) -> None:
        self._process = process
        self.functions = frozenset(self._asked(dict(variables)))

    def evaluate(self, text: str) -> There:
        return There(**self._asked(text))

    def _asked(self, question: object) -> Any:
        process = self._process
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(f"{json.dumps(question)}\n")
        process.stdin.flush()
        line = process.stdout.readline()
        assert line, f"the program ended with {process.wait()}; see above"
        return json.loads(line)


@contextmanager
def running(program: Path, variables: Mapping[str, str]) -> Iterator[KubernetesCel]:
    with subprocess.Popen(
        [program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, encoding="utf-8"
    ) as process:
        try:
            yield KubernetesCel(process, variables)
        finally:
            process.kill()
