"""What there is to talk about: policies, a cluster, the pod and the node at hand, and settings."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from pathlib import Path

from cli.exits import CommandError
from cli.files import make, replace_text
from cli.objects import read_pod
from cli.render import counted
from cli.repl.answer import Told, problem
from cli.repl.notebook import NAME
from cli.repl.origin import Files
from cli.repl.session import Session
from cli.world import AskedPod
from engine.cache.documents import SUFFIXES
from grammar.formatter import format_file
from grammar.parser import parse_file
from grammar.source import Source
from policies.loader import SUFFIX
from policies.validation import Validation

_ALL = "*"
_SWITCH = {"on": True, "off": False}


def load(session: Session, text: str) -> Iterator[Told]:
    """More policy files."""
    paths = _paths(text)
    if not paths:
        raise CommandError("no file is named", "as in `:load shop.policy`")
    named = tuple(dict.fromkeys((*session.files, *paths)))
    yield from loaded(session, session.load(named))


def reload(session: Session, _: str) -> Iterator[Told]:
    """Files and cluster as they are now."""
    if not session.files and session.origin is None:
        raise CommandError("nothing has been read", "`:load` and `:cluster` read something")
    if session.files:
        yield from loaded(session, session.load(session.files))
    if session.origin is not None:
        had_pod = session.pod
        session.open(session.origin)
        if session.pod_file is not None:
            session.pod = AskedPod(*read_pod(session.pod_file))
        yield cluster_summary(session)
        if had_pod is not None and session.pod is None:
            yield f"there is no pod `{had_pod.key}` any more"


def cluster(session: Session, text: str) -> Iterator[Told]:
    """Another cluster, or which one it is."""
    if paths := _paths(text):
        session.open(Files(paths))
    yield cluster_summary(session)


def pod(session: Session, text: str) -> Iterator[Told]:
    """Another pod, by name or by manifest, or which one it is."""
    if text and Path(text).suffix in SUFFIXES:
        session.pod, session.pod_file = AskedPod(*read_pod(Path(text))), Path(text)
    elif text:
        session.pod, session.pod_file = session.some_cluster().pod(text), None
    asked = session.some_pod()
    yield f"pod {asked.key}{f' on {asked.node}, asked about as if it were not' * bool(asked.node)}"


def node(session: Session, text: str) -> Iterator[Told]:
    """Another node, or which one it is."""
    if text == _ALL:
        session.node = None
        yield f"every one of {counted(len(session.node_names), 'node')}"
        return
    if text:
        session.node = session.some_cluster().node(text).name
    yield f"node {session.some_node()}"


def policy(session: Session, text: str) -> Iterator[Told]:
    """What was typed, on the screen or in a file."""
    source = Source(NAME, session.notebook.text)
    if not source.text:
        raise CommandError("nothing has been typed for a policy", 'as in `filter "a" {`')
    typed = format_file(parse_file(source)[0], source)
    if not text:
        yield typed.rstrip()
        return
    file = Path(text)
    if file.suffix != SUFFIX or file.exists():
        reason = "is there already" if file.exists() else "is no policy file"
        raise CommandError(f"`{file}` {reason}", "name a new one, as in `:policy new.policy`")
    make(file)
    replace_text(file, typed)
    yield f"{counted(len(session.notebook.sources), 'policy', 'policies')} in {file}"


def drop(session: Session, text: str) -> Iterator[Told]:
    """Takes back something that was typed."""
    name = text.strip("\"'")
    if name not in session.notebook.names:
        known = ", ".join(f"`{known}`" for known in session.notebook.names)
        raise CommandError(
            f"nothing called `{name}` has been typed", f"there is {known}" if known else ""
        )
    session.note(session.notebook.without(name))
    yield f"dropped {name}"


def set_(session: Session, text: str) -> Iterator[Told]:
    """One of the settings, or all of them as they are."""
    settings, (name, *given) = session.settings, text.split() or [""]
    match name, given:
        case "rows", [number] if number.isdecimal() and int(number):
            settings.rows = int(number)
        case "trace", [("on" | "off") as word]:
            settings.trace = _SWITCH[word]
        case "time", [("on" | "off") as word]:
            settings.time = _SWITCH[word]
        case "", []:
            pass
        case _:
            raise CommandError(
                f"`{text}` is no setting", "there is `rows N`, `trace on|off` and `time on|off`"
            )
    words = {True: "on", False: "off"}
    yield f"rows {settings.rows}, trace {words[settings.trace]}, time {words[settings.time]}"


def loaded(session: Session, validation: Validation) -> Iterator[Told]:
    """How much was read, and the warnings."""
    typed = session.notebook.sources
    files = [f for f in validation.files if f.source not in typed and not f.private]
    policies = sum(len(file.policies) for file in files)
    yield f"{counted(policies, 'policy', 'policies')} in {counted(len(files), 'file')}"
    for file in files:
        yield from (problem((d, file.source)) for d in file.diagnostics if d.severity == "warning")


def cluster_summary(session: Session) -> str:
    """How much there is of it, and what is at hand."""
    there = session.some_cluster()
    pods = counted(len(there.pod_keys()), "pod")
    return f"{counted(len(session.node_names), 'node')} and {pods} at {there.now}"


def _paths(text: str) -> list[Path]:
    """File names as a shell takes them: those with spaces in quotes."""
    try:
        return [Path(word).expanduser() for word in shlex.split(text)]
    except ValueError:
        raise CommandError("a quote is open", "close it") from None
