"""A text through everything that takes policies: what the fuzz tests and the atheris target run."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any

from engine.cache.node_table import Snapshot
from engine.clauses.programs import compile_policy
from engine.objects.request_pod import ObjectCodec
from engine.program.frame import Frame, unhurried
from engine.program.program import FilterProgram, Program, ScoreProgram
from grammar.meaning.schema import Schema, load_schema
from grammar.syntax.formatter import format_file
from grammar.syntax.parser import parse_file
from grammar.tree.source import Source
from grammar.values.errors import EvaluationError
from grammar.values.time import Timestamp
from policies.validation import CheckedFile, check_source
from tests.support.engines import snapshot_of

_NOW = Timestamp.parse("2026-11-21T12:00:00Z")
_METADATA = {"name": "x", "uid": "u", "labels": {"app": "web", "a": "b"}}
_NODE: dict[str, Any] = {
    "metadata": {**_METADATA, "creationTimestamp": "2026-01-01T00:00:00Z"},
    "spec": {"taints": [{"key": "k", "effect": "NoSchedule"}]},
    "status": {"allocatable": {"cpu": "4", "memory": "8Gi"}},
}
_POD: dict[str, Any] = {
    "metadata": {**_METADATA, "namespace": "shop"},
    "spec": {"containers": [{"name": "c", "resources": {"requests": {"cpu": "1"}}}]},
}


def _frame_world() -> tuple[ObjectCodec, Schema, Snapshot]:
    schema = load_schema()
    codec = ObjectCodec(schema)
    peer = {**_POD, "spec": {**_POD["spec"], "nodeName": "x"}}
    return codec, schema, snapshot_of([_NODE], [peer])


def _bytes(value: dict[str, Any]) -> bytes:
    return json.dumps(value).encode()


@dataclass(slots=True)
class Pipeline:
    """Runs texts; anything but diagnostics and errors of evaluation comes out as an exception."""

    _world: tuple[ObjectCodec, Schema, Snapshot] = field(default_factory=_frame_world)

    def run(self, text: str) -> CheckedFile:
        """Parse, check, lay out, compile and evaluate on a node; returns what was found."""
        source = Source("fuzz", text)
        checked = check_source(source, self._world[1])
        for diagnostic in checked.diagnostics:
            assert 0 <= diagnostic.span.start <= diagnostic.span.end <= len(text), diagnostic
        if checked.whole:
            _lay_out(source)
        for policy in checked.policies:
            if not policy.broken:
                self._evaluate(compile_policy(policy))
        return checked

    def _evaluate(self, program: Program) -> None:
        codec, _, snapshot = self._world
        frame = Frame(codec.pod(_bytes(_POD)), _NOW, slots=program.slots)
        frame.node = snapshot.nodes["x"]
        parts = [r for f in program.of(FilterProgram) for r in f.requires]
        parts += [s.value for s in program.of(ScoreProgram)]
        parts += [f.when.evaluate for f in program.of(FilterProgram) if f.when]
        parts += [s.when.evaluate for s in program.of(ScoreProgram) if s.when]
        for evaluate in parts if program.select is None else (program.select, *parts):
            try:
                evaluate(frame)
            except EvaluationError:
                continue
        for clause in program.of(FilterProgram):
            clause.message(unhurried(frame))


def _lay_out(source: Source) -> None:
    """The canonical text is a text of the language, and its own canonical text."""
    once = format_file(parse_file(source)[0], source)
    again = Source("again", once)
    file, found = parse_file(again)
    assert not found, (found, once)
    assert format_file(file, again) == once
