"""The colours of a text as it is typed: what each of its pieces is."""

from __future__ import annotations

from collections.abc import Iterator

from cli.repl.tokens import tokens
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
