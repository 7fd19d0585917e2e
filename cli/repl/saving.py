"""A `test` block that says what the policies make of the pod at hand now, for `placet test`."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from cli.command import CommandError, make, replace_text
from cli.render import counted
from cli.repl.session import Session, Told
from cli.testing.stage import Stage
from cli.testing.trial import Answers
from cli.world import NamedPod, World
from engine.decision.verdict import Feasible, Verdict
from engine.errors import EngineError
from grammar.parser import parse_file
from grammar.printer import print_string
from grammar.schema import Schema
from grammar.source import Source
from grammar.types import Type
from policies.loader import SUFFIX, TEST_SUFFIX, UnreadFile, read_source

Json = Any

# With more nodes than this, one speaks for those that are answered alike.
_EVERY = 20
_FORM = "as in `:save-test shop_test.policy`"
_METADATA = ("labels", "annotations", "uid", "creationTimestamp", "ownerReferences")
_NOISE = "kubectl.kubernetes.io/last-applied-configuration"


def save_test(session: Session, text: str) -> Iterator[Told]:
    """Writes the block at the end of a file, which is made if it is not there."""
    if not text:
        raise CommandError("no file is named", _FORM)
    file = Path(text)
    if file.suffix != SUFFIX:
        raise CommandError(f"`{file}` is no policy file", _FORM)
    paths = session.origin.paths if session.origin is not None else ()
    if not paths:
        hint = "`kubectl get nodes,pods -A -o json` writes one, to be read with `:cluster`"
        raise CommandError("a test needs a snapshot in a file", hint)
    before = _text(file)
    world, pod = session.world(), session.some_pod()
    name = _unused(pod.key, Source(str(file), before))
    with world.cluster.asking(pod):
        expectations = _expectations(world, pod)
    block = _block(name, paths, file, world, pod, expectations)
    make(file)
    replace_text(file, f"{before.rstrip()}\n\n{block}" if before.strip() else block)
    count = counted(len(expectations), "expectation")
    yield f"test {print_string(name)} with {count} is in {file}"
    if session.notebook.sources:
        yield "what was typed decides in it too: `:policy FILE` writes that"
    elif file.name.endswith(TEST_SUFFIX):
        beside = file.name.removesuffix(TEST_SUFFIX) + SUFFIX
        yield f"it is about the policies in {file.with_name(beside)}"


def _block(
    name: str,
    paths: Sequence[Path],
    file: Path,
    world: World,
    pod: NamedPod,
    expectations: Iterable[str],
) -> str:
    there = (os.path.relpath(path.resolve(), file.resolve().parent) for path in paths)
    items = [
        *(f"cluster {print_string(path)}" for path in there),
        f"at {print_string(str(world.cluster.now))}",
        *_pod(world, pod),
        *expectations,
    ]
    inside = "".join(f"  {item}\n" for item in items)
    return f"test {print_string(name)} {{\n{inside}}}\n"


def _expectations(world: World, pod: NamedPod) -> list[str]:
    """What each node answers, as `placet test` asks it. Raises CommandError."""
    names = sorted(world.cluster.snapshot().table.rows)
    stage = Stage(world.cluster, world.cluster.now, pod, names)
    answers = Answers(world.policies.registry, stage, world.codec)
    try:
        verdicts, scores = {n: answers.verdict(n) for n in names}, answers.scores or {}
    except EngineError as error:
        raise CommandError(f"there is no answer to save: {error}") from None
    if len(names) > _EVERY:
        alike = {_answer(verdicts[n], scores.get(n)): n for n in reversed(names)}
        names = sorted(alike.values())
    return [_expectation(n, verdicts[n], scores.get(n)) for n in names]


def _expectation(name: str, verdict: Verdict, score: int | None) -> str:
    node = print_string(name)
    if not isinstance(verdict, Feasible):
        return f"expect reject {node} by {print_string(verdict.clause)}"
    return f"expect pass {node}" if score is None else f"expect score {node} == {score}"


def _answer(verdict: Verdict, score: int | None) -> tuple[str, str | int | None]:
    return ("", score) if isinstance(verdict, Feasible) else (verdict.policy, verdict.clause)


def _pod(world: World, asked: NamedPod) -> list[str]:
    """The pod as it is, unless it is the one that the test would be about anyway."""
    pending = world.cluster.snapshot().pending
    waiting = [key for key in world.cluster.pod_keys() if key in pending]
    if not asked.node and waiting and waiting[-1] == asked.key:
        return []
    pod = msgspec.json.decode(asked.body)
    metadata = {k: v for k, v in (pod.get("metadata") or {}).items() if k in _METADATA and v}
    if "annotations" in metadata:
        metadata["annotations"] = {k: v for k, v in metadata["annotations"].items() if k != _NOISE}
    body = {
        "metadata": _known(metadata, Type("ObjectMeta"), world.schema),
        "spec": _known(pod.get("spec") or {}, Type("PodSpec"), world.schema),
    }
    return [f"pod {print_string(asked.key)} {_literal(body)}"]


def _known(value: Json, type_: Type, schema: Schema) -> Json:
    """Of an object what the language knows of it: a test can give nothing else."""
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


def _text(file: Path) -> str:
    if not file.exists():
        return ""
    read = read_source(file)
    if isinstance(read, UnreadFile):
        raise CommandError(read.message, read.hint)
    return read.text


def _unused(name: str, source: Source) -> str:
    """The name of the pod, with a number if there is a test of that name."""
    tree, found = parse_file(source)
    if any(d.severity == "error" for d in found):
        raise CommandError(f"`{source.name}` has mistakes", "`placet check` shows them")
    taken, tried, number = {test.name for test in tree.tests}, name, 1
    while tried in taken:
        number += 1
        tried = f"{name} {number}"
    return tried
