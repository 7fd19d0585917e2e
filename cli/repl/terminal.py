"""Terminal: edits, colours, completes and remembers the lines of a session.

The only importer of prompt_toolkit, which also handles terminals with few features.
"""

from __future__ import annotations

import os
import re
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from itertools import islice
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
from cli.repl.commands import COMMANDS
from cli.repl.conversation import STARTS, answer, print_replies, prompt, unfinished
from cli.repl.expressions import Evaluator, Expression, Failure
from cli.repl.session import FindingsError, ReplSession
from engine.errors import BadObjectError
from engine.program.frame import Frame
from grammar.messages.diagnostics import UserError
from policies.disk import expanded
from policies.editor import completion
from policies.editor.completion import Candidate, Surroundings
from policies.editor.edited_text import usable
from policies.editor.tokens import coloured_lines
from policies.recipe_collection import recipes

# The number of evaluations for one completion, for which the user waits.
_MAX_SAMPLES = 1000


class SessionSamples:
    """The values of an operand on every node, or for every pod or peer, of a session's cluster."""

    def __init__(self, session: ReplSession) -> None:
        self._session = session

    def keys(self, operand: str) -> list[str]:
        """The keys of a map, in order."""
        maps = (found for found in self._samples(operand) if isinstance(found, Mapping))
        return sorted({key for each in maps for key in each if isinstance(key, str)})

    def values(self, operand: str) -> list[str]:
        """The texts that an expression is, the most frequent one first."""
        texts = Counter(found for found in self._samples(operand) if isinstance(found, str))
        return [text for text, _ in texts.most_common()]

    def _samples(self, operand: str) -> Iterator[object]:
        session = self._session
        if not operand or session.cluster is None:
            return
        try:
            expression = session.expression(operand, type_only=True)
            if session.pod is None and {"node", "pod"} <= expression.names:
                return
            evaluator = Evaluator(expression)
            with session.frame(expression) as frame:
                for _ in islice(self._vary(expression, frame), _MAX_SAMPLES):
                    found = evaluator.evaluate(frame)
                    if not isinstance(found, Failure):
                        yield found
        except (FindingsError, UserError):
            return

    def _vary(self, expression: Expression, frame: Frame) -> Iterator[None]:
        cluster = self._session.required_cluster()
        if "node" in expression.names:
            for node in cluster.snapshot().nodes.values():
                frame.node = node
                yield
        elif "pod" in expression.names:
            for body in cluster.pod_bodies.values():
                try:
                    frame.pod, frame.memo = self._session.codec.pod(body), {}
                except BadObjectError:
                    continue
                yield
        elif expression.names & {"peer", "victim"}:
            for peer in cluster.snapshot().pods().values():
                frame.peer = frame.victim = peer
                yield


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
        case "recipe":
            names = [(recipe.name, "recipe") for recipe in recipes()]
        case "typed":
            names = [(name, "typed") for name in session.notebook.names]
        case _:
            names = []
    return _matching(names, text[start:], start)


def _files(begun: str) -> list[Offer]:
    folder, slash, name = begun.rpartition("/")
    prefix = f"{folder}{slash}"
    try:
        entries = sorted(expanded(Path(prefix or ".")).iterdir())
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
    try:
        state = os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state"
        folder = Path(state) / "placet"
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        file = folder / "repl_history"
        file.touch(mode=0o600)
    except (OSError, RuntimeError):  # a user without a home is a RuntimeError
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
