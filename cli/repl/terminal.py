"""Terminal: edits, colours, completes and remembers the lines of a session.

The only importer of prompt_toolkit, which also handles terminals with few features.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable
from pathlib import Path

from prompt_toolkit import PromptSession
from prompt_toolkit.completion import CompleteEvent, Completer, Completion
from prompt_toolkit.document import Document
from prompt_toolkit.formatted_text import StyleAndTextTuples
from prompt_toolkit.history import FileHistory, History, InMemoryHistory
from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent
from prompt_toolkit.lexers import Lexer
from prompt_toolkit.output import ColorDepth
from prompt_toolkit.styles import Style

from cli.render import wants_colour
from cli.repl.completion import complete
from cli.repl.conversation import answer, print_replies, prompt, unfinished
from cli.repl.session import ReplSession
from policies.editor.tokens import coloured_lines

_STYLE = Style.from_dict(
    {
        "prompt": "bold",
        "command": "ansimagenta",
        "comment": "ansibrightblack",
        "string": "ansigreen",
        "number": "ansicyan",
        "word": "bold ansiblue",
        "variable": "ansiyellow",
        "function": "ansicyan",
    }
)
_INDENT = "  "


def converse(session: ReplSession) -> None:
    """Answers lines until Ctrl-D or `:quit`; Ctrl-C drops a line or stops its answer."""
    lines = _prompt_session(session)
    while not session.has_ended:
        try:
            text = lines.prompt(lambda: [("class:prompt", prompt(session))])
            print_replies(answer(session, text).replies)
        except KeyboardInterrupt:
            continue
        except EOFError:
            return


def _history_file() -> Path | None:
    """The file of former lines; None if it cannot be created."""
    state = os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state"
    folder = Path(state) / "placet"
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        file = folder / "repl_history"
        file.touch(mode=0o600)
    except OSError:
        return None
    return file


def _prompt_session(session: ReplSession) -> PromptSession[str]:
    file = _history_file()
    history: History = FileHistory(str(file)) if file is not None else InMemoryHistory()
    colour = wants_colour(sys.stdout)
    return PromptSession(
        history=history,
        completer=_Completer(session),
        complete_while_typing=False,
        lexer=_Lexer() if colour else None,
        style=_STYLE,
        color_depth=None if colour else ColorDepth.DEPTH_1_BIT,
        multiline=True,
        prompt_continuation=lambda width, _line, _wrapped: "...".ljust(width),
        key_bindings=_keys(),
        enable_open_in_editor=True,
    )


def _keys() -> KeyBindings:
    keys = KeyBindings()

    @keys.add("enter")
    def _(event: KeyPressEvent) -> None:
        """Accepts the chosen completion, continues an unfinished text, or answers the text."""
        buffer = event.current_buffer
        text = buffer.document.text
        if buffer.complete_state is not None and buffer.complete_state.current_completion:
            buffer.complete_state = None
        elif buffer.document.is_cursor_at_the_end and _continues(text):
            depth = sum(map(text.count, "{[(")) - sum(map(text.count, "}])"))
            buffer.insert_text(f"\n{_INDENT * max(depth, 0)}")
        else:
            buffer.validate_and_handle()

    return keys


def _continues(text: str) -> bool:
    """Whether Enter adds a line. An empty line ends an unfinished text."""
    _, newline, last = text.rpartition("\n")
    return not (newline and not last.strip()) and unfinished(text)


class _Completer(Completer):
    def __init__(self, session: ReplSession) -> None:
        self._session = session

    def get_completions(self, document: Document, _: CompleteEvent) -> Iterable[Completion]:
        text = document.text_before_cursor
        for found in complete(self._session, text):
            yield Completion(found.text, found.start - len(text), display_meta=found.note)


class _Lexer(Lexer):
    def lex_document(self, document: Document) -> Callable[[int], StyleAndTextTuples]:
        lines = coloured_lines(document.text)

        def line(number: int) -> StyleAndTextTuples:
            pieces = lines[number] if number < len(lines) else []
            return [(f"class:{kind}" if kind else "", text) for kind, text in pieces]

        return line
