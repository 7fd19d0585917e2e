"""Terminal: edits, completes and remembers the lines of a session.

The only importer of prompt_toolkit, which also handles terminals with few features.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from prompt_toolkit import PromptSession
from prompt_toolkit.completion import CompleteEvent, Completer, Completion
from prompt_toolkit.document import Document
from prompt_toolkit.history import FileHistory, History, InMemoryHistory
from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent
from prompt_toolkit.output import ColorDepth
from prompt_toolkit.styles import Style

from cli.render import wants_colour
from cli.repl.conversation import COMMANDS, ReplSession, Takes, answer, prompt, unfinished
from policies.editor import completion
from policies.editor.completion import Candidate, Surroundings
from policies.editor.edited_text import usable

_COMMAND = re.compile(r"\s*(:[^\s]*)\Z")
_ARGUMENT = re.compile(r"\s*(:[^\s]+)\s+")


def complete(session: ReplSession, text: str) -> list[Candidate]:
    """All candidates, in display order; the cursor is at the end of `text`."""
    if command := _COMMAND.match(text):
        return _matching(COMMANDS, "command", command[1], len(text))
    if argument := _ARGUMENT.match(text):
        known = COMMANDS.get(argument[1])
        takes = known.takes if known is not None else "nothing"
        offered: Mapping[Takes, Iterable[str]] = {
            "node": session.node_names,
            "pod": session.cluster.pod_bodies if session.cluster is not None else (),
            "typed": sorted(item.name for item in session.typed.values()),
        }
        return _matching(offered.get(takes, ()), takes, text[argument.end() :], len(text))
    # An expression, or items of a policy.
    policies = {name: at.policy for name, at in usable(session.policies.texts).items()}
    around = Surroundings(session.environment, policies, session.samples())
    return completion.complete(around, text, ("expression", "rules"))


def _matching(texts: Iterable[str], kind: str, begun: str, end: int) -> list[Candidate]:
    """The texts that continue what is begun before the end, each once."""
    start = end - len(begun)
    found = dict.fromkeys(t for t in texts if t.startswith(begun) and t != begun)
    return [Candidate(text, kind, kind, start=start) for text in found]


_INDENT = "  "


def converse(session: ReplSession) -> None:
    """Answers lines until Ctrl-D or `:quit`; Ctrl-C drops a line or stops its answer."""
    file = _history_file()
    history: History = FileHistory(str(file)) if file is not None else InMemoryHistory()
    lines: PromptSession[str] = PromptSession(
        history=history,
        completer=_Completer(session),
        complete_while_typing=False,
        style=Style([("prompt", "bold")]),
        color_depth=None if wants_colour(sys.stdout) else ColorDepth.DEPTH_1_BIT,
        multiline=True,
        prompt_continuation=lambda width, _line, _wrapped: "...".ljust(width),
        key_bindings=_keys(),
        enable_open_in_editor=True,
    )
    while not session.has_ended:
        try:
            text = lines.prompt(lambda: [("class:prompt", prompt(session))])
            answer(session, text)
        except KeyboardInterrupt:
            continue
        except EOFError:
            return


def _history_file() -> Path | None:
    """The file of former lines; None if it cannot be created."""
    try:
        state = os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state"
        folder = Path(state) / "placet"
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        file = folder / "repl_history"
        file.touch(mode=0o600)
    except (OSError, RuntimeError):  # a user without a home is a RuntimeError
        return None
    return file


def _keys() -> KeyBindings:
    keys = KeyBindings()

    @keys.add("enter")
    def _(event: KeyPressEvent) -> None:
        """Accepts the chosen completion, continues an unfinished text, or answers the text."""
        buffer = event.current_buffer
        text = buffer.document.text
        _, newline, last = text.rpartition("\n")
        # An empty line ends an unfinished text.
        is_ended = newline and not last.strip()
        if buffer.complete_state is not None and buffer.complete_state.current_completion:
            buffer.complete_state = None
        elif buffer.document.is_cursor_at_the_end and not is_ended and unfinished(text):
            depth = sum(map(text.count, "{[(")) - sum(map(text.count, "}])"))
            buffer.insert_text(f"\n{_INDENT * max(depth, 0)}")
        else:
            buffer.validate_and_handle()

    return keys


@dataclass(eq=False, slots=True)
class _Completer(Completer):
    session: ReplSession

    def get_completions(self, document: Document, _: CompleteEvent) -> Iterable[Completion]:
        text = document.text_before_cursor
        for found in complete(self.session, text):
            yield Completion(found.text, found.start - len(text), display_meta=found.note)
