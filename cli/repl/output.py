"""Where answers go: what was asked for to standard output, what is wrong to standard error."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from itertools import chain

from cli.console import put
from cli.render import coloured, wants_colour
from cli.repl.answer import Answer, Problem, Told
from cli.repl.conversation import take, unfinished
from cli.repl.session import Session


def tell(told: Iterable[Told]) -> None:
    """Prints in the order of telling."""
    for part in told:
        if isinstance(part, Problem):
            colour = wants_colour(sys.stderr)
            sys.stdout.flush()
            text = coloured(part.text, part.severity) if colour else part.text
            print(text, file=sys.stderr, flush=True)
        else:
            put([part])


def answer_all(session: Session, lines: Iterable[str]) -> bool:
    """Answers lines that nobody types, each as soon as it is whole; whether none of them failed."""
    well, text = True, ""
    for line in chain(lines, [None]):
        if line is not None:
            text += line if line.endswith("\n") else f"{line}\n"
            if unfinished(text):
                continue
        if not text.strip():
            text = ""
            continue
        answer = take(session, text.rstrip("\n"))
        _tell(answer)
        well, text = well and not answer.failed, ""
        if answer.leave:
            break
    return well


def _tell(answer: Answer) -> None:
    tell(answer.told)
    sys.stdout.flush()
