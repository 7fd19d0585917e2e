"""Completion of the lines of `placet repl`: commands and their arguments, and what is typed.

What can follow in an expression or a policy is known to `policies.editor`; the session has the
names, the policies and the cluster.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

from cli.repl.commands import COMMANDS
from cli.repl.conversation import STARTS
from cli.repl.samples import SessionSamples
from cli.repl.session import ReplSession
from policies.editor import completion
from policies.editor.completion import Candidate, Surroundings
from policies.editor.usable import usable

_COMMAND = re.compile(r"\s*(:[^\s]*)\Z")
_ARGUMENT = re.compile(r"\s*(:[^\s]+)\s+")
_SETTINGS = ("rows", "time off", "time on", "trace off", "trace on")

# A text to offer, and its kind.
Offer = tuple[str, str]


def complete(session: ReplSession, text: str) -> list[Candidate]:
    """All candidates, in display order; the cursor is at the end of `text`."""
    if command := _COMMAND.match(text):
        names = ((name, "command") for name in COMMANDS)
        return _matching(names, command[1], command.start(1))
    if argument := _ARGUMENT.match(text):
        known = COMMANDS.get(argument[1])
        return _arguments(session, text, argument.end(), known.takes if known else "nothing")
    return _code(session, text, 0)


def _matching(offers: Iterable[Offer], begun: str, start: int) -> list[Candidate]:
    """The offers that continue what is begun, each once."""
    kinds: dict[str, str] = {}
    for text, kind in offers:
        if text.startswith(begun) and text != begun:
            kinds.setdefault(text, kind)
    return [Candidate(text, start, kind, kind) for text, kind in kinds.items()]


def _arguments(session: ReplSession, text: str, start: int, takes: str) -> list[Candidate]:
    given = text[start:]
    cluster = session.cluster
    match takes:
        case "expression":
            return _code(session, text, start)
        case "node":
            names = [(name, "node") for name in session.node_names]
        case "pod":
            names = [(key, "pod") for key in cluster.pod_bodies] if cluster is not None else []
            names += _files(given)
        case "file":
            start += len(given) - len(given.split(" ")[-1])
            names = _files(text[start:])
        case "setting":
            names = [(setting, "setting") for setting in _SETTINGS]
        case "command":
            names = [(name.removeprefix(":"), "command") for name in COMMANDS]
        case "typed":
            names = [(name, "typed") for name in session.notebook.names]
        case _:
            names = []
    return _matching(names, text[start:], start)


def _files(begun: str) -> list[Offer]:
    folder, slash, name = begun.rpartition("/")
    prefix = f"{folder}{slash}"
    try:
        entries = sorted(Path(prefix or ".").expanduser().iterdir())
    except OSError:
        return []
    shown = (e for e in entries if not e.name.startswith(".") or name.startswith("."))
    return [(f"{prefix}{e.name}{'/' if e.is_dir() else ''}", "file") for e in shown]


def _code(session: ReplSession, text: str, offset: int) -> list[Candidate]:
    """The candidates for an expression or a policy that starts at an offset."""
    policies = {name: at.policy for name, at in usable(session.policies.texts).items()}
    around = Surroundings(session.environment, policies, SessionSamples(session))
    found = completion.complete(around, text[offset:], STARTS[:1] if offset else STARTS)
    # Tests belong into files.
    wanted = (c for c in found if (c.kind, c.text) != ("word", "test"))
    return [replace(c, start=c.start + offset) for c in wanted]
