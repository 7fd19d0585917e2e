"""Every flag that names a file, with documents that do harm: a clear error, and no traceback."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from itertools import cycle
from pathlib import Path
from typing import Any

import pytest

from cli.command import Flag, module_of
from cli.commands import COMMANDS
from tests.cli.conftest import Placet
from tests.support.hostile_documents import DOCUMENTS

_FILES = ("FILE", "PATH", "SNAPSHOT")
# They write the file, or read no document of it.
_OTHERS = {("new", "file"), ("schema", "path"), ("serve", "--history"), ("lsp", "paths")}
# It goes on without them.
_OTHERS |= {("serve", "--policies")}
_CLUSTER = ["--cluster", "good.json"]
_BESIDE = {
    "conformance": ["http://127.0.0.1:1"],
    "drift": _CLUSTER,
    "eval": ["1 + 1"],
    "explain": ["d/p", *_CLUSTER],
    "serve": ["--no-cluster"],
    "simulate": _CLUSTER,
}
_GOOD = """{"apiVersion": "v1", "kind": "List", "items": [
  {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n"}},
  {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p", "namespace": "d"}}
]}"""


def flags() -> Iterator[tuple[str, Flag]]:
    for command in COMMANDS:
        for flag in module_of(command).ARGUMENTS:
            name = flag.name if flag.names else flag.key
            reads = flag.metavar in _FILES or flag.metavar.endswith("=FILE")
            if reads and (command, name) not in _OTHERS:
                yield command, flag


def arguments(command: str, flag: Flag, file: str) -> list[str]:
    if not flag.names:
        return [command, file]
    beside = _BESIDE.get(command, [])
    if flag.name in ("--cluster", "--kubeconfig"):
        beside = [word for word in beside if word not in (*_CLUSTER, "--no-cluster")]
    value = f"t={file}" if flag.metavar.endswith("=FILE") else file
    return [command, *beside, flag.name, value]


def cases() -> Iterator[Any]:
    """Each flag with two of the documents, in turn; all flags have one reader."""
    names = cycle(DOCUMENTS)
    for command, flag in flags():
        documents = [next(names), next(names)]
        yield pytest.param(command, flag, documents, id=f"{command} {flag.metavar} {flag.key}")


@pytest.mark.parametrize(("command", "flag", "documents"), [*cases()])
def test_no_flag_reads_a_document_to_its_harm(
    placet: Placet, folder: Path, command: str, flag: Flag, documents: Sequence[str]
) -> None:
    (folder / "good.json").write_text(_GOOD, encoding="utf-8")
    for name in documents:
        text = DOCUMENTS[name]
        (folder / name).write_text(text, encoding="utf-8", errors="surrogatepass")
        began = time.process_time()
        done = placet(*arguments(command, flag, name))
        assert done.code in (0, 1, 2), (name, done)
        assert "report this" not in done.out + done.err
        assert time.process_time() - began < 10, name


def test_the_flags_are_those_that_read_files() -> None:
    found = {f"{command} {flag.key}" for command, flag in flags()}
    assert {
        "doctor files",
        "scheduler-config from",
        "explain cluster",
        "status kubeconfig",
    } <= found
    assert len(found) > 40
