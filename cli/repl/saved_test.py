"""Saved test: a `test` block with the current decisions about the chosen pod, for `placet test`."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import msgspec

from cli.command import CommandError, make, replace_text
from cli.policy_tests.fixture import Fixture
from cli.policy_tests.runner import FixtureEngine
from cli.repl.session import ReplSession, Reply
from cli.world import World
from engine.cache.cluster_copy import NamedPod
from engine.decision.verdict import Feasible, Verdict
from engine.errors import EngineError
from grammar.meaning.schema import Schema
from grammar.messages.texts import counted
from grammar.syntax.parser import parse_file
from grammar.tree.printer import print_string
from grammar.tree.source import Source
from grammar.tree.types import Type
from policies.loader import SUFFIX, TEST_SUFFIX, UnreadFile, read_source

Json = Any

# With more nodes than this, one node stands for all nodes with the same answer.
_MAX_NODES = 20
_EXAMPLE = "as in `:save-test shop_test.policy`"
_METADATA = ("labels", "annotations", "uid", "creationTimestamp", "ownerReferences")
_LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"


def save_test(session: ReplSession, text: str) -> Iterator[Reply]:
    """Adds the block to the end of a file; creates the file if there is none."""
    if not text:
        raise CommandError("no file is given", _EXAMPLE)
    file = Path(text)
    if file.suffix != SUFFIX:
        raise CommandError(f"`{file}` is not a policy file", _EXAMPLE)
    paths = session.origin.paths if session.origin is not None else ()
    if not paths:
        command = "kubectl get nodes,pods,replicasets -A -o json"
        hint = f"write one with `{command}`, and load it with `:cluster`"
        raise CommandError("a test needs a snapshot in a file", hint)
    before = _text(file)
    world, pod = session.world(), session.required_pod()
    name = _unused_name(pod.key, Source(str(file), before))
    with world.cluster.asking(pod):
        expectations = _expectations(world, pod)
    snapshots = (os.path.relpath(path.resolve(), file.resolve().parent) for path in paths)
    items = [
        *(f"cluster {print_string(path)}" for path in snapshots),
        f"at {print_string(str(world.cluster.now))}",
        *_pod_items(world, pod),
        *expectations,
    ]
    inside = "".join(f"  {item}\n" for item in items)
    block = f"test {print_string(name)} {{\n{inside}}}\n"
    make(file)
    replace_text(file, f"{before.rstrip()}\n\n{block}" if before.strip() else block)
    yield f"test {print_string(name)} with {counted(len(expectations), 'expectation')} is in {file}"
    if session.notebook.sources:
        yield "typed clauses and policies affect it too: `:policy FILE` saves them"
    elif file.name.endswith(TEST_SUFFIX):
        tested = file.name.removesuffix(TEST_SUFFIX) + SUFFIX
        yield f"it tests the policies in {file.with_name(tested)}"


def _text(file: Path) -> str:
    if not file.exists():
        return ""
    read = read_source(file)
    if isinstance(read, UnreadFile):
        raise CommandError(read.message, read.hint)
    return read.text if read is not None else ""


def _unused_name(name: str, source: Source) -> str:
    """The name, with a number if a test in the source has it already."""
    tree, found = parse_file(source)
    if any(d.severity == "error" for d in found):
        raise CommandError(f"`{source.name}` has errors", "`placet check` shows them")
    taken, unused, number = {test.name for test in tree.tests}, name, 1
    while unused in taken:
        number += 1
        unused = f"{name} {number}"
    return unused


def _expectations(world: World, pod: NamedPod) -> list[str]:
    """One line per node with its answer. Raises CommandError."""
    names = sorted(world.cluster.snapshot().table.rows)
    fixture = Fixture(world.cluster, pod, names)
    engine = FixtureEngine(world.policies.registry, fixture, world.codec)
    try:
        verdicts, scores = {n: engine.verdict(n) for n in names}, engine.scores or {}
    except EngineError as error:
        raise CommandError(f"there is no answer to save: {error}") from None
    if len(names) > _MAX_NODES:
        alike = {_answer(verdicts[n], scores.get(n)): n for n in reversed(names)}
        names = sorted(alike.values())
    return [_expectation(n, verdicts[n], scores.get(n)) for n in names]


def _answer(verdict: Verdict, score: int | None) -> tuple[str, str | int | None]:
    return ("", score) if isinstance(verdict, Feasible) else (verdict.policy, verdict.clause)


def _expectation(name: str, verdict: Verdict, score: int | None) -> str:
    node = print_string(name)
    if not isinstance(verdict, Feasible):
        return f"expect reject {node} by {print_string(verdict.clause)}"
    return f"expect pass {node}" if score is None else f"expect score {node} == {score}"


def _pod_items(world: World, pod: NamedPod) -> list[str]:
    """The pod as an item; none if it is the last pending pod, which a test takes anyway."""
    pending = world.cluster.snapshot().pending
    waiting = [key for key in world.cluster.pod_bodies if key in pending]
    if not pod.node and waiting and waiting[-1] == pod.key:
        return []
    document = msgspec.json.decode(pod.body)
    metadata = {k: v for k, v in (document.get("metadata") or {}).items() if k in _METADATA and v}
    if "annotations" in metadata:
        annotations = metadata["annotations"].items()
        metadata["annotations"] = {k: v for k, v in annotations if k != _LAST_APPLIED}
    body = {
        "metadata": _known(metadata, Type("ObjectMeta"), world.schema),
        "spec": _known(document.get("spec") or {}, Type("PodSpec"), world.schema),
    }
    return [f"pod {print_string(pod.key)} {_literal(body)}"]


def _known(value: Json, type_: Type, schema: Schema) -> Json:
    """The value without the fields that the schema lacks: a test cannot set them."""
    if type_.name == "list" and isinstance(value, list):
        return [_known(item, type_.args[0], schema) for item in value]
    record = schema.records.get(type_.name)
    if record is None or not isinstance(value, Mapping):
        return value
    given = ((k, v, record.fields.get(k)) for k, v in value.items())
    return {
        k: _known(v, f.type, schema)
        for k, v, f in given
        if f is not None and f.derived is None and not f.native
    }


def _literal(value: Json) -> str:
    match value:
        case None:
            return "null"
        case bool():
            return "true" if value else "false"
        case str():
            return print_string(value)
        case list():
            return f"[{', '.join(map(_literal, value))}]"
        case dict():
            return f"{{{', '.join(f'{print_string(k)}: {_literal(v)}' for k, v in value.items())}}}"
        case _:
            return str(value)
