"""The colours of a text as it is typed: what each of its pieces is."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable, Iterator
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
from cli.repl.completion import complete, tokens
from cli.repl.conversation import prompt_of, take, tell, unfinished
from cli.repl.session import Session
from grammar.parser import keywords
from grammar.policy_checker import VARIABLES

# What a piece can be; a terminal has a colour for each but "".
CLASSES = ("", "command", "comment", "string", "number", "word", "variable", "function")
Piece = tuple[str, str]


def coloured(text: str) -> list[list[Piece]]:
    """For each line its pieces: what each is, and its text."""
    lines: list[list[Piece]] = [[]]
    for kind, piece in _pieces(text):
        first, *others = piece.split("\n")
        lines[-1].append((kind, first))
        lines.extend([(kind, other)] for other in others)
    return lines


def _pieces(text: str) -> Iterator[Piece]:
    start = 0
    if text.lstrip().startswith(":"):
        start = len(text) - len(text.lstrip())
        start += len(text[start:].split(maxsplit=1)[0])
        yield "command", text[:start]
    pieces = tokens(text[start:])
    words = frozenset(keywords().values())
    for index, piece in enumerate(pieces):
        follows = pieces[index + 1].text if index + 1 < len(pieces) else ""
        after_dot = index > 0 and pieces[index - 1].text in (".", ".?")
        match piece.kind:
            case "comment" | "string" | "number":
                yield piece.kind, piece.text
            case "word" if follows == "(":
                yield "function", piece.text
            case "word" if not after_dot and piece.text in VARIABLES:
                yield "variable", piece.text
            # Words of clauses are names of fields too, and then something is right behind them.
            case "word" if not after_dot and piece.text in words and follows not in (".", "["):
                yield "word", piece.text
            case _:
                yield "", piece.text


# ---- The terminal: lines that are edited, coloured, completed and remembered.
#
# The only importer of prompt_toolkit, which brings it all, on terminals that can do little too.

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


def converse(session: Session) -> None:
    """Answers what is typed until Ctrl-D or `:quit`; Ctrl-C takes a line back or ends an answer."""
    prompt = _prompt(session)
    while not session.leaving:
        try:
            text = prompt.prompt(lambda: [("class:prompt", prompt_of(session))])
            tell(take(session, text).told)
        except KeyboardInterrupt:
            continue
        except EOFError:
            return


def history_file() -> Path | None:
    """Where lines are remembered; None where no folder can be made for them."""
    state = os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state"
    folder = Path(state) / "placet"
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        file = folder / "repl_history"
        file.touch(mode=0o600)
    except OSError:
        return None
    return file


def _prompt(session: Session) -> PromptSession[str]:
    file = history_file()
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
        """Takes the completion that is chosen, or the text, or goes on with it if it is open."""
        buffer = event.current_buffer
        text = buffer.document.text
        if buffer.complete_state is not None and buffer.complete_state.current_completion:
            buffer.complete_state = None
        elif buffer.document.is_cursor_at_the_end and _goes_on(text):
            depth = sum(map(text.count, "{[(")) - sum(map(text.count, "}])"))
            buffer.insert_text(f"\n{_INDENT * max(depth, 0)}")
        else:
            buffer.validate_and_handle()

    return keys


def _goes_on(text: str) -> bool:
    """An empty line ends even what is not finished."""
    _, newline, last = text.rpartition("\n")
    return not (newline and not last.strip()) and unfinished(text)


class _Completer(Completer):
    def __init__(self, session: Session) -> None:
        self._session = session

    def get_completions(self, document: Document, _: CompleteEvent) -> Iterable[Completion]:
        text = document.text_before_cursor
        for found in complete(self._session, text):
            yield Completion(found.text, found.start - len(text), display_meta=found.note)


class _Lexer(Lexer):
    def lex_document(self, document: Document) -> Callable[[int], StyleAndTextTuples]:
        lines = coloured(document.text)

        def line(number: int) -> StyleAndTextTuples:
            return list(_styled(lines[number])) if number < len(lines) else []

        return line


def _styled(pieces: Iterable[tuple[str, str]]) -> Iterator[tuple[str, str]]:
    return ((f"class:{kind}" if kind else "", text) for kind, text in pieces)
